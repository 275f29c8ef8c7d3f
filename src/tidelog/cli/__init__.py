"""The ``tidelog`` command: one module for each group of commands, and one that runs them all.

Rules of the package. A command imports the lab and rich only when it runs, so that ``--help`` is quick. What
a command prints on stdout depends on its input alone; progress and everything else that varies goes to
stderr. Nobody sees a traceback unless TIDELOG_DEBUG asks for it.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

DEBUG = "TIDELOG_DEBUG"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    from tidelog.cli.errors import ExitCode, OutputClosed, Refusal

    _prepare_streams()
    try:
        code = _perform(arguments)
        sys.stdout.flush()
        return code
    except Refusal as refusal:
        return _refuse(str(refusal))
    except (OutputClosed, BrokenPipeError):
        _discard_output()
        return ExitCode.OUTPUT_CLOSED
    except KeyboardInterrupt:  # before there was anything to stop, or to tell
        return ExitCode.INTERRUPTED
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return _refuse(f"internal error: {what} (set {DEBUG}=1 for the traceback)")


def _prepare_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character still gets the rest


def _perform(arguments: Sequence[str] | None) -> int:
    from typer import TyperException

    from tidelog.cli.app import command
    from tidelog.cli.errors import Refusal

    try:
        result = command().main(
            args=None if arguments is None else list(arguments), prog_name="tidelog", standalone_mode=False
        )
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise Refusal(f"{error.filename or 'output'}: {(error.strerror or str(error)).lower()}") from None
    except TyperException as error:
        where = getattr(getattr(error, "ctx", None), "command_path", "tidelog")
        message = " ".join(error.format_message().split()).rstrip(".")
        raise Refusal(f"{message} (see '{where} --help')") from None
    return result if isinstance(result, int) else 0


def _refuse(message: str) -> int:
    from tidelog.cli.errors import ExitCode

    try:
        sys.stdout.flush()
    except OSError:  # the message may be about just that, a full disk
        _discard_output()
    print(f"tidelog: {message}", file=sys.stderr)
    return ExitCode.REFUSED


def _discard_output() -> None:
    """Python flushes stdout once more on its way out; let that go nowhere instead of into a closed pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
