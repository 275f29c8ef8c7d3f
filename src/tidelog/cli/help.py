"""How `--help` lists commands and options: in groups, with summaries that are not cut.

A command or an option names its group with `rich_help_panel`, as typer calls it. Typer itself shows groups
only through rich, which would make `--help` slow.
"""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

from tidelog.cli.usage import check_finite
from tidelog.errors import unknown

ARGUMENTS = "Arguments"
OPTIONS = "Options"
_NO_LIMIT = 10_000
"""Characters of a summary. Typer would cut it at 45, also where shells show it beside a completion."""


_TYPE = re.compile(r" <[^<>]*>$")
_RANGE = re.compile(r"(?:(?P<least>[-\d.e]+)<=)?x(?:(?P<sign>[<>]=)(?P<limit>[-\d.e]+))?")
_DEFAULT_NUMBER = re.compile(r"default: (\d+)\.0(?![\d.])")
_DEFAULT_WORDS = re.compile(r"default: \(([^()]*)\)")
_WITHOUT_BRACKETS = r"default: \1"


class Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest: list[str] = super().parse_args(ctx, args)
        check_finite(ctx)
        return rest

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [_usage(piece) for piece in super().collect_usage_pieces(ctx)]

    def get_short_help_str(self, limit: int = _NO_LIMIT) -> str:
        return str(super().get_short_help_str(_NO_LIMIT))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self, ctx, formatter)


class Group(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            raise unknown("command", name, self.list_commands(ctx), listed_by=f"{ctx.command_path} --help")
        return super().resolve_command(ctx, args)

    def get_short_help_str(self, limit: int = _NO_LIMIT) -> str:
        return str(super().get_short_help_str(_NO_LIMIT))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def summaries(self, ctx: Any) -> list[tuple[str, str, str]]:
        """Of each command: its group of commands, its name, what it does."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [
            (
                getattr(command, "rich_help_panel", None) or "Commands",
                name,
                command.get_short_help_str(_NO_LIMIT),
            )
            for name, command in found
            if command is not None and not command.hidden
        ]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        shown = self.summaries(ctx)
        for title, name, summary in shown:
            sections.setdefault(title, []).append((name, summary))
        _write(formatter, sections, max((len(name) for _, name, _ in shown), default=0))


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    _write(formatter, parameters(command, ctx), 0)


def parameters(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """In groups, how each argument and option is written and what it is for."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        if (record := parameter.get_help_record(ctx)) is None:
            continue
        record = (_TYPE.sub("", record[0]), _in_words(record[1]))
        usual = ARGUMENTS if parameter.param_type_name == "argument" else OPTIONS
        sections.setdefault(getattr(parameter, "rich_help_panel", None) or usual, []).append(record)
    if OPTIONS in sections:  # what has no group, with --help, comes last
        sections[OPTIONS] = sections.pop(OPTIONS)
    return sections


def _usage(piece: str) -> str:
    """``TOPIC``, ``TOPIC…``, ``[BROKER…]`` instead of ``{TOPIC}``, ``{TOPIC…}...``, ``[[BROKER…]]...``."""
    plain = piece.removesuffix("...")
    if plain.startswith("{") and plain.endswith("}"):
        return plain[1:-1]
    return plain.removeprefix("[").removesuffix("]") if plain.startswith("[[") else piece


def _in_words(text: str) -> str:
    """What typer adds in brackets to a help text, as one says it: limits, whole numbers, worded defaults."""
    help_, bracket, added = text.rpartition("  [")
    if not bracket or not added.endswith("]"):
        return text
    parts = [_range(_DEFAULT_NUMBER.sub(r"default: \1", part)) for part in added[:-1].split("; ")]
    return f"{help_}{bracket}{_DEFAULT_WORDS.sub(_WITHOUT_BRACKETS, '; '.join(parts))}]"


def _range(part: str) -> str:
    if part == "x" or not (found := _RANGE.fullmatch(part)):
        return part
    limit = found["limit"].removesuffix(".0")
    if found["least"] is not None:
        return f"{found['least'].removesuffix('.0')} to {limit}"
    return f"{limit} or more" if found["sign"] == ">=" else f"{limit} or less"


def _write(formatter: Any, sections: dict[str, list[tuple[str, str]]], width: int) -> None:
    """All sections with the same width of the first column, if it is given."""
    for title, rows in sections.items():
        with formatter.section(title):
            formatter.write_dl([(name.ljust(width), text) for name, text in rows])
