"""One line on stderr that says what a command waits for, and for how long already.

On a terminal the line is rewritten in place and is gone at the end. In a pipe a line is printed when what is
waited for changes, so that a log shows it.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

_CLEAR = "\r\x1b[K"
_EVERY_SECONDS = 0.1


class Waiting:
    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._began = time.monotonic()
        self._what = ""
        self._drawn = 0.0

    def __enter__(self) -> Self:
        return self

    def now(self, what: str) -> None:
        """Say what is waited for. The time counts from the change."""
        now = time.monotonic()
        changed = what != self._what
        if changed:
            self._what, self._began = what, now
            if not self._live:
                print(f"waiting: {what}", file=sys.stderr, flush=True)
        if self._live and (changed or now - self._drawn >= _EVERY_SECONDS):
            self._drawn = now
            self._draw(f"waiting {now - self._began:.0f} s: {what}")

    def over(self) -> None:
        """What was waited for is there."""
        if self._what:
            self._what = ""
            self._clear()

    def _clear(self) -> None:
        if self._live:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def _draw(self, line: str) -> None:
        import shutil

        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(_CLEAR + (line if len(line) <= width else line[: width - 1] + "…"))
        sys.stderr.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over()
