"""``tidelog kill``, ``pause``, ``resume``, ``restart``: do something to brokers of a running cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import ClusterDirOption, flag, value
from tidelog.cli.show.output import write_text
from tidelog.errors import Refusal

if TYPE_CHECKING:
    from tidelog.cluster.directory import ClusterStatus
    from tidelog.cluster.remote import Action

BrokersArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[BROKER…]", help="Broker ids, or all.", show_default=False),
]
LeaderOption = Annotated[
    str | None,
    value(
        "TOPIC[-N]",
        "The leader of a partition; of partition 0 if N is not given.",
        "--leader-of",
        default=False,
    ),
]
ControllerOption = Annotated[bool, flag("The broker that is the controller.", "--controller")]

_ALL = "all"


def kill(
    brokers: BrokersArgument = None,
    leader_of: LeaderOption = None,
    controller: ControllerOption = False,
    data_dir: ClusterDirOption = None,
) -> int:
    """Kill brokers, as kill -9 does. The others elect new leaders.

    The broker has no time to hand over its partitions. Its session with the keeper must time out before the
    others get new leaders: 4 s with the settings of tidelog up.

    \b
    Examples:
      tidelog kill 1
      tidelog kill --leader-of events-0
      tidelog restart 1                     start it again
    """
    from tidelog.cluster.remote import Action

    return _act(Action.KILL, _Choice(brokers, leader_of, controller), data_dir)


def pause(
    brokers: BrokersArgument = None,
    leader_of: LeaderOption = None,
    controller: ControllerOption = False,
    data_dir: ClusterDirOption = None,
) -> int:
    """Pause brokers, as a long garbage collection does.

    The process stops (SIGSTOP). Its connections stay open, and it answers nothing until tidelog resume. If
    the pause is longer than its session, the others replace it.

    \b
    Examples:
      tidelog pause 2
      tidelog pause --controller
      tidelog resume 2                      let it go on
    """
    from tidelog.cluster.remote import Action

    return _act(Action.PAUSE, _Choice(brokers, leader_of, controller), data_dir)


def resume(brokers: BrokersArgument = None, data_dir: ClusterDirOption = None) -> int:
    """Let paused brokers go on.

    \b
    Example: tidelog resume 2
    """
    from tidelog.cluster.remote import Action

    return _act(Action.RESUME, _Choice(brokers), data_dir)


def restart(
    brokers: BrokersArgument = None,
    leader_of: LeaderOption = None,
    controller: ControllerOption = False,
    data_dir: ClusterDirOption = None,
) -> int:
    """Start brokers that are down; stop and start brokers that run.

    A broker that runs shuts down cleanly first: it hands its partitions to other brokers. Several brokers
    are restarted one after another.

    \b
    Examples:
      tidelog restart 1
      tidelog restart all                   a rolling restart
    """
    from tidelog.cluster.remote import Action

    return _act(Action.RESTART, _Choice(brokers, leader_of, controller), data_dir)


@dataclass(frozen=True, slots=True)
class _Choice:
    """The brokers that a command line names."""

    named: list[str] | None
    leader_of: str | None = None
    controller: bool = False


def _act(action: Action, choice: _Choice, data_dir: Path | None) -> int:
    from tidelog.cluster.remote import Action, perform

    folder, status = running_cluster(data_dir)
    for number in _chosen(status, folder, choice):
        began = time.perf_counter()
        perform(folder, action, number)
        match action:
            case Action.KILL:
                words = f"killed broker {number}"
            case Action.PAUSE:
                words = f"paused broker {number}"
            case Action.RESUME:
                words = f"resumed broker {number}"
            case Action.RESTART:
                words = f"broker {number} serves after {time.perf_counter() - began:.1f} s"
        write_text(f"{words}\n")
    return ExitCode.HELD


def running_cluster(data_dir: Path | None) -> tuple[Path, ClusterStatus]:
    """The cluster in a directory, or the last one started. Raises `Refusal` if none runs."""
    from tidelog.cluster.directory import likely_dirs, running

    for folder in likely_dirs() if data_dir is None else [data_dir]:
        if (status := running(folder)) is not None:
            return folder, status
    where = f" in {data_dir}" if data_dir is not None else ""
    raise Refusal(f"no cluster is running{where}: start one with tidelog up")


# ---------------------------------------------------------------- which brokers


def _chosen(status: ClusterStatus, folder: Path, choice: _Choice) -> list[int]:
    known = [broker.id for broker in status.brokers]
    named, leader_of = choice.named or [], choice.leader_of
    chosen = known.copy() if _ALL in named else [_number(name, known) for name in named]
    if leader_of is not None:
        chosen.append(_asked(status, folder, lambda servers: _leader(servers, leader_of)))
    if choice.controller:
        chosen.append(_asked(status, folder, _controller))
    if not chosen:
        raise Refusal(f"which broker? Give {_ids(known)} or {_ALL}")
    return list(dict.fromkeys(chosen))


def _number(name: str, known: list[int]) -> int:
    if not name.isdecimal() or int(name) not in known:
        raise Refusal(f"there is no broker {name}: give {_ids(known)} or {_ALL}")
    return int(name)


def _ids(known: list[int]) -> str:
    return ", ".join(map(str, known[:5])) + (", …" if len(known) > 5 else "")


def _asked(status: ClusterStatus, folder: Path, question: Callable[[str], int]) -> int:
    from tidelog.cluster.conditions import answering

    servers = answering(status, folder)
    if not servers:
        raise Refusal("no broker of the cluster can answer: tidelog status shows why")
    return question(servers)


def _leader(servers: str, partition: str) -> int:
    from tidelog.kafka_client.admin import Admin

    name, _, number = partition.rpartition("-")
    with Admin(servers) as admin:
        views = {view.name: view for view in admin.topics()}
        if not (name in views and number.isdecimal()):
            name, number = partition, "0"
        if name not in views:
            raise Refusal(
                f"--leader-of {partition}: there is no topic {name}; tidelog topics list shows them"
            )
        found = next((part for part in views[name].partitions if part.number == int(number)), None)
    if found is None:
        raise Refusal(
            f"--leader-of {partition}: {name} has partitions 0 to {len(views[name].partitions) - 1}"
        )
    if found.leader < 0:
        raise Refusal(f"--leader-of {partition}: the partition has no leader now")
    return found.leader


def _controller(servers: str) -> int:
    from tidelog.kafka_client.blocking import Client

    with Client.to(servers) as client:
        number = client.metadata([]).controller_id
    if number < 0:
        raise Refusal("--controller: the cluster has no controller now")
    return number
