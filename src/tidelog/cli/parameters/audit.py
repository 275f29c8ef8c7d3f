"""The options of ``tidelog audit``, of a trial, of a live topic and of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli import completion
from tidelog.cli.options import flag, value
from tidelog.cli.paths import absolute

Folder = Annotated[
    str | None,
    typer.Argument(
        metavar="EVIDENCE",
        help="Evidence folder of a trial: a path, or an address such as s3a://bucket/trial-1.",
        show_default=False,
    ),
]
ChosenEngine = Annotated[
    str,
    value(
        "spark|local",
        "Run on Spark, or in processes of this machine without Java.",
        "--engine",
        autocompletion=completion.words("spark", "local"),
    ),
]
Report = Annotated[
    Path | None,
    value(
        "FILE",
        "Path of the report.",
        default="EVIDENCE/audit/report.html, none with --table",
        callback=absolute,
    ),
]
NoReport = Annotated[bool, flag("Do not write a report.", "--no-report")]
WithUi = Annotated[bool, flag("Enable the Spark UI.", "--ui")]

Follow = Annotated[
    bool,
    flag(
        "Report gaps, duplicates and rewrites as they happen, in a running trial or a live topic.", "--follow"
    ),
]
Servers = Annotated[
    str | None,
    value("H:P", "With --follow or --table: cluster of the topic.", default=False),
]
Topic = Annotated[str | None, value("NAME", "Topic to follow, or of the table.", default=False)]
FromBeginning = Annotated[
    bool,
    flag("Include the records that the topic already holds.", "--from-beginning"),
]
Checkpoint = Annotated[
    Path | None,
    value(
        "DIR",
        "Checkpoint directory; a later --follow resumes there.",
        default="EVIDENCE/audit/live",
        callback=absolute,
    ),
]
Seconds = Annotated[
    float | None,
    typer.Option(
        min=1, help="Stop following after this time.", show_default="until the trial ends or Ctrl-C"
    ),
]

_TABLE = "Topic against table"


def _of_table(metavar: str, help_: str, *names: str, default: bool | str = False) -> Any:
    return value(metavar, help_, *names, default=default, rich_help_panel=_TABLE)


Table = Annotated[
    str | None, _of_table("PATH", "Check every offset of --topic against this table.", "--table")
]
TableFormat = Annotated[
    str, _of_table("parquet|delta|iceberg", "Format of the table.", "--format", default=True)
]
Logs = Annotated[list[str] | None, _of_table("DIR", "Log folder that holds the topic; repeatable.", "--logs")]
TableColumns = Annotated[
    list[str] | None,
    _of_table(
        "ROLE=NAME",
        "Column for topic, partition, offset, value or key; repeatable. topic= for none. Values are compared "
        "if a column is named. With key rows are matched by it, instead of by offset.",
        "--columns",
    ),
]
QueryCheckpoint = Annotated[
    str | None,
    _of_table("DIR", "checkpointLocation of the Structured Streaming query.", "--query-checkpoint"),
]
ConnectOffsets = Annotated[
    str | None,
    _of_table("FILE", "Saved answer of Kafka Connect to GET /connectors/NAME/offsets.", "--connect-offsets"),
]
History = Annotated[
    list[str] | None,
    _of_table(
        "VERSION|PATH",
        "Earlier version of the table: its number (delta), its snapshot id (iceberg), or a copy; repeatable. "
        "Rows that only it has were removed by table maintenance.",
        "--history",
    ),
]
State = Annotated[
    str | None,
    _of_table("DIR", "Folder for the offsets judged so far; a later run judges what is new.", "--state"),
]
Since = Annotated[str | None, _of_table("TIME", "Judge records from this time on (UTC).", "--since")]
Until = Annotated[str | None, _of_table("TIME", "Judge records before this time (UTC).", "--until")]
