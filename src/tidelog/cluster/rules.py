"""Requests of clients that are to go wrong (`broker.interference`): the supervisor's side.

A rule holds in every broker. One that was down or paused when the rule was made gets it when it is back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidelog.cluster.brokers import Brokers
from tidelog.cluster.errors import ClusterError

HOLD: Final = "hold"
FAIL: Final = "fail"
DISCONNECT: Final = "disconnect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interfering:
    """What is to happen to which requests."""

    kind: str
    api: int
    error: int = 0
    after: bool = False
    """The request is carried out first."""
    times: int = 0
    """The number of requests, counted over all brokers; 0: all."""
    client: str = ""
    topic: str = ""


@dataclass(slots=True)
class _Rule:
    sent: dict[str, Any]
    tokens: Path | None
    installed: set[int] = field(default_factory=set)
    """Processes that have it."""


class Rules:
    def __init__(self, brokers: Brokers, folder: Path) -> None:
        """`folder`: where the tokens of rules are, which brokers share."""
        self._brokers = brokers
        self._folder = folder
        self._made = 0
        self._rules: dict[int, _Rule] = {}
        self._removed: dict[int, list[int]] = {}
        """Rules that processes still have, because they were paused."""

    async def add(self, wanted: Interfering, paused: Collection[int]) -> int:
        """The number of the rule, once all brokers have it that can be asked."""
        self._made += 1
        number, tokens = self._made, None
        if wanted.times:
            tokens = self._folder / f"rule-{number}.tokens"
            tokens.write_bytes(b"%-31d" % wanted.times)
        sent = {
            "number": number,
            "kind": wanted.kind,
            "api": wanted.api,
            "error": wanted.error,
            "after": wanted.after,
            "client": wanted.client,
            "topic": wanted.topic,
            "tokens": str(tokens) if tokens is not None else "",
        }
        self._rules[number] = _Rule(sent, tokens)
        for broker in self._brokers.pids.keys() - set(paused):
            await self.install(broker)
        return number

    async def install(self, broker: int) -> None:
        """Give a broker the rules that its process does not have yet, and take away those that are over."""
        for number in self._removed.pop(self._brokers.pids.get(broker, 0), ()):
            await self._brokers.ask(broker, {"do": "remove", "number": number})
        for rule in self._rules.values():
            pid = self._brokers.pids.get(broker)
            if pid is not None and pid not in rule.installed:
                rule.installed.add(pid)
                await self._brokers.ask(broker, {"do": "rule", "rule": rule.sent})

    async def remove(self, number: int, paused: Collection[int]) -> None:
        """Held requests go on; those of a paused broker when it does."""
        rule = self._rules.pop(number, None)
        if rule is None:
            return
        if rule.tokens is not None:
            rule.tokens.unlink(missing_ok=True)
        for broker, pid in self._brokers.pids.items():
            if pid in rule.installed and broker in paused:
                self._removed.setdefault(pid, []).append(number)
            elif pid in rule.installed:
                await self._brokers.ask(broker, {"do": "remove", "number": number})

    def left(self, number: int) -> int:
        """How many requests are still to go wrong."""
        rule = self._rules.get(number)
        if rule is None or rule.tokens is None:
            raise ClusterError("this rule does not count")
        return int(rule.tokens.read_bytes())
