"""``tidelog evidence import-kafka``: log folders of Apache Kafka brokers as evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import JsonOption, one_of, value
from tidelog.cli.paths import absolute
from tidelog.cli.show.output import write_json, write_text
from tidelog.errors import Refusal, reason
from tidelog.extras import require
from tidelog.narrate.numbers import counted

if TYPE_CHECKING:
    from datetime import tzinfo

    from tidelog.evidence.importers.kafka.folder_import import ImportedCluster

LogFolders = Annotated[
    list[str],
    typer.Argument(
        metavar="DIR",
        help="Log folders of brokers (log.dirs), or copies of them; ID=DIR for one without meta.properties.",
        show_default=False,
    ),
]
Target = Annotated[
    Path,
    value(
        "DIR", "Output directory: new, empty, or that of the same import, which goes on.", callback=absolute
    ),
]
ServerLogs = Annotated[
    list[str] | None,
    value(
        "PATH",
        "server.log, controller.log, state-change.log (also .gz), or a folder of them; repeatable.",
        "--server-logs",
        default=False,
    ),
]
Segments = Annotated[
    str,
    value(
        "reference|link|copy",
        "Closed segments: symbolic links, hard links or copies. The last one is always copied.",
        "--segments",
    ),
]
Zone = Annotated[
    str | None,
    value("NAME", "Time zone of the log files, such as UTC.", "--log-time-zone", default="this machine's"),
]
Stopped = Annotated[
    bool,
    typer.Option(
        "--stopped",
        help="The brokers did not run when their folders were copied, so a log that ends early lost its end.",
    ),
]


def import_kafka(
    folders: LogFolders,
    *,
    evidence: Target = Path("kafka-evidence"),
    server_logs: ServerLogs = None,
    segments: Segments = "reference",
    log_time_zone: Zone = None,
    stopped: Stopped = False,
    as_json: JsonOption = False,
) -> int:
    """Import log folders of Apache Kafka brokers (0.11 to 4.x).

    Writes an evidence folder for tidelog audit: replicas, leaders, elections and open transactions. Brokers
    may run; their folders are only read. Give the folders of all brokers, so that replicas can be compared.
    An import that was killed goes on when the command is repeated.

    Example: tidelog evidence import-kafka /mnt/b1/kafka /mnt/b2/kafka --server-logs /mnt/b1/logs
    """
    require("spark", "tidelog evidence import-kafka")
    from dataclasses import asdict

    from tidelog.cli.show.import_progress import watched
    from tidelog.evidence.importers.kafka.folder_import import Source, import_log_folders
    from tidelog.evidence.importers.kafka.placing import Placing

    source = Source(
        [_made_absolute(given) for given in folders],
        [Path(path).absolute() for path in server_logs or ()],
        Placing(one_of("way to bring in segments", segments, tuple(Placing))),
        _zone(log_time_zone),
        stopped,
    )
    try:
        with watched(quiet=as_json) as progress:
            done = import_log_folders(source, evidence, progress)
    except OSError as error:
        raise Refusal(f"{error.filename or evidence}: {reason(error)}") from None
    except KeyboardInterrupt:
        raise Refusal(f"interrupted; repeat the command to go on in {evidence}") from None
    if as_json:
        write_json({"evidence": str(evidence), **asdict(done)})
        return ExitCode.HELD
    write_text("".join(f"{line}\n" for line in _lines(done)) + f"to audit them: tidelog audit {evidence}\n")
    return ExitCode.HELD


def _made_absolute(given: str) -> str:
    number, separator, path = given.partition("=")
    if separator and number.isdecimal():
        return f"{number}={Path(path).absolute()}"
    return str(Path(given).absolute())


def _zone(name: str | None) -> tzinfo | None:
    from zoneinfo import ZoneInfo

    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise Refusal(f"{name!r} is no time zone: give a name such as UTC or Europe/Berlin") from None


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1_000_000 else f"{count / 1e3:,.1f} kB"


def _lines(done: ImportedCluster) -> list[str]:
    found = [
        f"broker{'s' * (len(done.brokers) != 1)} {', '.join(map(str, done.brokers))}: "
        f"{counted(done.replicas, 'replica')} of {counted(done.partitions, 'partition')} of "
        f"{counted(done.topics, 'topic')}, {counted(done.segments, 'segment')}, {_size(done.bytes)}"
    ]
    if done.events:
        found.append(
            f"{counted(done.events, 'event')} of leaders and ISR, "
            f"{counted(done.unclean_elections, 'unclean election')}"
        )
    if done.open_transactions:
        found.append(f"{counted(done.open_transactions, 'open transaction')}")
    if done.resumed:
        found.append(f"{counted(done.resumed, 'replica')} had been imported before")
    return found
