"""HTML that is put together from Python values, and the pieces that all pages are made of.

Rules of the file: the only way to make markup is `el` and `join`, and both escape every text they are given.
A text of the evidence may be anything, and it can never become a tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_VOID: Final = frozenset(("br", "meta", "rect", "path", "circle", "line", "use"))
_UNSEEN: Final = {code: "\ufffd" for code in (*range(32), 127) if chr(code) not in "\t\n"}
"""Control characters, which no page may hold."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | int | float | None
Children = Child | Iterable["Child"]


def el(name: str, /, *children: Children, **attributes: Child) -> Markup:
    """An element. `class_` is the attribute class, `stroke_width` is stroke-width; None is left out."""
    names = (_attribute(key, value) for key, value in attributes.items() if value is not None)
    head = "".join((name, *names))
    body = join(*children)
    if not body and name in _VOID:
        return Markup(f"<{head}>" if name in ("br", "meta") else f"<{head}/>")
    return Markup(f"<{head}>{body}</{name}>")


def _attribute(key: str, value: Child) -> str:
    name = key.rstrip("_").replace("_", "-")
    name = {"viewBox": "viewBox", "preserveAspectRatio": "preserveAspectRatio"}.get(name, name)
    return f' {name}="{escape(_clean(str(value)), quote=True)}"'


def join(*children: Children) -> Markup:
    """Children one after the other; None is nothing."""
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str | int | float):
            parts.append(escape(_clean(str(child)), quote=False))
        else:
            parts.append(join(*child))
    return Markup("".join(parts))


def _clean(text: str) -> str:
    """Without what neither a browser nor a file in UTF-8 could hold."""
    return text.translate(_UNSEEN).encode("utf-8", "replace").decode("utf-8")


# ---------------------------------------------------------------- what all pages are made of


@dataclass(slots=True, frozen=True)
class Cell:
    """A cell of a table with the class of its style."""

    content: Children
    style: str | None = None


def table(heads: Sequence[Child | Cell], rows: Iterable[Iterable[Child | Cell]]) -> Markup:
    """A table that is scrolled sideways where the page is too narrow for it."""
    head = el("thead", _row("th", heads)) if heads else None
    return el("div", el("table", head, el("tbody", [_row("td", row) for row in rows])), class_="wide")


def _row(name: str, cells: Iterable[Child | Cell]) -> Markup:
    given = (cell if isinstance(cell, Cell) else Cell(cell) for cell in cells)
    return el("tr", [el(name, cell.content, class_=cell.style) for cell in given])


def key(style: str, words: str) -> Markup:
    """A line of a legend."""
    return el("span", el("i", class_=f"key {style}"), words)


def numbers(facts: Iterable[tuple[str, str, str]]) -> Markup:
    """Figures in a row: what each is, its value, and of how many or of what."""
    return el(
        "dl",
        [el("div", el("dt", name), el("dd", value, el("small", more))) for name, value, more in facts],
        class_="numbers",
    )


def input_(**attributes: Child) -> Markup:
    """An element without an end."""
    return Markup(el("input", **attributes).removesuffix("</input>"))


def page(title: str, style: str, *body: Children) -> str:
    """A whole document that needs nothing from elsewhere."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", title),
        el("style", Markup(style)),
    )
    return "<!doctype html>\n" + join(el("html", head, el("body", *body), lang="en")) + "\n"
