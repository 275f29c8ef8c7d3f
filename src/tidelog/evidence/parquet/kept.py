"""A ledger that applications keep, made ready for an audit: journals become tables, and `trial.json` says
what is known and what is not.

Rules of the file:

* Journals of processes that still run stay, and what they hold by now is copied; all others are sealed. So
  this can be repeated while the applications go on.
* What was known once stays known: a recording that stopped, a sample. `settings` of the manifest hold it.
* Without replica logs the log is what all consumers read together: `everyone`, each offset once with the
  value that was read last. It is derived again each time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.dataset as ds  # type: ignore[import-untyped]

from tidelog.evidence.folder import EvidenceFolder, Manifest
from tidelog.evidence.journals.slots import CorruptSlots, Ending, Slots, slot_files
from tidelog.evidence.parquet.parts import SUFFIX, arrow_schema, dataset, write_part
from tidelog.evidence.parquet.recovery import seal_journals
from tidelog.evidence.parquet.sealing import copy_live
from tidelog.evidence.tables import LEDGER, READS, REPLICAS, Table

EVERYONE: Final = "everyone"
_STOPPED: Final = "recording stopped"
_SAMPLED: Final = "samples"
_ROWS: Final = 1 << 20


def make_ready(folder: EvidenceFolder) -> None:
    """Seal what is finished, and write down what the tables show."""
    manifest = folder.manifest
    _note_endings(manifest, folder.journal)
    manifest.missing = []
    seal_journals(folder)
    manifest.missing = [entry for entry in manifest.missing if not _copied(folder, entry["what"])]
    for name, last in manifest.settings.get(_STOPPED, {}).items():
        manifest.lacks(f"what {name} did after row {last}", "recording stopped, and the application went on")
    for name, share in manifest.settings.get(_SAMPLED, {}).items():
        manifest.lacks(f"sends of {name} outside its sample", f"it records {share:.3g} of the keys")
    _describe(folder)
    folder.write_manifest()


def _copied(folder: EvidenceFolder, what: str) -> bool:
    """Whether a journal that could not be sealed is one that a process still writes, and is copied."""
    live = next((path for path in slot_files(folder.journal) if what.endswith(f"/{path.name}")), None)
    try:
        if live is not None:
            copy_live(live, folder.path)
    except (CorruptSlots, OSError, ValueError):
        return False
    return live is not None


def _note_endings(manifest: Manifest, journal: Path) -> None:
    """How journals ended, which their tables do not say."""
    for path in slot_files(journal):
        try:
            slots = Slots.watch(path)
        except (CorruptSlots, OSError):
            continue  # sealing names it
        constants = slots.constants
        name = constants.get("producer") or constants.get("consumer") or path.stem
        if slots.ending == Ending.STOPPED:
            number = int(path.stem.rpartition("-")[2])
            manifest.settings.setdefault(_STOPPED, {})[name] = f"{slots.rows():,} of file {number}"
        if constants.get("sample", 1.0) < 1:
            manifest.settings.setdefault(_SAMPLED, {})[name] = constants["sample"]


def _describe(folder: EvidenceFolder) -> None:
    """Topics, the time of the load, and what everyone read together."""
    manifest, path = folder.manifest, folder.path
    partitions: dict[str, int] = {}
    times: list[int] = []
    for table, column in ((LEDGER, "sent_us"), (READS, "read_us")):
        for batch in _batches(path, table, ["topic", "partition", column]):
            if batch.num_rows:
                highest = pa.table(batch).group_by("topic").aggregate([("partition", "max")]).to_pylist()
                for row in highest:
                    known = partitions.get(row["topic"], 0)
                    partitions[row["topic"]] = max(known, (row["partition_max"] or 0) + 1)
                least, most = pc.min_max(batch[column]).as_py().values()
                times += [least, most]
    topics = {topic["name"]: topic for topic in manifest.topics}
    for name, count in sorted(partitions.items()):
        topic = topics.setdefault(name, {"name": name, "partitions": 0})
        topic["partitions"] = max(int(topic.get("partitions") or 0), count)
    manifest.topics = list(topics.values())
    if times:
        manifest.started_us = manifest.load_started_us = min(times)
        manifest.load_ended_us = manifest.ended_us = max(times)
    logs = any((path / REPLICAS.name).glob(f"*{SUFFIX}"))
    everyone = path / READS.name / f"reads-{EVERYONE}-000000{SUFFIX}"
    everyone.unlink(missing_ok=True)
    manifest.final_reader, manifest.reads_to_end = None, False
    if not logs:
        _read_together(path, sorted(partitions), manifest)


def _batches(path: Path, table: Table, columns: list[str], wanted: Any = None) -> Any:
    return dataset(path, table).to_batches(columns=columns, filter=wanted, batch_size=_ROWS)


def _read_together(path: Path, topics: list[str], manifest: Manifest) -> None:
    """Write what everyone read. One topic is in memory at a time."""
    schema = arrow_schema(READS)
    parts = []
    for topic in topics:
        batches = list(_batches(path, READS, [field.name for field in schema], ds.field("topic") == topic))
        rows = pa.Table.from_batches(batches, schema) if batches else pa.Table.from_pylist([], schema)
        if not rows.num_rows:
            continue
        rows = rows.sort_by([("partition", "ascending"), ("offset", "ascending"), ("read_us", "descending")])
        place = pa.table({"p": rows["partition"], "o": rows["offset"], "n": pa.array(range(len(rows)))})
        first = place.group_by(["p", "o"]).aggregate([("n", "min")])["n_min"].sort()
        rows = rows.take(first)
        fixed = {
            "consumer": pa.repeat(pa.scalar(EVERYONE), len(rows)),
            "group": pa.nulls(len(rows), pa.string()),
            "poll": pa.repeat(pa.scalar(0, pa.int64()), len(rows)),
            "position_before": rows["offset"],
        }
        parts.append(pa.table([fixed.get(n, rows[n]) for n in schema.names], schema=schema))
    if parts:
        write_part(path / READS.name, f"reads-{EVERYONE}-000000", pa.concat_tables(parts))
        manifest.final_reader = EVERYONE
