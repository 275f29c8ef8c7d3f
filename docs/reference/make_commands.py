"""Print the page of all commands from the command tree itself.

Run from the root of the tree:
``.venv/bin/python docs/reference/make_commands.py > docs/reference/commands.md``.
"""

from collections.abc import Iterator
from typing import Any

import typer

from tidelog.cli.app import command
from tidelog.cli.help import parameters

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


def _split(text: str) -> tuple[str, str]:
    """What a parameter is for, with its limits, and its default."""
    help_, bracket, added = text.rpartition("  [")
    if not bracket:
        return text, ""
    parts = added.removesuffix("]").split("; ")
    defaults = [part.removeprefix("default: ") for part in parts if part.startswith("default: ")]
    limits = [part for part in parts if not part.startswith("default: ") and part != "required"]
    return f"{help_} ({'; '.join(limits)})" if limits else help_, "".join(defaults)


def _tables(found: Any, context: Any) -> Iterator[str]:
    for title, rows in parameters(found, context).items():
        own = [row for row in rows if "--help" not in row[0]]
        if own:
            yield f"\n| {title.lower()} | default | |\n|---|---|---|\n"
        for written, text in own:
            help_, default = _split(text)
            yield f"| `{_cell(written)}` | {_cell(default)} | {_cell(help_)} |\n"


def _usage(found: Any, context: Any) -> str:
    return " ".join(found.get_usage(context).removeprefix("Usage: ").split())


def page() -> str:
    commands = list(leaves("tidelog", command()))
    parts = [HEAD]
    for name, found in commands:
        parts.append(f"| [`{name}`](#{name.replace(' ', '-')}) | {_summary(found)} |\n")
    for name, found in commands:
        parts.append(f"\n## {name}\n\n{_summary(found)}\n\n")
        context = typer.Context(found, info_name=name)
        parts.append(f"```text\n{_usage(found, context)}\n```\n")
        parts += _tables(found, context)
    parts.append(FOOT)
    return "".join(parts)


if __name__ == "__main__":
    print(page(), end="")
