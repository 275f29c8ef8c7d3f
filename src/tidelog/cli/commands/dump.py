"""``tidelog dump``: print the content of log files and verify it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import flag
from tidelog.cli.show.output import console, write_lines, write_text
from tidelog.errors import Refusal

if TYPE_CHECKING:
    from tidelog.storage.dump.rows import Row, Rows

EXAMPLES = """\b
Examples:
  tidelog dump data/broker-1                     all partitions, one line each
  tidelog dump data/broker-1/events-0            one partition: segments, epochs
  tidelog dump --records data/broker-1/events-0/00000000000000000000.log
  tidelog dump --json data/broker-1 | jq 'select(.kind == "finding")'

\b
Exit code: 0 no findings, 1 findings, 2 wrong usage.
"""


def dump(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH…",
            help="Files (.log, .index, .timeindex, .snapshot, checkpoints), partition folders, log dirs.",
            show_default=False,
        ),
    ],
    records: Annotated[bool, flag("Decode batches and print their records.", "--records")] = False,
    as_json: Annotated[bool, flag("Print JSON lines.", "--json")] = False,
) -> int:
    """Print and verify log files of tidelog or Apache Kafka.

    Reads only, and needs no broker. If a broker is writing to the files, its last batch can look cut off.
    """
    from tidelog.storage.dump.rows import FINDING

    for path in paths:
        if not path.exists():
            raise Refusal(f"{path}: no such file or directory")
    findings = 0
    for path in paths:
        rows = _counted(path, records=records)
        for row in _printed_as_json(rows) if as_json else _printed(path, rows):
            findings += row["kind"] == FINDING
    return ExitCode.VIOLATED if findings else ExitCode.HELD


def _counted(path: Path, *, records: bool) -> Rows:
    from tidelog.storage.dump.files import file_rows
    from tidelog.storage.dump.folders import folder_rows

    return folder_rows(path, records=records) if path.is_dir() else file_rows(path, records=records)


def _printed_as_json(rows: Rows) -> Rows:
    for row in rows:
        write_text(json.dumps(row, ensure_ascii=False) + "\n")
        yield row


def _printed(path: Path, rows: Rows) -> Rows:
    """Print each row as it comes. The partitions of a log directory follow as one table."""
    from tidelog.cli.show.dump import line, summary

    screen = console()
    partitions: list[Row] = []
    for row in rows:
        if row["kind"] == "log dir":
            write_lines(screen, summary(partitions))
            partitions.clear()
        if row["kind"] == "partition" and Path(row["file"]) != path:
            partitions.append(row)
        else:
            write_lines(screen, [line(row)])
        yield row
    write_lines(screen, summary(partitions))
