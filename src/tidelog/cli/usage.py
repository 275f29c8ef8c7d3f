"""Wrong usage in our words: typer's sentences, without those of the library that checks values for it."""

from __future__ import annotations

from typing import Any

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
    where = getattr(getattr(error, "ctx", None), "command_path", "tidelog")
    text = _value_message(error) or " ".join(error.format_message().split()).rstrip(".")
    return f"{text} (see '{where} --help')"


def _value_message(error: Any) -> str | None:
    """None if the error is not about the value of an option or an argument."""
    found = getattr(error.__cause__, "errors", None)
    parameter = getattr(error, "param", None)
    if found is None or parameter is None:
        return None
    problem = found(include_url=False)[0]
    if parameter.param_type_name == "argument":
        name = (parameter.metavar or parameter.name).strip("[]…")
    else:
        name = max(parameter.opts, key=len)
    return f"{name} {problem['input']}: expected {_expected(problem['type'], problem.get('ctx', {}))}"


def _expected(kind: str, limits: dict[str, Any]) -> str:
    if kind == "greater_than_equal":
        return f"{limits['ge']:g} or more"
    if kind == "less_than_equal":
        return f"{limits['le']:g} or less"
    return _KINDS.get(kind, "another kind of value")
