"""A message in flight as a few plain fields, for a dot on a link and the words beside it.

``kind`` is the message's class; the fields are those a reader wants to see. The words are the page's: it has
a template for each kind in each of its languages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidelog.core import keeper_port as k
from tidelog.core import messages as m
from tidelog.core import topic_messages
from tidelog.core.types import NO_LEADER
from tidelog.faults.places import Channel
from tidelog.wire.errors import ErrorCode

Fields = dict[str, Any]


def error_name(error: ErrorCode) -> str:
    return "" if error is ErrorCode.NONE else f"{error.name} ({error.value})"


def numbers(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def leader_name(leader: int) -> str:
    return "-" if leader == NO_LEADER else str(leader)


def _values(batches: Sequence[Any]) -> str:
    records = [record for batch in batches for record in batch.records()]
    return " ".join("·" if record.value is None else record.value for record in records)


def _assigned(request: m.LeaderAndIsrRequest | m.UpdateMetadataRequest) -> Fields:
    if not request.partitions:
        return {"live": numbers(tuple(request.live_brokers))} if hasattr(request, "live_brokers") else {}
    state = request.partitions[0].state
    return {"leader": leader_name(state.leader), "epoch": state.leader_epoch, "isr": numbers(state.isr)}


def _metadata(response: m.MetadataResponse) -> Fields:
    leaders = [leader_name(state.leader) for state in response.partitions.values()]
    return {"leader": " ".join(leaders) or "-"}


_FIELDS: dict[type, Callable[[Any], Fields]] = {
    m.ProduceRequest: lambda v: {"value": _values([v.batch]), "acks": "all" if v.acks == -1 else str(v.acks)},
    m.ProduceResponse: lambda v: {"offset": v.base_offset, "error": error_name(v.error)},
    m.FetchRequest: lambda v: {"offset": v.offset},
    m.FetchResponse: lambda v: {
        "values": _values(v.batches),
        "hw": v.high_watermark,
        "error": error_name(v.error),
    },
    m.EpochEndRequest: lambda v: {"epoch": v.asked_epoch},
    m.EpochEndResponse: lambda v: {
        "epoch": v.epoch,
        "offset": v.end_offset,
        "error": error_name(v.error),
    },
    m.ListOffsetsRequest: lambda v: {},
    m.ListOffsetsResponse: lambda v: {"offset": v.offset, "error": error_name(v.error)},
    m.MetadataRequest: lambda v: {},
    m.MetadataResponse: _metadata,
    m.LeaderAndIsrRequest: _assigned,
    m.UpdateMetadataRequest: _assigned,
    m.StopReplicaRequest: lambda v: {},
    m.ControlResponse: lambda v: {"error": error_name(v.error)},
    m.AlterIsrRequest: lambda v: {"isr": numbers(v.isr)},
    m.AlterIsrResponse: lambda v: {"isr": numbers(v.isr), "error": error_name(v.error)},
    m.RelieveReplicaRequest: lambda v: {"epoch": v.leader_epoch},
    m.RelieveReplicaResponse: lambda v: {"error": error_name(v.error)},
    m.ControlledShutdownRequest: lambda v: {},
    m.ControlledShutdownResponse: lambda v: {"error": error_name(v.error)},
    m.ElectLeadersRequest: lambda v: {},
    m.ElectLeadersResponse: lambda v: {"error": error_name(v.error)},
    topic_messages.AlterReassignmentRequest: lambda v: {
        "replicas": "" if v.replicas is None else numbers(v.replicas)
    },
    topic_messages.AlterReassignmentResponse: lambda v: {"error": error_name(v.error)},
    m.VoteRequest: lambda v: {"epoch": v.leader_epoch},
    m.VoteResponse: lambda v: {"offset": v.end_offset, "error": error_name(v.error)},
    k.Create: lambda v: {"path": v.path},
    k.SetValue: lambda v: {"path": v.path},
    k.Delete: lambda v: {"path": v.path},
    k.Multi: lambda v: {"path": v.writes[0].path if v.writes else ""},
    k.Get: lambda v: {"path": v.path},
    k.Children: lambda v: {"path": v.path},
    k.Subtree: lambda v: {"path": v.path},
    k.KeeperReply: lambda v: {},
    k.WatchFired: lambda v: {"path": v.path},
    k.SessionStarted: lambda v: {},
    k.SessionResumed: lambda v: {},
}
KINDS = tuple(kind.__name__ for kind in _FIELDS)

_CHATTER = (k.Get, k.Children, k.Subtree, k.Check, k.KeeperReply, k.SessionResumed)
"""Reading the keeper changes nothing that could be seen."""


def content(channel: Channel, payload: Any) -> Any:
    """The message itself, out of what its channel wraps it in."""
    if channel.name == "keeper-reply":
        return payload
    if channel.name == "keeper":
        return payload[2]
    return payload[1]


def travel(channel: Channel, payload: Any) -> Fields:
    """A message on its way: where, what kind, and the fields of that kind."""
    message = content(channel, payload)
    fields = _FIELDS.get(type(message), lambda v: {})
    return {
        "channel": channel.name,
        "from": channel.source,
        "to": channel.target,
        "kind": type(message).__name__,
        **fields(message),
    }


def is_worth_showing(channel: Channel, payload: Any) -> bool:
    """Whether a reader would miss it: not the keeper's chatter, not an answer that brings nothing."""
    message = content(channel, payload)
    if isinstance(message, m.FetchResponse):
        return bool(message.batches) or message.error is not ErrorCode.NONE
    if isinstance(message, (m.ControlResponse, m.FetchRequest)):
        return False
    return not isinstance(message, _CHATTER)
