"""``tidelog evidence``: look at what a trial left, and save what a killed one left."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.choices import JsonOption
from tidelog.cli.errors import ExitCode, Refusal
from tidelog.cli.output import counted, write_text

app = typer.Typer(
    help="What a trial left: show it, recover it.", no_args_is_help=False, rich_markup_mode=None
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a trial.", show_default=False)]


@app.command("show")
def show(folder: Folder, as_json: JsonOption = False) -> int:
    """How a trial went. Exit code: 0 nothing acknowledged is lost, 1 something is.

    Example: tidelog evidence show trial-20260101-120000
    """
    from tidelog.cli.trial_summary import present
    from tidelog.evidence.folder import RUNNING, EvidenceError, EvidenceFolder
    from tidelog.trials.closing import close

    try:
        claimed = EvidenceFolder.claim(folder)
    except EvidenceError as error:
        raise Refusal(str(error)) from None
    try:
        if claimed.manifest.state == RUNNING:
            raise Refusal(f"the trial in {folder} was killed: first tidelog evidence recover {folder}")
        closing = close(claimed)
        present(closing, claimed, claimed.manifest.settings.get("notes", []), as_json=as_json)
    finally:
        claimed.release()
    if not closing.checked:
        return ExitCode.REFUSED
    return ExitCode.HELD if closing.held else ExitCode.VIOLATED


@app.command("recover")
def recover(folder: Folder) -> int:
    """Bring the journals of a killed trial into its tables, and end what it left running.

    Example: tidelog evidence recover trial-20260101-120000
    """
    from tidelog.evidence.folder import EvidenceError
    from tidelog.trials.aftermath import recover as recover_folder

    try:
        claimed, done = recover_folder(folder)
    except EvidenceError as error:
        raise Refusal(str(error)) from None
    claimed.release()
    if done.processes_ended:
        write_text(f"ended what the trial had left running: {counted(done.processes_ended, 'broker')}\n")
    write_text(f"{counted(done.sealed.journals, 'journal')} brought into the tables of {folder}\n")
    for name, why in done.sealed.trouble.items():
        write_text(f"left as it is: {name}: {why}\n")
    return ExitCode.REFUSED if done.sealed.trouble else ExitCode.HELD
