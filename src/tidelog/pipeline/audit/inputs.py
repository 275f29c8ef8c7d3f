"""A folder of evidence as Spark tables, and what is missing from it.

Rules of the file:

* Nothing is read here but names, sizes and Parquet footers: tables are lazy. A file that cannot be read is
  left out and named in `unjudged`; a verdict is then partial, and says so.
* A table that nobody wrote is an empty one with the right columns.
* `facts` are the things that audits may need: an audit whose needs are not met is not run, which is not the
  same as finding nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tidelog.evidence.folder import COMPLETE, EvidenceError, Manifest
from tidelog.evidence.parquet.parts import part_files
from tidelog.evidence.tables import (
    CLIENT_EVENTS,
    EVENTS,
    FAULTS,
    LEDGER,
    READS,
    RECORDS,
    REPLICAS,
    Table,
)
from tidelog.pipeline.audit.reasons import with_reasons
from tidelog.pipeline.audit.stored import Read, Replica, Spans, inside, some_records
from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.pipeline.sources.evidence_log import evidence_records
from tidelog.pipeline.spark.small_tables import brought_home, literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SENDS: Final = "sends"
ALL_SENDS: Final = "all sends"
"""The ledger is whole: whatever is not in it was not sent."""
READ: Final = "reads"
FINAL_READ: Final = "a final read"
REPLICA_LOGS: Final = "replica logs"
FINAL_LOG: Final = "a final log"
HAPPENINGS: Final = "events"

ABSENT: Final = {
    SENDS: "the ledger is empty",
    ALL_SENDS: "the ledger is not whole",
    READ: "nobody read anything",
    FINAL_READ: "there was no final read",
    REPLICA_LOGS: "there are no replica logs",
    FINAL_LOG: "neither replica logs nor a final read show what the topic holds",
    HAPPENINGS: "there are no events of brokers",
}
"""Why an audit cannot run, by what it needs."""

DECODED: Final = (
    ("timestamp_ms", "bigint"),
    ("producer_id", "bigint"),
    ("producer_epoch", "int"),
    ("producer_sequence", "int"),
    ("batch_base_offset", "bigint"),
    ("problem", "string"),
)
"""What segment files tell beyond the table `records`."""

_SPARK_TYPES: Final = {
    "bool": "boolean",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "string": "string",
    "list<int32>": "array<int>",
    "list<string>": "array<string>",
    "list<int64>": "array<bigint>",
    "map<string,string>": "map<string,string>",
}

_ALL: Final = (LEDGER, READS, CLIENT_EVENTS, EVENTS, FAULTS, REPLICAS, RECORDS)
_LARGE_BYTES: Final = 256 << 20
_SHUFFLE_BYTES: Final = 64 << 20
_PIECES_MAX: Final = 2000
_UNPACKED: Final = 6
"""How much larger rows are in memory than in Parquet: values differ in a number only, and pack well."""
_SIM: Final = "sim"


@dataclass(slots=True)
class Inputs:
    """The tables of one trial. `records` has one row for every record of every replica."""

    ledger: DataFrame
    reads: DataFrame
    client_events: DataFrame
    events: DataFrame
    faults: DataFrame
    replicas: DataFrame
    records: DataFrame
    manifest: Manifest
    folder: Path
    unjudged: list[str] = field(default_factory=list)
    """What cannot be judged, and why."""
    facts: set[str] = field(default_factory=set)
    damaged: set[tuple[str, int, int]] = field(default_factory=set)
    """Replicas, as topic, partition and broker, whose files could not be read to their end: no final log can
    be made of them."""
    stored: Read | None = None
    """How to read only some of the records; None: they are a table like the others."""
    transactional: int = 0
    """How many sends were part of a transaction."""
    _made: dict[str, DataFrame] = field(default_factory=dict)
    _counted: dict[str, dict[str, int]] = field(default_factory=dict)
    _locks: dict[str, RLock] = field(default_factory=dict)
    _guard: Lock = field(default_factory=Lock)

    @property
    def spark(self) -> SparkSession:
        return self.ledger.sparkSession

    @property
    def final_reader(self) -> str | None:
        return self.manifest.final_reader

    @property
    def slack_us(self) -> int:
        """How far apart the clocks and buffers of those who tell may be: brokers hold moves of the high
        watermark back for a quarter of a second. The simulator has one clock, and holds nothing back."""
        return 0 if self.manifest.stage == _SIM else 1_000_000

    def records_of(
        self,
        columns: Sequence[str],
        *,
        replicas: Collection[Replica] | None = None,
        spans: Spans | None = None,
    ) -> DataFrame:
        """Records, of which only these columns, replicas and offsets matter; others may come along."""
        if self.stored is None:
            return inside(self.records.select(*columns), spans)
        return some_records(self.stored, columns, replicas, spans)

    # Audits run beside each other: whoever is the first to want a table makes it, and the others wait.

    def once(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """A table that several audits need, computed once: what is suspicious, sums."""
        with self._alone(name):
            if name not in self._made:
                self._made[name] = make().persist()
            return self._made[name]

    def summary(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """A table of a few rows for each partition. It goes through the driver, as if it were broadcast, so
        that whatever is joined with it is planned without the way it was made."""
        with self._alone(name):
            if name not in self._made:
                self._made[name] = brought_home(make())
            return self._made[name]

    def counted(self, name: str, table: Callable[[], DataFrame]) -> dict[str, int]:
        """The one row of sums that a table is, asked for once: where there is nothing to look at, an audit
        can say so without a look at anything else."""
        with self._alone(name):
            if name not in self._counted:
                row = table().first()
                self._counted[name] = {} if row is None else {k: v or 0 for k, v in row.asDict().items()}
            return self._counted[name]

    def _alone(self, name: str) -> RLock:
        with self._guard:
            return self._locks.setdefault(name, RLock())

    def release(self) -> None:
        """Forget what was computed."""
        for made in self._made.values():
            made.unpersist()
        self._made.clear()
        self._counted.clear()

    def of_final_reader(self, reads: DataFrame) -> DataFrame:
        """What the consumer read that went through everything once more at the end."""
        return reads.where(reads["consumer"].eqNullSafe(self.final_reader or ""))

    def lacks(self, what: str, why: str) -> None:
        said = f"{what}: {why}"
        if said not in self.unjudged:
            self.unjudged.append(said)


def spark_schema(table: Table) -> str:
    """The columns of a table as Spark spells them."""
    return ", ".join(f"`{column.name}` {_SPARK_TYPES[column.type]}" for column in table.columns)


def load(spark: SparkSession, folder: Path) -> Inputs:
    """Open the evidence in a folder. Raises `PipelineError` if it is none."""
    try:
        manifest = Manifest.read(folder)
    except EvidenceError as error:
        raise PipelineError(str(error)) from None
    unjudged: list[str] = []
    tables: dict[str, DataFrame] = {}
    files: dict[str, dict[Path, int]] = {}
    for table in _ALL:
        files[table.name] = _readable(folder, table, unjudged)
        tables[table.name] = _table(spark, table, list(files[table.name]))
    events = _of_the_trial(tables[EVENTS.name], manifest)
    tables[EVENTS.name] = with_reasons(events, manifest.schema_version)
    segments = {} if files[RECORDS.name] else _segments(folder, list(files[REPLICAS.name]), unjudged)
    if segments:
        tables[RECORDS.name] = evidence_records(spark, folder, sorted(segments))
    else:
        tables[RECORDS.name] = _widened(tables[RECORDS.name])
    present = {name for name, found in files.items() if sum(found.values())}
    inputs = Inputs(
        ledger=tables[LEDGER.name],
        reads=tables[READS.name],
        client_events=tables[CLIENT_EVENTS.name],
        events=tables[EVENTS.name],
        faults=tables[FAULTS.name],
        replicas=tables[REPLICAS.name],
        records=tables[RECORDS.name],
        manifest=manifest,
        folder=folder,
        unjudged=unjudged,
    )
    inputs.facts = _facts(present | ({RECORDS.name} if segments else set()), manifest)
    _note_the_state(inputs)
    parquet = sum(path.stat().st_size for found in files.values() for path in found)
    _prepare_for(inputs, parquet * _UNPACKED + sum(segments.values()))
    if segments:
        inputs.stored = partial(evidence_records, spark, folder, sorted(segments))
    return inputs


def _facts(present: Collection[str], manifest: Manifest) -> set[str]:
    """What audits may need, out of the names of the tables that have rows."""
    facts = set()
    if LEDGER.name in present:
        facts |= {SENDS, ALL_SENDS}
    if READS.name in present:
        facts.add(READ)
        if manifest.final_reader is not None:
            facts |= {FINAL_READ, FINAL_LOG}
    if REPLICAS.name in present:
        facts |= {REPLICA_LOGS, FINAL_LOG}
    if EVENTS.name in present:
        facts.add(HAPPENINGS)
    return facts


# ---------------------------------------------------------------- tables


def _readable(folder: Path, table: Table, unjudged: list[str]) -> dict[Path, int]:
    """The files of a table whose footers can be read, with their rows; the others are named."""
    good = {}
    for path in part_files(folder / table.name):
        try:
            rows = pq.read_metadata(path).num_rows
        except Exception as error:  # Arrow's errors share no class but Exception
            unjudged.append(f"{path.relative_to(folder)} cannot be read and is left out: {first_line(error)}")
        else:
            good[path] = rows
    return good


def _table(spark: SparkSession, table: Table, files: list[Path]) -> DataFrame:
    schema = spark_schema(table)
    if not files:
        return literal(spark, [], schema)
    return spark.read.schema(schema).parquet(*(str(path.absolute()) for path in files))


def _of_the_trial(events: DataFrame, manifest: Manifest) -> DataFrame:
    """Without those of topics that are no part of the trial, such as the positions of consumer groups."""
    from pyspark.sql import functions as f

    topics = [topic["name"] for topic in manifest.topics]
    return events.where(f.col("topic").isNull() | f.col("topic").isin(topics)) if topics else events


def _widened(records: DataFrame) -> DataFrame:
    """The simulator's records, with the columns that only segment files can fill."""
    from pyspark.sql import functions as f

    return records.select("*", *(f.lit(None).cast(kind).alias(name) for name, kind in DECODED))


def _segments(folder: Path, replicas: list[Path], unjudged: list[str]) -> dict[str, int]:
    """The segment files that the table of replicas names and that are there, with their sizes."""
    found: dict[str, int] = {}
    names = {name for path in replicas for name in pq.read_table(path, columns=["file"])["file"].to_pylist()}
    for name in sorted(filter(None, names)):
        path = folder / name
        if path.is_file():
            found[name] = path.stat().st_size
        else:
            unjudged.append(f"{name}: the segment file is gone, and its records with it")
    return found


def _note_the_state(inputs: Inputs) -> None:
    """What the manifest itself says about how much of the trial is there."""
    manifest = inputs.manifest
    if manifest.state != COMPLETE:
        inputs.unjudged.append(f"the trial's state is {manifest.state}: the verdict is about what it left")
    if any((inputs.folder / "journal").glob("*.slots")):
        inputs.facts.discard(ALL_SENDS)
        inputs.lacks(
            "sends and reads of the last moments",
            f"they are still in journals; tidelog evidence recover {inputs.folder} turns them into tables",
        )
    for entry in manifest.missing:
        if entry.get("what") != "segment files":
            inputs.lacks(entry.get("what", "something"), entry.get("why", "nobody says why"))


def _prepare_for(inputs: Inputs, size: int) -> None:
    """Small evidence is judged soonest if Spark plans once; large evidence if it makes as many pieces of work
    as fit into memory, and plans anew when it sees how large they turn out."""
    conf = inputs.spark.conf
    conf.set("spark.sql.adaptive.enabled", str(size > _LARGE_BYTES).lower())
    pieces = min(size // _SHUFFLE_BYTES, _PIECES_MAX)
    name = "spark.sql.shuffle.partitions"
    if pieces > int(str(conf.get(name, "1") or 1)):
        conf.set(name, str(pieces))
