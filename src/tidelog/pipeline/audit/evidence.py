"""A folder of evidence as the audit sees it: the manifest, the small tables, the names of the large ones, and
what is missing.

Rules of the file:

* Of the large tables (ledger, reads, records, segment files) only names, sizes and Parquet footers are read.
  A file that cannot be read is left out and named in `unjudged`; a verdict is then partial, and says so.
* A table that was not written is an empty one.
* `facts` are the things that audits may need: an audit whose needs are not met is not run, which is not the
  same as finding nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tidelog.errors import not_json
from tidelog.evidence.folder import COMPLETE, MANIFEST, EvidenceError, Manifest
from tidelog.evidence.parquet.parts import SUFFIX, arrow_schema
from tidelog.evidence.tables import (
    CLIENT_EVENTS,
    EVENTS,
    FAULTS,
    LEDGER,
    READABLE_VERSIONS,
    READS,
    RECORDS,
    REPLICAS,
    TRANSACTIONS,
    Table,
)
from tidelog.narrate.phrasebook import Phrase
from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.pipeline.files import Place


class Need(StrEnum):
    """What an audit may need of the evidence."""

    SENDS = "sends"
    ALL_SENDS = "all sends"
    """The ledger is whole: whatever is not in it was not sent."""
    READS = "reads"
    FINAL_READ = "a final read"
    REPLICA_LOGS = "replica logs"
    FINAL_LOG = "a final log"
    EVENTS = "events"
    BROKER_LOGS = "log files of brokers"
    LOG_FOLDERS = "imported log folders"


ABSENT: Final = {
    Need.SENDS: Phrase("unjudged.no_sends"),
    Need.ALL_SENDS: Phrase("unjudged.not_all_sends"),
    Need.READS: Phrase("unjudged.no_reads"),
    Need.FINAL_READ: Phrase("unjudged.no_final_read"),
    Need.REPLICA_LOGS: Phrase("unjudged.no_replica_logs"),
    Need.FINAL_LOG: Phrase("unjudged.no_final_log"),
    Need.EVENTS: Phrase("unjudged.no_events"),
}
"""Why an audit cannot run, by what it needs."""

AUDIT: Final = "audit"
"""The folder of an audit's results, in that of the evidence."""
_SIM: Final = "sim"
_BROKER_LOG: Final = re.compile(r"broker-(?P<id>\d{1,9})\.log")
_OF_CLIENT: Final = re.compile(r"reads/reads-(?P<client>.+)-\d+\.parquet")
_SLACK_US: Final = 1_000_000


@dataclass(slots=True, frozen=True)
class TableFile:
    """A Parquet file: its name in the evidence, its rows by row group, and how large it is."""

    name: str
    rows: tuple[int, ...]
    bytes: int
    transactional: bool = False
    """Whether a row of it may belong to a transaction."""
    keyed: bool = True
    """Whether its rows tell keys: one without a key has none then. A ledger does that has the
    column; reads, if one of them has a key."""
    first_us: int | None = None
    last_us: int | None = None
    """When its sends began and were settled, by its footer."""


@dataclass(slots=True)
class Evidence:
    place: Place
    manifest: Manifest
    tables: dict[str, list[TableFile]]
    events: Any
    """An Arrow table, without those of topics that are no part of the trial."""
    faults: list[dict[str, Any]]
    replicas: list[dict[str, Any]]
    client_events: list[dict[str, Any]]
    transactions: list[dict[str, Any]]
    """Those that are open in imported logs."""
    unjudged: list[Phrase] = field(default_factory=list)
    """What cannot be judged, and why."""
    facts: set[Need] = field(default_factory=set)
    unreadable: list[Phrase] = field(default_factory=list)
    """Files that hold sends, reads or records, and cannot be read: without them nothing is conclusive."""
    left_out: set[str] = field(default_factory=set)
    """Parquet files that cannot be read."""
    gone: set[str] = field(default_factory=set)
    """Segment files that the table of replicas names and that are not there."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Of the segment files, by name."""

    @property
    def target(self) -> Place:
        return self.place.below(AUDIT)

    @property
    def slack_us(self) -> int:
        """How far apart the clocks and buffers of those who tell may be: brokers put moves of the high
        watermark together for a quarter of a second. The simulator has one clock, and holds nothing back."""
        return 0 if self.manifest.stage == _SIM else _SLACK_US

    def lacks(self, said: Phrase) -> None:
        if said not in self.unjudged:
            self.unjudged.append(said)

    def cannot_read(self, said: Phrase) -> None:
        self.unreadable.append(said)
        self.lacks(said)

    def without(self, names: Collection[str], why: dict[str, str]) -> None:
        """Leave out Parquet files that turned out to be unreadable."""
        for name in sorted(names):
            self.left_out.add(name)
            self.cannot_read(_left_out(name, why[name]))
        for table, files in self.tables.items():
            self.tables[table] = [file for file in files if file.name not in names]
        kept = _facts(self.tables, self.replicas, self.events, self.manifest) | {Need.BROKER_LOGS}
        self.facts &= kept
        self.lose(names)

    def lose(self, files: Collection[str]) -> None:
        """What cannot be known without files of the ledger or of reads."""
        if any(name.startswith(f"{LEDGER.name}/") for name in files):
            self.facts.discard(Need.ALL_SENDS)
        if any(name.startswith(f"{READS.name}/") for name in files):
            self.facts.discard(Need.FINAL_READ)
            if Need.REPLICA_LOGS not in self.facts:
                self.facts.discard(Need.FINAL_LOG)


def read_manifest(place: Place) -> Manifest:
    """Raises `PipelineError`."""
    local = place.local
    try:
        if local is not None:
            return Manifest.read(local)
        found = json.loads(place.read(MANIFEST))
        if found["schema_version"] not in READABLE_VERSIONS:
            raise PipelineError(f"{place}: evidence of schema {found['schema_version']}")
        return Manifest(**{k: v for k, v in found.items() if k in Manifest.__slots__})
    except EvidenceError as error:
        raise PipelineError(str(error)) from None
    except FileNotFoundError:
        if not place.exists():
            raise PipelineError(f"{place}: there is no such folder") from None
        raise PipelineError(f"{place} is not a folder of evidence: it has no {MANIFEST}") from None
    except OSError as error:
        raise PipelineError(f"{place}/{MANIFEST} cannot be read: {first_line(error)}") from None
    except (ValueError, LookupError, TypeError) as error:
        raise PipelineError(f"{place}/{MANIFEST} is invalid: {not_json(error)}") from None


def load(folder: str | Path | Place) -> Evidence:
    """Open the evidence in a folder. Raises `PipelineError` if it is none."""
    place = folder if isinstance(folder, Place) else Place.of(folder)
    manifest = read_manifest(place)
    unjudged: list[Phrase] = []
    tables: dict[str, list[TableFile]] = {}
    left_out: set[str] = set()
    for table in (LEDGER, READS, RECORDS):
        tables[table.name], damaged = _files(place, table)
        left_out |= damaged.keys()
        unjudged += [_left_out(name, why) for name, why in damaged.items()]
    replicas = _rows(place, REPLICAS, unjudged)
    unreadable = list(unjudged)
    events = _table(place, EVENTS, unjudged)
    topics = [topic["name"] for topic in manifest.topics]
    if topics:
        ours = pc.is_in(events["topic"], value_set=pa.array(topics, pa.string()))
        events = events.filter(pc.or_(pc.is_null(events["topic"]), ours))
    found = Evidence(
        place,
        manifest,
        tables,
        events,
        _rows(place, FAULTS, unjudged),
        replicas,
        _rows(place, CLIENT_EVENTS, unjudged),
        _rows(place, TRANSACTIONS, unjudged),
        unjudged,
        unreadable=unreadable,
        left_out=left_out,
    )
    _look_for_segments(found)
    _look_for_replicas(found)
    found.facts = _facts(tables, replicas, events, manifest)
    found.lose(left_out)
    if broker_logs(place):
        found.facts.add(Need.BROKER_LOGS)
    _note_the_state(found)
    return found


def _look_for_segments(found: Evidence) -> None:
    """Which segment files are there; those of a folder are asked for together."""
    folders: dict[str, dict[str, int]] = {}
    for name, size in sorted({row["file"]: row["bytes"] for row in found.replicas if row["file"]}.items()):
        folder, _, base = name.rpartition("/")
        if folder not in folders:
            folders[folder] = found.place.listed(folder)
        if base in folders[folder] and (folders[folder][base] or not size):
            found.sizes[name] = folders[folder][base]
        else:
            found.gone.add(name)
            key = "unjudged.segment_empty" if base in folders[folder] else "unjudged.segment_gone"
            found.lacks(Phrase.of(key, file=name))


def _look_for_replicas(found: Evidence) -> None:
    """A trial that ended writes down what the brokers of its own hold. Without that their logs cannot be
    found, and what was read is no witness for them."""
    manifest = found.manifest
    ours = manifest.state == COMPLETE and any(broker.get("data_dir") for broker in manifest.brokers)
    if ours and not (found.replicas or found.unreadable or manifest.missing):
        found.cannot_read(Phrase.of("unjudged.no_replicas", table=REPLICAS.name))


def _facts(
    tables: dict[str, list[TableFile]], replicas: list[dict[str, Any]], events: Any, manifest: Manifest
) -> set[Need]:
    """What audits may need, out of the tables that have rows."""
    present = {name for name, files in tables.items() if any(sum(file.rows) for file in files)}
    facts: set[Need] = set()
    if LEDGER.name in present:
        facts |= {Need.SENDS} if manifest.kept else {Need.SENDS, Need.ALL_SENDS}
    if READS.name in present:
        facts.add(Need.READS)
        if _has_reads_of(manifest.final_reader, tables[READS.name]):
            facts |= {Need.FINAL_READ, Need.FINAL_LOG}
    if replicas:
        facts |= {Need.REPLICA_LOGS, Need.FINAL_LOG}
        if not manifest.keeps_ledger:
            facts.add(Need.LOG_FOLDERS)
    if events.num_rows:
        facts.add(Need.EVENTS)
    return facts


def _has_reads_of(reader: str | None, files: list[TableFile]) -> bool:
    """A trial names its files by clients: that of the final reader may be gone."""
    named = [found["client"] for file in files if (found := _OF_CLIENT.fullmatch(file.name))]
    return reader is not None and (reader in named or len(named) < len(files))


def _note_the_state(found: Evidence) -> None:
    """What the manifest itself says about how much of the trial is there."""
    manifest = found.manifest
    if manifest.state != COMPLETE:
        found.lacks(Phrase.of("unjudged.trial_state", state=manifest.state))
    if not manifest.kept and any(name.endswith(".slots") for name in found.place.listed("journal")):
        found.facts.discard(Need.ALL_SENDS)
        found.lacks(Phrase.of("unjudged.in_journals", folder=str(found.place)))
    for entry in manifest.missing:
        if entry.get("what") != "segment files":
            what, why = entry.get("what", "something"), entry.get("why", "no reason was recorded")
            found.lacks(Phrase.of("unjudged.missing", what=what, why=why))


def broker_logs(place: Place) -> dict[int, str]:
    """The log files of brokers, by their numbers."""
    found = {}
    for name in place.listed("logs"):
        if named := _BROKER_LOG.fullmatch(name):
            found[int(named["id"])] = f"logs/{name}"
    return found


# ---------------------------------------------------------------- tables


def _names(place: Place, table: Table) -> dict[str, int]:
    return {
        f"{table.name}/{name}": size
        for name, size in place.listed(table.name).items()
        if name.endswith(SUFFIX) and name[0] not in "._"
    }


def _files(place: Place, table: Table) -> tuple[list[TableFile], dict[str, str]]:
    """The files of a table whose footers can be read; and the others, by name, with what is wrong."""
    good, damaged = [], {}
    for name, size in _names(place, table).items():
        try:
            with place.open(name) as source:
                footer = pq.ParquetFile(source).metadata
        except Exception as error:  # Arrow's errors share no class but Exception
            damaged[name] = _damage(error)
            continue
        rows = tuple(footer.row_group(group).num_rows for group in range(footer.num_row_groups))
        good.append(TableFile(name, rows, size, *_from_footer(footer, table)))
    return good, damaged


def _from_footer(footer: Any, table: Table) -> tuple[bool, bool, int | None, int | None]:
    """Whether a row may belong to a transaction, whether rows tell keys, and the first and the last time
    of the file."""
    begins, ends, transactional, keyed = [], [], False, False
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for index in range(group.num_columns):
            column = group.column(index)
            name, statistics = column.path_in_schema, column.statistics
            some = statistics is None or not statistics.has_null_count
            some = some or statistics.null_count < group.num_rows
            transactional |= name == "transaction" and some and table is not RECORDS
            keyed |= name == "key" and (some or table is LEDGER)
            if statistics is None or not statistics.has_min_max or table is not LEDGER:
                continue
            if name == "sent_us":
                begins.append(statistics.min)
            if name in ("sent_us", "settled_us"):
                ends.append(statistics.max)
    return transactional, keyed, min(begins, default=None), max(ends, default=None)


def _table(place: Place, table: Table, unjudged: list[Phrase]) -> Any:
    """A small table as a whole."""
    schema = arrow_schema(table)
    parts = []
    for name in _names(place, table):
        try:
            with place.open(name) as source:
                file = pq.ParquetFile(source, page_checksum_verification=True)
                parts.append(conformed(file.read(), schema))
        except Exception as error:  # Arrow's errors share no class but Exception
            unjudged.append(_left_out(name, _damage(error)))
    return pa.concat_tables(parts) if parts else pa.Table.from_pylist([], schema)


def _damage(error: Exception) -> str:
    return "it is not a whole Parquet file" if isinstance(error, pa.ArrowInvalid) else first_line(error)


def _left_out(name: str, why: str) -> Phrase:
    return Phrase.of("unjudged.left_out", file=name, why=why)


def _rows(place: Place, table: Table, unjudged: list[Phrase]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _table(place, table, unjudged).to_pylist()
    return found


def conformed(table: Any, schema: Any) -> Any:
    """With just these columns: what an older version did not write is null."""
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
