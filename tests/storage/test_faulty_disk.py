"""Any call into the file system may fail: then the log is as it was and says so, and a retry does it all.

A history of everything that a broker does with its logs is played again and again, each time with another
call that fails. After every step the logs are compared with what they must hold; now and then the process is
killed (the page cache stays, its memory does not), and what the real recovery finds is compared as well.
Nothing that was appended may be gone, nothing that was dropped may be back, and no byte may be another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.effort import tries
from tests.storage.batches import bytes_of, copy_of, read_all
from tests.storage.compaction.compacting import NOW, compacted, keyed
from tests.storage.faulty_disk import Fault, FaultyDisk, Kind
from tests.storage.folders import folder, small

from tidelog.core.log_port import StorageFailure
from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import NO_EPOCH, LeaderEpoch, Offset, TopicPartition
from tidelog.settings.topic import LogConfig
from tidelog.storage.errors import StorageRefused
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log.file_log import FileLog
from tidelog.storage.log.missing_offsets import Witness
from tidelog.wire.batch import RecordBatch
from tidelog.wire.records import read_records

PLAIN, COMPACTED = TopicPartition("plain", 0), TopicPartition("compacted", 0)
SEGMENT_BYTES = 330
CONFIGS = {
    PLAIN: LogConfig.from_properties(small(**{"segment.bytes": SEGMENT_BYTES})),
    COMPACTED: LogConfig.from_properties(compacted(segment_bytes=SEGMENT_BYTES)),
}
OPERATIONS = {
    "append_as_leader": 6,
    "append_as_follower": 6,
    "truncate": 8,
    "compact": 4,
    "sync": 3,
    "checkpoint": 3,
    "kill": 2,
    "advance_start": 2,
    "work": 2,
    "restart_at": 1,
    "delete": 1,
    "roll": 1,
    "stop": 1,
}
"""What happens, and how often. Each is a method that prepares the step and returns how to take it."""
RISKY = ("append_as_follower", "truncate", "restart_at", "advance_start", "compact", "delete", "kill")
"""Steps of many calls, of which some may be made and others not."""
BATCHES_AT_FIRST = 8
STEPS = 20
STEPS_AFTER_FAULT = 8


class Replica:
    """A log as the replication core uses it, and what it must hold."""

    start: Offset
    forgotten: Offset

    def __init__(self, log: FileLog, before: Replica | None = None) -> None:
        self.log = log
        self.forgotten = max(before.start, before.forgotten) if before else 0
        """Below, epochs are forgotten. Records may be back there, where a start was not checkpointed."""
        self.states = ProducerStates()
        log.restore_producers(self.states)
        self.start, self.end = log.start_offset, log.end_offset
        self.lowest = self.start
        """Where the log may start after a kill: the last start that is surely in a checkpoint."""
        self.batches = [copy_of(one) for one in read_all(log)]
        """Everything since ``lowest``."""

    def visible(self, start: int) -> list[RecordBatch]:
        return [one for one in self.batches if one.next_offset > start]

    def end_lost(self) -> None:
        """Epochs and producers follow the log, as in ``core.replica``."""
        self.log.epochs.truncate_from_end(self.log.end_offset)
        self.log.epochs_changed()
        self.log.restore_producers(self.states)

    def check(self) -> None:
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        assert bytes_of(read_all(self.log)) == bytes_of(self.visible(self.start))

    def check_left(self, log: FileLog) -> None:
        """Of what was there, ``log`` lacks nothing below its end but what a compaction may remove."""
        were, are = _records(self.visible(log.start_offset)), _records(read_all(log))
        assert [one for one in were if one in set(are)] == are
        needed = [one for one in were if log.start_offset <= one[0] < log.end_offset]
        if log.config.compacts:
            needed = list({one[1]: one for one in needed}.values())
        assert set(needed) <= set(are)

    def check_after_kill(self, log: FileLog) -> None:
        """The next process has opened ``log``: what it found is what was there."""
        if self.log.failure:
            # The disk failed while the log was cut or compacted, and again when that was taken back.
            assert self.lowest <= log.start_offset or log.start_offset == log.end_offset
            self.check_left(log)
        else:
            assert self.lowest <= log.start_offset <= self.start
            assert log.end_offset == self.end
            assert bytes_of(read_all(log)) == bytes_of(self.visible(log.start_offset))
        self.check_epochs_and_producers(log)

    def check_epochs_and_producers(self, log: FileLog) -> None:
        told, states = ProducerStates(), ProducerStates()
        for one in read_all(log):
            known = log.epochs.epoch_at(one.last_offset)
            forgotten = one.base_offset < max(self.start, self.forgotten)
            assert known == one.leader_epoch or (forgotten and known == NO_EPOCH)
            told.append(one)
        log.restore_producers(states)
        assert all(entry.last_offset < log.end_offset for entry in states.entries())
        assert set(told.entries()) <= set(states.entries())


def _records(batches: list[RecordBatch]) -> list[tuple[int, Any, Any]]:
    return [(record.offset, record.key, record.value) for one in batches for record in read_records(one)]


Step = Callable[[], None]


class Broker:
    """Its history follows from the seed alone, as long as nothing fails."""

    def __init__(self, path: Path, disk: FaultyDisk, seed: int) -> None:
        self.path = path
        self.disk = disk
        self.dice = Random(seed)
        self.late: list[Callable[[], None]] = []
        self.epoch = 0
        self.count = 0
        self.replicas: dict[TopicPartition, Replica] = {}
        self._start()
        self._create_missing()

    def _start(self) -> None:
        self.late.clear()
        self.storage = FileStorage(self.path, broker_id=1, background=self.late.append)
        self.storage._sync_threads = _InOrder()  # type: ignore[assignment]
        for tp, config in CONFIGS.items():
            self.storage.configure(tp.topic, config)

    def _create_missing(self) -> None:
        for tp in CONFIGS:
            if tp not in self.replicas:
                self.replicas[tp] = Replica(self.storage.open(tp))

    # ------------------------------------------------------------ one step after the other

    def play(self) -> None:
        steps_left, hurt = STEPS, False
        with self.disk.repaired():
            self.begin()
        while steps_left:
            (name,) = self.dice.choices(list(OPERATIONS), list(OPERATIONS.values()))
            replica = self.replicas[self.dice.choice(list(CONFIGS))]
            self.perform(name, replica)
            steps_left -= 1
            if self.disk.failed and not hurt:
                hurt, steps_left = True, min(steps_left, STEPS_AFTER_FAULT)
                self.grow_and_die(replica.log.tp)
        self.perform("kill", self.replicas[PLAIN])
        self.storage.close()

    def begin(self) -> None:
        """Some segments, of which most are on disk and in the checkpoints."""
        for replica in self.replicas.values():
            for _ in range(BATCHES_AT_FIRST):
                self.append_as_leader(replica)()
            self.sync(replica)()
        self.checkpoint(replica)()

    def grow_and_die(self, tp: TopicPartition) -> None:
        """Mostly no other step makes good what the failed one left undone."""
        for _ in range(self.dice.randrange(4)):
            self.perform("append_as_leader", self.replicas[tp])
        if self.dice.randrange(3):
            self.perform("kill", self.replicas[tp])

    def perform(self, name: str, replica: Replica) -> None:
        step: Step = getattr(self, name)(replica)
        self.disk.begin(name)
        while not self._taken(step):
            self.check()
            if any(one.log.failure for one in self.replicas.values()):
                # Such a broker stops: see ``Housekeeping._check_logs``.
                self.perform("kill", replica)
                return
            assert self.disk.fault is not None, f"{name} fails though the disk is in order"
            if self.dice.randrange(2):
                self.disk.repair()
            elif self.dice.randrange(3) == 0:
                break  # something else comes first
        with self.disk.repaired():
            self._create_missing()
        self.check()

    def _taken(self, step: Step) -> bool:
        try:
            with self.disk.in_use():
                step()
        except StorageFailure:
            return False
        return True

    def check(self) -> None:
        for replica in self.replicas.values():
            replica.check()

    # ------------------------------------------------------------ records

    def _batch(self, replica: Replica) -> RecordBatch:
        self.count += 1
        self.epoch += self.dice.randrange(4) == 0
        producer = self.dice.choice((-1, 1, 2))
        known = {entry.producer_id: entry.last_sequence for entry in replica.states.entries()}
        sequence = -1 if producer < 0 else known.get(producer, -1) + 1
        # Mostly of one size: then old and new ones fit each other's places, which is the dangerous case.
        size = self.dice.choice((10, 10, 10, 10, 60, 300))
        keys = self.dice.choices("abc", k=self.dice.choice((1, 1, 1, 3)))
        value = f"{self.count}".ljust(size, ".")
        return keyed(
            *((key, value) for key in keys),
            producer=producer,
            sequence=sequence,
            timestamp=1_000 + self.count,
        )

    def append_as_leader(self, replica: Replica) -> Step:
        log, sent, epoch = replica.log, self._batch(replica), self.epoch

        def append() -> None:
            stored = log.append_as_leader(sent, LeaderEpoch(epoch))
            if epoch > log.epochs.latest_epoch:
                log.epochs.assign(LeaderEpoch(epoch), stored.base_offset)
                log.epochs_changed()
            self._appended(replica, stored)

        return append

    def append_as_follower(self, replica: Replica) -> Step:
        log, sent = replica.log, self._batch(replica)
        # The leader's log was compacted: offsets are missing.
        gap = self.dice.choice((0, 0, 0, 5)) if log.config.compacts else 0
        sent.stamp(log.end_offset + gap, self.epoch)

        def append() -> None:
            if sent.leader_epoch != log.epochs.latest_epoch:
                log.epochs.assign(LeaderEpoch(sent.leader_epoch), sent.base_offset)
                log.epochs_changed()
            log.append_as_follower(sent)
            self._appended(replica, sent)

        return append

    def _appended(self, replica: Replica, stored: RecordBatch) -> None:
        replica.states.append(stored)
        replica.batches.append(copy_of(stored))
        replica.end = stored.next_offset

    # ------------------------------------------------------------ losing records

    def truncate(self, replica: Replica) -> Step:
        offset = max(replica.end - self.dice.randrange(16), 0)
        # Another leader wrote what is dropped: what comes next is of a later epoch.
        self.epoch += 1

        def truncate() -> None:
            replica.log.truncate_to(offset)
            if offset < replica.end:
                replica.batches = [one for one in replica.batches if one.next_offset <= offset]
                kept = replica.visible(replica.start)
                replica.end = kept[-1].next_offset if kept else replica.start
                if not kept:
                    replica.batches, replica.lowest = [], replica.start
            replica.end_lost()

        return truncate

    def restart_at(self, replica: Replica) -> Step:
        offset = max(replica.end + self.dice.choice((1, 5, 30, -3, -50)), 0)
        self.epoch += 1

        def restart() -> None:
            replica.log.restart_at(offset)
            replica.start = replica.end = replica.lowest = offset
            replica.batches = []
            replica.log.epochs.truncate_from_end(0)
            replica.end_lost()

        return restart

    def advance_start(self, replica: Replica) -> Step:
        offset = self.dice.randrange(replica.start, replica.end + 1)

        def advance() -> None:
            if offset > replica.start:
                replica.log.advance_start(offset)
                replica.log.epochs.truncate_from_start(offset)
                replica.log.epochs_changed()
                replica.start = offset

        return advance

    def compact(self, _: Replica) -> Step:
        def compact() -> None:
            replica = self.replicas[COMPACTED]
            try:
                for job in self.storage.next_compaction(NOW, {COMPACTED: replica.end}) or ():
                    job()
            finally:
                with self.disk.repaired():
                    replica.check_left(replica.log)
                    replica.batches = [one for one in replica.batches if one.next_offset <= replica.start]
                    replica.batches += (copy_of(one) for one in read_all(replica.log))

        return compact

    def delete(self, replica: Replica) -> Step:
        """The log goes, and another one takes its name."""
        tp = replica.log.tp

        def delete() -> None:
            if tp in self.replicas:
                self.storage.delete(tp)
                del self.replicas[tp]
            self._create_missing()

        return delete

    # ------------------------------------------------------------ what a broker does besides

    def roll(self, replica: Replica) -> Step:
        return replica.log.roll

    def sync(self, replica: Replica) -> Step:
        def sync() -> None:
            replica.log.begin_sync()()

        return sync

    def work(self, _: Replica) -> Step:
        """A part of what was handed to threads is done."""
        count = self.dice.randrange(1, 6)

        def work() -> None:
            for _ in range(min(count, len(self.late))):
                self.late.pop(0)()

        return work

    def checkpoint(self, _: Replica) -> Step:
        def checkpoint() -> None:
            self.storage._checkpoint_now()
            for replica in self.replicas.values():
                replica.lowest = replica.start

        return checkpoint

    def kill(self, _: Replica) -> Step:
        def kill() -> None:
            self.storage._let_go()
            with self.disk.repaired():
                # What a thread had still to sync: the system closes it.
                for descriptor in open_files(self.path):
                    os.close(descriptor)
            self._start_again()

        return kill

    def stop(self, _: Replica) -> Step:
        """An orderly end, if the disk lets it be one."""

        def stop() -> None:
            clean = self.storage.close()
            assert clean or self.disk.failed
            with self.disk.repaired():
                while self.late:
                    self.late.pop(0)()
                assert not open_files(self.path)
            self._start_again()
            assert self.storage.clean_shutdown == clean or self.disk.failed

        return stop

    def _start_again(self) -> None:
        while True:
            failed_before = self.disk.failed
            try:
                self._start()
                break
            except StorageRefused:
                assert self.disk.failed > failed_before
                self.disk.repair()
        with self.disk.repaired():
            self._check_findings()
            for tp, replica in list(self.replicas.items()):
                log = self.storage.open(tp)
                replica.check_after_kill(log)
                self.replicas[tp] = Replica(log, replica)
            # One that was deleted stays so. A new one may be there already, if only its creation failed.
            strange = set(self.storage.partitions()) - set(self.replicas)
            assert not any(self.storage.open(tp).end_offset for tp in strange)

    def _check_findings(self) -> None:
        """Nothing is missing, so nothing may be said to be. Only a start that the disk did not let the broker
        checkpoint is not known."""
        for found in self.storage.recovered:
            if found.tp in self.replicas and not self.replicas[found.tp].log.failure:
                witnesses = {missing.witness for missing in found.missing}
                assert witnesses <= ({Witness.LOG_START} if self.disk.failed else set())
                assert "must come" not in found.finding


class _InOrder:
    """Does at once what threads would do side by side, so that every run makes the same calls."""

    def submit(self, call: Callable[[], None]) -> Future[None]:
        future: Future[None] = Future()
        try:
            call()
            future.set_result(None)
        except StorageFailure as failure:
            future.set_exception(failure)
        return future

    def shutdown(self) -> None:
        pass


def open_files(path: Path) -> list[int]:
    """The descriptors that this process has of files below ``path``."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that lists them
            if os.readlink(f"/proc/self/fd/{name}").startswith(str(path)):
                found.append(int(name))
    return found


def play(seed: int, fault: Fault | None) -> FaultyDisk:
    disk = FaultyDisk()
    with folder() as path, disk.installed():
        broker = Broker(path, disk, seed)
        disk.fault = fault
        try:
            broker.play()
        except BaseException as error:
            error.add_note(f"seed {seed}, {fault}: {disk.first_failure or 'no call failed'}")
            raise
    return disk


def risky_calls(seed: int, count: int) -> Iterator[int]:
    """Of the steps that make several calls each is as likely as the others, however many it makes."""
    steps = [step.calls for step in play(seed, None).steps if step.name in RISKY and step.calls]
    dice = Random(seed)
    for _ in range(count):
        yield dice.choice(dice.choice(steps))


@pytest.mark.parametrize("seed", range(tries(8)))
def test_a_call_that_fails_costs_nothing_but_its_own_step(seed: int) -> None:
    """In each of the ways in which a disk fails."""
    for call in risky_calls(seed, 8):
        for kind in Kind:
            failed = play(seed, Fault(kind, call)).failed
            assert failed or kind is Kind.FULL  # what needs room may be over by then
