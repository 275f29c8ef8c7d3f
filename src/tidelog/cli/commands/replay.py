"""``tidelog replay``: play a scenario file and print its transcript."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from tidelog.cli.options import GenerationOption, JsonOption, TranscriptOption, scenario_file
from tidelog.errors import Refusal


def replay(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Scenario file or transcript.", show_default=False)
    ],
    generation: GenerationOption = None,
    as_json: JsonOption = False,
    transcript: TranscriptOption = False,
) -> int:
    """Play a scenario file and print its transcript. Exit code: 0 held, 1 violated.

    Example: tidelog replay found.scenario

    To open it on the web page: tidelog lab found.scenario
    """
    if as_json and transcript:
        raise Refusal("choose one of --json and --transcript")
    from tidelog.cli.show.present_run import present
    from tidelog.lab.play import run

    code = present(run(scenario_file(file, generation)), as_json=as_json, transcript=not as_json)
    if not as_json and sys.stderr.isatty():  # stdout gets the transcript only, so that it can be saved
        rules = "" if generation is None else f" -g {generation}"
        print(f"On a page: tidelog lab {shlex.quote(file)}{rules}", file=sys.stderr)
    return code
