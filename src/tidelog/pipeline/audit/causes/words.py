"""What every story is put together from: moments, and parts of which some may be unknown."""

from __future__ import annotations

from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.spark.spelling import spelled


def moment(inputs: Inputs, us: str) -> str:
    """A time in words, in seconds after the beginning of the load."""
    began = inputs.manifest.load_started_us or inputs.manifest.started_us
    return f"printf('%.3f s', ({us} - {began}L) / 1e6D)"


def said(*parts: str) -> str:
    """SQL for a sentence of parts, of which those that are null (unknown) are left out."""
    return f"concat_ws('', {', '.join(parts)})"


def because(why: str) -> str:
    """SQL for a reason in parentheses; nothing if it is not known."""
    return f"coalesce({spelled('cause.because', why=why)}, '')"
