"""A run in the format that was asked for: text, JSON or transcript."""

from __future__ import annotations

from tidelog.cli.errors import ExitCode
from tidelog.cli.show.output import console, write_json, write_lines, write_text
from tidelog.cli.show.run import account
from tidelog.errors import Refusal
from tidelog.narrate.run import run_json
from tidelog.narrate.transcript import print_transcript
from tidelog.narrate.verdict import is_bad
from tidelog.scenario.run import Run


def present(played: Run, *, as_json: bool, transcript: bool, detail: bool = False) -> int:
    """Print a run."""
    if as_json and transcript:
        raise Refusal("choose one of --json and --transcript")
    if as_json:
        write_json(run_json(played))
    elif transcript:
        write_text(print_transcript(played, detail=detail))
    else:
        screen = console()
        write_lines(screen, account(screen, played, detail=detail))
    return ExitCode.VIOLATED if is_bad(played) else ExitCode.HELD
