"""Compaction against a plain model: a list of all records, and what a reader may find of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.effort import tries
from tests.storage.batches import copy_of, read_all
from tests.storage.compaction.compacting import Found, Pair, compact, compacted, keyed, records
from tests.storage.folders import TP, after_a_crash, folder

from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import LeaderEpoch
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log.file_log import FileLog
from tidelog.wire.compression import Compression
from tidelog.wire.records import read_records

RETENTION_MS = 30
SETTINGS = compacted(segment_bytes=500, index_interval_bytes=80, delete_retention_ms=RETENTION_MS)
KEYS = st.sampled_from(["a", "b", "c", "a key that is so long that only its digest is kept in memory"])
PAIRS = st.lists(st.tuples(KEYS, st.sampled_from([None, "x", "a longer value"])), min_size=1, max_size=4)
APPENDS = st.tuples(
    PAIRS, st.sampled_from([-1, -1, 1, 2]), st.sampled_from([Compression.NONE, Compression.ZSTD])
)
STEPS = st.lists(
    st.one_of(
        *[st.tuples(st.just("append"), st.lists(APPENDS, min_size=1, max_size=8))] * 3,
        st.tuples(st.just("commit"), st.sampled_from([0, 0, 1, 5])),
        st.tuples(st.just("truncate"), st.integers(0, 6)),
        *[st.tuples(st.just("compact"), st.integers(0, 40))] * 2,
        st.tuples(st.just("replicate"), st.integers(1, 400)),
        st.tuples(st.just("advance"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["roll", "reopen", "crash"]), st.just(0)),
    ),
    min_size=8,
    max_size=40,
)


@dataclass
class Replica:
    """A log, and how much of it a compaction may have touched."""

    path: Path
    states: ProducerStates = field(default_factory=ProducerStates)
    sealed_to: int = 0

    def open(self) -> None:
        # Room for a few keys only: compactions often take several passes.
        self.storage = FileStorage(self.path, broker_id=1, defaults=SETTINGS, dedupe_bytes=600)
        self.log: FileLog = self.storage.open(TP)
        self.log.restore_producers(self.states)

    def compact(self, now_ms: int, committed: int) -> None:
        self.sealed_to = max(self.sealed_to, min(self.log.segments.active.base_offset, committed))
        compact(self.storage, now_ms=now_ms, high_watermark=min(committed, self.log.end_offset))


class Partition:
    """A leader and a follower, used as the replication core does; all their records in a list."""

    def __init__(self, path: Path) -> None:
        self.told: list[Found] = []
        self.path = path
        self.leader, self.follower = Replica(path / "leader"), Replica(path / "follower")
        self.leader.open()
        self.follower.open()
        self.committed = 0
        self.now_ms = 1_000_000
        self.copies = 0

    def append(self, batches: list[tuple[list[Pair], int, Compression]]) -> None:
        for pairs, producer, codec in batches:
            self._append(pairs, producer, codec)

    def _append(self, pairs: list[Pair], producer: int, codec: Compression) -> None:
        log, states = self.leader.log, self.leader.states
        sequences = {entry.producer_id: entry.last_sequence for entry in states.entries()}
        sequence = sequences.get(producer, -1) + 1 if producer >= 0 else -1
        timestamp = 1_000 + log.end_offset
        batch = keyed(*pairs, timestamp=timestamp, producer=producer, sequence=sequence, compression=codec)
        for n, (key, value) in enumerate(pairs):
            self.told.append((log.end_offset + n, timestamp + n, key, value))
        states.append(log.append_as_leader(batch, LeaderEpoch(0)))

    def commit(self, behind: int) -> None:
        """A watermark is where a batch ends."""
        ends = [batch.next_offset for batch in read_all(self.leader.log)]
        self.committed = max([self.committed, *ends[: len(ends) - behind]])

    def truncate(self, back: int) -> None:
        """Never below what is committed."""
        log = self.leader.log
        log.truncate_to(max(log.end_offset - back, self.committed))
        log.restore_producers(self.leader.states)
        self.told = [record for record in self.told if record[0] < log.end_offset]

    def compact(self, later_ms: int) -> None:
        self.now_ms += later_ms
        self.leader.compact(self.now_ms, self.committed)
        self.follower.compact(self.now_ms - RETENTION_MS // 2, self.committed)

    def replicate(self, max_bytes: int) -> None:
        leader, log = self.leader.log, self.follower.log
        start = max(log.end_offset, leader.start_offset)
        for batch in leader.read(start, self.committed, max_bytes):
            copy = copy_of(batch)
            log.append_as_follower(copy)
            self.follower.states.append(copy)

    def advance(self, by: int) -> None:
        log = self.leader.log
        log.advance_start(min(log.start_offset + by, self.committed))

    def roll(self, _: int) -> None:
        self.leader.log.roll()
        self.follower.log.roll()

    def reopen(self, _: int) -> None:
        for replica in (self.leader, self.follower):
            assert replica.storage.close()
            replica.open()
            assert not replica.storage.recovered

    def crash(self, _: int) -> None:
        for replica in (self.leader, self.follower):
            self.copies += 1
            found = after_a_crash(replica.path, self.path / f"copy-{self.copies}")
            replica.storage.close()
            replica.path = found
            replica.open()

    # ------------------------------------------------------------ what must be true

    def check(self) -> None:
        self._check_records(self.leader, self.leader.log.start_offset)
        # A follower may start after its first records, if the leader has deleted them.
        self._check_records(self.follower, self.leader.log.start_offset)
        restored = ProducerStates()
        for batch in read_all(self.leader.log):
            restored.append(batch)
        known = {entry.producer_id: entry.last_sequence for entry in self.leader.states.entries()}
        for entry in restored.entries():
            assert entry.last_sequence == known[entry.producer_id]
        if not self.leader.log.start_offset:
            assert {entry.producer_id for entry in restored.entries()} == set(known)

    def _check_records(self, replica: Replica, start: int) -> None:
        log = replica.log
        start = max(start, log.start_offset)
        told = [record for record in self.told if start <= record[0] < log.end_offset]
        found = [record for record in records(log) if record[0] >= start]
        # Nothing is changed, invented or out of order; what is new is all there.
        assert found == [record for record in told if record in set(found)]
        new = max(replica.sealed_to, self.leader.sealed_to)
        assert [r for r in found if r[0] >= new] == [r for r in told if r[0] >= new]
        if log.end_offset < self.leader.sealed_to:
            return  # a follower: what made records obsolete may not have come yet
        for limit in {min(self.committed, log.end_offset), log.end_offset}:
            # A reader of the whole log knows the last value of every key. A deleted key may be missing.
            last = {r[2]: r for r in told if r[0] < limit}
            got = {r[2]: r for r in found if r[0] < limit}
            for key, record in last.items():
                assert got.get(key, record if record[3] is None else None) == record

    def check_reads(self) -> None:
        """Wherever one begins to read, what follows comes."""
        for log in (self.leader.log, self.follower.log):
            everything = records(log)
            for offset in range(log.start_offset, log.end_offset, 4):
                batches = log.read(offset, log.end_offset, 1)
                found = [r for batch in batches for r in read_records(batch) if r.offset >= offset]
                expected = [r[0] for r in everything if r[0] >= offset]
                assert [r.offset for r in found] == expected[: len(found)]


def play(steps: list[tuple[str, Any]]) -> None:
    with folder() as path:
        partition = Partition(path)
        try:
            for name, argument in steps:
                getattr(partition, name)(argument)
                if name in ("compact", "reopen", "crash", "truncate", "replicate"):
                    partition.check()
            partition.check()
            partition.check_reads()
        finally:
            partition.leader.storage.close()
            partition.follower.storage.close()


@settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    max_examples=tries(30),
    # Shrinking takes minutes here, and says little more than the steps that were found.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(steps=STEPS)
def test_compaction_loses_only_what_is_obsolete(steps: list[tuple[str, Any]]) -> None:
    """On a leader and on a follower that compacts on its own, through truncations, restarts and crashes."""
    play(steps)
