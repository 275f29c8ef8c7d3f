"""Tables as lines of text: aligned columns, no trailing blanks."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from tidelog.cli.show import palette

GAP = 2


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


def size_text(count: int) -> str:
    """A number of bytes with a unit, as `1.5 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
