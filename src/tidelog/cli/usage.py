"""Wrong usage in our words, whichever library noticed it.

Typer has a class of its own for some mistakes; the others are recognized by how their sentence begins.
"""

from __future__ import annotations

import math
import re
from typing import Any

from tidelog.errors import Refusal, unknown

_EXTRA = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)")
_NO_VALUE = re.compile(r"Option '(.*)' requires an argument")
_KINDS = {
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "yes or no",
}


def message(error: Any) -> str:
    """What is wrong with a command line, and how to see what is right, in one line."""
    context = getattr(error, "ctx", None)
    if context is not None and hasattr(error, "possibilities"):
        return _unknown_option(error.option_name, context)
    text = _value_message(error) or _reworded(error, context)
    return f"{text} (see '{context.command_path} --help')" if context is not None else text


def check_finite(context: Any) -> None:
    """No option takes `inf`, which is above every minimum. Raises `Refusal`."""
    for parameter in context.command.params:
        given = context.params.get(parameter.name)
        if isinstance(given, float) and not math.isfinite(given):
            raise Refusal(
                f"{_name(parameter)} {given}: expected {_KINDS['finite_number']} "
                f"(see '{context.command_path} --help')"
            )


def _unknown_option(given: str, context: Any) -> str:
    known = [name for parameter in context.command.get_params(context) for name in parameter.opts]
    whole = [name for name in known if name.startswith("--")]
    return str(unknown("option", given, whole, listed_by=f"{context.command_path} --help"))


def _reworded(error: Any, context: Any) -> str:
    text = " ".join(error.format_message().split()).rstrip(".")
    parameter = getattr(error, "param", None)
    if parameter is not None and text.startswith("Missing"):
        return f"{_name(parameter)} is missing"
    if context is not None and text == "Missing command":
        *first, last = context.command.list_commands(context)
        return f"which command: {', '.join(first)} or {last}?" if first else f"which command: {last}?"
    if extra := _EXTRA.fullmatch(text):
        return (
            f"one argument too many: {extra[1]}" if " " not in extra[1] else f"too many arguments: {extra[1]}"
        )
    if without := _NO_VALUE.fullmatch(text):
        return f"{without[1]}: its value is missing"
    return text[:1].lower() + text[1:]


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).strip("[]…")
    return str(max(parameter.opts, key=len))


def _value_message(error: Any) -> str | None:
    """None if the error is not about the value of an option or an argument."""
    found = getattr(error.__cause__, "errors", None)
    parameter = getattr(error, "param", None)
    if found is None or parameter is None:
        return None
    problem = found(include_url=False)[0]
    expected = _expected(problem["type"], problem.get("ctx", {}))
    return f"{_name(parameter)} {problem['input']}: expected {expected}"


def _expected(kind: str, limits: dict[str, Any]) -> str:
    if kind == "greater_than_equal":
        return f"{limits['ge']:g} or more"
    if kind == "less_than_equal":
        return f"{limits['le']:g} or less"
    return _KINDS.get(kind, "another kind of value")
