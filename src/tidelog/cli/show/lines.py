"""Layout of lines: wrapped, indented, boxed, side by side, in columns.

Tables of rich pad every cell to the right edge. These lines have no trailing blanks, so output piped into a
file has none either. No function returns a line wider than its ``width``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tidelog.cli.show import palette

BETWEEN = " │ "
GAP = 2


def wrap(screen: Console, text: Text | str, width: int, indent: int = 0, marker: str = "") -> list[Text]:
    """Break text into lines. The first begins with ``marker``; the others align with the text after it."""
    body = Text(text) if isinstance(text, str) else text
    room = max(width - indent - cell_len(marker), 10)
    lines = []
    for number, line in enumerate(body.wrap(screen, room)):
        line.rstrip()
        lead = marker if number == 0 else " " * cell_len(marker)
        lines.append(Text.assemble(" " * indent, (lead, body.style), line))
    return lines


def rule(title: str, width: int, style: str = "", line: str = "─") -> Text:
    """A horizontal line with a title near the left."""
    start = f"{line * 2} {title} "
    return Text(start + line * max(width - cell_len(start), 2), style)


def box(title: str, lines: Sequence[Text], width: int, style: str) -> list[Text]:
    """A frame around lines that are at most ``width - 4`` wide."""
    inner = width - 4
    top = f"╭─ {title} "
    framed = [Text(top + "─" * max(width - cell_len(top) - 1, 0) + "╮", style)]
    for line in lines:
        padding = " " * max(inner - line.cell_len, 0)
        framed.append(Text.assemble(("│ ", style), line, padding, (" │", style)))
    framed.append(Text("╰" + "─" * (width - 2) + "╯", style))
    return framed


def beside(
    columns: Sequence[Sequence[Text]], width: int, indent: int = 0, between: str = BETWEEN
) -> list[Text]:
    """Columns of lines next to each other, all ``width`` wide."""
    rows = []
    for cells in zip_longest(*columns, fillvalue=Text("")):
        row = Text(" " * indent)
        for number, cell in enumerate(cells):
            if number:
                row.append(between, "dim")
            row.append_text(cell)
            row.append(" " * max(width - cell.cell_len, 0))
        row.rstrip()
        rows.append(row)
    return rows


def columns(heads: Sequence[str], rows: Sequence[Sequence[Text | str]], right: str = "") -> list[Text]:
    """One line for the heads and one for each row. `right` has an `r` for each right-aligned column, as in
    "lrr". Columns beyond its end are left-aligned."""
    table = [[Text(head, palette.FAINT) for head in heads]]
    table += [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    widths = [max(row[number].cell_len for row in table) for number in range(len(heads))]
    lines = []
    for row in table:
        line = Text()
        for number, cell in enumerate(row):
            padding = " " * (widths[number] - cell.cell_len)
            line.append(" " * GAP if number else "")
            line.append_text(
                Text(padding) + cell if right[number : number + 1] == "r" else cell + Text(padding)
            )
        line.rstrip()
        lines.append(line)
    return lines


def or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def size_text(count: int) -> str:
    """A number of bytes with a unit, as `1.5 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
