"""The page's questions, JSON in and JSON out: for Python in a worker of the browser, and for the server.

An answer comes in pieces, of which the last is the answer itself. Between two of them the caller may do
something else, or leave.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tidelog.web.play.exploring import explore
from tidelog.web.play.futures import future_shares
from tidelog.web.play.playing import CannotPlay, play

Json = dict[str, Any]


def ask(question: str) -> Iterator[str]:
    """``{"ask": "play" | "explore" | "futures", …}``. What is wrong with it is an answer, too."""
    wanted: Json = json.loads(question)
    try:
        for reply in _QUESTIONS[wanted.pop("ask")](wanted):
            yield json.dumps(reply)
    except CannotPlay as error:
        yield json.dumps({"error": str(error)})


def _play(wanted: Json) -> Iterator[Json]:
    yield play(wanted["text"], wanted.get("generation"), wanted.get("against"))


_QUESTIONS = {"play": _play, "explore": explore, "futures": future_shares}
