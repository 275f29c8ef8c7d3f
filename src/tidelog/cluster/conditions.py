"""How each broker of a cluster is, seen from outside: for commands, which do not run the cluster.

`cluster.json` says what the cluster has started. The locks say what runs now, brokers started by hand
included. The system says which process is stopped by a signal, also if another program sent it.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tidelog.cluster.broker_process import BrokerState
from tidelog.cluster.directory import BrokerStatus, ClusterStatus, likely_dirs, running, running_brokers
from tidelog.storage.lock_file import start_time


class Condition(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class BrokerCondition:
    broker: BrokerStatus
    condition: Condition
    pid: int | None
    by_hand: bool
    """It runs, but the cluster did not start it."""


def conditions(status: ClusterStatus, data_dir: Path) -> list[BrokerCondition]:
    """Every broker of a cluster."""
    processes = {each.id: each.process.pid if each.process else 0 for each in running_brokers(data_dir)}
    return [_condition(broker, processes.get(broker.id)) for broker in status.brokers]


def _condition(broker: BrokerStatus, pid: int | None) -> BrokerCondition:
    if pid is None:
        # Between its start and the lock on its data nothing but the file knows of it.
        starting = broker.state is BrokerState.STARTING
        return BrokerCondition(broker, Condition.STARTING if starting else Condition.DOWN, None, False)
    by_hand = bool(pid) and pid != broker.pid
    if is_stopped(pid):
        condition = Condition.PAUSED
    elif broker.state is BrokerState.STARTING and not by_hand:
        condition = Condition.STARTING
    else:
        condition = Condition.RUNNING
    return BrokerCondition(broker, condition, pid or None, by_hand)


def answering(status: ClusterStatus, data_dir: Path) -> str:
    """The bootstrap servers of a cluster without brokers that cannot answer now."""
    found = conditions(status, data_dir)
    able = [each.broker for each in found if each.condition is Condition.RUNNING and each.broker.port]
    return ",".join(broker.address for broker in able)


DEFAULT_SERVERS = "127.0.0.1:9092"


def latest_servers() -> str:
    """The bootstrap servers of the running cluster that was started last, or Kafka's usual one."""
    for folder in likely_dirs():
        if (found := running(folder)) is not None:
            return answering(found, folder) or found.bootstrap_servers or DEFAULT_SERVERS
    return DEFAULT_SERVERS


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "T"


def seconds_running(pid: int) -> float | None:
    """How long a process has run; None if it does not exist."""
    started = start_time(pid)
    if not started:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(started) / os.sysconf("SC_CLK_TCK")
