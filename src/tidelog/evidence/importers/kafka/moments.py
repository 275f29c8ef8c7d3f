"""What folders of different moments can be held against each other.

Folders of brokers that run are copied one after the other, and a copy made with `cp` may have a checkpoint
that is newer than the segments beside it. So the end of a log says something only if nothing was being
written to the partition: its brokers were stopped, or its last write is older than any copying takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from tidelog.core.types import TopicPartition
from tidelog.evidence.importers.kafka.replica import Replica

COPYING_MS: Final = 300_000
"""A folder is copied in less time than this; closed segments may take longer."""


class Moments:
    def __init__(self, replicas: Iterable[Replica], stopped: Collection[int]) -> None:
        """`stopped` are brokers that did not run."""
        self._stopped = stopped
        self._of_broker: dict[int, int] = {}
        self._of_partition: dict[TopicPartition, int] = {}
        for each in replicas:
            self._of_broker[each.broker] = max(self._of_broker.get(each.broker, 0), each.modified_ms)
            self._of_partition[each.tp] = max(self._of_partition.get(each.tp, 0), each.modified_ms)

    def is_final(self, replica: Replica) -> bool:
        """Whether the end of this log is where it ended, and not where a copy of it does."""
        if not replica.segments:
            return True
        quiet_ms = self._of_broker[replica.broker] - self._of_partition[replica.tp]
        return replica.broker in self._stopped or quiet_ms > COPYING_MS
