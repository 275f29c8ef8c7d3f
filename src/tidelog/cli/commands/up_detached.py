"""``tidelog up --detach``: the same supervision in a process that outlives the terminal.

The process forks before it has started anything. The child leads a session of its own, writes its log to
`cluster.log` in the data directory and says through a pipe how the start went; the parent passes that on.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from tidelog.cli.commands.up_foreground import Plan, hints, supervise
from tidelog.cli.errors import Refusal
from tidelog.cli.paths import make_folder
from tidelog.cli.running import detached_dir
from tidelog.cli.show.output import write_text

LOG_FILE = "cluster.log"


def detach(plan: Plan) -> None:
    """Start the cluster in the background and return when it is ready."""
    folder = _folder(plan)
    for warning, text in plan.notes:
        if warning:  # else it would only be in the log
            print(text, file=sys.stderr)
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _child(replace(plan, data_dir=folder), writer, temporary=plan.data_dir is None)
    os.close(writer)
    with open(reader, encoding="utf-8") as answers:
        try:
            answer = answers.read()
        except KeyboardInterrupt:  # the child, in a session of its own, has not heard of it
            os.kill(child, signal.SIGTERM)
            answers.read()
            raise
    kind, _, text = answer.rstrip("\n").partition(" ")
    if kind != "ready:":
        raise Refusal(text or f"the cluster ended before it was ready, see {folder / LOG_FILE}")
    write_text(text + "\n")
    if sys.stdout.isatty():
        for line in (*hints(), "  tidelog down                                  stop it"):
            print(line, file=sys.stderr)


def _folder(plan: Plan) -> Path:
    folder = plan.data_dir or detached_dir()
    make_folder(folder)
    return folder


def _child(plan: Plan, writer: int, *, temporary: bool) -> None:
    """Never returns."""
    code = 1
    try:
        assert plan.data_dir is not None
        os.setsid()
        _redirect(plan.data_dir / LOG_FILE)
        with open(writer, "w", encoding="utf-8") as answers:

            def ready(line: str) -> None:
                answers.write(f"ready: {line}\n")
                answers.close()

            try:
                supervise(plan, ready, temporary=temporary)
                code = 0
                if not answers.closed:
                    answers.write("refused: the cluster was stopped before it was ready\n")
            except Refusal as refusal:
                if not answers.closed:
                    answers.write(f"refused: {refusal}\n")
                print(f"tidelog: {refusal}", file=sys.stderr)
    except BaseException as error:
        print(f"tidelog: internal error: {type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _redirect(log: Path) -> None:
    """Nothing of the terminal stays open: whoever started us may close it."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(nowhere, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.close(nowhere)
    os.close(written)
