"""The network of a trial: every connection of every process runs through here, and can be made to suffer.

    with Switchboard() as board:
        board.add(0, "az1")
        board.add("p", "az2")
        board.place(0, "127.0.0.1", 9092)           # where broker 0 really listens
        host, port = board.route("p", 0)            # where client p finds it
        board.cut([("p", 0), (0, "p")])

Nodes are named as in scenarios: broker ids, ``keeper``, names of clients. Faults live here, outside the
processes under trial, which are exactly those that ship. The relays know Kafka's frames well enough to hold,
deliver or drop a single message of a channel (``faults/places.py``), and rewrite the addresses in the answers
to a client, so that it never finds a way past its relays. They suit any Kafka client and any Kafka.

Every method may be called from any thread and returns when its effect is there. The relays run in one event
loop in a thread of their own.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import NamedTuple, ParamSpec, Self, TypeVar

from tidelog.cluster.network.relays.exchange import RelayExchange
from tidelog.cluster.network.relays.labels import Label
from tidelog.cluster.network.relays.rules import Flow, Pair
from tidelog.event_loop import new_event_loop
from tidelog.faults.places import Channel, Node

HANG_MS = 1_000.0
log = logging.getLogger("tidelog.trials")

P = ParamSpec("P")
Result = TypeVar("Result")


class Passed(NamedTuple):
    """A message that went through."""

    time: float
    """Seconds since 1970."""
    source: Node
    target: Node
    kind: str
    """The name of its channel: ``fetch-reply``."""
    size: int
    api: str
    """What Kafka calls the request: ``FETCH``. Empty for requests to the keeper."""


class Switchboard:
    def __init__(self, *, hang_ms: float = HANG_MS) -> None:
        """``hang_ms``: while a link is cut attempts to connect hang for so long, and later are refused."""
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tidelog-switchboard", daemon=True)
        self._thread.start()
        self._on_message: Callable[[Passed], None] | None = None
        self._exchange = asyncio.run_coroutine_threadsafe(_exchange(hang_ms / 1000), self._loop).result()
        self._links = self._exchange.links

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, action: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        if threading.current_thread() is self._thread:
            return action(*args, **kwargs)

        async def act() -> Result:
            return action(*args, **kwargs)

        return asyncio.run_coroutine_threadsafe(act(), self._loop).result()

    def _change(self, rule: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        self._call(self._exchange.change, rule, *args, **kwargs)

    def close(self) -> None:
        """End every connection and give up every port."""
        if self._loop.is_closed():
            return
        try:
            asyncio.run_coroutine_threadsafe(self._exchange.close(), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------ who is where

    def add(self, node: Node, zone: str) -> None:
        self._change(self._links.add, node, zone)

    def place(self, node: Node, host: str, port: int) -> None:
        """Where a node really listens, from now on. Connections that stand are not touched."""
        self._call(self._exchange.places.set, node, (host, port))

    def route(self, source: Node, target: Node) -> tuple[str, int]:
        """Where ``source`` finds ``target``: always the same, also before the target has a place."""
        return self._call(self._exchange.route, source, target)

    # ------------------------------------------------------------ links

    def cut(self, pairs: Iterable[Pair]) -> None:
        """What travels from a to b is lost, for each pair (a, b); and neither can connect to the other."""
        self._change(self._links.cut, list(pairs))

    def heal(self, pairs: Iterable[Pair] | None = None) -> None:
        """Connections that lost something are reset as soon as both directions work."""
        self._change(self._links.heal, None if pairs is None else list(pairs))

    def delay(self, pairs: Iterable[Pair], ms: float) -> None:
        """What is sent from now on takes so much longer; 0: no longer."""
        self._change(self._links.delay, list(pairs), ms)

    def reset(self, a: Node, b: Node) -> None:
        """Break every connection between the two; they may connect again."""
        self._call(self._exchange.reset, a, b)

    def restore(self) -> None:
        """No link is cut or slow, and no channel is held. A node that is frozen stays so."""
        self._change(self._links.restore)

    # ------------------------------------------------------------ single messages

    def hold(self, channel: Channel | None) -> None:
        """Let no message of a channel pass, or of any; what arrives waits in order."""
        self._change(self._links.hold, channel)

    def release(self, channel: Channel | None) -> None:
        """Let go what waits. None: of all channels and nodes."""
        self._change(self._links.release, channel)

    def freeze(self, node: Node) -> None:
        """Hold everything to and from a node."""
        self._change(self._links.freeze, node)

    def thaw(self, node: Node) -> None:
        self._change(self._links.thaw, node)

    def deliver(self, channel: Channel, count: int = 1) -> bool:
        """Let a number of waiting messages pass, oldest first. False if there were fewer."""
        return self._call(self._exchange.deliver, channel, count)

    def drop(self, channel: Channel) -> bool:
        """Lose the oldest waiting message, and with it the connection it was on. False if there is none."""
        return self._call(self._exchange.drop, channel)

    def in_flight(self, channel: Channel) -> int:
        """How many messages of a channel wait."""
        return self._call(self._exchange.in_flight, channel)

    # ------------------------------------------------------------ what can be seen

    def quiet(self, node: Node, *, ms: float) -> bool:
        """Nothing has moved to or from a node for so long, heartbeats of the keeper aside."""
        return self._call(self._exchange.quiet, node, ms)

    def traffic(self) -> dict[Pair, Flow]:
        """What went each way so far."""
        flows = self._call(dict, self._links.flows)
        return {pair: replace(flow) for pair, flow in flows.items()}

    @property
    def connections(self) -> int:
        """How many there are at the moment."""
        return self._call(self._exchange.connections)

    @property
    def on_message(self) -> Callable[[Passed], None] | None:
        """Is shown every message that passes, in the switchboard's thread: it should be quick."""
        return self._on_message

    @on_message.setter
    def on_message(self, shown: Callable[[Passed], None] | None) -> None:
        self._on_message = shown
        self._call(self._exchange.set_tap, None if shown is None else self._show)

    def _show(self, label: Label, size: int) -> None:
        shown = self._on_message
        if shown is None:
            return
        name, source, target = label.channel
        try:
            shown(Passed(time.time(), source, target, name, size, label.api))
        except Exception:  # an observer must not break what it observes
            log.exception("on_message failed and is not called again")
            self._on_message = None


async def _exchange(hang_s: float) -> RelayExchange:
    return RelayExchange(hang_s)
