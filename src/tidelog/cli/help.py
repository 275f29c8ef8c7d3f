"""How `--help` lists commands and options: in groups, with summaries that are not cut.

A command or an option names its group with `rich_help_panel`, as typer calls it. Typer itself shows groups
only through rich, which would make `--help` slow.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

OPTIONS = "Options"
_NO_LIMIT = 10_000
"""Characters of a summary. Typer would cut it at 45, also where shells show it beside a completion."""


class Command(TyperCommand):
    def get_short_help_str(self, limit: int = _NO_LIMIT) -> str:
        return str(super().get_short_help_str(_NO_LIMIT))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self, ctx, formatter)


class Group(TyperGroup):
    def get_short_help_str(self, limit: int = _NO_LIMIT) -> str:
        return str(super().get_short_help_str(_NO_LIMIT))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        shown = [(name, command) for name, command in found if command is not None and not command.hidden]
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in shown:
            title = getattr(command, "rich_help_panel", None) or "Commands"
            sections.setdefault(title, []).append((name, command.get_short_help_str(_NO_LIMIT)))
        _write(formatter, sections, max((len(name) for name, _ in shown), default=0))


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        if (record := parameter.get_help_record(ctx)) is None:
            continue
        usual = "Arguments" if parameter.param_type_name == "argument" else OPTIONS
        sections.setdefault(getattr(parameter, "rich_help_panel", None) or usual, []).append(record)
    if OPTIONS in sections:  # what has no group, with --help, comes last
        sections[OPTIONS] = sections.pop(OPTIONS)
    _write(formatter, sections, 0)


def _write(formatter: Any, sections: dict[str, list[tuple[str, str]]], width: int) -> None:
    """All sections with the same width of the first column, if it is given."""
    for title, rows in sections.items():
        with formatter.section(title):
            formatter.write_dl([(name.ljust(width), text) for name, text in rows])
