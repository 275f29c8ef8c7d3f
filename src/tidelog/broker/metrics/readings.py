"""Readings of metrics: from the counters of ``counters.py`` or from the core's own state.

A reading is taken at a scrape on the broker's own thread, so the state does not change meanwhile. An unknown
value yields no sample, because a zero would be misleading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from tidelog._version import __version__
from tidelog.broker.coordinators.coordinators import Coordinators
from tidelog.broker.metrics.counters import Metrics
from tidelog.core.broker import Broker
from tidelog.core.machine_phases import PartitionPhase
from tidelog.core.replication.follower import FollowerRole, Phase
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.replication.replica import Replica
from tidelog.core.types import NO_LEADER, UNKNOWN_OFFSET
from tidelog.evidence.journals.recorder import EventRecorder
from tidelog.groups.group import State
from tidelog.keeper.client import KeeperConnection
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log.file_log import FileLog
from tidelog.wire.api_keys import Api
from tidelog.wire.errors import ErrorCode


@dataclass(slots=True, frozen=True)
class Sources:
    """What a scrape reads."""

    metrics: Metrics
    core: Broker
    storage: FileStorage | None = None
    keeper: KeeperConnection | None = None
    recorder: EventRecorder | None = None
    groups: Coordinators | None = None


Sample = tuple[tuple[str, ...], Any]
"""Label values, and the number (for a histogram: the figures of one API)."""
Reader = Callable[[Sources], Iterable[Sample]]


# ---------------------------------------------------------------- kinds of readings


def one(value: Callable[[Sources], float | None]) -> Reader:
    """A metric without labels. None: no sample."""

    def read(sources: Sources) -> Iterator[Sample]:
        found = value(sources)
        if found is not None:
            yield (), found

    return read


def counted(attribute: str) -> Reader:
    """A number that ``Metrics`` keeps."""
    read = attrgetter(attribute)
    return one(lambda sources: float(read(sources.metrics)))


def by_error(attribute: str) -> Reader:
    read = attrgetter(attribute)
    return lambda sources: [((error_name(code),), count) for code, count in read(sources.metrics).items()]


def per_replica(value: Callable[[Replica], float | None]) -> Reader:
    """One sample per replica of this broker."""

    def read(sources: Sources) -> Iterator[Sample]:
        for tp, replica in sources.core.replicas.items():
            found = value(replica)
            if found is not None:
                yield (tp.topic, str(tp.partition)), found

    return read


def over_leaders(counts: Callable[[LeaderRole], int]) -> Reader:
    """The sum over all partitions that this broker leads."""
    return one(lambda sources: sum(counts(role) for role in _leaders(sources)))


def _leaders(sources: Sources) -> Iterator[LeaderRole]:
    for replica in sources.core.replicas.values():
        if isinstance(replica.role, LeaderRole):
            yield replica.role


# ---------------------------------------------------------------- process and requests


def api_name(api_key: int) -> str:
    """``ListOffsets``, as Kafka's own metrics write it."""
    try:
        return Api(api_key).name.title().replace("_", "")
    except ValueError:
        return str(api_key)


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def info(sources: Sources) -> Iterable[Sample]:
    ctx = sources.core.ctx
    return [((str(ctx.broker), ctx.generation.name, __version__), 1)]


def requests(sources: Sources) -> Iterable[Sample]:
    return [((api_name(key),), figures) for key, figures in sources.metrics.apis.items()]


def failed_requests(sources: Sources) -> Iterable[Sample]:
    return [((api_name(key),), figures.failed) for key, figures in sources.metrics.apis.items()]


def errors(sources: Sources) -> Iterator[Sample]:
    for key, figures in sources.metrics.apis.items():
        for code, count in figures.errors.items():
            yield (api_name(key), error_name(code)), count


def keeper_connected(sources: Sources) -> float | None:
    return None if sources.keeper is None else sources.keeper.connected


def tail_bytes(sources: Sources) -> float | None:
    return None if sources.storage is None else sources.storage._shared.tails.used


def storage_trouble(sources: Sources) -> float | None:
    return None if sources.storage is None else sources.storage.trouble != ""


def clean_start(sources: Sources) -> float | None:
    recovery = sources.metrics.recovery
    return None if recovery is None else recovery.clean_shutdown


def recovery_seconds(sources: Sources) -> float | None:
    recovery = sources.metrics.recovery
    return None if recovery is None else recovery.duration_ms / 1000


def recording(sources: Sources) -> float | None:
    return None if sources.recorder is None else sources.recorder.active


# ---------------------------------------------------------------- consumer groups


def groups_by_state(sources: Sources) -> Iterable[Sample]:
    if sources.groups is None:
        return []
    found = sources.groups.states()
    # Always all states: a graph of a new state needs the zero before.
    return [((state.value,), found[state.value]) for state in State if state is not State.DEAD]


def of_groups(value: Callable[[Coordinators], float]) -> Reader:
    return one(lambda sources: None if sources.groups is None else value(sources.groups))


def group_writes(sources: Sources) -> Iterable[Sample]:
    return [((), sources.metrics.group_writes)]


# ---------------------------------------------------------------- controller


def elections(sources: Sources) -> Iterable[Sample]:
    return [((kind,), count) for kind, count in sources.metrics.elections.items()]


def offline_partitions(sources: Sources) -> float | None:
    machines = sources.core.controller.machines
    if machines is None:
        return None
    return sum(phase is not PartitionPhase.ONLINE for phase in machines.cluster.partitions.values())


# ---------------------------------------------------------------- replicas


def lacks_replicas(role: LeaderRole) -> bool:
    return len(role.isr) < len(role.replica.replicas)


def is_at_min_isr(role: LeaderRole) -> bool:
    return lacks_replicas(role) and len(role.isr) == _min_isr(role)


def is_under_min_isr(role: LeaderRole) -> bool:
    return len(role.isr) < _min_isr(role)


def _min_isr(role: LeaderRole) -> int:
    return role.ctx.topic_config(role.replica.tp.topic).min_insync_replicas


def parked_produces(role: LeaderRole) -> int:
    return len(role._produces)


def parked_fetches(role: LeaderRole) -> int:
    return len(role.fetches.parked)


def isr_size(replica: Replica) -> float | None:
    return len(replica.role.isr) if isinstance(replica.role, LeaderRole) else None


def leader_of(replica: Replica) -> int:
    role = replica.role
    if isinstance(role, LeaderRole):
        return role.ctx.broker
    return role.leader if isinstance(role, FollowerRole) else NO_LEADER


def stalled_followers(sources: Sources) -> int:
    roles = [replica.role for replica in sources.core.replicas.values()]
    return sum(isinstance(role, FollowerRole) and role.phase is Phase.STALLED for role in roles)


def follower_lag(sources: Sources) -> Iterator[Sample]:
    for role in _leaders(sources):
        topic, partition = role.replica.tp
        end = role.log.end_offset
        for broker, follower in role.followers.items():
            if follower.log_end_offset != UNKNOWN_OFFSET:
                yield (topic, str(partition), str(broker)), max(0, end - follower.log_end_offset)


def recovery_point(replica: Replica) -> float | None:
    return replica.log.recovery_point if isinstance(replica.log, FileLog) else None


def log_bytes(replica: Replica) -> float | None:
    return replica.log.size_bytes if isinstance(replica.log, FileLog) else None
