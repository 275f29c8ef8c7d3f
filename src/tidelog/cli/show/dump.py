"""Rows of ``tidelog dump`` for a terminal: a line each, and the partitions of a log directory as a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from tidelog.cli.show import palette
from tidelog.cli.show.lines import columns, or_dash, size_text
from tidelog.narrate.numbers import counted
from tidelog.storage.dump.rows import FINDING, NOTE, Row

_HEADS = ("partition", "start", "end", "HW", "records", "segments", "size", "epochs", "findings")
_SHOWN_MAX = 200
"""Characters of a value that the text shows; JSON has all of them."""


def line(row: Row) -> Text:
    kind = row["kind"]
    if kind == FINDING:
        where = "" if row["position"] is None else f" at byte {row['position']}"
        return Text.assemble(("! ", palette.BAD), f"{row['file']}{where}: ", (row["problem"], palette.BAD))
    if kind == NOTE:
        return Text.assemble(("- ", palette.FAINT), f"{row['file']}: {row['text']}")
    return _LINES[kind](row)


def time_text(milliseconds: int) -> str:
    if milliseconds < 0:
        return "no time"
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"time {milliseconds}"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def _batch(row: Row) -> Text:
    words = [
        f"@{row['position']:<10}",
        f"{row['base_offset']}..{row['last_offset']}",
        f"epoch {row['epoch']}",
        counted(row["records"], "record"),
        size_text(row["bytes"]),
        row["compression"],
        time_text(row["max_timestamp"]),
    ]
    if row["producer_id"] >= 0:
        words.append(
            f"producer {row['producer_id']} epoch {row['producer_epoch']} sequence {row['base_sequence']}"
        )
    words += [name for name in ("transactional", "control") if row[name]]
    if row["timestamp_type"] != "CreateTime":
        words.append(row["timestamp_type"])
    text = Text("  ".join(words))
    if row["epoch"] >= 0:
        text.highlight_words([f"epoch {row['epoch']}"], palette.STRONG)
    return text


def _message(row: Row) -> Text:
    words = (
        f"@{row['position']:<10}",
        f"{row['base_offset']}",
        f"magic {row['magic']}",
        size_text(row["bytes"]),
    )
    return Text("  ".join((*words, row["compression"], time_text(row["max_timestamp"]))))


def _record(row: Row) -> Text:
    text = Text(f"    {row['offset']:<10}  {time_text(row['timestamp'])}  ")
    if "control" in row:
        return text.append(f"control: {row['control']}", palette.FAINT)
    text.append("key ", palette.FAINT).append(value_text(row, "key"))
    text.append("  value ", palette.FAINT).append(value_text(row, "value"))
    for header in row["headers"]:
        text.append(f"  {header['name']}=", palette.FAINT).append(value_text(header, "value"))
    return text


def value_text(row: Row, name: str) -> str:
    if f"{name}_base64" in row:
        shown = f"base64:{row[f'{name}_base64']}"
    else:
        shown = json.dumps(row[name], ensure_ascii=False)
    return shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}… ({len(shown)} characters)"


def _segment(row: Row) -> Text:
    offsets = (
        f"{row.get('first_offset', row['base_offset'])}..{row['end_offset'] - 1}"
        if row["batches"]
        else "empty"
    )
    words = (
        Path(row["file"]).name,
        offsets,
        f"{row['batches']} batch{'' if row['batches'] == 1 else 'es'}",
        counted(row["records"], "record"),
    )
    return Text("  ".join((*words, size_text(row["bytes"]))))


def _partition(row: Row) -> Text:
    words = [
        f"{row['topic']}-{row['partition']}",
        f"offsets {row['start_offset']} to {row['end_offset']}",
        f"{counted(row['records'], 'record')} in {counted(row['segments'], 'segment')}",
        size_text(row["bytes"]),
        f"epochs {epochs_text(row)}",
        f"high watermark {or_dash(row['high_watermark'])}",
        findings_text(row["findings"]),
    ]
    return Text("  ".join(words), palette.STRONG)


def epochs_text(row: Row) -> str:
    """Epochs and their start offsets, as `0@0 2@17`. Of more than four, only the last three."""
    shown = [f"{epoch}@{start}" for epoch, start in row["epochs"]]
    return " ".join(shown if len(shown) <= 4 else ["…", *shown[-3:]]) or "-"


def findings_text(count: int) -> str:
    return counted(count, "finding") if count else "no findings"


def _epoch(row: Row) -> Text:
    return Text(f"epoch {row['epoch']}  from offset {row['start_offset']}")


def _checkpoint(row: Row) -> Text:
    return Text(f"{row['topic']}-{row['partition']}  {row['offset']}")


def _producer(row: Row) -> Text:
    first = row["last_offset"] - row["offset_delta"]
    words = [
        f"producer {row['producer_id']}",
        f"epoch {row['producer_epoch']}",
        f"last sequence {row['last_sequence']}",
        f"last batch {first}..{row['last_offset']}",
        time_text(row["timestamp"]),
    ]
    if row["transaction_first_offset"] >= 0:
        words.append(f"in a transaction since {row['transaction_first_offset']}")
    return Text("  ".join(words))


def _aborted(row: Row) -> Text:
    return Text(
        f"producer {row['producer_id']}  aborted {row['first_offset']}..{row['last_offset']}"
        f"  last stable offset {row['last_stable_offset']}"
    )


_LINES: dict[str, Callable[[Row], Text]] = {
    "log dir": lambda row: Text(row["file"], palette.STRONG),
    "batch": _batch,
    "message": _message,
    "record": _record,
    "segment": _segment,
    "partition": _partition,
    "epoch": _epoch,
    "checkpoint": _checkpoint,
    "producer": _producer,
    "aborted transaction": _aborted,
    "property": lambda row: Text(f"{row['name']}={row['value']}"),
    "index entry": lambda row: Text(f"offset {row['offset']}  at {row['position']}"),
    "time index entry": lambda row: Text(f"{time_text(row['timestamp'])}  offset {row['offset']}"),
}


# ---------------------------------------------------------------- partitions


def summary(partitions: list[Row]) -> list[Text]:
    """The partitions of a log directory in a table."""
    if not partitions:
        return []
    rows: list[list[Text | str]] = []
    for row in partitions:
        findings = row["findings"]
        rows.append(
            [
                Text(f"{row['topic']}-{row['partition']}", palette.COMMAND),
                str(row["start_offset"]),
                str(row["end_offset"]),
                or_dash(row["high_watermark"]),
                str(row["records"]),
                str(row["segments"]),
                size_text(row["bytes"]),
                epochs_text(row),
                Text(str(findings), palette.BAD) if findings else Text("none", palette.GOOD),
            ]
        )
    return columns(_HEADS, rows, "lrrrrrrll")
