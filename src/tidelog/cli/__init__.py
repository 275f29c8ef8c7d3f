"""The ``tidelog`` command.

Rules of the package. A command imports the lab and rich only when it runs, so that ``--help`` is quick. What
a command prints on stdout depends on its input alone; progress and everything else that varies goes to
stderr. Errors are one line; TIDELOG_DEBUG=1 shows the traceback.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from tidelog.errors import reason

DEBUG = "TIDELOG_DEBUG"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    from tidelog import extras
    from tidelog.cli.errors import ExitCode, OutputClosed
    from tidelog.errors import Refusal

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
    except KeyboardInterrupt:  # a command that has something to clean up or to print catches it itself
        return ExitCode.INTERRUPTED
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        if isinstance(error, ModuleNotFoundError) and (hint := extras.missing(error)):
            return _refuse(str(hint))
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return _refuse(f"internal error: {what} (set {DEBUG}=1 for the traceback)")


def _prepare_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the parent process closed it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # the encoding of the terminal may lack a character


def _perform(arguments: Sequence[str] | None) -> int:
    from typer import TyperException

    from tidelog.cli.app import command
    from tidelog.cli.completion import VARIABLE
    from tidelog.errors import Refusal

    if os.environ.get(VARIABLE):  # a shell asks
        from typer._completion_classes import completion_init

        completion_init()

    try:
        result = command().main(
            args=None if arguments is None else list(arguments), prog_name="tidelog", standalone_mode=False
        )
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise Refusal(f"{error.filename or 'output'}: {reason(error)}") from None
    except TyperException as error:
        from tidelog.cli.usage import message

        raise Refusal(message(error)) from None
    return result if isinstance(result, int) else 0


def _refuse(message: str) -> int:
    from tidelog.cli.errors import ExitCode

    try:
        sys.stdout.flush()
    except OSError:  # for example a full disk, which may be what the message reports
        _discard_output()
    print(f"tidelog: {message}", file=sys.stderr)
    return ExitCode.REFUSED


def _discard_output() -> None:
    """Python flushes stdout once more at exit. Redirect that, because the pipe is closed."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
