"""``tidelog kill``, ``pause``, ``resume``, ``restart``: do something to brokers of a running cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import ClusterDirOption, flag, value
from tidelog.cli.show.output import write_text

if TYPE_CHECKING:
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
Named = tuple[list[str] | None, str | None, bool]
"""Brokers, the partition whose leader is meant, whether the controller is."""
ControllerOption = Annotated[bool, flag("The broker that is the controller.", "--controller")]


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

    return _act(Action.KILL, (brokers, leader_of, controller), data_dir)


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

    return _act(Action.PAUSE, (brokers, leader_of, controller), data_dir)


def resume(brokers: BrokersArgument = None, data_dir: ClusterDirOption = None) -> int:
    """Let paused brokers go on.

    \b
    Example: tidelog resume 2
    """
    from tidelog.cluster.remote import Action

    return _act(Action.RESUME, (brokers, None, False), data_dir)


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

    return _act(Action.RESTART, (brokers, leader_of, controller), data_dir)


def _act(action: Action, named: Named, data_dir: Path | None) -> int:
    from tidelog.cluster.choosing import ALL, BrokerChoice
    from tidelog.cluster.directory import running_cluster
    from tidelog.cluster.remote import Action, perform
    from tidelog.errors import Refusal

    folder, status = running_cluster(data_dir)
    refused: list[Refusal] = []
    chosen = BrokerChoice(*named).of(status, folder)
    for number in chosen:
        began = time.perf_counter()
        try:
            perform(folder, action, number)
        except Refusal as refusal:
            if ALL not in (named[0] or []):
                raise
            refused.append(refusal)  # all to which it can be done
            continue
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
    if len(refused) == len(chosen):
        raise refused[0]
    return ExitCode.HELD
