"""What a broker knows besides its logs, as plain data for observers.

The simulator's snapshots and the state page of a broker process show the same values, read by these
functions. No rule of the core reads them.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.core.controller.controller import Controller
from tidelog.core.effects import ReplyTo
from tidelog.core.messages import CONSUMER
from tidelog.core.replication.follower import FollowerRole
from tidelog.core.replication.follower_progress import NEVER
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.replication.replica import Replica
from tidelog.core.types import UNKNOWN_OFFSET, BrokerId, TopicPartition, immutable


@immutable
class RemoteReplica:
    """What a leader knows of a follower: the second set of log ends, learnt only from fetches."""

    broker: int
    leo: int | None
    """Its log end, as of its last fetch: the Remote LEO. None: it has not fetched in this leadership."""
    last_caught_up_ms: int | None
    """When it last had everything that the leader had. None: not yet in this leadership."""


@immutable
class ParkedRequest:
    """A request that waits at the leader (in Kafka's purgatory)."""

    kind: str
    """``fetch`` or ``produce``"""
    sender: str
    """The number of a broker, or the name of a client."""
    offset: int
    """A fetch waits for the record at this offset, a produce for a high watermark of at least this."""
    deadline_ms: int


Phases = tuple[str, tuple[tuple[int, str], ...]]
"""The state of a partition in the controller's machine, and (broker, state) of each of its replicas."""
NO_PHASES: Phases = ("", ())


def role_name(replica: Replica | None) -> str:
    """``leader``, ``follower``, or ``-`` for a replica without a role."""
    role = replica.role if replica is not None else None
    return "leader" if isinstance(role, LeaderRole) else "follower" if isinstance(role, FollowerRole) else "-"


def remote_replicas(replica: Replica | None) -> tuple[RemoteReplica, ...]:
    """The followers of a leader; empty for other roles."""
    role = replica.role if replica is not None else None
    if not isinstance(role, LeaderRole):
        return ()
    return tuple(
        RemoteReplica(
            broker,
            None if follower.log_end_offset == UNKNOWN_OFFSET else follower.log_end_offset,
            None if follower.last_caught_up == NEVER else follower.last_caught_up,
        )
        for broker, follower in role.followers.items()
    )


def parked_requests(
    replica: Replica | None, sender_of: Callable[[ReplyTo], str]
) -> tuple[ParkedRequest, ...]:
    """The requests that wait at a leader; empty for other roles. ``sender_of`` names a client."""
    role = replica.role if replica is not None else None
    if not isinstance(role, LeaderRole):
        return ()
    produces, fetches = role.parked
    found = [
        ParkedRequest("produce", sender_of(produce.reply_to), produce.required, produce.deadline)
        for produce in produces
    ]
    for reply_to, fetch in fetches.items():
        asker = fetch.request.replica
        sender = sender_of(reply_to) if asker == CONSUMER else str(asker)
        found.append(ParkedRequest("fetch", sender, fetch.request.offset, fetch.deadline))
    return tuple(found)


def phases(controller: Controller, tp: TopicPartition, assignment: tuple[BrokerId, ...]) -> Phases:
    """The states in the machines of a broker; empty if it is not the controller, or does not know the
    partition."""
    machines = controller.machines
    if machines is None or tp not in machines.cluster.partitions:
        return NO_PHASES
    known = machines.cluster.replicas
    found = tuple((broker, known[tp, broker].value) for broker in assignment if (tp, broker) in known)
    return machines.cluster.partitions[tp].value, found
