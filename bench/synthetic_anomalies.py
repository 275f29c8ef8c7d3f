"""What is wrong with synthetic evidence, and what an audit must therefore find.

A handful of each kind, however large the evidence is: that is what a trial looks like, and what an audit has
to be quick at. Every kind has partitions or offsets of its own, so that none hides another:

* *lost* (partition 0): sends of producer `loser` that were told offsets from `lost_from` on, where others
  stand now; each is an *inconsistent offset* too, and of some a consumer read the old value: *rewritten*;
* *duplicated* and *phantom* (partition 1): its first batch is appended again, then one that was never sent;
* *reordered* (partition 2): two batches of one producer change places, which one record of the second shows;
* *diverged* (partition 3): a follower holds another batch;
* *unknown arrived*, *aborted read*, *damaged* (partition 4): stretches of sends with another outcome or CRC;
* *unseen* (partition 5): a stretch that the final reader did not get.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
from bench.synthetic_batches import RECORDS_PER_BATCH, Ints

PARTITIONS_MIN: Final = 6
_OUTCOMES: Final = pa.array(["ok", "unknown", "failed"])
_SWAPPED: Final = (10, 12)
"""Twelve producers take turns in six partitions, so each comes back two batches later."""
_DIVERGED_SLOT: Final = 20


@dataclass(slots=True, frozen=True)
class Planted:
    """All of it; `in_partition` is the part of one partition, in which the rest is 0."""

    lost: int = 200
    rewritten: int = 100
    duplicated_batches: int = 1
    phantom_batches: int = 1
    swaps: int = 1
    diverged_batches: int = 1
    unknown: int = 77
    aborted: int = 30
    damaged: int = 20
    unseen: int = 50
    lost_from: int = 1000
    loser: int = 98
    unknown_producer: int = 99

    def in_partition(self, partition: int) -> Planted:
        def here(number: int, count: int) -> int:
            return count if partition == number else 0

        return Planted(
            lost=here(0, self.lost),
            rewritten=here(0, self.rewritten),
            duplicated_batches=here(1, self.duplicated_batches),
            phantom_batches=here(1, self.phantom_batches),
            swaps=here(2, self.swaps),
            diverged_batches=here(3, self.diverged_batches),
            unknown=here(4, self.unknown),
            aborted=here(4, self.aborted),
            damaged=here(4, self.damaged),
            unseen=here(5, self.unseen),
        )

    def expected(self) -> dict[str, int]:
        """Findings by anomaly, whatever their severity."""
        return {
            "lost": self.lost,
            "rewritten": self.rewritten,
            "inconsistent offset": self.lost,
            "duplicated": self.duplicated_batches * RECORDS_PER_BATCH,
            "phantom": self.phantom_batches * RECORDS_PER_BATCH,
            "reordered": self.swaps,
            "diverged": self.diverged_batches * RECORDS_PER_BATCH,
            "unknown arrived": self.unknown,
            "aborted read": self.aborted,
            "damaged": self.damaged,
            "unseen": self.unseen,
        }

    # ------------------------------------------------------------ the log

    def order(self, batches: int) -> Ints:
        """Which batch stands in which slot of the log. A number from `batches` on was never sent."""
        order = np.arange(batches)
        if self.swaps:
            first, second = _SWAPPED
            order[[first, second]] = order[[second, first]]
        appended = [*range(self.duplicated_batches), *(batches + n for n in range(self.phantom_batches))]
        return np.concatenate([order, np.array(appended, np.int64)])

    def is_sent(self, slots: Ints, numbers: Ints, batches: int) -> npt.NDArray[np.bool_]:
        """Whether what is in a slot is there because of a send of its own."""
        return (slots < batches) & (numbers < batches)

    def diverged_slots(self, slots: Ints) -> Ints:
        """Places among `slots` at which a follower holds something else."""
        wanted = _DIVERGED_SLOT + np.arange(self.diverged_batches)
        return np.flatnonzero(np.isin(slots, wanted))

    # ------------------------------------------------------------ sends and reads

    def outcomes(self, offsets: Ints) -> Any:
        kind = np.where(offsets < self.unknown, 1, 0)
        kind[(offsets >= 1000) & (offsets < 1000 + self.aborted)] = 2
        return _OUTCOMES.take(pa.array(kind))

    def crcs(self, offsets: Ints, crcs: Ints) -> Ints:
        """What the ledger says of the values' bytes."""
        return np.where((offsets >= 2000) & (offsets < 2000 + self.damaged), crcs ^ 1, crcs)

    def is_unseen(self, offsets: Ints) -> npt.NDArray[np.bool_]:
        return (offsets >= 3000) & (offsets < 3000 + self.unseen)


def plant(partitions: int) -> Planted:
    if partitions < PARTITIONS_MIN:
        raise ValueError(f"anomalies are spread over {PARTITIONS_MIN} partitions, not over {partitions}")
    return Planted()
