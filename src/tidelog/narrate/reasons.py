"""Why something happened, as phrases: the closed enumerations of ``core.events`` with their facts."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import assert_never

from tidelog.core import events as e
from tidelog.core.reasons import Reason
from tidelog.core.types import BrokerId
from tidelog.narrate.phrasebook import Fields, Phrase

Reasoned = (
    e.BecameLeader
    | e.Truncated
    | e.HighWatermarkAdvanced
    | e.IsrChangeProposed
    | e.PartitionStateWritten
    | e.ElectionFailed
    | e.ControllerResigned
    | e.StrayReplicaFound
)


def why(event: Reasoned) -> Phrase:
    match event:
        case e.BecameLeader():
            return _reason(event.start)
        case e.Truncated():
            facts = {"epoch": event.epoch, "epoch_end": event.epoch_end, "own_epoch": event.own_epoch}
            return _reason(event.rule, after=event.after, **facts)
        case e.HighWatermarkAdvanced():
            return _reason(event.moment)
        case e.IsrChangeProposed():
            changed = set(event.before) ^ set(event.isr)
            brokers = [broker for broker in (*event.before, *event.isr) if broker in changed]
            return _reason(event.reason, brokers=_listed(brokers))
        case e.PartitionStateWritten():
            return _reason(event.reason, absent=event.absent)
        case e.ElectionFailed():
            return _reason(event.reason)
        case e.ControllerResigned():
            return _reason(event.reason, successor=event.successor)
        case e.StrayReplicaFound():
            return _reason(event.reason, brokers=_listed(event.replicas))
    assert_never(event)


def reason_key(reason: StrEnum) -> str:
    return f"{type(reason).__name__}.{reason.name}"


def _reason(reason: Reason, **facts: str | int | None) -> Phrase:
    fields: Fields = {name: fact for name, fact in facts.items() if fact is not None}
    return Phrase(reason_key(reason), fields)


def _listed(brokers: Iterable[BrokerId]) -> str:
    return ", ".join(map(str, brokers))
