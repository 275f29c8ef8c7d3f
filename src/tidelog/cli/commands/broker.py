"""``tidelog broker``: run one broker, for clusters on several machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tidelog.cli.commands.up import PropertiesOption, SetOption
from tidelog.cli.options import JsonOption, flag, value
from tidelog.cli.paths import absolute
from tidelog.errors import Refusal

if TYPE_CHECKING:
    from tidelog.settings.properties import Property
    from tidelog.settings.table import SettingsError

EXAMPLES = """\b
Examples:
  tidelog broker --id 1 --listen 10.0.0.1:9092 --keeper zookeeper://zk1:2181,zk2:2181/tidelog
  tidelog broker --properties server.properties --set broker.rack=az1
  tidelog broker --settings
"""


def broker(
    *,
    number: Annotated[int | None, value("N", "Broker id (broker.id).", "--id", default=False)] = None,
    listen: Annotated[
        str | None,
        value("H:P", "Address to listen on (listeners).", default=":9092"),
    ] = None,
    keeper: Annotated[
        str | None,
        value(
            "URL", "zookeeper://host:port,…/path, or embedded://host:port of a tidelog keeper.", default=False
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        value(
            "D", "Data directory (log.dirs).", "--data-dir", default="/tmp/tidelog-logs", callback=absolute
        ),
    ] = None,
    properties: PropertiesOption = None,
    settings: SetOption = None,
    show_settings: Annotated[bool, flag("Print all broker settings and exit.", "--settings")] = False,
    as_json: JsonOption = False,
) -> int:
    """Run one broker until Ctrl-C. Options override the properties file; --set overrides both."""
    if show_settings:
        from tidelog.cli.show.settings import print_settings

        print_settings(as_json=as_json)
        return 0
    if as_json:
        raise Refusal("--json needs --settings")
    from tidelog.broker import logs
    from tidelog.settings.loading import Level, gather, settle
    from tidelog.settings.table import SettingsError

    try:
        chosen = _options(number, listen, keeper, data_dir)
        filed = gather(properties)
        if keeper is not None:
            filed = [entry for entry in filed if entry.name not in ("zookeeper.connect", "tidelog.keeper")]
        loaded = settle([*filed, *chosen, *gather(None, settings or [])])
    except SettingsError as error:
        raise Refusal(_with_advice(error)) from None
    logs.configure(loaded.settings.tidelog_log_level)
    import logging

    for remark in loaded.remarks:
        level = logging.WARNING if remark.level is Level.WARNING else logging.INFO
        logging.getLogger("tidelog").log(level, "%s", remark.text)
    from tidelog.broker.process import run

    return run(loaded.settings)


def _options(
    number: int | None, listen: str | None, keeper: str | None, data_dir: Path | None
) -> list[Property]:
    from tidelog.settings.properties import Property

    given = {
        "broker.id": ("--id", number),
        "listeners": ("--listen", None if listen is None else f"PLAINTEXT://{listen}"),
        "tidelog.keeper": ("--keeper", keeper),
        "log.dirs": ("--data-dir", data_dir),
    }
    return [
        Property(name, str(value), option) for name, (option, value) in given.items() if value is not None
    ]


def _with_advice(error: SettingsError) -> str:
    match error.lacks:
        case "broker.id":
            return "no broker id: give --id N, or --properties FILE with broker.id"
        case "tidelog.keeper":
            return (
                "no keeper: give --keeper zookeeper://host:port, or embedded://host:port of a tidelog keeper"
            )
        case _:
            return str(error)
