"""Collects the core's answers to the parts of one request and calls back when the last one is there.

The parts are told apart by what was asked, so each question carries the function that takes its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog.core.messages import Message

if TYPE_CHECKING:
    from tidelog.broker.node import Node


class Gather:
    __slots__ = ("_finish", "_missing")

    def __init__(self, finish: Callable[[], None]) -> None:
        self._finish = finish
        self._missing = 1  # the asking itself: nothing is finished before all has been asked

    def ask(self, node: Node, question: Message, fill: Callable[[Any], None]) -> None:
        node.ask(self._expect(fill), question)

    def expect(self, fill: Callable[[Any], None]) -> Callable[[Any], None]:
        """One answer more to wait for, from whoever calls what is returned."""
        return self._expect(fill).deliver

    def _expect(self, fill: Callable[[Any], None]) -> _Part:
        self._missing += 1
        return _Part(self, fill)

    def asked_all(self) -> None:
        self.arrived()

    def arrived(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._finish()


class _Part:
    """Where one answer goes."""

    __slots__ = ("_fill", "_gather")

    def __init__(self, gather: Gather, fill: Callable[[Any], None]) -> None:
        self._gather = gather
        self._fill = fill

    def deliver(self, message: Any) -> None:
        self._fill(message)
        self._gather.arrived()
