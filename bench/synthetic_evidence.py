"""Evidence of a trial that never was, of any size, with anomalies whose numbers are known.

    python -m bench.synthetic_evidence FOLDER --millions 10

The tables are those of `docs/reference/evidence.md`, the replica logs are real segment files: records of
about 100 bytes in batches of 160. All of it is made with numpy, a segment at a time, because a generator that
made records one by one would take longer than the audit.

How it is laid out. Batch number `b` of partition `p` is the batch `g = b · partitions + p` of the trial; it
belongs to producer `g mod producers` and holds that producer's next 160 sends. So whatever is asked about a
batch follows from its number, and partitions can be made beside each other. Followers hold the same bytes as
their leader: a segment of theirs is a link to the leader's file, unless something was planted in it.

`synthetic_anomalies.py` says what is planted, and what an audit must therefore find.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from bench.synthetic_anomalies import Planted, plant
from bench.synthetic_batches import KEYS, RECORDS_PER_BATCH, VALUE_BYTES, Ints, batches, id_texts, value_crcs

from tidelog.evidence.folder import COMPLETE, Manifest
from tidelog.evidence.parquet.parts import arrow_rows, arrow_schema, write_part
from tidelog.evidence.tables import EVENTS, LEDGER, READS, REPLICAS, Table

TOPIC = "events"
CONSUMER = "c1"
FINAL = "final"
BROKERS = 3
EPOCH = 3
START_US = 1_790_000_000_000_000
SEND_EVERY_US = 10
SETTLED_AFTER_US = 5_000
SEGMENT_BATCHES = 3072
"""Some 57 MB."""
POLL_RECORDS = 500
WATERMARK_EVERY = 50_000
_KEYS = pa.array(KEYS)


@dataclass(slots=True, frozen=True)
class Shape:
    """How much there is. `batches` is that of one partition, before anything is planted."""

    batches: int
    partitions: int = 6
    producers: int = 12
    replicas: int = 2

    @classmethod
    def of(cls, sends: int, **others: int) -> Shape:
        """At least so many sends, in whole batches."""
        partitions = others.get("partitions", 6)
        return cls(max(-(-sends // (RECORDS_PER_BATCH * partitions)), 64), **others)

    @property
    def sends(self) -> int:
        return self.batches * self.partitions * RECORDS_PER_BATCH

    def holders(self, partition: int) -> list[int]:
        """The brokers that have a replica; the first leads."""
        return [(partition + n) % BROKERS + 1 for n in range(self.replicas)]

    @property
    def load_ended_us(self) -> int:
        return START_US + self.sends * SEND_EVERY_US + SETTLED_AFTER_US


def make_evidence(folder: Path, shape: Shape, *, processes: int = 2) -> Planted:
    """A folder of evidence. Returns what was planted."""
    planted = plant(shape.partitions)
    with ProcessPoolExecutor(processes) as pool:
        work = [pool.submit(_make_partition, folder, shape, number) for number in range(shape.partitions)]
        ends = {number: each.result() for number, each in enumerate(work)}
    write_part(folder / EVENTS.name, "synthetic", arrow_rows(EVENTS, _events(shape, ends)))
    if planted.lost:
        write_part(folder / LEDGER.name, "lost", _lost_sends(planted))
        write_part(folder / READS.name, "stale", _stale_reads(shape, planted))
    _manifest(shape, ends).write(folder)
    return planted


def _manifest(shape: Shape, ends: dict[int, int]) -> Manifest:
    return Manifest(
        stage="cluster",
        state=COMPLETE,
        generation="epoch",
        started_us=START_US,
        load_started_us=START_US,
        load_ended_us=shape.load_ended_us,
        ended_us=shape.load_ended_us,
        topics=[
            {
                "name": TOPIC,
                "partitions": shape.partitions,
                "replication_factor": shape.replicas,
                "configs": {"min.insync.replicas": str(min(2, shape.replicas))},
                "ends": {str(partition): end for partition, end in ends.items()},
            }
        ],
        final_reader=FINAL,
    )


# ---------------------------------------------------------------- a partition


def _make_partition(folder: Path, shape: Shape, partition: int) -> int:
    """Segments, sends and reads of one partition; its end."""
    order = plant(shape.partitions).in_partition(partition).order(shape.batches)
    segments: list[dict[str, Any]] = []
    for first in range(0, len(order), SEGMENT_BATCHES):
        slots = np.arange(first, min(first + SEGMENT_BATCHES, len(order)))
        segments += _make_segment(folder, shape, partition, slots, order)
    end = len(order) * RECORDS_PER_BATCH
    holders = shape.holders(partition)
    for row in segments:
        row |= {
            "log_start_offset": 0,
            "log_end_offset": end,
            "high_watermark": end,
            "epochs": [EPOCH],
            "epoch_starts": [0],
            "leader": holders[0],
            "leader_epoch": EPOCH,
            "isr": holders,
        }
    write_part(folder / REPLICAS.name, f"p{partition}", arrow_rows(REPLICAS, segments))
    return end


def _make_segment(
    folder: Path, shape: Shape, partition: int, slots: Ints, order: Ints
) -> Iterator[dict[str, Any]]:
    """The records in these slots of the log; a row of the table of replicas for each file."""
    planted = plant(shape.partitions).in_partition(partition)
    numbers = order[slots]
    trial_batches = numbers * shape.partitions + partition
    producers = np.where(numbers < shape.batches, trial_batches % shape.producers, planted.unknown_producer)
    sequences = trial_batches // shape.producers * RECORDS_PER_BATCH
    base_offsets = slots * RECORDS_PER_BATCH
    sent_us = START_US + trial_batches * RECORDS_PER_BATCH * SEND_EVERY_US
    made = batches(base_offsets, producers, sequences, sent_us // 1000, EPOCH)
    first = int(base_offsets[0])
    leader, *followers = shape.holders(partition)
    original = _segment_file(folder, leader, partition, first)
    original.write_bytes(made.data)
    yield _segment_row(folder, original, leader, partition, first)
    other = planted.diverged_slots(slots)
    for broker in followers:
        copy = _segment_file(folder, broker, partition, first)
        if broker == followers[0] and other.size:
            differing = producers.copy()
            differing[other] = planted.unknown_producer
            copy.write_bytes(batches(base_offsets, differing, sequences, sent_us // 1000, EPOCH).data)
        else:
            os.link(original, copy)
        yield _segment_row(folder, copy, broker, partition, first)

    columns = _Columns(partition, base_offsets, producers, sequences, sent_us)
    stem = f"p{partition}-{first:012}"
    write_part(folder / READS.name, stem, _reads(shape, columns, planted))
    # What is in the log a second time, or was never sent, has no send of its own.
    sent = np.repeat(planted.is_sent(slots, numbers, shape.batches), RECORDS_PER_BATCH)
    write_part(folder / LEDGER.name, stem, _ledger(columns, planted).filter(pa.array(sent)))


def _segment_file(folder: Path, broker: int, partition: int, base_offset: int) -> Path:
    path = folder / "cluster" / f"broker-{broker}" / f"{TOPIC}-{partition}" / f"{base_offset:020}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _segment_row(folder: Path, path: Path, broker: int, partition: int, first: int) -> dict[str, Any]:
    return {
        "broker": broker,
        "topic": TOPIC,
        "partition": partition,
        "file": str(path.relative_to(folder)),
        "base_offset": first,
        "bytes": path.stat().st_size,
    }


# ---------------------------------------------------------------- tables


class _Columns:
    """What is known of every record of a segment, in the order of their offsets."""

    def __init__(
        self, partition: int, base_offsets: Ints, producers: Ints, sequences: Ints, sent_us: Ints
    ) -> None:
        within = np.arange(RECORDS_PER_BATCH)
        self.partition = partition
        self.offset = (base_offsets[:, None] + within).ravel()
        self.producer = np.repeat(producers, RECORDS_PER_BATCH)
        self.sequence = (sequences[:, None] + within).ravel()
        self.sent_us = (sent_us[:, None] + within * SEND_EVERY_US).ravel()

    def __len__(self) -> int:
        return len(self.offset)

    def values(self) -> dict[str, Any]:
        return {
            "topic": TOPIC,
            "partition": self.partition,
            "key": _KEYS.take(pa.array(self.offset % RECORDS_PER_BATCH)),
            "value": id_texts(self.producer, self.sequence),
            "value_bytes": VALUE_BYTES,
            "value_crc32": value_crcs(self.producer, self.sequence),
        }


def _ledger(columns: _Columns, planted: Planted) -> Any:
    values = columns.values()
    values["value_crc32"] = planted.crcs(columns.offset, values["value_crc32"])
    names = pa.array([f"p{number:02}" for number in range(100)])
    return _table(
        LEDGER,
        len(columns),
        **values,
        producer=names.take(pa.array(columns.producer)),
        zone="a",
        sequence=columns.sequence,
        acks=-1,
        idempotent=True,
        sent_us=columns.sent_us,
        settled_us=columns.sent_us + SETTLED_AFTER_US,
        outcome=planted.outcomes(columns.offset),
        offset=columns.offset,
    )


def _reads(shape: Shape, columns: _Columns, planted: Planted) -> Any:
    poll = columns.offset // POLL_RECORDS
    table = _table(
        READS,
        len(columns),
        **columns.values(),
        consumer=FINAL,
        zone="a",
        offset=columns.offset,
        leader_epoch=EPOCH,
        timestamp_ms=columns.sent_us // 1000,
        read_us=shape.load_ended_us + poll * 1000,
        poll=poll * shape.partitions + columns.partition,
        position_before=columns.offset,
        position_after=columns.offset + 1,
    )
    return table.filter(pa.array(~planted.is_unseen(columns.offset)))


def _lost_sends(planted: Planted) -> Any:
    """Sends of a producer that had been told offsets at which others stand now."""
    number = np.arange(planted.lost)
    producer = np.full(planted.lost, planted.loser)
    return _table(
        LEDGER,
        planted.lost,
        producer=f"p{planted.loser:02}",
        zone="a",
        sequence=number,
        topic=TOPIC,
        partition=0,
        value=id_texts(producer, number),
        value_bytes=VALUE_BYTES,
        value_crc32=value_crcs(producer, number),
        acks=1,
        idempotent=False,
        sent_us=START_US + number * SEND_EVERY_US,
        settled_us=START_US + number * SEND_EVERY_US + SETTLED_AFTER_US,
        outcome="ok",
        offset=planted.lost_from + number,
    )


def _stale_reads(shape: Shape, planted: Planted) -> Any:
    """What a consumer read of them before they went."""
    number = np.arange(planted.rewritten)
    producer = np.full(planted.rewritten, planted.loser)
    return _table(
        READS,
        planted.rewritten,
        consumer=CONSUMER,
        zone="a",
        topic=TOPIC,
        partition=0,
        offset=planted.lost_from + number,
        leader_epoch=EPOCH - 1,
        value=id_texts(producer, number),
        value_bytes=VALUE_BYTES,
        value_crc32=value_crcs(producer, number),
        read_us=shape.load_ended_us,
        poll=0,
        position_before=planted.lost_from + number,
        position_after=planted.lost_from + number + 1,
    )


def _table(table: Table, rows: int, **columns: Any) -> Any:
    """Numpy arrays and Arrow arrays as they are, a constant for every row, null where nothing is given."""
    schema = arrow_schema(table)
    arrays = []
    for field in schema:
        given = columns.pop(field.name, None)
        if given is None:
            array = pa.nulls(rows, field.type)
        elif isinstance(given, np.ndarray):
            array = pa.array(given).cast(field.type)
        elif isinstance(given, pa.Array):
            array = given
        else:
            array = pa.repeat(pa.scalar(given, field.type), rows)
        arrays.append(array)
    if columns:
        raise ValueError(f"no such columns: {', '.join(columns)}")
    return pa.Table.from_arrays(arrays, schema=schema)


def _events(shape: Shape, ends: dict[int, int]) -> list[dict[str, Any]]:
    """Elections at the beginning, and how the high watermarks moved."""
    rows: list[dict[str, Any]] = []
    start_ms = START_US // 1000 - 1000
    for partition, end in ends.items():
        isr = shape.holders(partition)
        about = {"topic": TOPIC, "partition": partition, "leader_epoch": EPOCH, "isr": isr, "broker": isr[0]}
        rows.append(
            about
            | {
                "event": "partition_state_written",
                "time_ms": start_ms,
                "leader": isr[0],
                "partition_version": 1,
            }
        )
        rows.append(about | {"event": "became_leader", "time_ms": start_ms, "log_end_offset": 0})
        for before in range(0, end, WATERMARK_EVERY):
            after = min(before + WATERMARK_EVERY, end)
            at_us = START_US + after * shape.partitions * SEND_EVERY_US + SETTLED_AFTER_US
            rows.append(
                about
                | {
                    "event": "high_watermark_advanced",
                    "time_ms": min(at_us, shape.load_ended_us) // 1000,
                    "previous_high_watermark": before,
                    "high_watermark": after,
                }
            )
    counts: dict[int, int] = {}
    for row in rows:
        counts[row["broker"]] = counts.get(row["broker"], -1) + 1
        row |= {"process_start_ms": start_ms, "sequence": counts[row["broker"]]}
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--millions", type=float, default=1.0)
    parser.add_argument("--replicas", type=int, default=2)
    arguments = parser.parse_args()
    start = perf_counter()
    shape = Shape.of(int(arguments.millions * 1e6), replicas=arguments.replicas)
    planted = make_evidence(arguments.folder, shape)
    print(f"{shape.sends:,} sends in {perf_counter() - start:.1f} s; planted: {planted.expected()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
