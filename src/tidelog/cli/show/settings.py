"""The broker settings as text and as JSON."""

from __future__ import annotations

from itertools import groupby

from rich.text import Text

from tidelog.cli.show import palette
from tidelog.cli.show.lines import rule, wrap
from tidelog.cli.show.output import console, write_json, write_lines
from tidelog.cli.show.run import page_width
from tidelog.settings.broker import BROKER
from tidelog.settings.table import REQUIRED, Setting

_INDENT = 4


def print_settings(*, as_json: bool) -> None:
    if as_json:
        write_json([_as_json(setting) for setting in BROKER.values()])
        return
    screen = console()
    width = page_width(screen)
    lines: list[Text] = []
    for group, settings in groupby(BROKER.values(), key=lambda setting: setting.group):
        lines += [Text(), rule(group, width, palette.STRONG)]
        for setting in settings:
            head, kind = _head(setting), setting.kind.describes
            if head.cell_len + 2 + len(kind) <= width:
                lines.append(head.append(f"  {kind}", palette.FAINT))
            else:
                lines += [head, *wrap(screen, kind, width, _INDENT)]
            lines += wrap(screen, setting.doc, width, _INDENT)
    write_lines(screen, lines[1:])


def _head(setting: Setting) -> Text:
    head = Text(setting.name, palette.COMMAND)
    if setting.default is REQUIRED:
        head.append("  (required)", palette.WARNING)
    elif setting.default_text:
        head.append(f" = {setting.default_text}")
    return head


def _as_json(setting: Setting) -> dict[str, str | bool | None]:
    required = setting.default is REQUIRED
    return {
        "name": setting.name,
        "group": setting.group,
        "kind": setting.kind.describes,
        "required": required,
        "default": None if required or setting.default is None else setting.default_text,
        "doc": setting.doc,
    }
