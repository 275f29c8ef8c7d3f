"""After a power cut: synced records are still stored, and stored records are correct."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.storage.batches import batch, bytes_of, read_all
from tests.storage.folders import TP, folder, small, storage
from tests.storage.power import Disk

from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import NO_EPOCH, LeaderEpoch
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log.file_log import FileLog

SIZE = 10
GRAIN = batch("x" * SIZE, producer=1, sequence=0).size
SEGMENT = {"segment.bytes": 2 * GRAIN + 10}
"""Two batches a segment: whatever happens, it happens across segments."""

# Mostly batches of one size: then old and new ones fit each other's places, which is the dangerous case.
APPENDS = st.tuples(st.sampled_from([SIZE] * 9 + [60]), st.integers(1, 3), st.integers(1, 4))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), APPENDS),
        st.tuples(st.just("append"), APPENDS),
        st.tuples(st.just("truncate"), st.integers(0, 8)),
        st.tuples(st.just("work"), st.integers(1, 4)),
        st.tuples(st.sampled_from(["sync", "checkpoint", "new_epoch"]), st.just(0)),
        st.tuples(st.just("advance"), st.integers(0, 3)),
    ),
    max_size=30,
)
Steps = list[tuple[str, Any]]


class Broker:
    """Uses a log as the replication core does, and keeps in mind what it was promised."""

    def __init__(self, path: Path) -> None:
        self.late: list[Callable[[], None]] = []
        defaults = small(**SEGMENT, **{"tidelog.flush": "always"})
        self.storage = FileStorage(path, broker_id=1, defaults=defaults, background=self.late.append)
        self.log = self.storage.open(TP)
        self.states = ProducerStates()
        self.log.restore_producers(self.states)
        self.epoch = 0
        self.promised: list[bytes] = []

    def perform(self, step: tuple[str, Any]) -> None:
        name, argument = step
        getattr(self, name)(argument)

    def append(self, what: tuple[int, int, int]) -> None:
        size, producer, count = what
        for _ in range(count):
            known = {entry.producer_id: entry.last_sequence for entry in self.states.entries()}
            sequence = known.get(producer, -1) + 1
            sent = batch("x" * size, producer=producer, sequence=sequence, timestamp=1_000 + sequence)
            stored = self.log.append_as_leader(sent, LeaderEpoch(self.epoch))
            if self.epoch > self.log.epochs.latest_epoch:
                self.log.epochs.assign(LeaderEpoch(self.epoch), stored.base_offset)
                self.log.epochs_changed()
            self.states.append(stored)

    def new_epoch(self, _: int) -> None:
        self.epoch += 1

    def truncate(self, back: int) -> None:
        self.log.truncate_to(max(self.log.end_offset - back, 0))
        self.log.epochs.truncate_from_end(self.log.end_offset)
        self.log.epochs_changed()
        self.log.restore_producers(self.states)
        # Another leader wrote what was dropped: what comes now is of a later epoch.
        self.epoch += 1
        self._keep_promised()

    def _keep_promised(self) -> None:
        """Truncated records need not survive."""
        left = bytes_of(read_all(self.log))
        self.promised = [one for one in self.promised if one in left]

    def work(self, count: int) -> None:
        for _ in range(min(count, len(self.late))):
            self.late.pop(0)()

    def sync(self, _: int) -> None:
        self.storage.begin_sync()()
        assert not self.storage.dirty()
        self.promised = bytes_of(read_all(self.log))

    def checkpoint(self, _: int) -> None:
        self.storage.write_checkpoints()
        self.work(len(self.late))

    def advance(self, by: int) -> None:
        start = min(self.log.start_offset + by, self.log.end_offset)
        self.log.advance_start(start)
        self.log.epochs.truncate_from_start(start)
        self.log.epochs_changed()
        self._keep_promised()


def consistent(log: FileLog, start: int) -> None:
    """Everything in the log can be read, and says the same as what is written down about it.

    Below ``start``, where the log began before the cut, epochs may be forgotten though records came back.
    """
    batches = read_all(log, max_bytes=1)
    assert sum(one.next_offset - one.base_offset for one in batches) >= log.end_offset - log.start_offset
    for one in batches:
        known = log.epochs.epoch_at(one.last_offset)
        assert known == one.leader_epoch or (one.base_offset < start and known == NO_EPOCH)
    states, told = ProducerStates(), ProducerStates()
    log.restore_producers(states)
    for one in batches:
        told.append(one)
    for entry in told.entries():
        assert entry in list(states.entries())


def cut_power_after(steps: Steps, data: st.DataObject) -> None:
    with folder() as path, pytest.MonkeyPatch.context() as patch:
        disk = Disk(path / "data", patch, GRAIN)
        broker = Broker(path / "data")
        try:
            for step in steps:
                broker.perform(step)
            found = disk.cut_power(path / "found", lambda n: data.draw(st.integers(0, n - 1)))
        finally:
            broker.storage.close()
            patch.undo()
            disk.close()
        with storage(found, defaults=small(**SEGMENT)) as after:
            log = after.open(TP)
            consistent(log, broker.log.start_offset)
            survived = bytes_of(read_all(log))
            visible = [one for one in broker.promised if one in survived]
            # A start that had not been checkpointed may be back; nothing that was promised may be missing.
            assert visible == broker.promised
            log.append_as_leader(batch("and it goes on"), LeaderEpoch(99))
        with storage(found, defaults=small(**SEGMENT)) as again:
            assert again.clean_shutdown
            assert not again.recovered


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=40)
@given(steps=STEPS, data=st.data())
def test_what_was_synced_survives_a_power_cut(steps: Steps, data: st.DataObject) -> None:
    """Whatever the disk made of the rest: torn writes, holes, names that came back or never came."""
    cut_power_after(steps, data)


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=300)
@given(steps=STEPS, data=st.data())
def test_what_was_synced_survives_many_power_cuts(steps: Steps, data: st.DataObject) -> None:
    """The same, for long."""
    cut_power_after(steps, data)
