"""What a live audit found, and where it is kept: as Parquet, one file for each micro-batch with findings.

A micro-batch that is repeated after a crash finds the same, and finds its file there already. So each finding
is kept once, and printed once: it is written to the file first.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tidelog.errors import reason
from tidelog.evidence.parquet.parts import SUFFIX, part_files, write_part
from tidelog.pipeline.audit.findings import ARROW_TYPES, COLUMNS, NOTICE, VIOLATION
from tidelog.pipeline.errors import PipelineError

POLL_SKIP: Final = "poll skip"
NONMONOTONIC_POLL: Final = "non-monotonic poll"
REWRITTEN: Final = "rewritten"
INCONSISTENT_OFFSET: Final = "inconsistent offset"
DUPLICATED: Final = "duplicated"
GAP: Final = "gap"

SEVERITIES: Final = {
    POLL_SKIP: VIOLATION,
    NONMONOTONIC_POLL: VIOLATION,
    REWRITTEN: VIOLATION,
    INCONSISTENT_OFFSET: VIOLATION,
    # Whether a producer may repeat itself, and whether offsets may be empty, only others can tell.
    DUPLICATED: NOTICE,
    GAP: NOTICE,
}
_TYPES: Final = {
    name: COLUMNS[name if name in COLUMNS else "offset"]
    for name in (
        *("anomaly", "severity", "topic", "partition", "offset", "last_offset", "count", "value"),
        *("consumer", "position", "time_us", "detail"),
    )
}
SPARK_SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in _TYPES.items())
_SCHEMA: Final = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in _TYPES.items()])
_MORE: Final = "; and more like it"


@dataclass(slots=True)
class Finding:
    anomaly: str
    offset: int
    last_offset: int
    count: int
    value: str | None
    consumer: str | None
    time_us: int
    detail: str
    position: int | None = None
    """The offset that the consumer waited for, of one that was moved."""

    def row(self, topic: str, partition: int) -> dict[str, Any]:
        return asdict(self) | {
            "severity": SEVERITIES[self.anomaly],
            "topic": topic,
            "partition": partition,
        }


def in_runs(found: list[Finding], most: int) -> list[Finding]:
    """Neighbours that say the same become one finding; of each anomaly at most `most`, the rest counted."""
    merged: list[Finding] = []
    for finding in sorted(found, key=lambda finding: (finding.anomaly, finding.offset)):
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.anomaly == finding.anomaly
            and last.last_offset + 1 == finding.offset
            and finding.anomaly not in (POLL_SKIP, NONMONOTONIC_POLL, GAP)
        ):
            _add(last, finding)
        else:
            merged.append(finding)
    kept: list[Finding] = []
    numbers: dict[str, int] = {}
    for finding in merged:
        number = numbers[finding.anomaly] = numbers.get(finding.anomaly, 0) + 1
        if number <= most:
            kept.append(finding)
        else:
            _add(kept[-1], finding)
    return kept


def _add(to: Finding, more: Finding) -> None:
    to.last_offset = max(to.last_offset, more.last_offset)
    to.count += more.count
    to.detail = to.detail.removesuffix(_MORE) + _MORE


class Findings:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def kept(self) -> int:
        """How many there are, from all runs."""
        return sum(pq.read_metadata(path).num_rows for path in part_files(self.folder))

    def keep(self, batch: int, rows: list[dict[str, Any]]) -> bool:
        """Whether they are new. Raises `PipelineError` if they cannot be written."""
        stem = f"batch-{batch:08d}"
        if (self.folder / f"{stem}{SUFFIX}").exists():
            return False
        try:
            write_part(self.folder, stem, pa.Table.from_pylist(rows, _SCHEMA))
        except OSError as error:
            raise PipelineError(f"{self.folder}: {reason(error)}") from None
        return True
