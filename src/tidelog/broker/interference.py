"""Requests that go wrong because a test says so: the next ones fail, or wait until they are released.

Behaviour: a rule is about one API and about requests of clients; fetches of followers are left alone, and so
is the supervisor's own client. A failing request gets an error, or its connection is closed: before anything
was done, or after it was really done (the append of a produce is written and replicated as always, only the
answer differs). A held request is carried out when its rule is removed.

Rules come from the supervisor alone, over the broker's standard input (`control`). While there is no rule for
an API its handler is the one that ships, so rules cost nothing where there are none.

``times`` counts the requests of all brokers together: each takes a token from a file that they share.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tidelog.broker.connection import Request
from tidelog.broker.refusals import CHANGES, with_error
from tidelog.storage.background import StepsAndJobs
from tidelog.wire.api import Api

if TYPE_CHECKING:
    from tidelog.broker.server import Handler, Server

HOLD: Final = "hold"
FAIL: Final = "fail"
DISCONNECT: Final = "disconnect"
SUPERVISOR_CLIENT: Final = "tidelog"
_TOPIC_LISTS: Final = ("topic_data", "topics")


@dataclass(slots=True)
class Rule:
    number: int
    kind: str
    api: int
    error: int = 0
    after: bool = False
    """The request is carried out first."""
    tokens: str = ""
    """A file with the number of requests that are still to go wrong; empty: all do."""
    client: str = ""
    """Only requests of this client id."""
    topic: str = ""
    """Only requests that name this topic."""
    held: list[tuple[Request, Any]] = field(default_factory=list)

    def matches(self, request: Request) -> bool:
        body, client = request.body, request.header.client_id
        if getattr(body, "replica_id", -1) >= 0:
            return False
        if client != self.client if self.client else client == SUPERVISOR_CLIENT:
            return False
        return (not self.topic or self.topic in _topics(body)) and self._take_token()

    def _take_token(self) -> bool:
        if not self.tokens:
            return True
        try:
            shared = os.open(self.tokens, os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(shared, fcntl.LOCK_EX)
            left = int(os.pread(shared, 32, 0))
            if left > 0:
                os.pwrite(shared, b"%-31d" % (left - 1), 0)
            return left > 0
        finally:
            os.close(shared)


def _topics(body: Any) -> Iterator[str]:
    for name in _TOPIC_LISTS:
        for topic in getattr(body, name, None) or ():
            yield getattr(topic, "name", "") or getattr(topic, "topic", "")


class _Failing(Request):
    """A request that is carried out, and whose answer says that it failed. A request becomes one when its
    handler is called; so there is no slot more than in any other."""

    __slots__ = ()
    error: ClassVar[int]

    def respond(self, body: Any, *, failed: bool = False) -> None:
        super().respond(with_error(body, self.error), failed=True)

    def respond_at_once(self, body: Any, *, failed: bool = False) -> None:
        super().respond_at_once(with_error(body, self.error), failed=True)

    def respond_with(self, steps: StepsAndJobs[Any], *, failed: bool = False) -> None:
        def changed() -> StepsAndJobs[Any]:
            return with_error((yield from steps), self.error)

        super().respond_with(changed(), failed=True)


class _Disconnecting(Request):
    """A request that is carried out, and whose answer is not sent: the connection is closed instead."""

    __slots__ = ()

    def respond(self, body: Any, *, failed: bool = False) -> None:
        self.connection.abort()

    def respond_at_once(self, body: Any, *, failed: bool = False) -> None:
        self.connection.abort()

    def respond_with(self, steps: StepsAndJobs[Any], *, failed: bool = False) -> None:
        self.connection.abort()


class Interference:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._shipped: dict[int, Handler] = {}
        self._rules: dict[int, Rule] = {}

    def add(self, rule: Rule) -> None:
        self._rules[rule.number] = rule
        if rule.api not in self._shipped:
            self._shipped[rule.api] = self._server.handlers[rule.api]
            self._server.replace(rule.api, self._handler_of(rule.api))

    def remove(self, number: int) -> None:
        """Held requests go on, in the order in which they came."""
        rule = self._rules.pop(number, None)
        if rule is None:
            return
        if all(other.api != rule.api for other in self._rules.values()):
            del self._shipped[rule.api]
            self._server.restore(rule.api)
        for request, body in rule.held:
            if not request.connection.gone:
                request.body = body
                steps = self._server.handlers[rule.api](request)
                if steps is not None:
                    request.go_on(steps)
        self._server.settle()

    def _handler_of(self, api: int) -> Callable[[Request], StepsAndJobs[None] | None]:
        shipped = self._shipped[api]

        def handle(request: Request) -> StepsAndJobs[None] | None:
            for rule in self._rules.values():
                if rule.api == api and rule.matches(request):
                    return self._apply(rule, request, shipped)
            return shipped(request)

        return handle

    def _apply(self, rule: Rule, request: Request, shipped: Handler) -> StepsAndJobs[None] | None:
        if rule.kind == HOLD:
            rule.held.append((request, request.body))
            return None
        answer = CHANGES.get(Api(rule.api))
        if rule.after or answer is None:
            request.__class__ = _failing(rule.error) if rule.kind == FAIL else _Disconnecting
            return shipped(request)
        if rule.kind == DISCONNECT:
            request.connection.abort()
        elif getattr(request.body, "acks", -1) == 0:
            request.respond_nothing()
        else:
            request.respond(with_error(answer(request.body), rule.error), failed=True)
        return None


def _failing(code: int) -> type[_Failing]:
    return type("_Failing", (_Failing,), {"__slots__": (), "error": code})
