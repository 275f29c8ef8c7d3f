"""``tidelog up``: run a cluster on this machine until Ctrl-C."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import generation_named
from tidelog.cli.paths import absolute
from tidelog.errors import Refusal

if TYPE_CHECKING:
    from tidelog.cli.commands.up_foreground import Plan
    from tidelog.settings.properties import Property

EXAMPLES = """\b
Examples:
  tidelog up                            three brokers on 9092, 9093, 9094
  tidelog up --brokers 1 --port 0       one broker on a free port
  tidelog up --data-dir ./data          keep the data
  tidelog up --generation hw            lose records the way Kafka 0.10 did
  tidelog up --set num.partitions=6 --set min.insync.replicas=2
  tidelog up --detach                   run in the background
"""

Brokers = Annotated[
    int, typer.Option(min=1, max=1000, metavar="N", help="Number of brokers; ids are 1 to N.")
]
Port = Annotated[
    int, typer.Option(min=0, max=65535, metavar="P", help="Port of broker 1; 0 picks free ports.")
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="D",
        callback=absolute,
        help="Data directory.",
        show_default="temporary, removed at the end",
    ),
]
Generation = Annotated[
    str,
    typer.Option(
        "--generation", "-g", metavar="G", help="Replication rules: hw, kip101, epoch, elr or majority."
    ),
]
KeeperChoice = Annotated[
    str, typer.Option("--keeper", metavar="K", help="embedded, or zookeeper://host:port,…/path.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Broker setting; repeatable.", show_default=False),
]
PropertiesOption = Annotated[
    Path | None,
    typer.Option(
        "--properties",
        metavar="FILE",
        callback=absolute,
        help="File of broker settings, in the format of Kafka's server.properties.",
        show_default=False,
    ),
]
Detach = Annotated[
    bool, typer.Option("--detach", "-d", help="Run in the background; stop with 'tidelog down'.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Log warnings and errors only.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log at debug level.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the ready line as JSON.")]


def up(
    *,
    brokers: Brokers = 3,
    port: Port = 9092,
    data_dir: DataDir = None,
    generation: Generation = "epoch",
    keeper: KeeperChoice = "embedded",
    settings: SetOption = None,
    properties: PropertiesOption = None,
    detach: Detach = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Run a cluster on this machine until Ctrl-C.

    When the cluster is ready, prints one line with its bootstrap.servers to stdout. The log goes to stderr.
    Ctrl-C stops the brokers cleanly; a second Ctrl-C kills them.
    """
    started = time.perf_counter()
    if quiet and verbose:
        raise Refusal("choose one of --quiet and --verbose")
    generation_named(generation)
    from tidelog.cli.commands.up_foreground import Plan
    from tidelog.cli.show import cluster_log
    from tidelog.cluster.spec import ClusterSpec

    least = cluster_log.QUIET if quiet else cluster_log.VERBOSE if verbose else cluster_log.NORMAL
    entries, notes = _entries(properties, settings or [], verbose=verbose)
    spec = ClusterSpec(
        brokers=brokers,
        port=port,
        generation=generation,
        keeper=_keeper(keeper),
        settings={entry.name: entry.value for entry in entries},
    )
    plan = Plan(started, spec, data_dir, notes, least, as_json)
    return _detached(plan) if detach else _attached(plan)


def _attached(plan: Plan) -> int:
    from tidelog.cli.commands.up_foreground import supervise

    supervise(plan)
    return ExitCode.HELD


def _detached(plan: Plan) -> int:
    from tidelog.cli.commands.up_detached import detach

    detach(plan)
    return ExitCode.HELD


def _keeper(given: str) -> str:
    from tidelog.settings.kinds import KeeperUrl

    if given == "embedded":
        return given
    try:
        url = KeeperUrl().parse(given)
    except ValueError:
        url = ""
    if not url.startswith("zookeeper://"):
        raise Refusal(f"--keeper {given}: expected embedded or zookeeper://host:port,host:port/path")
    return url


def _entries(
    path: Path | None, settings: list[str], *, verbose: bool
) -> tuple[list[Property], list[tuple[bool, str]]]:
    """The settings for all brokers, checked, and notes about them."""
    from tidelog.cluster.spec import KEEPER_NAMES, OWN_NAMES
    from tidelog.settings.loading import Level, gather, settle
    from tidelog.settings.properties import Property

    filed = gather(path)
    given = gather(None, settings)
    for entry in given:
        if entry.name in OWN_NAMES:
            raise Refusal(f"--set {entry.name}: tidelog up sets it for each broker; see tidelog broker")
        if entry.name in KEEPER_NAMES:
            raise Refusal(f"--set {entry.name}: name the keeper with --keeper")
    entries = [*filed, *given]
    kept = [entry for entry in entries if entry.name not in (*OWN_NAMES, *KEEPER_NAMES)]
    if verbose and all(entry.name != "tidelog.log.level" for entry in kept):
        kept.append(Property("tidelog.log.level", "debug", "--verbose"))
    needed = [Property("broker.id", "1", ""), Property("tidelog.keeper", "embedded://h:1", "")]
    loaded = settle([*kept, *needed])
    notes = [(remark.level is Level.WARNING, remark.text) for remark in loaded.remarks]
    dropped = [entry.name for entry in entries if entry not in kept]
    if dropped:
        notes.append(
            (False, f"{path}: tidelog up ignores {', '.join(dict.fromkeys(dropped))} and sets its own")
        )
    return [entry for entry in kept if entry.name in _known_names()], notes


def _known_names() -> set[str]:
    from tidelog.settings.broker import BROKER

    return set(BROKER)
