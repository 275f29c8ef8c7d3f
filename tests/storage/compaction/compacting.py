"""Compacted logs for the tests: batches with keys, whole compactions, and what a reader makes of a log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.storage.batches import read_all
from tests.storage.folders import TP, small

from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import LeaderEpoch
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log.file_log import FileLog
from tidelog.wire.batch import RecordBatch
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, build_batch, read_records

Pair = tuple[str | None, str | None]
ALWAYS: dict[str, int | str] = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0,
    "segment.bytes": 400,
}
NOW = 1_000_000


def compacted(**settings: int | str) -> dict[str, str]:
    """Settings under which a log is compacted whenever there is anything to compact."""
    return small(**{**ALWAYS, **{name.replace("_", "."): value for name, value in settings.items()}})


def keyed(
    *pairs: Pair,
    timestamp: int = 1_000,
    producer: int = -1,
    sequence: int = -1,
    compression: Compression = Compression.NONE,
    transactional: bool = False,
) -> RecordBatch:
    """A batch as a producer sends it: a value of None deletes its key."""
    records = [
        Record(timestamp=timestamp + n, key=_encoded(key), value=_encoded(value), headers=[("n", b"%d" % n)])
        for n, (key, value) in enumerate(pairs)
    ]
    content = build_batch(
        records,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=sequence,
        compression=compression,
        transactional=transactional,
    )
    return RecordBatch.parse(bytearray(content))


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def opened(storage: FileStorage) -> FileLog:
    """The log, used as the core does: its producers are known."""
    log = storage.open(TP)
    log.restore_producers(ProducerStates())
    return log


def fill(log: FileLog, pairs: Iterable[Pair], **options: Any) -> None:
    """One batch a record, and a new segment for what comes next."""
    for pair in pairs:
        log.append_as_leader(keyed(pair, **options), LeaderEpoch(0))
    log.roll()


def compact(storage: FileStorage, now_ms: int = NOW, high_watermark: int | None = None) -> int:
    """Everything that is due, one after the other; returns how many compactions that were."""
    count = 0
    while True:
        watermarks = {
            tp: storage.open(tp).end_offset if high_watermark is None else high_watermark
            for tp in storage.partitions()
        }
        steps = storage.next_compaction(now_ms, watermarks)
        if steps is None:
            return count
        for job in steps:
            job()
        count += 1
        assert count < 100, "compaction does not come to an end"


Found = tuple[int, int, str | None, str | None]


def records(log: FileLog, **where: Any) -> list[Found]:
    """Offset, timestamp, key and value of every record that a consumer gets."""
    return [
        (record.offset, record.timestamp, _text(record.key), _text(record.value))
        for batch in read_all(log, **where)
        if not batch.is_control
        for record in read_records(batch)
    ]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def pairs(log: FileLog) -> list[tuple[int, str | None, str | None]]:
    return [(offset, key, value) for offset, _, key, value in records(log)]
