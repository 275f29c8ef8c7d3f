"""What a live audit found, kept as Parquet: one file for each micro-batch that found something.

A micro-batch that is repeated after a crash finds the same, and finds its file there already. So each finding
is kept once, and told once: the file comes first, then the word.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tidelog.evidence.parquet.parts import SUFFIX, part_files, write_part
from tidelog.pipeline.errors import PipelineError

_SCHEMA: Final = pa.schema(
    [
        ("anomaly", pa.string()),
        ("severity", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("count", pa.int64()),
        ("value", pa.string()),
        ("consumer", pa.string()),
        ("time_us", pa.int64()),
        ("detail", pa.string()),
    ]
)


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
            raise PipelineError(f"{self.folder}: {(error.strerror or str(error)).lower()}") from None
        return True
