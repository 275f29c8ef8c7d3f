"""Why a run lost a record, by what the simulator did: the logs of all replicas after each step, and
the events of the core. It follows the record itself, and shares no code with the audit's causes."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.core import events as e
from tidelog.core.reasons import ElectionKind, TruncationRule
from tidelog.pipeline.audit.causes.rules import CauseRule
from tidelog.scenario.run import Played, Run
from tidelog.scenario.snapshot import Snapshot

_BY_CUT = {
    TruncationRule.OWN_HIGH_WATERMARK: CauseRule.TO_WATERMARK,
    TruncationRule.EPOCH_END_ON_LEADER: CauseRule.TO_EPOCH,
    TruncationRule.EPOCH_END_HERE: CauseRule.TO_EPOCH,
    TruncationRule.EPOCH_UNKNOWN: CauseRule.TO_EPOCH,
    TruncationRule.LEADER_LOG_SHORTER: CauseRule.TO_LEADER,
    TruncationRule.LEADER_LOG_STARTS_LATER: CauseRule.TO_LEADER,
}


def _holders(snapshot: Snapshot, value: str) -> set[int]:
    return {
        replica.broker
        for partition in snapshot.partitions
        for replica in partition.replicas
        if any(record[2] == value for record in replica.records)
    }


def _committed_by(snapshot: Snapshot, value: str) -> set[int]:
    """Leaders whose high watermark is above it."""
    return {
        replica.broker
        for partition in snapshot.partitions
        for replica in partition.replicas
        if replica.role == "leader"
        and any(record[2] == value and record[0] < replica.hw for record in replica.records)
    }


def _steps(run: Run, value: str) -> Iterator[tuple[Played, set[int], set[int]]]:
    """Each step, and who held the value before and after it."""
    before: set[int] = set()
    for played in run.played:
        after = _holders(played.after, value)
        yield played, before, after
        before = after


def cause_of_loss(run: Run, value: str) -> CauseRule:
    """What the first leader without the record had done with it, or that it never had it."""
    (send,) = [send for send in run.ledger if send.value == value]
    if send.acks == 0:
        return CauseRule.UNCONFIRMED
    dropped: dict[int, CauseRule] = {}
    ever: set[int] = set()
    committed: set[int] = set()
    unclean: set[int] = set()
    for played, before, after in _steps(run, value):
        ever |= after
        committed |= _committed_by(played.after, value)
        for _, event in played.events:
            match event:
                case e.Truncated() if event.broker in before - after:
                    dropped[event.broker] = _BY_CUT[event.rule]
                case e.PartitionStateWritten() if event.reason is ElectionKind.UNCLEAN:
                    unclean.add(event.state.leader_epoch)
        for broker in before - after:  # nothing was truncated: it went with the power
            dropped.setdefault(broker, CauseRule.UNSYNCED)
        for broker in after:
            dropped.pop(broker, None)
        takers = [event for _, event in played.events if isinstance(event, e.BecameLeader)]
        for taker in takers if ever else ():
            if taker.broker not in before | after or taker.broker in dropped:
                if taker.broker in dropped:
                    return dropped[taker.broker]
                if taker.epoch in unclean:
                    return CauseRule.ONLY_ONE if len(ever) == 1 else CauseRule.UNCLEAN
                promised = committed and send.acks != 1
                return CauseRule.OUT_OF_STEP if promised else CauseRule.NOT_COPIED
    raise AssertionError(f"no leader of the run lacked {value}")
