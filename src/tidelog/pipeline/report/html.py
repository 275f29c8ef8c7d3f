"""HTML that is put together from Python values: whatever is not markup already is escaped.

Rules of the file: the only way to make markup is `el` and `join`, and both escape every text they are given.
What stands in the evidence is anybody's text, and it can never become a tag.
"""

from __future__ import annotations

from collections.abc import Iterable
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
