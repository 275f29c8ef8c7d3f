"""Summary of a trial without an audit: what was sent, the outcomes, and which records are lost.

An acknowledged record is lost if the final read, every partition from its beginning to its end, did not
return it. That is exact and cheap, but less than an audit: it does not compare replicas, check what consumers
read before, or find causes.

Rules of the file: one producer at a time, so that memory is bounded by the longest of their ledgers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.dataset as ds  # type: ignore[import-untyped]

from tidelog.evidence.folder import EvidenceError, EvidenceFolder, Manifest
from tidelog.evidence.parquet.parts import damaged_part, dataset, part_files, read_table
from tidelog.evidence.tables import FAULTS, LEDGER, READS

UNAVAILABLE_US: Final = 1_000_000
"""A partition is unavailable if a send waited this long and none was acknowledged."""
_SHOWN: Final = 10


@dataclass(slots=True, frozen=True)
class Outage:
    """A time in which a partition acknowledged no send, though one waited; in ms since the load began."""

    partition: int
    from_ms: int
    to_ms: int

    @property
    def duration_ms(self) -> int:
        return self.to_ms - self.from_ms


@dataclass(slots=True)
class TrialSummary:
    state: str
    stage: str
    seconds: float = 0.0
    sent: int = 0
    rate: float = 0.0
    """Sends a second, from the first to the last of them."""
    ok: int = 0
    failed: int = 0
    unknown: int = 0
    reads: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    """Sends that were not acknowledged, by the error that was reported last."""
    latency_ms: dict[str, float] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    """How many of each kind were done."""
    unavailable: list[Outage] = field(default_factory=list)
    lost: int = 0
    """Acknowledged with acks=1 or acks=all, and not in the final log."""
    lost_by_acks: dict[str, int] = field(default_factory=dict)
    lost_examples: list[dict[str, Any]] = field(default_factory=list)
    unconfirmed_missing: int = 0
    """Sent with acks=0 and not in the final log: no broker acknowledged them."""
    repeated: int = 0
    """How often the final log holds a value once more: what retries without idempotence do."""
    duplicated: int = 0
    """The same of idempotent producers. Whose fault it is only an audit can tell: brokers must refuse a
    repeat, but after a time-out librdkafka begins a new epoch and sends what was in flight once more."""
    duplicated_examples: list[str] = field(default_factory=list)
    missing: list[dict[str, str]] = field(default_factory=list)
    has_ledger: bool = True
    """Whether there is any record of what was sent."""
    checked: bool = False
    """Whether anything was sent, and there was a final read to look for losses in."""

    @property
    def held(self) -> bool:
        return self.checked and not self.lost

    def as_json(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in self.__slots__}
        facts["unavailable"] = [
            {"partition": w.partition, "from_ms": w.from_ms, "to_ms": w.to_ms} for w in self.unavailable
        ]
        return facts


def summarize(folder: EvidenceFolder) -> TrialSummary:
    """Look at the evidence of a trial that has ended. Raises `EvidenceError` if a table is damaged."""
    try:
        return _summarize(folder)
    except (pa.ArrowException, OSError):
        damaged = damaged_part(folder.path, (LEDGER, READS, FAULTS))
        if damaged is None:
            raise
        raise EvidenceError(
            f"{damaged} is damaged, it is not a whole Parquet file: "
            "restore it, or move it away to see the rest"
        ) from None


def _summarize(folder: EvidenceFolder) -> TrialSummary:
    path, manifest = folder.path, folder.manifest
    summary = TrialSummary(manifest.state, manifest.stage, missing=manifest.missing)
    if manifest.load_started_us is not None and manifest.load_ended_us is not None:
        summary.seconds = (manifest.load_ended_us - manifest.load_started_us) / 1_000_000
    summary.has_ledger = bool(part_files(path / LEDGER.name))
    _count(summary, path)
    _find_windows(summary, path, manifest)
    if manifest.final_reader is not None:
        _find_losses(summary, path, manifest.final_reader)
        summary.checked = summary.sent > 0
    return summary


# ---------------------------------------------------------------- counts


def _count(summary: TrialSummary, path: Path) -> None:
    ledger = read_table(path, LEDGER, ["outcome", "error", "sent_us", "settled_us"])
    summary.sent = ledger.num_rows
    if summary.sent:
        span = pc.min_max(ledger["sent_us"]).as_py()
        if span["min"] is not None:  # an imported history may have no times
            summary.rate = round(summary.sent / max((span["max"] - span["min"]) / 1e6, 0.001), 1)
    outcomes = _counted(ledger["outcome"])
    summary.ok, summary.failed, summary.unknown = (outcomes.get(o, 0) for o in ("ok", "failed", "unknown"))
    bad = ledger.filter(pc.not_equal(ledger["outcome"], "ok"))
    summary.errors = _counted(pc.fill_null(bad["error"], "(never reported)"))
    good = ledger.filter(pc.equal(ledger["outcome"], "ok"))
    latency = pc.drop_null(pc.subtract(good["settled_us"], good["sent_us"]))
    if len(latency):
        points = pc.quantile(latency, [0.5, 0.99, 1.0]).to_pylist()
        summary.latency_ms = {
            name: round(us / 1000, 1) for name, us in zip(("p50", "p99", "max"), points, strict=True)
        }
    summary.reads = _counted(read_table(path, READS, ["consumer"])["consumer"])
    faults = read_table(path, FAULTS, ["kind", "began_us"])
    summary.faults = _counted(faults.filter(pc.is_valid(faults["began_us"]))["kind"])


def _counted(column: Any) -> dict[str, int]:
    """How often each value occurs, the most frequent first."""
    counts = [(entry["values"], entry["counts"]) for entry in pc.value_counts(column).to_pylist()]
    return dict(sorted(counts, key=lambda entry: (-entry[1], entry[0])))


# ---------------------------------------------------------------- windows


def _find_windows(summary: TrialSummary, path: Path, manifest: Manifest) -> None:
    acknowledged = (ds.field("outcome") == "ok") & (ds.field("acks") != 0)
    acks = read_table(path, LEDGER, ["partition", "sent_us", "settled_us"], acknowledged)
    acks = acks.sort_by([("partition", "ascending"), ("settled_us", "ascending")]).combine_chunks()
    if acks.num_rows < 2:
        return
    earlier, later = acks.slice(0, acks.num_rows - 1), acks.slice(1)
    # The first to be acknowledged after a silence had waited through it: it was not a lack of load.
    began = pc.max_element_wise(earlier["settled_us"], later["sent_us"])
    silent = pc.greater_equal(pc.subtract(later["settled_us"], began), UNAVAILABLE_US)
    same = pc.equal(earlier["partition"], later["partition"])
    found = pa.table({"partition": later["partition"], "began": began, "ended": later["settled_us"]})
    started = manifest.load_started_us or 0
    summary.unavailable = sorted(
        (
            Outage(row["partition"], (row["began"] - started) // 1000, (row["ended"] - started) // 1000)
            for row in found.filter(pc.and_(silent, same)).to_pylist()
        ),
        key=lambda window: (window.from_ms, window.partition),
    )


# ---------------------------------------------------------------- losses


def _find_losses(summary: TrialSummary, path: Path, final_reader: str) -> None:
    final = read_table(path, READS, ["value"], ds.field("consumer") == final_reader)["value"]
    ledger = dataset(path, LEDGER)
    kinds = ledger.to_table(columns=["producer", "idempotent"]).group_by(["producer", "idempotent"])
    producers = {row["producer"]: row["idempotent"] for row in kinds.aggregate([]).to_pylist()}
    for producer, idempotent in sorted(producers.items()):
        found = final.filter(pc.starts_with(final, f"{producer}-"))
        _find_repeats(summary, found, idempotent=idempotent)
        promised = ledger.to_table(
            columns=["value", "acks", "topic", "partition", "offset"],
            filter=(ds.field("producer") == producer) & (ds.field("outcome") == "ok"),
        )
        absent = promised.filter(pc.invert(pc.is_in(promised["value"], value_set=found.combine_chunks())))
        unconfirmed = pc.equal(absent["acks"], 0)
        summary.unconfirmed_missing += pc.sum(unconfirmed).as_py() or 0
        lost = absent.filter(pc.invert(unconfirmed))
        summary.lost += lost.num_rows
        for acks, count in _counted(lost["acks"]).items():
            name = "all" if int(acks) == -1 else str(acks)
            summary.lost_by_acks[name] = summary.lost_by_acks.get(name, 0) + count
        room = _SHOWN - len(summary.lost_examples)
        summary.lost_examples += lost.slice(0, max(room, 0)).to_pylist()


def _find_repeats(summary: TrialSummary, found: Any, *, idempotent: bool) -> None:
    repeats = len(found) - pc.count_distinct(found).as_py()
    if not idempotent:
        summary.repeated += repeats
    elif repeats:
        summary.duplicated += repeats
        twice = [value for value, count in _counted(found).items() if count > 1]
        summary.duplicated_examples += twice[: _SHOWN - len(summary.duplicated_examples)]
