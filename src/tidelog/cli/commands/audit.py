"""``tidelog audit``: what became of every promise in the evidence of a trial, judged on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.errors import Refusal
from tidelog.cli.options import JsonOption
from tidelog.cli.paths import absolute

EXAMPLES = """\b
Examples:
  tidelog audit trial-20260101-120000
  tidelog audit trial-1 --json | jq .counts
  tidelog audit trial-1 --report /tmp/report.html
  tidelog audit /mnt/trial-1 --master spark://host:7077
  tidelog audit --follow trial-1
  tidelog audit --follow --bootstrap-servers 127.0.0.1:9092 --topic events

\b
Exit code: 0 every promise held, 1 one was broken, 2 it cannot be said.
With --follow: 0 nothing was found, 1 something was.
"""

Folder = Annotated[
    Path | None,
    typer.Argument(
        metavar="EVIDENCE", callback=absolute, help="The folder that a trial left.", show_default=False
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        callback=absolute,
        help="Where to write the report.",
        show_default="EVIDENCE/audit/report.html",
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

Follow = Annotated[
    bool,
    typer.Option(
        "--follow",
        help="Tell of gaps, duplicates and rewrites while a trial runs, or in a live topic.",
    ),
]
Servers = Annotated[
    str | None,
    typer.Option(metavar="H:P", help="Follow a topic of this cluster.", show_default=False),
]
Topic = Annotated[str | None, typer.Option(metavar="NAME", help="Which.", show_default=False)]
FromBeginning = Annotated[
    bool,
    typer.Option("--from-beginning", help="What the topic holds already, too."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        callback=absolute,
        help="Where to keep what is known: whoever follows again goes on from there.",
        show_default="EVIDENCE/audit/live",
    ),
]
Seconds = Annotated[
    float | None,
    typer.Option(min=1, help="End after so long.", show_default="with the trial, or Ctrl-C"),
]


def audit(
    folder: Folder = None,
    *,
    report: Report = None,
    no_report: NoReport = False,
    master: Master = None,
    remote: Remote = None,
    ui: WithUi = False,
    as_json: JsonOption = False,
    follow: Follow = False,
    bootstrap_servers: Servers = None,
    topic: Topic = None,
    from_beginning: FromBeginning = False,
    checkpoint: Checkpoint = None,
    seconds: Seconds = None,
) -> int:
    """Judge the evidence of a trial: what was lost, repeated, changed or out of order, and why.

    The verdict and everything found stay in EVIDENCE/audit, with a report to open in a browser.
    """
    if report is not None and no_report:
        raise Refusal("choose one of --report and --no-report")
    live = (bootstrap_servers, topic, from_beginning, checkpoint, seconds)
    if follow:
        from tidelog.cli.commands.audit_follow import Wanted
        from tidelog.cli.commands.audit_follow import follow as follow_it

        return follow_it(Wanted(folder, *live, master, remote, ui, as_json))
    if any(live):
        raise Refusal("a live topic, --checkpoint and --seconds are for --follow: give it as well")
    if folder is None:
        raise Refusal("give the folder that a trial left")
    from tidelog.cli.audit_folder import judgeable
    from tidelog.cli.audit_run import Auditor
    from tidelog.cli.show.audit import exit_code, present
    from tidelog.cli.show.trial_progress import watched
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
