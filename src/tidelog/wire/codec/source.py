"""Generated Python source: lines, fresh names, and the objects that the names refer to.

`decoding` and `encoding` write one function per (message, version) with it. A function made for exactly one
version has no version left to ask about and reads neighbouring fields in one `struct` call, which makes it
several times faster than walking the declaration for every message.

A function can also be written as a generator, for messages whose length a peer chooses: it yields after every
`STEP_ELEMENTS` array elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STEP_ELEMENTS = 256
"""About a few hundred microseconds of work."""


class SourceText:
    __slots__ = ("_depth", "_fresh", "_lines", "_names", "in_steps")

    def __init__(self, in_steps: bool) -> None:
        self.in_steps = in_steps
        self._lines: list[str] = []
        self._depth = 0
        self._fresh = 0
        self._names: dict[str, Any] = {}

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines under a head such as `if x:`; the caller writes at least one."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def begin_steps(self) -> None:
        """Call this at the beginning of a function. It makes the function a generator even if it has no
        arrays."""
        if self.in_steps:
            self.line(f"turn = {STEP_ELEMENTS}")
            self.line("if not turn: yield")

    def step(self, elements: str = "1") -> None:
        """Count elements that are done, and yield if a step is complete."""
        if self.in_steps:
            self.line(f"turn -= {elements}")
            with self.block("if turn <= 0:"):
                self.line(f"turn = {STEP_ELEMENTS}")
                self.line("yield")

    def fresh(self, prefix: str) -> str:
        """A variable name that nothing else in this source uses."""
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def constant(self, prefix: str, value: Any) -> str:
        """The name of `value` in the source; the same object always gets the same name."""
        for name, known in self._names.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self._names[name] = value
        return name

    def define(self, **names: Any) -> None:
        self._names.update(names)

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def compile(self, function: str, origin: str) -> Callable[..., Any]:
        """Compile the source and return its function `name`; tracebacks show `origin` as the file."""
        exec(compile(self.text, f"<{origin}>", "exec"), self._names)
        result: Callable[..., Any] = self._names[function]
        return result
