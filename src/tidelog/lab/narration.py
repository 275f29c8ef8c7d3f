"""Events in plain words: one short sentence each, for transcripts and for the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.core import events as e
from tidelog.core.types import NO_LEADER
from tidelog.lab.clients import Acknowledged, RecordRead, SendFailed


def _list(brokers: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, brokers)) + "]"


def _error(error: Any) -> str:
    return f"{error.name} ({error.value})"


def _state_written(event: e.PartitionStateWritten) -> str:
    state = event.state
    leader = "nobody leads" if state.leader == NO_LEADER else f"{state.leader} leads"
    return (
        f"keeper: {event.tp} {leader}, epoch {state.leader_epoch}, ISR {_list(state.isr)} "
        f"(written by {event.writer}: {event.reason})"
    )


_WORDS: dict[type, Callable[[Any], str]] = {
    e.BecameLeader: lambda v: f"{v.broker} becomes leader in epoch {v.epoch} from offset {v.log_end_offset}",
    e.BecameFollower: lambda v: f"{v.broker} becomes follower of {v.leader} in epoch {v.epoch}",
    e.Truncated: lambda v: f"{v.broker} truncates its log from {v.before} to {v.after}: {v.reason}",
    e.HighWatermarkAdvanced: lambda v: (
        f"{v.broker} raises the high watermark from {v.before} to {v.high_watermark} (epoch {v.epoch})"
    ),
    e.IsrChangeProposed: lambda v: (
        f"{v.broker} proposes the ISR {_list(v.isr)} instead of {_list(v.before)}: {v.reason}"
    ),
    e.IsrChangeRefused: lambda v: f"{v.broker} is refused the ISR {_list(v.isr)}: {_error(v.error)}",
    e.IsrChanged: lambda v: f"{v.broker} learns that the ISR is {_list(v.isr)}",
    e.PartitionStateWritten: _state_written,
    e.ElectionFailed: lambda v: f"controller {v.controller} finds no leader for {v.tp}: {v.reason}",
    e.ControllerElected: lambda v: f"{v.broker} becomes controller (epoch {v.controller_epoch})",
    e.ControllerResigned: lambda v: f"{v.broker} stops being controller: {v.reason}",
    e.BrokerRegistered: lambda v: f"{v.broker} registers with the keeper",
    e.ControlRequestRefused: lambda v: f"{v.broker} refuses {v.request}: {_error(v.error)}",
    e.StorageFailed: lambda v: f"{v.broker} cannot use its log of {v.tp}: {v.reason}",
    e.ReplicaWentOffline: lambda v: f"{v.broker} goes offline as replica of {v.tp}: {v.reason}",
    e.ReplicaCameOnline: lambda v: f"{v.broker} comes online as replica of {v.tp}",
    e.FollowerStalled: lambda v: f"{v.broker} cannot follow: {_error(v.error)}",
    Acknowledged: lambda v: f"{v.record.producer} is told: {v.record.value} {v.record.told}",
    SendFailed: lambda v: f"{v.record.producer} is told: {v.record.value} failed, {v.record.told}",
    RecordRead: lambda v: f"{v.consumer} reads {v.value} at offset {v.offset}",
}


def narrate(event: object) -> str:
    return _WORDS[type(event)](event)
