"""``tidelog status``: the brokers of a cluster on this machine, and whether all replicas are in sync."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import ClusterDirOption, JsonOption, value
from tidelog.cli.show.output import console, write_json, write_lines

if TYPE_CHECKING:
    from tidelog.cli.show.status import Seen

EXAMPLES = """\b
Examples:
  tidelog status
  tidelog status --wait 30              wait until every replica is in sync
  tidelog status --json

\b
Exit code: 0 all brokers run and all replicas are in sync, 1 not so, 2 no cluster is running.
"""

WaitOption = Annotated[
    float | None,
    value(
        "S", "Wait up to S seconds until all brokers run and all replicas are in sync.", default=False, min=0
    ),
]

_POLL_SECONDS = 0.1


def status(data_dir: ClusterDirOption = None, wait: WaitOption = None, as_json: JsonOption = False) -> int:
    """Show the brokers of a running cluster and the state of its topics."""
    from tidelog.cli.show import status as shown

    seen = _look(data_dir) if not wait else _wait(data_dir, time.monotonic() + wait)
    if as_json:
        write_json(shown.as_json(seen))
    else:
        write_lines(console(), shown.lines(seen))
    return ExitCode.HELD if seen.is_well else ExitCode.VIOLATED


def _wait(data_dir: ClusterDirOption, deadline: float) -> Seen:
    from tidelog.cli.show.status import trouble
    from tidelog.cli.show.waiting import Waiting

    with Waiting() as waiting:
        while True:
            seen = _look(data_dir)
            if seen.is_well or time.monotonic() >= deadline:
                return seen
            waiting.now(trouble(seen))
            time.sleep(_POLL_SECONDS)


def _look(data_dir: ClusterDirOption) -> Seen:
    from tidelog.cli.show.status import Seen
    from tidelog.cluster.conditions import answering, conditions, seconds_running
    from tidelog.cluster.directory import running_cluster
    from tidelog.kafka_client.admin import Admin
    from tidelog.kafka_client.blocking import ClientError

    folder, cluster = running_cluster(data_dir)
    seen = Seen(folder, cluster, conditions(cluster, folder), seconds_running(cluster.pid))
    if servers := answering(cluster, folder):
        try:
            with Admin(servers) as admin:
                seen.topics = admin.topics()
                seen.controller = admin.metadata([]).controller_id
        except ClientError as error:
            seen.why_unknown = str(error)
    return seen
