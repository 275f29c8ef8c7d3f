"""How the pipeline refuses: one line for the user, never a stack of Java frames."""

from __future__ import annotations

import re

from tidelog.errors import Refusal


class PipelineError(Refusal):
    """What was asked cannot be done. The message is one line that says what to change."""


_OUR_OWN = re.compile(r"\bPipelineError: (?P<words>[^\n]+)")


def first_line(error: BaseException) -> str:
    """What an error of Spark says, without the stack trace and the class names in front of it.

    What one of our sources refuses in a worker comes back inside a long text of Spark's: then it is ours.
    """
    if own := _OUR_OWN.search(str(error)):
        return own["words"].strip()
    lines = (line.strip() for line in str(error).splitlines())
    said = next((line for line in lines if line), type(error).__name__)
    return said.removeprefix("An error occurred while calling ").strip()


_NOT_CONNECTED = "Python worker failed to connect back"


def worker_did_not_connect(error: BaseException) -> bool:
    """Whether a Python worker was too slow to start: Spark gives it ten seconds, which cannot be set. On a
    machine with much else to do that is no failure of the work, which may be tried again."""
    return _NOT_CONNECTED in str(error)


_FRAME = re.compile(r"^(?:at |\.\.\. |Caused by: )|^\s*File \"")
_PYTHON_ERROR = re.compile(r"^(?:[\w.]+\.)?(?P<words>\w*(?:Error|Exception|Interrupt)\w*: .+)$")


def last_line(error: BaseException) -> str:
    """The line of an error that says what happened: of a worker's trace the last of Python's, which Spark
    buries among frames of Java."""
    if own := _OUR_OWN.search(str(error)):
        return own["words"].strip()
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in reversed(lines):
        if found := _PYTHON_ERROR.match(line):
            return found["words"]
    kept = [line for line in lines if not _FRAME.match(line)]
    return kept[-1] if kept else type(error).__name__


_MODULE_MISSING = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'")


def worker_failure(what: str, error: BaseException) -> str:
    """What failed in Spark's workers, and why. A notebook's session may have workers of another Python."""
    said = last_line(error)
    if found := _MODULE_MISSING.search(str(error)):
        needed = found["name"].partition(".")[0]
        return (
            f"Spark's workers cannot import {needed}: install it on every worker, for the Python that "
            f"PYSPARK_PYTHON names ({said})"
        )
    return f"{what}: {said}"
