"""``tidelog audit``: check every acknowledged record of a trial."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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

\b
Exit code: 0 every promise held, 1 a promise was broken,
2 inconclusive or wrong usage. With --follow: 0 no findings, 1 findings.
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
    value("spark|local", "Run on Spark, or in processes of this machine without Java.", "--engine"),
]
Report = Annotated[
    Path | None,
    value("FILE", "Path of the report.", default="EVIDENCE/audit/report.html", callback=absolute),
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
    value("H:P", "With --follow: cluster of the topic.", default=False),
]
Topic = Annotated[str | None, value("NAME", "With --follow: topic to follow.", default=False)]
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
) -> int:
    """Audit the evidence of a trial.

    Finds lost, duplicated, rewritten and reordered records and their causes. Writes the verdict, the findings
    and an HTML report to EVIDENCE/audit.
    """
    require("spark", "tidelog audit")
    if report is not None and no_report:
        raise Refusal("choose one of --report and --no-report")
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
    from tidelog.cli.show.audit import exit_code, present
    from tidelog.cli.show.trial_progress import watched
    from tidelog.pipeline.audit import run

    try:
        with watched(quiet=as_json) as watcher:
            audited = run.audit(
                folder,
                report=report,
                with_report=not no_report,
                engine=one_of("engine", engine, run.ENGINES),
                master=master,
                remote=remote,
                ui=ui,
                watcher=watcher,
            )
    except KeyboardInterrupt:
        raise Refusal(f"interrupted; only audit/ was changed in {folder}") from None
    present(audited, as_json=as_json)
    return exit_code(audited)
