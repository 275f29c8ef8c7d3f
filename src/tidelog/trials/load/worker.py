"""The main program of a process that generates load: commands on stdin, status on stdout.

The first line is its plan, the others are orders, one JSON object each: `{"do": "stop"}`,
`{"do": "drain", "ends": {topic: {partition: offset}}}`. The answers are JSON lines too: numbers now and then,
and `"done": true` at the end. When stdin ends the trial has ended, and the process ends soon.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from tidelog.errors import reason
from tidelog.evidence.event_schema import Row
from tidelog.evidence.journals.lines import LineJournal

STATUS_SECONDS = 0.25
_REPEAT_SECONDS = 1.0


class Orders:
    """What the trial wants of this process. `changed` is set when there is something new."""

    def __init__(self) -> None:
        # Ctrl-C is for the trial, which ends us in its own time.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.plan: dict[str, Any] = json.loads(sys.stdin.readline())
        self.stop = False
        self.abandoned = False
        self.ends: dict[str, dict[str, int]] | None = self.plan.get("ends")
        self.changed = threading.Event()
        threading.Thread(target=self._listen, name="orders", daemon=True).start()

    def wait(self, seconds: float) -> None:
        """Until there is a new order, or so long."""
        if seconds > 0 and self.changed.wait(seconds):
            self.changed.clear()

    def _listen(self) -> None:
        for line in sys.stdin:
            order = json.loads(line)
            if order["do"] == "drain":
                self.ends = order["ends"]
            else:
                self.stop = True
            self.changed.set()
        self.stop = self.abandoned = True
        self.changed.set()


class Speaker:
    """The way back. A trial that is gone hears nothing, which is no error."""

    def __init__(self) -> None:
        self._next = 0.0

    def is_due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + STATUS_SECONDS
        return True

    def say(self, **facts: Any) -> None:
        try:
            sys.stdout.write(json.dumps(facts) + "\n")
            sys.stdout.flush()
        except OSError:
            pass


def main(work: Callable[[Orders], int]) -> int:
    """Work to the end. What makes work impossible, a full disk above all, ends it with one line."""
    orders = Orders()
    try:
        return work(orders)
    except OSError as error:
        Speaker().say(trouble=[no_journal(orders.plan["worker"], error)], done=True)
        return 1


def no_journal(worker: str, error: OSError) -> str:
    """Without a journal nothing may be sent or read."""
    return f"{worker} cannot write down what it does: {reason(error)}"


class Noticed:
    """Events of this process's clients besides records. The same error is recorded once a second, so that a
    client that reaches no broker does not fill the disk."""

    def __init__(self, journal: LineJournal) -> None:
        self._journal = journal
        self._told: dict[tuple[Any, ...], float] = {}

    def note(self, client: str, zone: str, event: str, **facts: Any) -> None:
        about = (client, event, facts.get("error_code"), facts.get("partition"))
        now = time.monotonic()
        if now - self._told.get(about, -_REPEAT_SECONDS) < _REPEAT_SECONDS:
            return
        self._told[about] = now
        row: Row = {"time_us": time.time_ns() // 1000, "client": client, "zone": zone, "event": event}
        self._journal.write(row | {name: value for name, value in facts.items() if value is not None})
