"""Records are looked at within bounds, a few at a time, and where it takes long by a thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.storage.bombs import bomb
from tests.storage.compaction.compacting import keyed

from tidelog.storage.background import StepsAndJobs, finished
from tidelog.storage.compaction.batches import BatchCleaner, note_keys
from tidelog.storage.compaction.offset_map import OffsetMap
from tidelog.storage.log.keyed_records import (
    INFLATED_MAX,
    KEYLESS_MAX,
    RECORDS_MAX,
    BatchTooLarge,
    content_of,
    keyed_records,
    keyless_records,
    records_by_part,
)
from tidelog.wire.batch import CorruptBatch, RecordBatch
from tidelog.wire.compression import Compression

COMPRESSED = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]


def steps_of(steps: StepsAndJobs[object]) -> Iterator[str]:
    """What kind of step each is."""
    for job in steps:
        if job is not None:
            job()
        yield "pause" if job is None else "job"


def test_records_without_a_key_are_found_by_their_places() -> None:
    batch = keyed(("a", "1"), (None, "2"), ("b", "3"), (None, None))
    assert finished(keyless_records(batch)) == [1, 3]
    assert finished(keyless_records(keyed(("a", "1")))) == []


@pytest.mark.parametrize("compression", [Compression.NONE, *COMPRESSED])
def test_a_long_batch_is_read_in_parts(compression: Compression) -> None:
    """The parts come to the same as the whole, and there is a pause between any two of them."""
    batch = bomb(5_000, compression=compression)
    content = content_of(batch)
    parts = list(records_by_part(batch, content))
    assert [record for part in parts for record in part] == keyed_records(batch, content)
    assert len(parts) >= 10
    kinds = list(steps_of(keyless_records(batch)))
    assert kinds.count("pause") == len(parts)


def test_what_inflates_to_much_is_inflated_by_a_thread() -> None:
    """A few kilobytes are not worth the way to a thread and back; a few hundred are."""
    assert "job" not in list(steps_of(keyless_records(bomb(1_000))))
    assert next(steps_of(keyless_records(bomb(100_000)))) == "job"


def test_a_batch_of_too_many_records_is_not_looked_into() -> None:
    """Neither for a producer, nor by compaction, which leaves it as it is and makes nothing else go."""
    batch = bomb(RECORDS_MAX + 1)
    assert len(batch.data) < 11_000
    with pytest.raises(BatchTooLarge, match=str(RECORDS_MAX)):
        finished(keyless_records(batch))
    offsets = OffsetMap(1 << 20)
    assert note_keys(batch, offsets)
    assert len(offsets) == 0
    cleaner = BatchCleaner(offsets, now_ms=1_000, delete_retention_ms=0)
    assert cleaner.clean(batch, keep_header=False) is batch


@pytest.mark.parametrize("compression", [Compression.SNAPPY, Compression.ZSTD])
def test_a_batch_that_inflates_too_far_is_not_looked_into(compression: Compression) -> None:
    batch = bomb(1, compression=compression, value_bytes=INFLATED_MAX)
    with pytest.raises(BatchTooLarge, match="inflates"):
        finished(keyless_records(batch))


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_a_count_that_cannot_be_true_is_refused_before_the_records_are_read(compression: Compression) -> None:
    """Seven bytes are the least that a record takes."""
    batch = bomb(10, compression=compression, claimed=100_000)
    with pytest.raises(CorruptBatch, match="do not fit"):
        finished(keyless_records(batch))


def test_many_records_without_a_key_are_not_all_named() -> None:
    """The batch is refused whichever they are."""
    found = finished(keyless_records(bomb(RECORDS_MAX, key=None)))
    assert found == list(range(KEYLESS_MAX))


def test_damage_is_told_from_size() -> None:
    """``BatchTooLarge`` is a kind of ``CorruptBatch``, but not the other way round."""
    data = bytearray(bomb(100_000).data)
    data[-20:] = bytes(20)
    with pytest.raises(CorruptBatch) as caught:
        finished(keyless_records(RecordBatch.parse(data)))
    assert not isinstance(caught.value, BatchTooLarge)
