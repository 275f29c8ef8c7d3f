"""``tidelog audit --topic … --table …``: hold a topic against a table."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.errors import Refusal, unknown

if TYPE_CHECKING:
    from tidelog.pipeline.reconcile.run import Request

ROLES = ("topic", "partition", "offset", "value", "key")


@dataclass(slots=True)
class TableOptions:
    """Options of the command line."""

    topic: str | None
    table: str
    format: str = "parquet"
    bootstrap_servers: str | None = None
    logs: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    query_checkpoint: str | None = None
    connect_offsets: str | None = None
    state: str | None = None
    since: str | None = None
    until: str | None = None
    master: str | None = None
    remote: str | None = None
    ui: bool = False
    as_json: bool = False
    report: Path | None = None


def audit_table(options: TableOptions) -> int:
    """Returns the exit code."""
    from tidelog.cli.show.continuity import present
    from tidelog.pipeline.reconcile.report import write_report
    from tidelog.pipeline.reconcile.run import open_table, open_version, prove, ready
    from tidelog.pipeline.spark.session import open_session

    request = _request(options)
    # Spark takes seconds to start: look first at what can be seen without it.
    ready(request, options.format)

    def note(words: str) -> None:
        if not options.as_json:
            print(words, file=sys.stderr, flush=True)

    try:
        note("starting Spark")
        spark = open_session(
            master=options.master, remote=options.remote, ui=options.ui, app="tidelog audit --table", say=note
        )
        table = open_table(spark, options.table, options.format)
        earlier = [open_version(spark, each, options.table, options.format) for each in options.history]
        found = prove(spark, table, request, earlier, watch=note)
    except KeyboardInterrupt:
        raise Refusal("interrupted; nothing was written") from None
    present(found, options.table, as_json=options.as_json)
    if options.report is not None:
        write_report(found, options.table, options.report)
        note(f"report in {options.report}")
    return found.exit_code


def _request(options: TableOptions) -> Request:
    from tidelog.pipeline.reconcile.run import Request
    from tidelog.pipeline.reconcile.table_side import Columns

    if options.topic is None:
        raise Refusal("--table needs --topic: the topic that the table was filled from")
    return Request(
        options.topic,
        options.bootstrap_servers,
        options.logs,
        Columns(**_columns(options.columns)),
        options.query_checkpoint,
        options.connect_offsets,
        options.state,
        _milliseconds("--since", options.since),
        _milliseconds("--until", options.until),
    )


def _columns(given: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in given:
        role, equals, name = each.partition("=")
        if not equals:
            raise Refusal(f"--columns {each}: write ROLE=NAME, such as offset=kafka_offset")
        if role not in ROLES:
            raise unknown("role of a column", role, ROLES)
        if not name and role != "topic":
            raise Refusal(f"--columns {each}: name the column (only topic= may be empty)")
        found[role] = name or None
    return found


def _milliseconds(option: str, given: str | None) -> int | None:
    if given is None:
        return None
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise Refusal(f"{option} {given}: write a time such as 2026-01-31 or 2026-01-31T12:00") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)
