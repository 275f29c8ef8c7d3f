"""Periodic work of a broker: retention, compaction, checkpoints, flushes, leader balance."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from tidelog.core.log_port import StorageFailure
from tidelog.core.messages import ElectLeadersRequest
from tidelog.core.types import BrokerId, Offset, TopicPartition
from tidelog.storage.background import Job
from tidelog.storage.log.file_log import FileLog

if TYPE_CHECKING:
    from tidelog.broker.node import Node

REPORT_SECONDS = 0.25
SYNC_CHECK_SECONDS = 0.2
LOG_CHECK_SECONDS = 1.0
CLEANING_SECONDS_MIN = 0.05


class Housekeeping:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._trouble = ""
        self._recoveries_told = len(node.storage.recovered)
        self._compacting = self._stopped = False
        settings = node.settings
        self._every(settings.log_retention_check_interval_ms / 1000, self._enforce_retention)
        self._every(settings.log_flush_offset_checkpoint_interval_ms / 1000, self._write_checkpoints)
        self._every(REPORT_SECONDS, node.report)
        self._every(SYNC_CHECK_SECONDS, self._sync_by_interval)
        self._every(LOG_CHECK_SECONDS, self._check_logs)
        if settings.log_cleaner_enable:
            backoff_seconds = settings.log_cleaner_backoff_ms / 1000
            self._every(max(backoff_seconds, CLEANING_SECONDS_MIN), self._clean_next_log)
        if settings.auto_leader_rebalance_enable:
            self._every(settings.leader_imbalance_check_interval_seconds, self._balance_leaders)

    def stop(self) -> None:
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()

    def _every(self, seconds: float, work: Callable[[], None]) -> None:
        def run() -> None:
            self._timers[work] = self._loop.call_later(seconds, run)
            work()

        self._timers[work] = self._loop.call_later(seconds, run)

    # ------------------------------------------------------------ logs

    def _enforce_retention(self) -> None:
        node, replicas = self._node, self._node.core.replicas
        for tp, start in node.storage.enforce_retention(node.time_ms(), self._committed()).items():
            if tp in replicas:
                try:
                    replicas[tp].advance_start(start)
                except StorageFailure as failure:
                    replicas[tp].storage_failed(failure)
        node.settle()

    def _committed(self) -> dict[TopicPartition, Offset]:
        return {tp: replica.high_watermark for tp, replica in self._node.core.replicas.items()}

    def _clean_next_log(self) -> None:
        if not self._compacting:
            steps = self._node.storage.next_compaction(self._node.time_ms(), self._committed())
            if steps is not None:
                self._compacting = True
                self._continue_compaction(steps)

    def _continue_compaction(self, steps: Iterator[Job]) -> None:
        """Run the next job in a thread, then resume the compaction in the event loop."""
        if self._stopped:
            return
        job = next(steps, None)
        if job is None:
            self._compacting = False
            if self._node.storage.last_compaction:
                self._node.log.debug("%s", self._node.storage.last_compaction)
        else:
            done = self._loop.run_in_executor(self._node.threads, job)
            done.add_done_callback(lambda _: self._continue_compaction(steps))

    def _write_checkpoints(self) -> None:
        self._node.storage.write_checkpoints()

    def _sync_by_interval(self) -> None:
        node = self._node
        sync = node.storage.sync_due(node.time_ms())
        if sync is not None:
            self._loop.run_in_executor(node.threads, sync).add_done_callback(self._synced)

    def _synced(self, done: asyncio.Future[None]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._node.fail(f"cannot make the log durable: {error}")

    def _check_logs(self) -> None:
        """Stop the broker if a log has failed. A failed log refuses appends until a restart; if the broker
        stayed leader, producers would fail although another replica could lead."""
        node = self._node
        for replica in node.core.replicas.values() if node.storage.any_failed else ():
            failure = cast(FileLog, replica.log).failure
            if failure:
                node.fail(failure)
                return
        recovered = node.storage.recovered
        for found in recovered[self._recoveries_told :]:  # of logs that could not be opened at the start
            node.recovered(found)
        self._recoveries_told = len(recovered)
        before, self._trouble = self._trouble, node.storage.trouble
        if self._trouble not in ("", before):
            node.log.error("background work on the logs failed: %s", self._trouble)

    # ------------------------------------------------------------ leaders

    def _balance_leaders(self) -> None:
        """Elect preferred leaders for a broker that lacks too large a share of its partitions."""
        node = self._node
        machines = node.core.controller.machines
        if machines is None:
            return
        cluster = machines.cluster
        preferred: dict[BrokerId, list[TopicPartition]] = defaultdict(list)
        for tp, assignment in cluster.assignments.items():
            if tp in cluster.states:
                preferred[assignment[0]].append(tp)
        for broker, tps in preferred.items():
            away = [tp for tp in tps if cluster.states[tp].leader != broker]
            share = 100 * len(away) / len(tps)
            if broker in cluster.live and share > node.settings.leader_imbalance_per_broker_percentage:
                for tp in away:
                    node.ask(_IgnoreAnswer(), ElectLeadersRequest(tp=tp))
        node.settle()


class _IgnoreAnswer:
    """Ignores the answer."""

    def deliver(self, _message: Any) -> None:
        pass
