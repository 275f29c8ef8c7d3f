"""The partitions of a log directory in a table."""

from __future__ import annotations

from rich.text import Text

from tidelog.cli import palette
from tidelog.cli.columns import columns, size_text
from tidelog.cli.show.dump import epochs_text
from tidelog.storage.dump.rows import Row

_HEADS = ("partition", "start", "end", "HW", "records", "segments", "size", "epochs", "findings")


def summary(partitions: list[Row]) -> list[Text]:
    if not partitions:
        return []
    rows: list[list[Text | str]] = []
    for row in partitions:
        watermark = row["high_watermark"]
        findings = row["findings"]
        rows.append(
            [
                Text(f"{row['topic']}-{row['partition']}", palette.COMMAND),
                str(row["start_offset"]),
                str(row["end_offset"]),
                "-" if watermark is None else str(watermark),
                str(row["records"]),
                str(row["segments"]),
                size_text(row["bytes"]),
                epochs_text(row),
                Text(str(findings), palette.BAD) if findings else Text("none", palette.GOOD),
            ]
        )
    return columns(_HEADS, rows, "lrrrrrrll")
