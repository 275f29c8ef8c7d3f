"""``tidelog up --detach``: supervise the cluster in a process that outlives the terminal.

The process forks before it starts anything. The child leads its own session, writes its log to `cluster.log`
in the data directory, and reports the result of the start to the parent through a pipe.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from tidelog.cli.commands.up_foreground import Plan, supervise
from tidelog.cli.paths import make_folder
from tidelog.cli.show.announcements import hints
from tidelog.cli.show.output import write_text
from tidelog.errors import Refusal

LOG_FILE = "cluster.log"


def detach(plan: Plan) -> None:
    """Start the cluster in the background and return when it is ready."""
    folder = _folder(plan)
    for warning, text in plan.notes:
        if warning:  # otherwise it would only be in the log file
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
        except KeyboardInterrupt:  # the child has its own session and does not get the signal
            os.kill(child, signal.SIGTERM)
            answers.read()
            raise
    kind, _, text = answer.rstrip("\n").partition(" ")
    if kind != "ready:":
        raise Refusal(text or f"the cluster stopped before it was ready; see {folder / LOG_FILE}")
    write_text(text + "\n")
    if sys.stdout.isatty():
        for line in (*hints(), "  tidelog down                                  stop it"):
            print(line, file=sys.stderr)


def _folder(plan: Plan) -> Path:
    from tidelog.cluster.directory import detached_dir

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
    """Close the terminal, so that the user can close it too."""
    null = os.open(os.devnull, os.O_RDWR)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(null, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.close(null)
    os.close(written)
