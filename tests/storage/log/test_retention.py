"""Retention: by age, by size, whole segments, never beyond the high watermark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.storage.batches import append, batch, read_all
from tests.storage.folders import TP, small, storage

from tidelog.core.replication.producer_state import ProducerStates
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log.file_log import FileLog

SIZE = batch("0").size
TWO_A_SEGMENT = {"segment.bytes": 2 * SIZE}


def filled(opened: FileStorage, count: int = 10, spacing: int = 100) -> FileLog:
    """Segments of two records each, the records ``spacing`` milliseconds apart, from 1000 on."""
    one = opened.open(TP)
    append(one, *(batch(str(n % 10), timestamp=1_000 + spacing * n) for n in range(count)))
    return one


def keep(opened: FileStorage, one: FileLog, now: int, high_watermark: int) -> int:
    for start in opened.enforce_retention(now, {TP: high_watermark}).values():
        one.advance_start(start)
    return one.start_offset


def test_old_segments_go(tmp_path: Path) -> None:
    """A segment goes when its newest record is older than retention.ms."""
    with storage(tmp_path, defaults=small(**TWO_A_SEGMENT, **{"retention.ms": 500})) as opened:
        one = filled(opened)
        assert keep(opened, one, 1_600, 10) == 0
        assert keep(opened, one, 1_601, 10) == 2
        assert keep(opened, one, 2_000, 10) == 4
        assert [batch.base_offset for batch in read_all(one)] == list(range(4, 10))
        assert len(list(one.folder.glob("*.log"))) == 3


def test_nothing_beyond_the_high_watermark_goes(tmp_path: Path) -> None:
    """It is not committed yet: a follower may still need it."""
    with storage(tmp_path, defaults=small(**TWO_A_SEGMENT, **{"retention.ms": 0})) as opened:
        one = filled(opened)
        assert keep(opened, one, 10_000, 0) == 0
        assert keep(opened, one, 10_000, 5) == 4
        assert keep(opened, one, 10_000, 9) == 8


def test_the_active_segment_goes_with_the_rest(tmp_path: Path) -> None:
    """If all of the log is too old: it is rolled first, and the log goes on where it ended."""
    with storage(tmp_path, defaults=small(**TWO_A_SEGMENT, **{"retention.ms": 500})) as opened:
        one = filled(opened)
        assert keep(opened, one, 10_000, 10) == 10
        assert (one.start_offset, one.end_offset, one.size_bytes) == (10, 10, 0)
        assert keep(opened, one, 20_000, 10) == 10
        append(one, batch("next", timestamp=20_000))
        assert one.end_offset == 11


@pytest.mark.parametrize(
    ("allowed", "start"), [(-1, 0), (10, 0), (9, 0), (8, 2), (7, 2), (3, 6), (2, 8), (0, 10)]
)
def test_a_log_that_is_too_large_loses_its_oldest_segments(tmp_path: Path, allowed: int, start: int) -> None:
    """As long as what is left is not smaller than retention.bytes, which counts in records here."""
    bytes_allowed = allowed * SIZE if allowed >= 0 else -1
    settings = small(**TWO_A_SEGMENT, **{"retention.bytes": bytes_allowed, "retention.ms": -1})
    with storage(tmp_path, defaults=settings) as opened:
        one = filled(opened)
        assert keep(opened, one, 10_000, 10) == start


def test_a_compacted_topic_keeps_everything(tmp_path: Path) -> None:
    """Retention is about deleting."""
    settings = small(**TWO_A_SEGMENT, **{"retention.ms": "0", "cleanup.policy": "compact"})
    with storage(tmp_path, defaults=settings) as opened:
        assert keep(opened, filled(opened), 10**12, 10) == 0


def test_records_without_a_time_are_as_old_as_their_file(tmp_path: Path) -> None:
    """There is nothing else to go by."""
    with storage(tmp_path, defaults=small(**TWO_A_SEGMENT, **{"retention.ms": 500})) as opened:
        one = opened.open(TP)
        append(one, *(batch("0", timestamp=-1) for _ in range(4)))
        os.utime(one.segments.first.path, (1, 1))
        assert keep(opened, one, 1_600, 4) == 2


def test_retention_outlives_a_restart(tmp_path: Path) -> None:
    """The times of sealed segments are in their indexes."""
    settings = small(**TWO_A_SEGMENT, **{"retention.ms": 500})
    with storage(tmp_path, defaults=settings) as opened:
        filled(opened)
    with storage(tmp_path, defaults=settings) as opened:
        assert keep(opened, opened.open(TP), 1_601, 10) == 2
    with storage(tmp_path, defaults=settings) as opened:
        assert opened.open(TP).start_offset == 2


def test_silent_producers_are_forgotten_with_it(tmp_path: Path) -> None:
    """Retention looks at every log now and then, and that is often enough."""
    with storage(tmp_path, producer_expiration_ms=1_000) as opened:
        one = opened.open(TP)

        states = ProducerStates()
        one.restore_producers(states)
        states.append(append(one, batch("v", producer=1, sequence=0, timestamp=1_000))[0])
        opened.enforce_retention(1_999, {TP: 1})
        assert states
        opened.enforce_retention(2_001, {TP: 1})
        assert not states
