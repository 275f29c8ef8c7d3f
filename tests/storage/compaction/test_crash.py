"""A compaction may end at any system call: the next start finds the log as it was, or as it shall be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.effort import tries
from tests.storage.compaction.compacting import Found, compact, compacted, fill, keyed, opened, records
from tests.storage.folders import TP, after_a_crash, folder, storage
from tests.storage.killing import Killed, killed_at
from tests.storage.power import Disk

from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import LeaderEpoch
from tidelog.storage.checkpoints import NEVER_CLEANED
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log.file_log import FileLog

SETTINGS = compacted(segment_bytes=330, tidelog_flush="always")
NOW = 1_000_000


def filled(path: Path) -> tuple[FileStorage, FileLog]:
    """Two groups of segments to rewrite, values and tombstones that go, a producer, and an active segment."""
    one = FileStorage(path, broker_id=1, defaults=SETTINGS)
    log, states = one.open(TP), ProducerStates()
    log.restore_producers(states)
    states.append(log.append_as_leader(keyed(("a", "0"), producer=4, sequence=0), LeaderEpoch(0)))
    for n in range(2):
        fill(log, [("a", f"{n}"), (f"k{n}", f"{n}")])
        fill(log, [("a", None if n else f"{n}"), ("b", f"{n}")])
    log.append_as_leader(keyed(("b", "active"), ("a", "active")), LeaderEpoch(0))
    one.begin_sync()()
    return one, log


def compacting(one: FileStorage) -> Iterator[None]:
    steps = one.next_compaction(NOW, {TP: one.open(TP).end_offset})
    assert steps is not None
    for job in steps:
        job()
        yield


def states_on_the_way() -> list[list[Found]]:
    """What a compaction makes of the log, one swap after the other."""
    with folder() as path:
        one, log = filled(path)
        seen = [records(log)]
        for _ in compacting(one):
            if records(log) != seen[-1]:
                seen.append(records(log))
        one.close()
    assert len(seen) >= 3
    return seen


def check(path: Path, seen: list[list[Found]]) -> None:
    """The log can be opened, is one of those it may be, goes on, and a compaction leads to the end."""
    with storage(path, defaults=SETTINGS) as found:
        log = opened(found)
        now = records(log)
        assert now in seen
        assert log.cleaned_to in (NEVER_CLEANED, 0, log.segments.active.base_offset)
        if log.cleaned_to > 0:
            assert now == seen[-1]
        again = ProducerStates()
        log.restore_producers(again)
        assert [entry.last_sequence for entry in again.entries()] == [0]
        compact(found, now_ms=NOW)
        assert records(log) == seen[-1]
        suffixes = {each.suffix for each in log.folder.iterdir()}
        assert suffixes <= {".log", ".index", ".timeindex", ".snapshot", ""}
        log.append_as_leader(keyed(("c", "it goes on")), LeaderEpoch(0))
    with storage(path, defaults=SETTINGS) as again_opened:
        assert not again_opened.recovered
        assert records(again_opened.open(TP))[:-1] == seen[-1]


def test_a_killed_process_leaves_one_state_or_the_other() -> None:
    """Before every call that changes a file; and the start after that may be killed as well."""
    seen = states_on_the_way()
    reached: list[int] = []
    for call in range(1_000):
        with folder() as path:
            one, _ = filled(path / "data")
            try:
                with killed_at(call):
                    for _ in compacting(one):
                        pass
            except Killed:
                found = after_a_crash(path / "data", path / "found")
            else:
                break
            finally:
                one.close()
            swapping = list((found / "topic-0").glob("*.log.swap"))
            reached.append(len(swapping))
            # All states of a swap are alike to the start after it: look at some, and longer on request.
            if swapping and sum(reached) % 5 < tries(1):
                _kill_starts(found, path, seen)
            check(found, seen)
    assert sum(reached) > 5
    assert len(reached) > 30


def _kill_starts(found: Path, path: Path, seen: list[list[Found]]) -> None:
    for call in range(1_000):
        copy = after_a_crash(found, path / f"again-{call}")
        try:
            with killed_at(call):
                FileStorage(copy, broker_id=1, defaults=SETTINGS).close()
        except Killed:
            check(after_a_crash(copy, path / f"after-{call}"), seen)
        else:
            return


@pytest.mark.parametrize("seed", range(tries(1)))
def test_a_power_cut_leaves_one_state_or_the_other(seed: int) -> None:
    """Whatever of the unsynced changes had made it to the disk."""
    seen = states_on_the_way()
    dice = Random(seed)
    for call in range(1_000):
        with folder() as path, pytest.MonkeyPatch.context() as patch:
            disk = Disk(path / "data", patch, 61)
            one, _ = filled(path / "data")
            try:
                with killed_at(call):
                    for _ in compacting(one):
                        pass
            except Killed:
                found = disk.cut_power(path / "found", dice.randrange)
            else:
                assert call > 30
                return
            finally:
                one.close()
                patch.undo()
                disk.close()
            check(found, seen)


def test_a_full_disk_stops_a_compaction_and_nothing_else() -> None:
    """The log is as it was and takes appends; when there is room again, it is compacted."""
    with folder() as path:
        one, log = filled(path)
        before = records(log)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "pwrite", _no_room)
            assert compact_once(one) == 0
        assert "cannot compact topic-0" in one.trouble
        assert "No space left" in one.trouble
        assert records(log) == before
        assert not log.failure
        log.append_as_leader(keyed(("c", "goes on")), LeaderEpoch(0))
        assert compact(one, now_ms=NOW) == 1
        assert one.close()


def test_what_nobody_thought_of_stops_a_compaction_too() -> None:
    """Half a segment is never taken for a whole one."""
    with folder() as path:
        one, log = filled(path)
        before = records(log)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "pwrite", _no_memory)
            assert compact_once(one) == 0
        assert one.trouble == "cannot compact topic-0: MemoryError"
        assert records(log) == before
        assert one.close()


def _no_memory(*_: object) -> int:
    raise MemoryError


def _no_room(*_: object) -> int:
    raise OSError(28, "No space left on device")


def compact_once(one: FileStorage) -> int:
    list(compacting(one))
    return max(one.open(TP).cleaned_to, 0)
