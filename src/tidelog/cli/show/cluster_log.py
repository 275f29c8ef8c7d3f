"""The log of a cluster on a terminal: each line with the name of its broker, levels in colour.

Everything goes to stderr. rich is imported with the first line, while the brokers start, to save time.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidelog.cli.show.output import console

if TYPE_CHECKING:
    from rich.console import Console

_LEVELS = {"DEBUG": 10, "INFO": 20, "WARN": 30, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
QUIET, NORMAL, VERBOSE = 30, 20, 10


class ClusterLog:
    def __init__(self, least: int = NORMAL, brokers: int = 3) -> None:
        """`least` is the lowest level that is shown."""
        self.least = least
        self._width = len(str(brokers))
        self._shown: dict[int, bool] = {}

    @cached_property
    def _screen(self) -> Console:
        return console(stderr=True)

    def broker_said(self, number: int, line: str) -> None:
        """A line of a broker's log. A line without a level, as in a traceback, belongs to the line before."""
        from tidelog.broker.logs import LINE
        from tidelog.cli.show import palette

        found = LINE.fullmatch(line)
        if found is not None:
            self._shown[number] = _LEVELS.get(found["level"], 50) >= self.least
        if not self._shown.get(number, True):
            return
        words: list[Any] = [(f"broker {number:>{self._width}} │ ", palette.of_broker(number))]
        if found is None:
            words.append(line)
        else:
            style = palette.of_level(found["level"])
            words += [
                (found["time"], palette.FAINT),
                (f" {found['level']:<7} ", style),
                (found["message"], style),
            ]
        self._print(words)

    def say(self, message: str, style: str = "") -> None:
        """A line of the supervisor."""
        self._print([(message, style)])

    def note(self, message: str, *, warning: bool) -> None:
        """A note about the options."""
        from tidelog.cli.show import palette

        if warning or self.least <= NORMAL:
            self.say(message, palette.WARNING if warning else palette.FAINT)

    def _print(self, words: list[Any]) -> None:
        from rich.text import Text

        self._screen.print(Text.assemble(*words), soft_wrap=True)
