"""What a passage of the narration may claim, and whether it is true of its steps.

A claim is about a chapter: the step below the comment and those after it, up to the next comment. Some ask
for an event in one of these steps (``leader=1``: the keeper is given leader 1), the others for a state after
one of them (``hw=0:3``: the high watermark of broker 0 is 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.core import events as e
from tidelog.core.reasons import ElectionKind
from tidelog.core.types import NO_LEADER
from tidelog.faults.step import Claim
from tidelog.scenario.clients.events import Acknowledged, ClientError, RecordRead, SendFailed
from tidelog.scenario.line import is_number
from tidelog.scenario.remarks import RemarkKind
from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.scenario.run import Played
    from tidelog.scenario.snapshot import ReplicaState

Chapter = Sequence["Played"]


class ClaimKind(NamedTuple):
    """How the value of a claim is written, and the test."""

    expected: str
    reads: Callable[[str], bool]
    test: Callable[[Chapter, str], bool]


def is_true(claim: Claim, chapter: Chapter) -> bool:
    return CLAIMS[claim.name].test(chapter, claim.value) is not claim.denied


# ---------------------------------------------------------------- values


def _is_broker_or_none(value: str) -> bool:
    return value == "none" or is_number(value)


def _are_brokers(value: str) -> bool:
    return all(map(is_number, value.split(",")))


def _is_broker_and_offset(value: str) -> bool:
    broker, colon, offset = value.partition(":")
    return bool(colon) and is_number(broker) and is_number(offset)


def _is_broker_and_values(value: str) -> bool:
    broker, colon, _ = value.partition(":")
    return bool(colon) and is_number(broker)


def _is_election(value: str) -> bool:
    return value in _ELECTIONS


# ---------------------------------------------------------------- tests


def _events(chapter: Chapter) -> list[object]:
    return [event for played in chapter for _, event in played.events]


def _written(test: Callable[[e.PartitionStateWritten, str], bool]) -> Callable[[Chapter, str], bool]:
    def tested(chapter: Chapter, value: str) -> bool:
        return any(isinstance(v, e.PartitionStateWritten) and test(v, value) for v in _events(chapter))

    return tested


def _leader(event: e.PartitionStateWritten, value: str) -> bool:
    return event.state.leader == (NO_LEADER if value == "none" else int(value))


def _election(event: e.PartitionStateWritten, value: str) -> bool:
    return event.reason is ElectionKind(value)


def _isr(event: e.PartitionStateWritten, value: str) -> bool:
    return sorted(event.state.isr) == sorted(map(int, value.split(",")))


def _controller(chapter: Chapter, value: str) -> bool:
    return any(isinstance(v, e.ControllerElected) and v.broker == int(value) for v in _events(chapter))


def _truncates(chapter: Chapter, value: str) -> bool:
    return any(isinstance(v, e.Truncated) and v.broker == int(value) for v in _events(chapter))


def _drops(chapter: Chapter, value: str) -> bool:
    """A leader proposes an ISR without these brokers."""
    gone = set(map(int, value.split(",")))
    proposals = [v for v in _events(chapter) if isinstance(v, e.IsrChangeProposed)]
    return any(gone == set(v.before) - set(v.isr) for v in proposals)


def _error(chapter: Chapter, value: str) -> bool:
    """A producer or a consumer hears this error code."""
    heard: list[ClientError | str | int | None] = [
        v.record.error for v in _events(chapter) if isinstance(v, SendFailed)
    ]
    failed = [r for played in chapter for r in played.remarks if r.kind is RemarkKind.READ_FAILED]
    heard += [remark.fields["error"] for remark in failed]
    return any(isinstance(error, ErrorCode) and error.value == int(value) for error in heard)


def _heard(kind: type[Acknowledged | SendFailed]) -> Callable[[Chapter, str], bool]:
    def tested(chapter: Chapter, value: str) -> bool:
        answers = (v for v in _events(chapter) if isinstance(v, kind))
        return any(answer.record.value == value for answer in answers)

    return tested


def _reads(chapter: Chapter, value: str) -> bool:
    return any(isinstance(v, RecordRead) and v.value == value for v in _events(chapter))


def _replica(test: Callable[[ReplicaState, str], bool]) -> Callable[[Chapter, str], bool]:
    """A state claim ``BROKER:REST`` about the first partition."""

    def tested(chapter: Chapter, value: str) -> bool:
        broker, _, rest = value.partition(":")
        replicas = (r for played in chapter for r in played.after.partitions[0].replicas)
        return any(r.broker == int(broker) and test(r, rest) for r in replicas)

    return tested


def _log(replica: ReplicaState, values: str) -> bool:
    return ",".join(value for _, _, value in replica.records if value is not None) == values


_ELECTIONS = tuple(kind.value for kind in ElectionKind)
_BROKER = "a broker's number"
_OFFSET = "a broker and an offset like 0:3"

CLAIMS: dict[str, ClaimKind] = {
    "leader": ClaimKind("a broker's number or none", _is_broker_or_none, _written(_leader)),
    "election": ClaimKind(f"one of {', '.join(_ELECTIONS)}", _is_election, _written(_election)),
    "epoch": ClaimKind("a leader epoch", is_number, _written(lambda v, n: v.state.leader_epoch == int(n))),
    "isr": ClaimKind("brokers like 0,1", _are_brokers, _written(_isr)),
    "drops": ClaimKind("brokers like 0,1", _are_brokers, _drops),
    "controller": ClaimKind(_BROKER, is_number, _controller),
    "truncates": ClaimKind(_BROKER, is_number, _truncates),
    "error": ClaimKind("an error code like 75", is_number, _error),
    "acked": ClaimKind("a value", bool, _heard(Acknowledged)),
    "failed": ClaimKind("a value", bool, _heard(SendFailed)),
    "reads": ClaimKind("a value", bool, _reads),
    "leads": ClaimKind(_BROKER, is_number, _replica(lambda r, _: r.role == "leader" and r.process == "up")),
    "down": ClaimKind(_BROKER, is_number, _replica(lambda r, _: r.process == "down")),
    "leo": ClaimKind(_OFFSET, _is_broker_and_offset, _replica(lambda r, n: r.leo == int(n))),
    "hw": ClaimKind(_OFFSET, _is_broker_and_offset, _replica(lambda r, n: r.hw == int(n))),
    "log": ClaimKind("a broker and its records like 0:a,b", _is_broker_and_values, _replica(_log)),
}
"""By name; the order is that of the documentation."""
