"""``tidelog audit``: check every acknowledged record of a trial, or a table against its topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidelog.cli.options import JsonOption, MasterOption, RemoteOption, one_of
from tidelog.cli.parameters import audit as given
from tidelog.cli.paths import check_file
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

_NEEDS_TABLE = (
    "--logs, --columns, --history, --query-checkpoint, --connect-offsets, --state, --since and "
    "--until need --table"
)
_NEEDS_FOLLOW = "--bootstrap-servers, --topic, --from-beginning, --checkpoint and --seconds need --follow"


def audit(
    folder: given.Folder = None,
    *,
    report: given.Report = None,
    no_report: given.NoReport = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    ui: given.WithUi = False,
    engine: given.ChosenEngine = "spark",
    as_json: JsonOption = False,
    follow: given.Follow = False,
    bootstrap_servers: given.Servers = None,
    topic: given.Topic = None,
    from_beginning: given.FromBeginning = False,
    checkpoint: given.Checkpoint = None,
    seconds: given.Seconds = None,
    table: given.Table = None,
    format_: given.TableFormat = "parquet",
    logs: given.Logs = None,
    columns: given.TableColumns = None,
    query_checkpoint: given.QueryCheckpoint = None,
    connect_offsets: given.ConnectOffsets = None,
    history: given.History = None,
    state: given.State = None,
    since: given.Since = None,
    until: given.Until = None,
) -> int:
    """Audit the evidence of a trial, or a table against its topic.

    Finds lost, duplicated, rewritten and reordered records and their causes. Writes the verdict, the findings
    and an HTML report to EVIDENCE/audit. With --topic and --table: finds offsets that the table lacks or has
    twice.
    """
    require("spark", "tidelog audit")
    if report is not None and no_report:
        raise Refusal("choose one of --report and --no-report")
    if follow and (report is not None or no_report):
        raise Refusal("--follow writes no report: leave out --report and --no-report")
    _check_engine(engine, master, remote, needs_spark=follow or table is not None)
    check_file(report)
    of_table = (logs, columns, history, query_checkpoint, connect_offsets, state, since, until)
    if table is not None:
        if folder is not None or follow or from_beginning or checkpoint or seconds:
            raise Refusal("--table compares a table with its --topic: leave out EVIDENCE and its options")
        from tidelog.cli.commands.audit_table import TableOptions, audit_table

        where = (topic, table, format_, bootstrap_servers, logs or [], columns or [], history or [])
        spark = (master, remote, ui)
        return audit_table(TableOptions(*where, *of_table[3:], *spark, as_json, report))
    if any(of_table):
        raise Refusal(_NEEDS_TABLE)
    live = (bootstrap_servers, topic, from_beginning, checkpoint, seconds)
    if follow:
        from tidelog.cli.commands import audit_follow

        return audit_follow.follow(
            audit_follow.FollowOptions(
                None if folder is None else Path(folder).absolute(), *live, master, remote, ui, as_json
            )
        )
    if any(live):
        raise Refusal(_NEEDS_FOLLOW)
    if folder is None:
        raise Refusal("name the evidence folder of a trial")
    choices = {"report": report, "with_report": not no_report, "engine": engine}
    choices |= {"master": master, "remote": remote, "ui": ui}
    return _audit_evidence(folder, choices, as_json=as_json)


def _check_engine(engine: str, master: str | None, remote: str | None, *, needs_spark: bool) -> None:
    from tidelog.pipeline.audit.run import ENGINES, LOCAL
    from tidelog.pipeline.spark.session import check_place

    one_of("engine", engine, ENGINES)
    if engine == LOCAL and needs_spark:
        raise Refusal("--engine local: --follow and --table run on Spark")
    check_place(master, remote)


def _audit_evidence(folder: str, choices: dict[str, Any], *, as_json: bool) -> int:
    from tidelog.cli.show.audit import exit_code, present
    from tidelog.cli.show.trial_progress import watched
    from tidelog.pipeline.audit import run

    try:
        with watched(quiet=as_json) as watcher:
            audited = run.audit(folder, **choices, watcher=watcher)
    except KeyboardInterrupt:
        raise Refusal(f"interrupted; only audit/ was changed in {folder}") from None
    present(audited, as_json=as_json)
    return exit_code(audited)
