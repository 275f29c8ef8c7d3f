"""``tidelog up``: run a cluster on this machine until Ctrl-C."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from tidelog.cli import completion
from tidelog.cli.errors import ExitCode
from tidelog.cli.options import GenerationChoice, flag, generation_named, value
from tidelog.cli.paths import absolute
from tidelog.errors import Refusal
from tidelog.extras import require

EXAMPLES = """\b
Examples:
  tidelog up                            three brokers on 9092, 9093, 9094
  tidelog up --brokers 1 --port 0       one broker on a free port
  tidelog up --data-dir ./data          keep the data
  tidelog up --generation hw            lose records the way Kafka 0.10 did
  tidelog up --set num.partitions=6 --set min.insync.replicas=2
  tidelog up --detach                   run in the background
"""

Brokers = Annotated[int, value("N", "Number of brokers; ids are 1 to N.", min=1, max=1000)]
Port = Annotated[int, value("P", "Port of broker 1; 0 picks free ports.", min=0, max=65535)]
DataDir = Annotated[
    Path | None,
    value("D", "Data directory.", "--data-dir", default="temporary, removed at the end", callback=absolute),
]
KeeperChoice = Annotated[str, value("K", "embedded, or zookeeper://host:port,…/path.", "--keeper")]
SetOption = Annotated[
    list[str] | None,
    value(
        "NAME=VALUE",
        "Broker setting; repeatable.",
        "--set",
        default=False,
        autocompletion=completion.broker_settings,
    ),
]
PropertiesOption = Annotated[
    Path | None,
    value(
        "FILE",
        "File of broker settings, in the format of Kafka's server.properties.",
        "--properties",
        default=False,
        callback=absolute,
    ),
]
Detach = Annotated[bool, flag("Run in the background; stop with 'tidelog down'.", "--detach", "-d")]
Quiet = Annotated[bool, flag("Log warnings and errors only.", "--quiet", "-q")]
Verbose = Annotated[bool, flag("Log at debug level.", "--verbose", "-v")]
AsJson = Annotated[bool, flag("Print the ready line as JSON.", "--json")]


def up(
    *,
    brokers: Brokers = 3,
    port: Port = 9092,
    data_dir: DataDir = None,
    generation: GenerationChoice = "epoch",
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
    from tidelog.cluster.shared_settings import shared_settings
    from tidelog.cluster.spec import ClusterSpec

    least = cluster_log.QUIET if quiet else cluster_log.VERBOSE if verbose else cluster_log.NORMAL
    entries, notes = shared_settings(properties, settings or [], verbose=verbose)
    spec = ClusterSpec(
        brokers=brokers,
        port=port,
        generation=generation,
        keeper=_keeper(keeper),
        settings=entries,
    )
    plan = Plan(started, spec, data_dir, notes, least, as_json)
    if detach:
        from tidelog.cli.commands.up_detached import detach as run
    else:
        from tidelog.cli.commands.up_foreground import supervise as run
    run(plan)
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
    require("zookeeper", f"--keeper {given}")
    return url
