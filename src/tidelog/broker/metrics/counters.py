"""The counters of a broker: plain integers, read by ``http.py`` at a scrape.

Rules of the file: this module does not depend on Prometheus, nothing allocates per call, and a counter costs
well under a microsecond. State of the core (offsets, ISRs, leaders) is read at the scrape and not counted
here; only requests, bytes and events are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from tidelog.core import events as e
from tidelog.core.reasons import ElectionKind, StateWriteReason
from tidelog.core.types import BrokerId, TopicPartition
from tidelog.evidence import process_events as p
from tidelog.evidence.process_events import RecordedEvent

LATENCY_BOUNDS_US: Final = (
    *(100, 250, 500),
    *(1_000, 2_500, 5_000),
    *(10_000, 25_000, 50_000),
    *(100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000),
)
"""Upper ends of the latency buckets. A last bucket without an upper end follows."""

_NEW_PARTITION: Final = "new"
"""Kind of the election of a partition's first leader."""


class ApiFigures:
    """The requests of one API."""

    __slots__ = ("errors", "failed", "latency_sum_us", "latency_us")

    def __init__(self) -> None:
        self.latency_us = [0] * (len(LATENCY_BOUNDS_US) + 1)
        self.latency_sum_us = 0.0
        self.failed = 0
        self.errors: Counter[int] = Counter()

    def add(self, latency_us: float) -> None:
        self.latency_us[bisect_left(LATENCY_BOUNDS_US, latency_us)] += 1
        self.latency_sum_us += latency_us


class Metrics:
    """The counters of one broker process. Any code may increase the public attributes."""

    def __init__(self) -> None:
        self.apis: dict[int, ApiFigures] = {}
        self.group_writes = ApiFigures()
        """Writes of coordinators to ``__consumer_offsets``, from the request to the commit."""
        self.bytes_in = 0
        self.incoming_bytes = 0
        self.bytes_out = 0
        self.connections = 0
        self.connections_refused = 0
        self.protocol_errors = 0
        self.loop_held_seconds_max = 0.0
        self.loop_worked_seconds_max = 0.0
        self.loop_holds = 0
        self.unexpected_errors = 0

        self.registered = False
        self.keeper_sessions_lost = 0

        self.records_committed = 0
        self.leaderships = 0
        self.followings = 0
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.isr_refusals: Counter[int] = Counter()
        self.truncations = 0
        self.truncated_records = 0
        self.follower_stalls: Counter[int] = Counter()
        self.storage_failures = 0

        # All kinds exist from the start: a rate() misses the first count of a new series.
        self.elections = {_NEW_PARTITION: 0} | {_election_label(kind): 0 for kind in ElectionKind}
        self.election_failures = 0
        self.controller_elections = 0
        self.controller_resignations = 0
        self.control_refusals: Counter[int] = Counter()

        self.stray_replicas = 0
        self.logs_repaired = 0
        self.recovery_truncated_bytes = 0
        self.recovery_missing_offsets = 0
        self.recovery: p.StorageRecovered | None = None
        """The result of recovery, once the logs are open."""
        self._isrs: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        """The last known ISR of the partitions that this broker leads, to detect changes."""

    # ------------------------------------------------------------ requests

    def request_finished(self, api_key: int, latency_us: float, error: bool) -> None:
        """An answer is ready to be sent, ``latency_us`` after its request arrived."""
        figures = self.apis.get(api_key)
        if figures is None:
            figures = self.apis[api_key] = ApiFigures()
        figures.latency_us[bisect_left(LATENCY_BOUNDS_US, latency_us)] += 1
        figures.latency_sum_us += latency_us
        if error:
            figures.failed += 1

    def error_answered(self, api_key: int, error_code: int) -> None:
        """One error code of an answer: a request for many partitions may carry several."""
        figures = self.apis.get(api_key)
        if figures is None:
            figures = self.apis[api_key] = ApiFigures()
        figures.errors[error_code] += 1

    def loop_held(self, seconds: float) -> None:
        """The event loop was blocked for this time."""
        self.loop_held_seconds_max = max(self.loop_held_seconds_max, seconds)

    # ------------------------------------------------------------ events

    def observe(self, event: RecordedEvent) -> None:
        """Count an event of the core or of the process."""
        count = _COUNTS.get(type(event))
        if count is not None:
            count(self, event)

    def watermark_advanced(self, event: e.HighWatermarkAdvanced) -> None:
        self.records_committed += event.high_watermark - event.before

    def _became_leader(self, event: e.BecameLeader) -> None:
        self.leaderships += 1
        if event.tp in self._isrs:
            self._isr_changed(event)  # it led before: the controller removed a dead replica
        else:
            self._isrs[event.tp] = event.isr

    def _became_follower(self, event: e.BecameFollower) -> None:
        self.followings += 1
        self._isrs.pop(event.tp, None)

    def _isr_changed(self, event: e.IsrChanged | e.BecameLeader) -> None:
        before = self._isrs.get(event.tp, event.isr)
        self.isr_shrinks += any(broker not in event.isr for broker in before)
        self.isr_expands += any(broker not in before for broker in event.isr)
        self._isrs[event.tp] = event.isr

    def _isr_refused(self, event: e.IsrChangeRefused) -> None:
        self.isr_refusals[event.error] += 1

    def _truncated(self, event: e.Truncated) -> None:
        self.truncations += 1
        self.truncated_records += max(0, event.before - event.after)

    def _state_written(self, event: e.PartitionStateWritten) -> None:
        if isinstance(event.reason, ElectionKind):
            self.elections[_election_label(event.reason)] += 1
        elif event.reason is StateWriteReason.CREATED:
            self.elections[_NEW_PARTITION] += 1

    def _election_failed(self, _event: e.ElectionFailed) -> None:
        self.election_failures += 1

    def _controller_elected(self, _event: e.ControllerElected) -> None:
        self.controller_elections += 1

    def _controller_resigned(self, _event: e.ControllerResigned) -> None:
        self.controller_resignations += 1

    def _control_refused(self, event: e.ControlRequestRefused) -> None:
        self.control_refusals[event.error] += 1

    def _follower_stalled(self, event: e.FollowerStalled) -> None:
        self.follower_stalls[event.error] += 1

    def _storage_failed(self, _event: e.StorageFailed | e.ReplicaWentOffline) -> None:
        self.storage_failures += 1

    def _registered(self, _event: e.BrokerRegistered) -> None:
        self.registered = True

    def _session_lost(self, _event: p.KeeperSessionLost) -> None:
        self.registered = False
        self.keeper_sessions_lost += 1

    def _replica_deleted(self, event: e.ReplicaDeleted) -> None:
        self._isrs.pop(event.tp, None)

    def _stray_found(self, _event: e.StrayReplicaFound) -> None:
        self.stray_replicas += 1

    def _log_recovered(self, event: p.LogRecovered) -> None:
        self.logs_repaired += 1
        self.recovery_truncated_bytes += event.truncated_bytes
        self.recovery_missing_offsets += event.missing_offsets

    def _storage_recovered(self, event: p.StorageRecovered) -> None:
        self.recovery = event


def _election_label(kind: ElectionKind) -> str:
    return "shutdown" if kind is ElectionKind.CONTROLLED_SHUTDOWN else kind.value


_COUNTS: dict[type, Callable[[Metrics, Any], None]] = {
    e.HighWatermarkAdvanced: Metrics.watermark_advanced,
    e.BecameLeader: Metrics._became_leader,
    e.BecameFollower: Metrics._became_follower,
    e.IsrChanged: Metrics._isr_changed,
    e.IsrChangeRefused: Metrics._isr_refused,
    e.Truncated: Metrics._truncated,
    e.PartitionStateWritten: Metrics._state_written,
    e.ElectionFailed: Metrics._election_failed,
    e.ControllerElected: Metrics._controller_elected,
    e.ControllerResigned: Metrics._controller_resigned,
    e.ControlRequestRefused: Metrics._control_refused,
    e.FollowerStalled: Metrics._follower_stalled,
    e.StorageFailed: Metrics._storage_failed,
    e.ReplicaWentOffline: Metrics._storage_failed,
    e.BrokerRegistered: Metrics._registered,
    e.ReplicaDeleted: Metrics._replica_deleted,
    e.StrayReplicaFound: Metrics._stray_found,
    p.KeeperSessionLost: Metrics._session_lost,
    p.LogRecovered: Metrics._log_recovered,
    p.StorageRecovered: Metrics._storage_recovered,
}
