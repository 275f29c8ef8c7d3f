"""The sparse indexes: Kafka's format, binary search, and what happens to them in memory."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tidelog.storage.log.indexes import IndexEntry, OffsetIndex, TimeEntry, TimeIndex

INCREASING = st.lists(st.integers(0, 10_000), unique=True, max_size=60).map(sorted)


def offset_index(entries: list[int], base: int = 100) -> OffsetIndex:
    index = OffsetIndex(Path(), "unused", base)
    index.clear()
    for n, entry in enumerate(entries):
        index.append(base + entry, n * 70)
    return index


def time_index(timestamps: list[int], base: int = 100) -> TimeIndex:
    index = TimeIndex(Path(), "unused", base)
    index.clear()
    for n, timestamp in enumerate(timestamps):
        index.append(timestamp, base + n)
    return index


def test_entries_are_in_kafkas_format(tmp_path: Path) -> None:
    """8 and 12 bytes, big-endian, offsets relative to the segment's."""
    offsets = OffsetIndex(tmp_path, "100.index", 100)
    offsets.append(109, 4200)
    offsets.save(offsets.seal())
    assert offsets.path.read_bytes().hex() == "00000009" + "00001068"
    times = TimeIndex(tmp_path, "100.timeindex", 100)
    times.append(1_000, 109)
    times.save(times.seal())
    assert times.path.read_bytes().hex() == "00000000000003e8" + "00000009"


@given(INCREASING, st.integers(-10, 10_010))
def test_offset_lookup_finds_what_a_scan_finds(entries: list[int], target: int) -> None:
    """The last entry at or below the target."""
    expected = [n for n, entry in enumerate(entries) if entry <= target]
    found = offset_index(entries).lookup(100 + target)
    assert found == (IndexEntry(100 + entries[expected[-1]], expected[-1] * 70) if expected else None)


@given(INCREASING, st.integers(-10, 5_000))
def test_position_lookup_finds_what_a_scan_finds(entries: list[int], position: int) -> None:
    """The last entry at or before a place in the file."""
    expected = [n for n in range(len(entries)) if n * 70 <= position]
    found = offset_index(entries).before(position)
    assert found == (IndexEntry(100 + entries[expected[-1]], expected[-1] * 70) if expected else None)


@given(INCREASING, st.integers(-10, 10_010))
def test_time_lookup_finds_what_a_scan_finds(timestamps: list[int], target: int) -> None:
    """The last entry that is not later."""
    expected = [n for n, timestamp in enumerate(timestamps) if timestamp <= target]
    found = time_index(timestamps).lookup(target)
    assert found == (TimeEntry(timestamps[expected[-1]], 100 + expected[-1]) if expected else None)


@given(st.lists(st.integers(0, 20), max_size=30))
def test_timestamps_only_rise(timestamps: list[int]) -> None:
    """An entry that says nothing new is not written: DumpLogSegments calls it out of order."""
    index = time_index(timestamps)
    found = [index.at(slot).timestamp for slot in range(len(index))]
    assert found == sorted(set(found))
    assert found[-1:] == [max(timestamps)] if timestamps else not found


@given(INCREASING, st.integers(0, 4_300))
def test_truncation_keeps_what_lies_before(entries: list[int], position: int) -> None:
    """No entry of a batch that is gone, all of those that are left."""
    index = offset_index(entries)
    index.truncate(position)
    kept = [index.at(slot) for slot in range(len(index))]
    assert kept == [IndexEntry(100 + e, n * 70) for n, e in enumerate(entries) if n * 70 < position]


def test_a_saved_index_is_read_from_its_file_and_grows_again(tmp_path: Path) -> None:
    """Sealed, saved, released, mapped, extended: the entries stay the same."""
    index = OffsetIndex(tmp_path, "index", 0)
    index.append(5, 0)
    index.append(9, 50)
    index.save(index.seal())
    index.release()
    assert index.lookup(7) == IndexEntry(5, 0)
    index.append(12, 90)
    assert [index.at(slot).last_offset for slot in range(3)] == [5, 9, 12]
    assert index.path.stat().st_size == 16


def test_what_only_memory_has_is_not_released(tmp_path: Path) -> None:
    """A sealed index that was not saved yet, and one that has grown since it was."""
    index = OffsetIndex(tmp_path, "index", 0)
    index.append(5, 0)
    sealed = index.seal()
    index.release()
    assert len(index) == 1
    index.append(9, 50)
    index.save(sealed)
    index.release()
    assert len(index) == 2


def test_faults_of_a_file(tmp_path: Path) -> None:
    """Missing, or of a size that no index has."""
    index = OffsetIndex(tmp_path, "index", 0)
    assert index.file_fault() == "is missing"
    index.path.write_bytes(b"1234567")
    assert index.file_fault() == "has 7 bytes, not a multiple of 8"
    index.path.write_bytes(b"")
    assert index.file_fault() is None
    assert index.lookup(0) is None
