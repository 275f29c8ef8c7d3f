"""How fast the audit is: segment files into Arrow on one core and into Spark on two, and all of it.

The records are of 100 bytes with a key, in batches of 160 as a busy producer makes them, uncompressed. What
is read are the columns that the audit needs of them: place, epoch, producer, the value's id and its CRC.

*Decoders*, one process: tidelog's, and as peers aiokafka's (written in Cython) and kafka-python's, which give
records one by one; theirs are put into lists, column by column, and made Arrow in the end. CPU time counts,
so that other work on the machine disturbs less.

*Spark*, `local[2]`, when it is warm: the same columns aggregated over `tidelog_log`; as peers Spark and
DuckDB over a Parquet file of the same rows, to which they would have to be converted first. Time by
the clock counts, so a busy machine shows.

*The whole audit*, two cores, of synthetic evidence (`synthetic_evidence.py`): every send, every read and
every record of two replicas, from the start of an engine to the written report, beside six of its twenty
audits as plain queries of DuckDB. Each runs in a process of its own, so that its memory is its own. All must
find exactly what was planted, or there is no figure.

    python -m bench.audit --millions 1,10
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any
from zlib import crc32

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from bench.family import FamilyWatch
from bench.processes import spawn, stop
from bench.synthetic_evidence import Shape, make_evidence

from tidelog.pipeline.segments.reader import read_segment
from tidelog.pipeline.segments.rows import SegmentFile
from tidelog.pipeline.sources.finding import find_segments
from tidelog.wire.batch import RecordBatch
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, build_batch

RECORDS_PER_BATCH = 160
BATCHES_MADE = 64
SEGMENT_BYTES = 256 << 20
VALUE_BYTES = 100
COLUMNS = ("offset", "leader_epoch", "timestamp_ms", "producer_id", "producer_sequence", "value_id",
           "value_bytes", "value_crc32", "problem")  # fmt: skip
RECORD_BY_RECORD_MAX = 200_000
"""Peers that are an order slower need not read everything."""

Row = tuple[str, int, float]
"""What was measured, how many records, and how long it took in seconds."""
_MB = 1 << 20


# ---------------------------------------------------------------- what is read


def make_log(folder: Path, records: int, compression: Compression = Compression.NONE) -> Path:
    """A partition's folder. A few batches are made and stamped again and again: what they hold repeats."""
    partition = folder / "events-0"
    partition.mkdir(parents=True)
    made = [_batch(number, compression) for number in range(BATCHES_MADE)]
    offset, file = 0, None
    while offset < records:
        if file is None or file.tell() > SEGMENT_BYTES:
            if file is not None:
                file.close()
            file = (partition / f"{offset:020}.log").open("wb")
        for batch in made:
            batch.stamp(offset, 3)
            file.write(batch.data)
            offset += RECORDS_PER_BATCH
            if offset >= records:
                break
    if file is not None:
        file.close()
    return partition


def _batch(number: int, compression: Compression) -> RecordBatch:
    first = number * RECORDS_PER_BATCH
    records = [
        Record(
            timestamp=1_700_000_000_000 + n // 10,
            key=b"k%d" % (n % 100),
            value=(b"p1-%d " % n).ljust(VALUE_BYTES, b"."),
        )
        for n in range(first, first + RECORDS_PER_BATCH)
    ]
    data = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=first, compression=compression)
    return RecordBatch.parse(bytearray(data))


# ---------------------------------------------------------------- decoders


def measure_decoders(folder: Path, records: int) -> Iterable[Row]:
    segments = find_segments(make_log(folder, records))
    yield _cpu("tidelog, numpy", lambda: _with_tidelog(segments, records))
    yield _cpu("tidelog, numpy, offsets only", lambda: _with_tidelog(segments, records, ("offset",)))
    few = min(records, RECORD_BY_RECORD_MAX)
    yield _cpu("aiokafka, Cython", lambda: _with_aiokafka(segments, few))
    yield _cpu("kafka-python", lambda: _with_kafka_python(segments, few))
    packed = find_segments(make_log(folder / "zstd", records, Compression.ZSTD))
    yield _cpu("tidelog, numpy, zstd", lambda: _with_tidelog(packed, records))


def _with_tidelog(segments: list[SegmentFile], records: int, columns: tuple[str, ...] = COLUMNS) -> int:
    read = 0
    for segment in segments:
        for rows in read_segment(segment, columns):
            read += rows.num_rows
            if read >= records:
                return read
    return read


def _with_aiokafka(segments: list[SegmentFile], records: int) -> int:
    from aiokafka.record import MemoryRecords

    return _record_by_record(MemoryRecords, segments, records)


def _with_kafka_python(segments: list[SegmentFile], records: int) -> int:
    from kafka.record import MemoryRecords

    return _record_by_record(MemoryRecords, segments, records)


def _record_by_record(memory_records: Any, segments: list[SegmentFile], records: int) -> int:
    """Both peers descend from one library and are used alike."""
    columns: tuple[list[Any], ...] = ([], [], [], [], [])
    offsets, times, ids, sizes, sums = columns
    # One record takes about 113 bytes: what is beyond would only be read, not decoded.
    with Path(segments[0].path).open("rb") as file:
        batches = memory_records(file.read(records * 130))
    while batches.has_next() and len(offsets) < records:
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise SystemExit("a batch is damaged")
        for record in batch:
            value = record.value
            offsets.append(record.offset)
            times.append(record.timestamp)
            ids.append(value.partition(b" ")[0])
            sizes.append(len(value))
            sums.append(crc32(value))
    return len(pa.table([pa.array(column) for column in columns], names=list("abcde")))


def _cpu(name: str, work: Callable[[], int]) -> Row:
    best = min((_timed(work, process_time) for _ in range(2)), key=lambda timed: timed[1])
    return name, *best


def _timed(work: Callable[[], int], clock: Callable[[], float]) -> tuple[int, float]:
    start = clock()
    records = work()
    return records, clock() - start


# ---------------------------------------------------------------- Spark


def measure_spark(folder: Path, records: int) -> Iterable[Row]:
    import duckdb

    from tidelog.pipeline.segments.columns import BY_NAME
    from tidelog.pipeline.spark.session import open_session

    log = make_log(folder, records)
    parquet = folder / "rows.parquet"
    with pq.ParquetWriter(parquet, _schema()) as writer:
        for segment in find_segments(log):
            for rows in read_segment(segment, COLUMNS):
                writer.write_batch(rows)
    spark = open_session(master="local[2]", app="bench")
    schema = ", ".join(f"{name} {BY_NAME[name].spark}" for name in COLUMNS)
    source = spark.read.format("tidelog_log").schema(schema).load(str(log))
    totals = ["count(*)", "sum(value_crc32)", "max(value_id)", "max(producer_sequence)", "max(timestamp_ms)"]

    def on_spark(table: Any) -> int:
        return int(table.selectExpr(*totals).first()[0])

    def on_duckdb() -> int:
        [found] = connection.sql(f"select {', '.join(totals)} from '{parquet}'").fetchall()
        return int(found[0])

    connection = duckdb.connect(config={"threads": 2})
    yield _clock("Spark over tidelog_log", lambda: on_spark(source))
    yield _clock("Spark over Parquet", lambda: on_spark(spark.read.parquet(str(parquet))))
    yield _clock("DuckDB over Parquet", on_duckdb)
    connection.close()
    spark.stop()


def _schema() -> Any:
    from tidelog.pipeline.segments.columns import arrow_schema

    return arrow_schema(COLUMNS)


def _clock(name: str, work: Callable[[], int]) -> Row:
    work()  # the first one is not warm
    best = min((_timed(work, perf_counter) for _ in range(2)), key=lambda timed: timed[1])
    return name, *best


# ---------------------------------------------------------------- the whole audit


def measure_whole(folder: Path, records: int) -> Iterable[Row]:
    """Records are sends: for each there is a row of the ledger, one of the reads and two records."""
    shape = Shape.of(records)
    evidence = folder / "evidence"
    start = perf_counter()
    expected = make_evidence(evidence, shape).expected()
    yield "making the evidence", shape.sends, perf_counter() - start
    programs: dict[str, list[str | Path]] = {
        "local": ["bench.audit_engine", evidence, "local"],
        "Spark": ["bench.audit_engine", evidence, "spark"],
        "DuckDB": ["bench.audit_duckdb", evidence, folder / "decoded"],
    }
    for name, words in programs.items():
        told, watch = _run_watched(words)
        wrong = {kind: n for kind, n in told["counts"].items() if n != expected.get(kind, 0)}
        if wrong:
            raise SystemExit(f"{name} found {wrong}, planted were {expected}")
        phases = told["phases"]
        yield f"{name}, all of it", shape.sends, sum(phases.values())
        for phase, seconds in phases.items():
            if seconds >= _SHOWN_FROM * sum(phases.values()):
                yield f"  {phase}", shape.sends, seconds
        yield "  CPU time, all processes", shape.sends, watch.cpu_seconds
        memory = ", ".join(f"{kind} {size / _MB:,.0f} MB" for kind, size in sorted(watch.peaks.items()))
        print(f"    memory at most: {memory}", flush=True)


_SHOWN_FROM = 0.03
"""Phases below this part of the whole are left out."""


def _run_watched(words: list[str | Path]) -> tuple[dict[str, Any], FamilyWatch]:
    """What a program of ours says in its last line, and who watched it."""
    process = spawn([sys.executable, "-m", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        with FamilyWatch(process.pid) as watch:
            said, complaints = process.communicate()
    finally:
        stop([process])
    if process.returncode:
        raise SystemExit(f"{words[0]} failed: {complaints.decode().strip().splitlines()[-1]}")
    told: dict[str, Any] = json.loads(said.splitlines()[-1])
    return told, watch


# ---------------------------------------------------------------- the table

PARTS: dict[str, tuple[str, Callable[[Path, int], Iterable[Row]]]] = {
    "decoders": ("decoders, one core, CPU time", measure_decoders),
    "spark": ("aggregation, local[2], time by the clock", measure_spark),
    "whole": ("the whole audit, local[2], time by the clock", measure_whole),
}


def _sizes(text: str) -> list[int]:
    return [int(float(millions) * 1_000_000) for millions in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millions", type=_sizes, default="1,10", help="how many million records; 1,10")
    parser.add_argument("--part", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--scratch", type=Path, help="where to make the files; the system's if not given")
    arguments = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}, records of {VALUE_BYTES} bytes\n")
    for part in arguments.part:
        title, measure = PARTS[part]
        print(f"{title:<44} {'records':>11} {'seconds':>8} {'M records/s':>12}")
        for records in arguments.millions:
            with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="tidelog-bench-") as scratch:
                for name, read, seconds in measure(Path(scratch), records):
                    print(f"  {name:<42} {read:11,} {seconds:8.2f} {read / seconds / 1e6:12.2f}", flush=True)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
