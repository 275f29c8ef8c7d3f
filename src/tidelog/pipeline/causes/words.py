"""SQL that turns numbers into words, the same everywhere: times after the beginning of the load, brokers,
epochs."""

from __future__ import annotations

from tidelog.pipeline.inputs import Inputs


def moment(inputs: Inputs, us: str) -> str:
    """A time in words, in seconds after the beginning of the load."""
    began = inputs.manifest.load_started_us or inputs.manifest.started_us
    return f"printf('%.3f s', ({us} - {began}L) / 1e6D)"


def said(*parts: str) -> str:
    """SQL for a sentence of parts, of which those that are null (nobody knows) are left out."""
    return f"concat_ws('', {', '.join(parts)})"
