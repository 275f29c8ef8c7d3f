"""The tables of evidence: one schema for every stage, written as Parquet.

Rules of the file:

* A table is a folder of Parquet files; what a row has nothing to say about is null.
* A column, once released, keeps its name, type and meaning: evidence outlives the version that wrote it.
  Columns and tables may be added; `SCHEMA_VERSION` changes only if that rule had to be broken.
* Times that end in `_us` are microseconds since 1970 by the clock of whoever tells (virtual in the
  simulator). Clocks of different machines agree only as well as they are kept.
* `docs/reference/evidence.md` is made from these tables.

A value is known by its *id*, its text up to the first space: `p3-1207 ……` was the send number 1207 of the
producer p3. What follows is padding, and `value_crc32` (of all its bytes, as in zlib and in Spark) tells
whether it arrived unharmed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.evidence import event_schema
from tidelog.evidence.event_schema import Column

SCHEMA_VERSION: Final = 2
READABLE_VERSIONS: Final = (1, SCHEMA_VERSION)
"""Schema 1 has a sentence in `events.cause` where schema 2 has `rule` and what goes with it."""


@dataclass(slots=True, frozen=True)
class Table:
    """`name` is the folder; `identity` the columns that no two rows share."""

    name: str
    doc: str
    identity: tuple[str, ...]
    columns: tuple[Column, ...]


_VALUE: Final = (
    Column("key", "string", "the record's key; null: none"),
    Column("value", "string", "the value's id; null: the record has no value"),
    Column("value_bytes", "int32", "the size of the value"),
    Column("value_crc32", "int64", "the CRC-32 of the value"),
)

LEDGER: Final = Table(
    "ledger",
    "What producers were promised: one row for every send, written before the client library gets it.",
    ("producer", "sequence"),
    (
        Column("producer", "string", "who sent; a name that is unique in the trial"),
        Column("zone", "string", "where the producer lives"),
        Column("sequence", "int64", "the producer's own count, from 0; a gap is a loss of evidence"),
        Column("topic", "string", "where to"),
        Column("partition", "int32", "where to"),
        *_VALUE,
        Column("acks", "int16", "what the producer waits for: 0 nothing, 1 the leader, -1 all in sync"),
        Column("idempotent", "bool", "whether brokers can tell a repeated send from a new one"),
        Column("retries", "int32", "how often the client may try again; null: until the send times out"),
        Column("attempts", "int32", "how often it tried; null: the client does not say"),
        Column("sent_us", "int64", "when it was handed to the client library"),
        Column("settled_us", "int64", "when the outcome was known; null: never"),
        Column("outcome", "string", "ok, failed (certainly not written) or unknown (perhaps written)"),
        Column("offset", "int64", "where the broker said it stands; null: nobody said"),
        Column("leader_epoch", "int32", "the epoch in which it was written, if the client knows"),
        Column("error_code", "int32", "Kafka's error code, or a negative one of the client library"),
        Column("error", "string", "the same error by name"),
        Column(
            "transaction",
            "string",
            "the transaction that it was part of, all of whose sends have one outcome; null: none",
        ),
    ),
)

READS: Final = Table(
    "reads",
    "What consumers saw: one row for every record that a poll returned.",
    ("consumer", "poll", "topic", "partition", "offset"),
    (
        Column(
            "consumer", "string", "who read; `final` is the one that reads everything once more at the end"
        ),
        Column("zone", "string", "where the consumer lives"),
        Column("group", "string", "its group; null: it chose its partitions itself"),
        Column("topic", "string", "what was read"),
        Column("partition", "int32", "what was read"),
        Column("offset", "int64", "what was read"),
        Column("leader_epoch", "int32", "the epoch of the record's batch, if it has one"),
        *_VALUE,
        Column("timestamp_ms", "int64", "the record's own timestamp"),
        Column("read_us", "int64", "when the poll returned"),
        Column("poll", "int64", "the consumer's own count of polls, from 0"),
        Column("position_before", "int64", "the offset that the consumer waited for in this partition"),
        Column("position_after", "int64", "and the one that it waits for now"),
        Column("high_watermark", "int64", "how far the partition was committed, as far as the consumer knew"),
        Column("transaction", "string", "the transaction that commits this position; null: none"),
    ),
)

CLIENT_EVENTS: Final = Table(
    "client_events",
    "What else clients noticed: errors, lost connections, positions that had vanished.",
    (),
    (
        Column("time_us", "int64", "when"),
        Column("client", "string", "the producer or consumer that tells"),
        Column("zone", "string", "where it lives"),
        Column("event", "string", "error, fatal, out_of_range, reopened or rebalanced"),
        Column("topic", "string", "what it is about"),
        Column("partition", "int32", "what it is about"),
        Column("offset", "int64", "the position at that moment"),
        Column("error_code", "int32", "Kafka's error code, or a negative one of the client library"),
        Column("error", "string", "the same error by name"),
        Column("detail", "string", "in words"),
    ),
)

EVENTS: Final = Table(
    "events",
    "What happened to every broker, and by which rule: see [events](events.md).",
    ("broker", "process_start_ms", "sequence"),
    event_schema.COLUMNS,
)

FAULTS: Final = Table(
    "faults",
    "What was done to the cluster: one row for every fault, with the plan and what became of it.",
    ("number",),
    (
        Column("number", "int32", "the place in the schedule, from 0"),
        Column(
            "kind",
            "string",
            "kill, power, pause, restart, cut, delay, hold, zone, keeper, full, slow, clock or elect",
        ),
        Column(
            "targets",
            "list<string>",
            "whom it hit: broker ids, zones, or `a>b` for what a sends to b; last, by how much: `+300ms`",
        ),
        Column("planned_ms", "int64", "when it was planned, in ms after the beginning of the load"),
        Column("planned_duration_ms", "int64", "and for how long"),
        Column("began_us", "int64", "when it was done; null: never"),
        Column("ended_us", "int64", "when it was undone, and the brokers concerned served again"),
        Column("error", "string", "why it was not done, or not undone"),
    ),
)

REPLICAS: Final = Table(
    "replicas",
    "What every replica held at the end: one row for every segment file. The records are in the file.",
    ("broker", "topic", "partition", "base_offset"),
    (
        Column("broker", "int32", "whose replica"),
        Column("topic", "string", "of what"),
        Column("partition", "int32", "of what"),
        Column("file", "string", "the segment file, relative to the folder of the evidence"),
        Column("base_offset", "int64", "the offset of the file's first record"),
        Column("bytes", "int64", "the size of the file"),
        Column("log_start_offset", "int64", "the replica's first offset"),
        Column("log_end_offset", "int64", "the replica's end, exclusive"),
        Column("high_watermark", "int64", "how far the replica knew it was committed"),
        Column("epochs", "list<int32>", "the leader epochs in the replica's log"),
        Column("epoch_starts", "list<int64>", "the offset at which each of them starts"),
        Column("leader", "int32", "who led the partition at the end; -1: nobody"),
        Column("leader_epoch", "int32", "in which epoch"),
        Column("isr", "list<int32>", "who was in sync"),
        Column(
            "role",
            "string",
            "what the replica knew itself to be at the end: leader, follower or - (neither); null: not asked",
        ),
    ),
)

RECORDS: Final = Table(
    "records",
    "What every replica held at the end, record by record: only where there are no segment files (sim).",
    ("broker", "topic", "partition", "offset"),
    (
        Column("broker", "int32", "whose replica"),
        Column("topic", "string", "of what"),
        Column("partition", "int32", "of what"),
        Column("offset", "int64", "the record's place"),
        Column("leader_epoch", "int32", "the epoch of its batch; null: batches carry none"),
        Column("control", "bool", "whether it belongs to the protocol instead of a producer"),
        *_VALUE,
    ),
)

TABLES: Final = (LEDGER, READS, CLIENT_EVENTS, EVENTS, FAULTS, REPLICAS, RECORDS)


def value_id(value: str) -> str:
    """What a value is known by."""
    return value.partition(" ")[0]
