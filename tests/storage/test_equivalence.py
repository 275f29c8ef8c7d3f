"""The log in files is the log in memory: what the simulator searched is what the broker does.

One machine drives both through everything the replication core asks of a log, as ``core.replica`` does, and
through what only files go through: clean restarts, kills, and background work that is late.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.storage.batches import batch, copy_of, read_all, values
from tests.storage.folders import MEMORY, TP, after_a_crash, small

from tidelog.core.log_port import Log
from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import NO_EPOCH, UNKNOWN_OFFSET, LeaderEpoch
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.memory import MemoryBatch, MemoryLog
from tidelog.wire.errors import ErrorCode

OFFSETS = st.integers(0, 60)
PRODUCERS = st.sampled_from([-1, 1, 2])


class TwoLogs(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        parent = MEMORY if MEMORY.is_dir() else None
        self.folders = Path(tempfile.mkdtemp(dir=parent, prefix="tidelog-"))
        self.lives = 0
        self.late: list[Callable[[], None]] = []
        self.memory = MemoryLog()
        self.memory_states = ProducerStates()
        self.epoch = 0
        self.count = 0

    @initialize(interval=st.sampled_from([0, 100, 4096]), tail=st.sampled_from([0, 1500, 1 << 20]))
    def start(self, interval: int, tail: int) -> None:
        self.settings = small(**{"index.interval.bytes": interval})
        self.tail = tail
        self.open()

    def teardown(self) -> None:
        if hasattr(self, "storage"):
            self.storage.close()
        shutil.rmtree(self.folders)

    # ------------------------------------------------------------ lives of the broker

    @property
    def folder(self) -> Path:
        return self.folders / str(self.lives)

    def open(self) -> None:
        self.storage = FileStorage(
            self.folder,
            broker_id=1,
            defaults=self.settings,
            background=self.late.append,
            tail_bytes=self.tail,
            open_segments_max=2,
        )
        self.files = self.storage.open(TP)
        self.states = ProducerStates()
        self.files.restore_producers(self.states)
        self.memory.recover()
        self.memory.restore_producers(self.memory_states)

    @rule()
    def restart(self) -> None:
        assert self.storage.close()
        self.open()
        assert self.storage.clean_shutdown
        assert not self.storage.recovered

    @rule()
    def kill(self) -> None:
        """What was written survives a killed process, whatever the background had still to do."""
        after_a_crash(self.folder, self.folders / str(self.lives + 1))
        self.storage.close()
        self.late.clear()
        self.lives += 1
        self.open()
        assert not self.storage.clean_shutdown
        # An index that had not reached the disk is built again; no record may be missing.
        assert not any(found.truncated_bytes for found in self.storage.recovered), self.storage.recovered

    @rule(count=st.integers(1, 5))
    def work(self, count: int) -> None:
        """Some of what waits in the background is done."""
        for _ in range(min(count, len(self.late))):
            self.late.pop(0)()
        assert not self.files.failure

    @rule()
    def sync(self) -> None:
        self.files.begin_sync()()
        assert self.files.recovery_point == self.files.end_offset

    # ------------------------------------------------------------ what the core asks of a log

    @rule(
        producer=PRODUCERS,
        follower=st.booleans(),
        new_epoch=st.booleans(),
        size=st.integers(0, 120),
        rest=st.integers(0, 3),
    )
    def append(self, producer: int, follower: bool, new_epoch: bool, size: int, rest: int) -> None:
        self.epoch += new_epoch
        self.count += 1
        value = f"{self.count}".ljust(size, ".")
        known = {entry.producer_id: entry for entry in self.states.entries()}
        sequence = -1 if producer < 0 else known[producer].last_sequence + 1 if producer in known else 0
        others = tuple(f"{self.count}+{number}" for number in range(rest))
        sent = batch(value, *others, producer=producer, sequence=sequence)
        in_memory = MemoryBatch(value, 0, NO_EPOCH, producer, sent.producer_epoch, sequence, others)
        if follower:
            sent.stamp(self.memory.end_offset, self.epoch)
            in_memory.base_offset, in_memory.leader_epoch = self.memory.end_offset, LeaderEpoch(self.epoch)
            for log in self.both:
                if self.epoch != log.epochs.latest_epoch:
                    log.epochs.assign(LeaderEpoch(self.epoch), log.end_offset)
                    log.epochs_changed()
            self.files.append_as_follower(copy_of(sent))
            self.memory.append_as_follower(in_memory)
        else:
            sent = self.files.append_as_leader(sent, LeaderEpoch(self.epoch))
            in_memory = self.memory.append_as_leader(in_memory, LeaderEpoch(self.epoch))
            for log in self.both:
                if self.epoch > log.epochs.latest_epoch:
                    log.epochs.assign(LeaderEpoch(self.epoch), sent.base_offset)
                    log.epochs_changed()
        self.states.append(sent)
        self.memory_states.append(in_memory)

    @property
    def both(self) -> tuple[Log, Log]:
        return self.files, self.memory

    @rule(back=st.integers(0, 15))
    def truncate(self, back: int) -> None:
        offset = max(self.memory.end_offset - back, 0)
        for log in self.both:
            log.truncate_to(offset)
            log.epochs.truncate_from_end(log.end_offset)
            log.epochs_changed()
        self.restore()

    @rule(offset=OFFSETS)
    def restart_at(self, offset: int) -> None:
        for log in self.both:
            log.restart_at(offset)
            log.epochs.truncate_from_end(0)
            log.epochs_changed()
        self.restore()

    @precondition(lambda self: self.memory.end_offset > self.memory.start_offset)
    @rule(share=st.floats(0, 1))
    def advance_start(self, share: float) -> None:
        length = self.memory.end_offset - self.memory.start_offset
        offset = self.memory.start_offset + round(share * length)
        for log in self.both:
            log.advance_start(offset)
            log.epochs.truncate_from_start(offset)
            log.epochs_changed()
        # A start that is not checkpointed yet does not survive a kill, as in Kafka: records come back.
        self.work(len(self.late))

    def restore(self) -> None:
        self.files.restore_producers(self.states)
        self.memory.restore_producers(self.memory_states)

    # ------------------------------------------------------------ what must be the same

    @invariant()
    def same_records(self) -> None:
        if not hasattr(self, "files"):
            return
        assert (self.files.start_offset, self.files.end_offset) == (
            self.memory.start_offset,
            self.memory.end_offset,
        )
        expected = [(one.base_offset, one.leader_epoch, one.value) for one in self.memory.batches]
        start = self.memory.start_offset
        for max_bytes in (1, 300, 1 << 30):
            found = read_all(self.files, max_bytes=max_bytes)
            records = [(at, one.leader_epoch, value) for one in found for at, value in values([one])]
            assert [record for record in records if record[0] >= start] == expected

    @rule(start=OFFSETS, length=st.integers(0, 20))
    def read(self, start: int, length: int) -> None:
        if self.memory.start_offset <= start <= self.memory.end_offset:
            end = min(start + length, self.memory.end_offset)
            expected = [one.base_offset for one in self.memory.read(start, end)]
            assert [one.base_offset for one in read_all(self.files, start, end)] == expected

    @invariant()
    def same_epochs(self) -> None:
        if hasattr(self, "files"):
            assert self.files.epochs.entries == self.memory.epochs.entries

    @invariant()
    def same_producers(self) -> None:
        """Files may remember more of producers than the records that are left say, but nothing else."""
        if not hasattr(self, "files"):
            return
        known = {entry.producer_id: entry for entry in self.states.entries()}
        for entry in self.memory_states.entries():
            assert known[entry.producer_id] == entry
            for sequence in range(entry.last_sequence + 2):
                again = batch("", producer=entry.producer_id, sequence=sequence)
                in_memory = self.memory_states.check(again)
                in_files = self.states.check(again)
                forgotten = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_OFFSET)
                deleted = 0 <= in_files[1] < self.memory.start_offset
                assert deleted or in_files in (in_memory, forgotten)


QUICK = settings(
    max_examples=15,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # Explaining a failure traces every line, which costs more than the test.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)


class TestTwoLogs(TwoLogs.TestCase):  # type: ignore[valid-type, misc]
    settings = QUICK


@pytest.mark.slow
class TestTwoLogsForLong(TwoLogs.TestCase):  # type: ignore[valid-type, misc]
    settings = settings(QUICK, max_examples=60, stateful_step_count=40)
