"""Print the page of all commands from the command tree itself.

Run from the root of the tree:
``.venv/bin/python docs/reference/make_commands.py > docs/reference/commands.md``.
"""

from collections.abc import Iterator
from typing import Any

import typer

from tidelog.cli.app import command

HEAD = """\
# Commands

Every command has `--help`, and most take `--json`. This page is made from the same table as the help.

**Exit code**: 0 every promise held (nothing found), 1 a promise was broken (something found), 2 wrong usage,
or an environment in which the command cannot run. `scenario compare` ends with 0 also if one side loses
records: that is what it is for. What scenarios print is explained in [the
lab](../guide/lab.md#how-to-read-a-replica-line).

| command | does |
|---|---|
"""

FOOT = """
<!-- Written by docs/reference/make_commands.py. -->
"""


def leaves(name: str, found: Any) -> Iterator[tuple[str, Any]]:
    """The commands that do something, by their full names; groups only lead to them."""
    inner = getattr(found, "commands", None)
    if inner is None:
        yield name, found
        return
    for key, each in inner.items():
        if not each.hidden:
            yield from leaves(f"{name} {key}", each)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _summary(found: Any) -> str:
    """The first paragraph of its help."""
    return _cell((found.help or "").partition("\n\n")[0])


def _default(parameter: Any) -> str:
    value = parameter.default
    if value is None or value is False or value == () or callable(value) or parameter.is_flag:
        return ""
    return f"`{value}`" if str(value) else ""


def _options(found: Any) -> Iterator[str]:
    options = [each for each in found.params if each.param_type_name == "option" and not each.hidden]
    if not options:
        return
    yield "| option | default | |\n|---|---|---|\n"
    for each in options:
        names = ", ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts))
        yield f"| {names} | {_default(each)} | {_cell(each.help or '')} |\n"


def _usage(name: str, found: Any) -> str:
    context = typer.Context(found, info_name=name)
    return " ".join(found.get_usage(context).removeprefix("Usage: ").split())


def page() -> str:
    commands = list(leaves("tidelog", command()))
    parts = [HEAD]
    for name, found in commands:
        parts.append(f"| [`{name}`](#{name.replace(' ', '-')}) | {_summary(found)} |\n")
    for name, found in commands:
        parts.append(f"\n## {name}\n\n{_summary(found)}\n\n")
        parts.append(f"```text\n{_usage(name, found)}\n```\n\n")
        parts += _options(found)
    parts.append(FOOT)
    return "".join(parts)


if __name__ == "__main__":
    print(page(), end="")
