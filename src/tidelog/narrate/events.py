"""What happened, as phrases: events of the core and of clients.

The key of an event is the name of its class. Where it has a reason, that is a phrase of its own, in the field
``why``; its key is the enumeration and the member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tidelog.core import events as e
from tidelog.core.types import NO_EPOCH, NO_LEADER, UNKNOWN_OFFSET, BrokerId, PartitionState, TopicPartition
from tidelog.narrate.clients import answer_phrase, error_phrase
from tidelog.narrate.phrasebook import ENGLISH, Fields, Phrase, say
from tidelog.narrate.reasons import reason_key, why
from tidelog.scenario.clients.events import Acknowledged, RecordRead, SendFailed


def narrate(event: object, *, several: bool = False) -> str:
    """``several``: the play has several partitions, so the words name theirs."""
    return say(_placed(event, phrase(event), several=several))


def spoken(event: object, *, several: bool = False) -> str:
    """For people: transcripts call brokers by their number alone, which is odd at the start of a sentence."""
    found = phrase(event)
    begins_with_broker = ENGLISH.templates[found.key].startswith(("{broker}", "{follows}"))
    said = Phrase("spoken", {"said": found}) if begins_with_broker else found
    return say(_placed(event, said, several=several))


def place(event: object) -> str:
    """The partition of an event whose words do not name it; empty if they do, or if it has none."""
    one = event.follows if isinstance(event, Followed) else event
    named = phrase(event).fields.keys() & {"tp", "partitions"}
    return "" if named or not hasattr(one, "tp") else str(one.tp)


def _placed(event: object, said: Phrase, *, several: bool) -> Phrase:
    where = place(event) if several else ""
    return Phrase("placed", {"tp": where, "said": said}) if where else said


class Followed(NamedTuple):
    """A follower and the question that it begins with, said as one."""

    follows: e.BecameFollower
    question: e.EpochEndAsked | e.EpochEndAnswered


def is_inner(event: object) -> bool:
    """Whether an event goes on inside a controller or a disk."""
    return isinstance(event, (e.PartitionPhaseChanged, e.ReplicaPhaseChanged, e.HighWatermarksCheckpointed))


def notable(events: Sequence[object], *, detail: bool = False, inner: bool = False) -> list[object]:
    """Of the events of one step, those for a reader. Without ``detail`` not what goes on inside a controller
    or a disk, no question whose answer follows (the answer repeats it), and not that a leader learns of an
    ISR that was written just before; ``inner`` keeps the first of these. A follower's first question is part
    of its beginning."""
    if detail:
        return list(events)
    answered = [(v.broker, v.tp, v.asked_epoch) for v in events if isinstance(v, e.EpochEndAnswered)]
    written = [(v.tp, v.state.isr) for v in events if isinstance(v, e.PartitionStateWritten)]
    found: list[object] = []
    begun: dict[tuple[BrokerId, TopicPartition], int] = {}
    """Where the followers are that have not asked yet."""
    for event in events:
        match event:
            case e.BecameFollower():
                begun[event.broker, event.tp] = len(found)
            case e.EpochEndAsked() if (event.broker, event.tp, event.epoch) in answered:
                continue
            case e.EpochEndAsked() | e.EpochEndAnswered() if (event.broker, event.tp) in begun:
                at = begun.pop((event.broker, event.tp))
                follows = found[at]
                assert isinstance(follows, e.BecameFollower)
                found[at] = Followed(follows, event)
                continue
            case e.IsrChanged() if (event.tp, event.isr) in written:
                continue
            case _ if is_inner(event) and not inner:
                continue
            case _:
                pass
        found.append(event)
    return found


def phrase(event: object) -> Phrase:
    key = type(event).__name__
    if isinstance(event, e.BecameFollower) and event.leader == NO_LEADER:
        key = "BecameFollowerOfNobody"
    return Phrase(key, _FIELDS[type(event)](event))


def _numbers(brokers: Iterable[BrokerId]) -> str:
    return ",".join(map(str, brokers))


def _eligible(state: PartitionState) -> Phrase | str:
    """Nothing, under rules without eligible leader replicas."""
    elr = _numbers(state.elr)
    if state.last_known_elr:
        return Phrase("last_known_leader", {"elr": elr, "leader": _numbers(state.last_known_elr)})
    return Phrase("elr", {"elr": elr}) if elr else ""


def _state_written(event: e.PartitionStateWritten) -> Fields:
    state = event.state
    led = state.leader != NO_LEADER
    return {
        "tp": str(event.tp),
        "leads": Phrase("leads", {"leader": state.leader}) if led else Phrase("no_leader"),
        "epoch": state.leader_epoch,
        "isr": _numbers(state.isr),
        "eligible": _eligible(state),
        "writer": event.writer,
        "why": why(event),
    }


def _phase_changed(event: e.PartitionPhaseChanged | e.ReplicaPhaseChanged) -> Fields:
    return {
        "controller": event.controller,
        "partitions": ", ".join(event.names),
        "before": Phrase(reason_key(event.before)),
        "after": Phrase(reason_key(event.after)),
    }


def _epoch_end(event: e.EpochEndAnswered) -> Fields:
    facts: Fields = {"epoch": event.epoch, "end_offset": event.end_offset}
    if event.end_offset == UNKNOWN_OFFSET:
        answer = Phrase("epoch_end.unknown")
    elif event.epoch in (event.asked_epoch, NO_EPOCH):
        answer = Phrase("epoch_end.same", facts)
    else:
        answer = Phrase("epoch_end.older", facts)
    return {"broker": event.broker, "leader": event.leader, "epoch": event.asked_epoch, "answer": answer}


def _followed(event: Followed) -> Fields:
    question = event.question
    fields: dict[str, str | int | Phrase] = {"follows": phrase(event.follows)}
    if isinstance(question, e.EpochEndAsked):
        asked = Phrase("asks", {"epoch": question.epoch})
    else:
        asked = Phrase("asked", {"epoch": question.asked_epoch, "answer": _epoch_end(question)["answer"]})
    return {**fields, "question": asked}


def _heard(event: Acknowledged | SendFailed) -> Fields:
    record = event.record
    return {"producer": record.producer, "value": record.value, "answer": answer_phrase(record)}


_FIELDS: dict[type, Callable[[Any], Fields]] = {
    e.BecameLeader: lambda v: {
        "broker": v.broker,
        "epoch": v.epoch,
        "log_end_offset": v.log_end_offset,
        "why": why(v),
    },
    e.BecameFollower: lambda v: {"broker": v.broker, "leader": v.leader, "epoch": v.epoch},
    e.Truncated: lambda v: {"broker": v.broker, "before": v.before, "after": v.after, "why": why(v)},
    e.HighWatermarkAdvanced: lambda v: {
        "broker": v.broker,
        "before": v.before,
        "high_watermark": v.high_watermark,
        "why": why(v),
    },
    e.HighWatermarksCheckpointed: lambda v: {
        "broker": v.broker,
        "offsets": ", ".join(f"{tp} {offset}" for tp, offset in v.by_name.items()),
    },
    e.EpochEndAsked: lambda v: {"broker": v.broker, "leader": v.leader, "epoch": v.epoch},
    e.EpochEndAnswered: _epoch_end,
    Followed: _followed,
    e.IsrChangeProposed: lambda v: {
        "broker": v.broker,
        "before": _numbers(v.before),
        "isr": _numbers(v.isr),
        "why": why(v),
    },
    e.IsrChangeRefused: lambda v: {"broker": v.broker, "isr": _numbers(v.isr), "why": error_phrase(v.error)},
    e.IsrChanged: lambda v: {"broker": v.broker, "isr": _numbers(v.isr)},
    e.PartitionStateWritten: _state_written,
    e.PartitionPhaseChanged: _phase_changed,
    e.ReplicaPhaseChanged: lambda v: {**_phase_changed(v), "replica": v.replica},
    e.ElectionFailed: lambda v: {"controller": v.controller, "tp": str(v.tp), "why": why(v)},
    e.ControllerElected: lambda v: {"broker": v.broker, "controller_epoch": v.controller_epoch},
    e.ControllerResigned: lambda v: {"broker": v.broker, "why": why(v)},
    e.BrokerRegistered: lambda v: {"broker": v.broker},
    e.ControlRequestRefused: lambda v: {
        "broker": v.broker,
        "request": v.request,
        "why": error_phrase(v.error),
    },
    e.ReassignmentStarted: lambda v: {
        "controller": v.controller,
        "tp": str(v.tp),
        "adding": _numbers(v.adding) or Phrase("no_broker"),
        "removing": _numbers(v.removing) or Phrase("no_broker"),
    },
    e.ReassignmentCompleted: lambda v: {
        "controller": v.controller,
        "tp": str(v.tp),
        "replicas": _numbers(v.replicas),
        "removing": _numbers(v.removing) or Phrase("no_broker"),
    },
    e.ReassignmentCancelled: lambda v: {
        "controller": v.controller,
        "tp": str(v.tp),
        "replicas": _numbers(v.replicas),
    },
    e.TopicConfigured: lambda v: {"broker": v.broker, "topic": v.topic},
    e.TopicDeletionStarted: lambda v: {"controller": v.controller, "topic": v.topic},
    e.TopicDeleted: lambda v: {"controller": v.controller, "topic": v.topic},
    e.StrayReplicaFound: lambda v: {"broker": v.broker, "tp": str(v.tp), "why": why(v)},
    e.ReplicaDeleted: lambda v: {"broker": v.broker, "tp": str(v.tp)},
    e.StorageFailed: lambda v: {"broker": v.broker, "tp": str(v.tp), "why": v.reason},
    e.ReplicaWentOffline: lambda v: {"broker": v.broker, "tp": str(v.tp), "why": v.reason},
    e.ReplicaCameOnline: lambda v: {"broker": v.broker, "tp": str(v.tp)},
    e.FollowerStalled: lambda v: {"broker": v.broker, "why": error_phrase(v.error)},
    e.BrokerExited: lambda v: {
        "broker": v.broker,
        "leader": v.leader,
        "end": v.log_end_offset,
        "leader_end": v.leader_end_offset,
    },
    Acknowledged: _heard,
    SendFailed: _heard,
    RecordRead: lambda v: {"consumer": v.consumer, "value": v.value, "offset": v.offset},
}
NARRATED = tuple(_FIELDS)
"""The events that have words. The others are of no interest to a reader of a scenario."""
