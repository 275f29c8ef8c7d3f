"""The tables of evidence: one schema for every stage, written as Parquet.

Rules of the file:

* A table is a folder of Parquet files; unused columns of a row are null.
* A column, once released, keeps its name, type and meaning: evidence outlives the version that wrote it.
  Columns and tables may be added; `SCHEMA_VERSION` changes only if that rule is broken.
* Times that end in `_us` are microseconds since 1970 by the clock of the recording process (virtual in the
  simulator). Clocks of different machines may differ.
* `docs/reference/evidence.md` is generated from these tables.

A value is identified by its *id*, its text up to the first space: `p3-1207 ……` is send number 1207 of the
producer p3. The rest is padding. `value_crc32` (of all bytes, as in zlib and in Spark) shows whether the
value arrived unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.evidence import event_schema
from tidelog.evidence.event_schema import Column

SCHEMA_VERSION: Final = 2
READABLE_VERSIONS: Final = (1, SCHEMA_VERSION)
"""Schema 1 has a sentence in `events.cause` where schema 2 has `rule` and its fields."""


@dataclass(slots=True, frozen=True)
class Table:
    """`name` is the folder; `identity` are the columns that identify a row."""

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
    "Sends of producers and their outcomes: one row for every send, recorded before it is made.",
    ("producer", "sequence"),
    (
        Column("producer", "string", "the producer; a name that is unique in the trial"),
        Column("zone", "string", "the producer's zone"),
        Column(
            "sequence", "int64", "number of the send in its producer, from 0; a gap is a loss of evidence"
        ),
        Column("topic", "string", "the topic that was written to"),
        Column("partition", "int32", "the partition that was written to"),
        *_VALUE,
        Column("acks", "int16", "acks of the producer: 0 none, 1 the leader, -1 all in-sync replicas"),
        Column("idempotent", "bool", "whether the producer was idempotent: brokers drop repeated sends"),
        Column("retries", "int32", "maximum retries of the client; null: until the send times out"),
        Column("attempts", "int32", "attempts made; null: unknown"),
        Column("sent_us", "int64", "when it was passed to the client library"),
        Column("settled_us", "int64", "when the outcome was known; null: never"),
        Column("outcome", "string", "ok, failed (certainly not written) or unknown (perhaps written)"),
        Column("offset", "int64", "the acknowledged offset; null: unknown"),
        Column("leader_epoch", "int32", "the leader epoch in which it was written, if known"),
        Column("error_code", "int32", "Kafka's error code, or a negative one of the client library"),
        Column("error", "string", "the same error by name"),
        Column(
            "transaction",
            "string",
            "its transaction, all of whose sends have one outcome; null: none",
        ),
    ),
)

READS: Final = Table(
    "reads",
    "Records that consumers read: one row for every record that a poll returned.",
    ("consumer", "poll", "topic", "partition", "offset"),
    (
        Column(
            "consumer", "string", "the consumer; `final` is the one that reads everything again at the end"
        ),
        Column("zone", "string", "the consumer's zone"),
        Column("group", "string", "its group; null: none"),
        Column("topic", "string", "the topic of the record"),
        Column("partition", "int32", "the partition of the record"),
        Column("offset", "int64", "the offset of the record"),
        Column("leader_epoch", "int32", "the epoch of the record's batch, if it has one"),
        *_VALUE,
        Column("timestamp_ms", "int64", "the record's own timestamp"),
        Column("read_us", "int64", "when the poll returned"),
        Column("poll", "int64", "number of the poll in its consumer, from 0"),
        Column("position_before", "int64", "the consumer's position in this partition before the record"),
        Column("position_after", "int64", "the consumer's position after the record"),
        Column("high_watermark", "int64", "the high watermark that the consumer knew"),
        Column("transaction", "string", "the transaction that commits this position; null: none"),
    ),
)

CLIENT_EVENTS: Final = Table(
    "client_events",
    "Other events of clients: errors, lost connections, offsets out of range.",
    (),
    (
        Column("time_us", "int64", "when"),
        Column("client", "string", "the producer or consumer that recorded the event"),
        Column("zone", "string", "its zone"),
        Column("event", "string", "error, fatal, out_of_range, reopened or rebalanced"),
        Column("topic", "string", "the topic of the event"),
        Column("partition", "int32", "the partition of the event"),
        Column("offset", "int64", "the position at that moment"),
        Column("error_code", "int32", "Kafka's error code, or a negative one of the client library"),
        Column("error", "string", "the same error by name"),
        Column("detail", "string", "in words"),
    ),
)

EVENTS: Final = Table(
    "events",
    "Events of every broker, and the rules that applied: see [events](events.md).",
    ("broker", "process_start_ms", "sequence"),
    event_schema.COLUMNS,
)

FAULTS: Final = Table(
    "faults",
    "Faults injected into the cluster: one row for every fault, with its plan and its outcome.",
    ("number",),
    (
        Column("number", "int32", "index in the schedule, from 0"),
        Column(
            "kind",
            "string",
            "its name, as in `tidelog trial --faults`",
        ),
        Column(
            "targets",
            "list<string>",
            "targets: broker ids, zones, or `a>b` for messages from a to b; last the amount, like `+300ms`",
        ),
        Column("planned_ms", "int64", "when it was planned, in ms after the beginning of the load"),
        Column("planned_duration_ms", "int64", "planned duration in ms"),
        Column("began_us", "int64", "when it was injected; null: never"),
        Column("ended_us", "int64", "when it was healed, and the affected brokers served again"),
        Column("error", "string", "why it was not injected, or not healed"),
    ),
)

REPLICAS: Final = Table(
    "replicas",
    "Replica logs at the end: one row for every segment file. The records are in the file.",
    ("broker", "topic", "partition", "base_offset"),
    (
        Column("broker", "int32", "whose replica"),
        Column("topic", "string", "of what"),
        Column("partition", "int32", "of what"),
        Column("file", "string", "the segment file, relative to the folder of the evidence"),
        Column("base_offset", "int64", "the offset of the file's first record"),
        Column("end_offset", "int64", "the end of the file's records, exclusive; null: not looked at"),
        Column("bytes", "int64", "the size of the file"),
        Column("log_start_offset", "int64", "the replica's first offset"),
        Column("log_end_offset", "int64", "the replica's end, exclusive"),
        Column("high_watermark", "int64", "the replica's high watermark"),
        Column("recovery_point", "int64", "records below this offset are on disk, its checkpoint says"),
        Column("epochs", "list<int32>", "the leader epochs in the replica's log"),
        Column("epoch_starts", "list<int64>", "the offset at which each of them starts"),
        Column("leader", "int32", "the partition's leader at the end; -1: none"),
        Column("leader_epoch", "int32", "the leader epoch at the end"),
        Column("isr", "list<int32>", "the in-sync replicas at the end"),
        Column(
            "role",
            "string",
            "the replica's role at the end: leader, follower or - (neither); null: unknown",
        ),
    ),
)

RECORDS: Final = Table(
    "records",
    "Replica logs at the end, record by record: only without segment files (sim).",
    ("broker", "topic", "partition", "offset"),
    (
        Column("broker", "int32", "whose replica"),
        Column("topic", "string", "of what"),
        Column("partition", "int32", "of what"),
        Column("offset", "int64", "the record's offset"),
        Column("leader_epoch", "int32", "the leader epoch of its batch; null: none"),
        Column("control", "bool", "whether it is a control record"),
        *_VALUE,
    ),
)

TRANSACTIONS: Final = Table(
    "transactions",
    "Transactions that are open in a replica's log: no marker ends them (only of imported log folders).",
    ("broker", "topic", "partition", "producer_id"),
    (
        Column("broker", "int32", "whose replica"),
        Column("topic", "string", "of what"),
        Column("partition", "int32", "of what"),
        Column("producer_id", "int64", "the producer that wrote it"),
        Column("producer_epoch", "int16", "its epoch"),
        Column("first_offset", "int64", "the first record; consumers of committed data stop here"),
        Column("last_offset", "int64", "the last record so far"),
        Column("started_ms", "int64", "when the first record was made; null: not known"),
        Column("last_ms", "int64", "when the last record was made"),
        Column("transactional_id", "string", "the producer's transactional id, if the coordinator knows it"),
        Column("coordinator_epoch", "int16", "the producer's epoch by the coordinator's log"),
        Column(
            "coordinator_state",
            "string",
            "the state by the coordinator's log, as Kafka names it; `Unknown`: the log has no such producer; "
            "null: the log is not there",
        ),
        Column("coordinator_lists_partition", "bool", "whether that state names the partition"),
        Column("timeout_ms", "int32", "after which the coordinator aborts it"),
    ),
)

TABLES: Final = (LEDGER, READS, CLIENT_EVENTS, EVENTS, FAULTS, REPLICAS, RECORDS, TRANSACTIONS)


def value_id(value: str) -> str:
    """The id of a value."""
    return value.partition(" ")[0]
