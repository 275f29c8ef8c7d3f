"""``tidelog audit``: what became of every promise in the evidence of a trial, judged on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.choices import JsonOption
from tidelog.cli.errors import Refusal

EXAMPLES = """\b
Examples:
  tidelog audit trial-20260101-120000
  tidelog audit trial-1 --json | jq .counts
  tidelog audit trial-1 --report /tmp/report.html
  tidelog audit /mnt/trial-1 --master spark://host:7077

\b
Exit code: 0 every promise held, 1 one was broken, 2 it cannot be said.
"""

Folder = Annotated[
    Path, typer.Argument(metavar="EVIDENCE", help="The folder that a trial left.", show_default=False)
]
Report = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Where to write the report.", show_default="EVIDENCE/audit/report.html"
    ),
]
NoReport = Annotated[bool, typer.Option("--no-report", help="Write none.")]
Master = Annotated[
    str | None, typer.Option(metavar="URL", help="A Spark cluster.", show_default="this machine")
]
Remote = Annotated[
    str | None, typer.Option(metavar="sc://H:P", help="A Spark Connect server instead.", show_default=False)
]
WithUi = Annotated[bool, typer.Option("--ui", help="Have Spark show its own web page meanwhile.")]


def audit(
    folder: Folder,
    *,
    report: Report = None,
    no_report: NoReport = False,
    master: Master = None,
    remote: Remote = None,
    ui: WithUi = False,
    as_json: JsonOption = False,
) -> int:
    """Judge the evidence of a trial: what was lost, repeated, changed or out of order, and why.

    The verdict and everything found stay in EVIDENCE/audit, with a report to open in a browser.
    """
    if report is not None and no_report:
        raise Refusal("choose one of --report and --no-report")
    from tidelog.cli.audit_folder import judgeable
    from tidelog.cli.audit_run import Auditor
    from tidelog.cli.audit_verdict import exit_code, present
    from tidelog.cli.trial_progress import watched
    from tidelog.pipeline.errors import PipelineError

    with judgeable(folder):
        try:
            with watched(quiet=as_json) as watcher:
                auditor = Auditor(watcher, master=master, remote=remote, ui=ui)
                audited = auditor.audit(folder, report=report, with_report=not no_report)
        except PipelineError as error:
            raise Refusal(str(error)) from None
        except KeyboardInterrupt:
            raise Refusal(f"interrupted; nothing in {folder} was changed but audit/") from None
    present(audited, as_json=as_json)
    return exit_code(audited)
