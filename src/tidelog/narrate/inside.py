"""What brokers, keeper members and clients know, as phrases: what logs, leader and ISR alone do not show.

A fact is shown when it changes. Most facts are for readers who ask for detail; a broker that misinforms
clients, and a keeper whose members or sessions change, are said to every reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.core.inside import ParkedRequest, RemoteReplica
from tidelog.core.machine_phases import PartitionPhase, ReplicaPhase
from tidelog.core.types import Millis
from tidelog.narrate.phrasebook import Fields, Phrase, say
from tidelog.narrate.reasons import reason_key
from tidelog.scenario.keeper_members import KeeperMember
from tidelog.scenario.snapshot import (
    PartitionSnapshot,
    ReplicaState,
    Snapshot,
)


class Fact(NamedTuple):
    about: tuple[object, ...]
    state: object
    """The fact is shown again when this changes. It leaves out what always changes, such as time."""
    phrase: Phrase
    notable: bool = False
    """Every reader is shown a change of it."""


_NEW = object()


def inside_lines(after: Snapshot, before: Snapshot | None, *, detail: bool) -> list[str]:
    """The facts that changed since ``before``, in words."""
    known = {} if before is None else {fact.about: fact.state for fact in facts(before)}
    changed = (
        fact.phrase
        for fact in facts(after)
        if known.get(fact.about, _NEW) != fact.state and (detail or (fact.notable and fact.about in known))
    )
    return list(dict.fromkeys(map(say, changed)))


def facts(snapshot: Snapshot) -> Iterator[Fact]:
    for partition in snapshot.partitions:
        for replica in partition.replicas:
            yield from _leading(partition, replica, snapshot.at_ms)
        for replica in partition.replicas:
            yield from _kept(partition, replica)
        yield from _metadata(partition)
        yield from _phases(partition)
    yield from _unobserved(snapshot)
    yield from _clients(snapshot)
    yield from _keeper(snapshot)


# ---------------------------------------------------------------- a leader


def _leading(partition: PartitionSnapshot, replica: ReplicaState, now: Millis) -> Iterator[Fact]:
    place = partition.topic, partition.partition, replica.broker
    for follower in replica.remote:
        phrase = Phrase(
            "inside.follower",
            {"leader": replica.broker, "follower": follower.broker, **_progress(follower, now)},
        )
        silent_for = (
            None if follower.last_caught_up_ms is None else (now - follower.last_caught_up_ms) // 1000
        )
        yield Fact((*place, "follower", follower.broker), (follower.leo, silent_for), phrase)
    for number, request in enumerate(replica.parked):
        yield Fact(
            (*place, "parked", number),
            (request.kind, request.sender, request.offset),
            _parked(replica.broker, request, now),
        )


def _progress(follower: RemoteReplica, now: Millis) -> dict[str, str | Phrase]:
    caught_up = follower.last_caught_up_ms
    return {
        "leo": _leo(follower),
        "caught_up": Phrase("inside.not_caught_up")
        if caught_up is None
        else Phrase("inside.caught_up", {"seconds": _seconds(now - caught_up)}),
    }


def _leo(follower: RemoteReplica) -> str:
    return "?" if follower.leo is None else str(follower.leo)


def remote_text(replica: ReplicaState) -> str:
    """The Remote LEOs of a leader, for the end of its line."""
    ends = " ".join(f"{follower.broker}:{_leo(follower)}" for follower in replica.remote)
    return f"  remote {ends}" if ends else ""


def has_remote_news(after: ReplicaState, before: ReplicaState, partition: PartitionSnapshot) -> bool:
    """Whether a leader's Remote LEOs say something new: not if they are what the followers' own lines say."""
    ends = {replica.broker: replica.leo for replica in partition.replicas}
    is_known = all(ends[follower.broker] == follower.leo for follower in after.remote)
    return not is_known and remote_text(after) != remote_text(before)


def _parked(leader: int, request: ParkedRequest, now: Millis) -> Phrase:
    return Phrase(
        f"inside.parked_{request.kind}",
        {
            "leader": leader,
            "sender": f"broker {request.sender}" if request.sender.isdecimal() else request.sender,
            "offset": request.offset,
            "seconds": _seconds(request.deadline_ms - now),
        },
    )


def _seconds(duration: Millis) -> str:
    return f"{duration / 1000:.1f}"


# ---------------------------------------------------------------- what a replica keeps, and what it tells


def _kept(partition: PartitionSnapshot, replica: ReplicaState) -> Iterator[Fact]:
    place = partition.topic, partition.partition, replica.broker
    table = " ".join(f"{epoch}@{start}" for epoch, start in replica.epochs)
    if table:
        phrase = Phrase("inside.epochs", {"broker": replica.broker, "epochs": table})
        yield Fact((*place, "epochs"), table, phrase)
    if replica.process != "down":
        kept = {"broker": replica.broker, "high_watermark": replica.hw, "checkpoint": replica.checkpoint}
        yield Fact(
            (*place, "checkpoint"), (replica.hw, replica.checkpoint), Phrase("inside.checkpoint", kept)
        )


def _metadata(partition: PartitionSnapshot) -> Iterator[Fact]:
    for replica in partition.replicas:
        believed = replica.believes
        if believed is None or replica.process != "up":
            continue
        state = believed["leader"], believed["leader_epoch"], believed["isr"]
        stale = state[:2] != (partition.leader, partition.leader_epoch)
        fields = {
            "broker": replica.broker,
            "leads": _leads(believed["leader"]),
            "epoch": believed["leader_epoch"],
            "isr": ",".join(map(str, believed["isr"])),
        }
        phrase = Phrase("inside.metadata_stale" if stale else "inside.metadata", fields)
        # Every reader learns of a broker that names the wrong leader; its role says it if that is itself.
        yield Fact(
            (partition.topic, partition.partition, replica.broker, "metadata"),
            (*state, stale),
            phrase,
            notable=stale and believed["leader"] not in (partition.leader, replica.broker),
        )


def _leads(leader: int) -> Phrase:
    return Phrase("no_leader") if leader < 0 else Phrase("leads", {"leader": leader})


def _phases(partition: PartitionSnapshot) -> Iterator[Fact]:
    if not partition.phase:
        return
    phrase = Phrase(
        "inside.phases",
        {
            "tp": f"{partition.topic}-{partition.partition}",
            "phase": Phrase(reason_key(PartitionPhase(partition.phase))),
            "replicas": _joined(
                [
                    Phrase("inside.replica_phase", {"replica": broker, "phase": _replica_phase(phase)})
                    for broker, phase in partition.replica_phases
                ]
            ),
        },
    )
    state = partition.phase, partition.replica_phases
    yield Fact((partition.topic, partition.partition, "phases"), state, phrase)


def _replica_phase(phase: str) -> Phrase:
    return Phrase(reason_key(ReplicaPhase(phase)))


# ---------------------------------------------------------------- brokers, clients and the keeper


def _unobserved(snapshot: Snapshot) -> Iterator[Fact]:
    for broker in snapshot.brokers:
        if not broker.observed:
            phrase = Phrase("inside.unobserved", {"broker": broker.broker})
            yield Fact(("observed", broker.broker), False, phrase)


def _clients(snapshot: Snapshot) -> Iterator[Fact]:
    for client in snapshot.clients:
        for topic, partition, leader, epoch in client.leaders:
            fields: Fields = {"client": client.name, "leads": _leads(leader), "epoch": epoch}
            yield Fact((topic, partition, client.name), (leader, epoch), Phrase("inside.client", fields))


def _keeper(snapshot: Snapshot) -> Iterator[Fact]:
    """Members and sessions are said together, in one phrase, when one of them changes."""
    if not snapshot.keeper:
        return
    states = {member.name: _member(member) for member in snapshot.keeper}
    sessions = {b.broker: b.keeper_member for b in snapshot.brokers if b.process != "down"}
    fields = {
        "members": _joined([Phrase(f"inside.{state}", {"member": name}) for name, state in states.items()]),
        "sessions": _joined([_session(broker, at) for broker, at in sessions.items()]),
    }
    phrase = Phrase("inside.keeper", fields) if sessions else Phrase("inside.keeper_alone", fields)
    # That all is well again follows from what the brokers do then.
    unwell = None in sessions.values() or {"member_cut_off", "member_stopped"} & set(states.values())
    for name, state in states.items():
        yield Fact(("member", name), state, phrase, notable=bool(unwell))
    for broker, at in sessions.items():
        yield Fact(("session", broker), at, phrase, notable=bool(unwell))


def _member(member: KeeperMember) -> str:
    if not member.running:
        return "member_stopped"
    return "member_leads" if member.leads else "member_follows" if member.serves else "member_cut_off"


def _session(broker: int, member: str | None) -> Phrase:
    if member is None:
        return Phrase("inside.no_session", {"broker": broker})
    return Phrase("inside.session", {"broker": broker, "member": member})


def _joined(phrases: list[Phrase]) -> Phrase:
    first, *rest = phrases or [Phrase("inside.nothing")]
    return Phrase("inside.and", {"first": first, "rest": _joined(rest)}) if rest else first
