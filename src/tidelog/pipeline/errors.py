"""How the pipeline refuses: one line for the user, never a stack of Java frames."""

from __future__ import annotations


class PipelineError(Exception):
    """What was asked cannot be done. The message is one line that says what to change."""


def first_line(error: BaseException) -> str:
    """What an error of Spark says, without the stack trace and the class names in front of it."""
    lines = (line.strip() for line in str(error).splitlines())
    said = next((line for line in lines if line), type(error).__name__)
    return said.removeprefix("An error occurred while calling ").strip()
