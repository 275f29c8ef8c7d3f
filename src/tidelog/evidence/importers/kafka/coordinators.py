"""What transaction coordinators know of transactions that are open in a log.

Rules of the file: a word of the coordinator that contradicts the log counts only if it is about the same
moment. The two logs are copied one after the other, so one of them may be older.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from tidelog.evidence.importers.kafka.coordinator_log import Coordinated, read_coordinator
from tidelog.evidence.importers.kafka.moments import Moments
from tidelog.evidence.importers.kafka.replica import OpenTransaction, Replica
from tidelog.evidence.importers.kafka.segment_files import SegmentFile


class Coordinators:
    def __init__(self, logs: Mapping[int, Replica]) -> None:
        """`logs`: the partitions of `__transaction_state`."""
        self._logs = logs
        self._by_producer: dict[int, tuple[Coordinated, int]] = {}
        """With the newest time of the log that it is in."""
        self._newest_ms: list[int] = []
        for replica in logs.values():
            with ExitStack() as stack:
                segments = [stack.enter_context(SegmentFile(path)) for path, _, _ in replica.segments]
                found, newest_ms = read_coordinator(segments)
            self._newest_ms.append(newest_ms)
            for each in found.values():
                self._by_producer[each.producer_id] = each, newest_ms

    @property
    def _whole(self) -> bool:
        """Whether all partitions are here, so that a producer that is in none is unknown to them."""
        return bool(self._logs) and sorted(self._logs) == list(range(len(self._logs)))

    def of(self, replica: Replica, begun: OpenTransaction, moments: Moments) -> dict[str, Any]:
        """Columns of the table `transactions`."""
        known, newest_ms = self._by_producer.get(begun.producer_id, (None, min(self._newest_ms, default=-1)))
        agrees = known is not None and known.has_open(begun.producer_epoch, replica.tp)
        said = agrees or self._is_of_this_moment(replica, begun, known, newest_ms, moments)
        if known is None:
            return {"coordinator_state": "Unknown" if self._whole and said else None}
        return {
            "transactional_id": known.transactional_id,
            "coordinator_epoch": known.producer_epoch,
            "coordinator_state": known.state if said else None,
            "coordinator_lists_partition": tuple(replica.tp) in known.partitions,
            "timeout_ms": known.timeout_ms,
        }

    def _is_of_this_moment(
        self,
        replica: Replica,
        begun: OpenTransaction,
        known: Coordinated | None,
        newest_ms: int,
        moments: Moments,
    ) -> bool:
        """The coordinator's log goes on behind the transaction, and the partition's behind what the
        coordinator said: a marker that it wrote would be there."""
        if moments.is_final(replica) and all(moments.is_final(log) for log in self._logs.values()):
            return True
        behind_ms = min(replica.last_ms, replica.modified_ms)
        return newest_ms > begun.last_ms and behind_ms > (known.updated_ms if known else begun.last_ms)
