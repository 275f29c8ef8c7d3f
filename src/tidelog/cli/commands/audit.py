"""``tidelog audit``: check every acknowledged record of a trial, or a table against its topic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli import completion
from tidelog.cli.options import JsonOption, MasterOption, RemoteOption, flag, one_of, value
from tidelog.cli.paths import absolute
from tidelog.errors import Refusal
from tidelog.extras import require

EXAMPLES = """\b
Examples:
  tidelog audit trial-20260101-120000
  tidelog audit trial-1 --json | jq .counts
  tidelog audit trial-1 --report /tmp/report.html
  tidelog audit trial-1 --engine local
  tidelog audit s3a://bucket/trial-1 --master spark://host:7077
  tidelog audit --follow trial-1
  tidelog audit --follow --bootstrap-servers 127.0.0.1:9092 --topic events
  tidelog audit --topic events --logs /var/kafka-logs --table /lake/events
  tidelog audit --topic events --logs /var/kafka-logs --table /lake/events --state audit-state --json

\b
Exit code: 0 every promise held, 1 a promise was broken,
2 inconclusive or wrong usage. With --follow: 0 no findings, 1 findings.
With --table: 0 the table has every record once, 1 it has not.
"""

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
        default="EVIDENCE/audit/report.html; none with --table",
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
        "Column for topic, partition, offset or value; repeatable. topic= for none. Values are compared if "
        "a column is named.",
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
State = Annotated[
    str | None,
    _of_table("DIR", "Folder for the offsets judged so far; a later run judges what is new.", "--state"),
]
Since = Annotated[str | None, _of_table("TIME", "Judge records from this time on (UTC).", "--since")]
Until = Annotated[str | None, _of_table("TIME", "Judge records before this time (UTC).", "--until")]


def audit(
    folder: Folder = None,
    *,
    report: Report = None,
    no_report: NoReport = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    ui: WithUi = False,
    engine: ChosenEngine = "spark",
    as_json: JsonOption = False,
    follow: Follow = False,
    bootstrap_servers: Servers = None,
    topic: Topic = None,
    from_beginning: FromBeginning = False,
    checkpoint: Checkpoint = None,
    seconds: Seconds = None,
    table: Table = None,
    format_: TableFormat = "parquet",
    logs: Logs = None,
    columns: TableColumns = None,
    query_checkpoint: QueryCheckpoint = None,
    connect_offsets: ConnectOffsets = None,
    state: State = None,
    since: Since = None,
    until: Until = None,
) -> int:
    """Audit the evidence of a trial, or a table against its topic.

    Finds lost, duplicated, rewritten and reordered records and their causes. Writes the verdict, the findings
    and an HTML report to EVIDENCE/audit. With --topic and --table: finds offsets that the table lacks or has
    twice.
    """
    require("spark", "tidelog audit")
    if report is not None and no_report:
        raise Refusal("choose one of --report and --no-report")
    of_table = (logs, columns, query_checkpoint, connect_offsets, state, since, until)
    if table is not None:
        if folder is not None or follow or from_beginning or checkpoint or seconds:
            raise Refusal("--table compares a table with its --topic: leave out EVIDENCE and its options")
        from tidelog.cli.commands.audit_table import TableOptions, audit_table

        where = (topic, table, format_, bootstrap_servers, logs or [], columns or [])
        spark = (master, remote, ui)
        return audit_table(TableOptions(*where, *of_table[2:], *spark, as_json, report))
    if any(of_table):
        raise Refusal(
            "--logs, --columns, --query-checkpoint, --connect-offsets, --state, --since, --until need --table"
        )
    live = (bootstrap_servers, topic, from_beginning, checkpoint, seconds)
    if follow:
        from tidelog.cli.commands import audit_follow

        return audit_follow.follow(
            audit_follow.FollowOptions(
                None if folder is None else Path(folder).absolute(), *live, master, remote, ui, as_json
            )
        )
    if any(live):
        raise Refusal(
            "--bootstrap-servers, --topic, --from-beginning, --checkpoint and --seconds need --follow"
        )
    if folder is None:
        raise Refusal("name the evidence folder of a trial")
    choices = {"report": report, "with_report": not no_report, "engine": engine}
    choices |= {"master": master, "remote": remote, "ui": ui}
    return _audit_evidence(folder, choices, as_json=as_json)


def _audit_evidence(folder: str, choices: dict[str, Any], *, as_json: bool) -> int:
    from tidelog.cli.show.audit import exit_code, present
    from tidelog.cli.show.trial_progress import watched
    from tidelog.pipeline.audit import run

    one_of("engine", choices["engine"], run.ENGINES)
    try:
        with watched(quiet=as_json) as watcher:
            audited = run.audit(folder, **choices, watcher=watcher)
    except KeyboardInterrupt:
        raise Refusal(f"interrupted; only audit/ was changed in {folder}") from None
    present(audited, as_json=as_json)
    return exit_code(audited)
