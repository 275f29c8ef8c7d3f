"""The lab's clients on real sockets.

Many scenarios are about a producer that retries exactly as often as it is configured, and a consumer that
asks only the leader it believes in; a client library would batch, retry and refresh as it sees fit. The
clients of scenarios (``scenario/clients``) do no IO: they ask their host to send, to wake them, and whether a
broker can be reached. So the same code is driven here by sockets and clocks: one behaviour, two worlds. What
a library does on a tidelog cluster is tested in ``tests/clients``.

Rules of this file:

* Time is the scenario's (``clock``), also that of their time-outs.
* Whether a connection could be made is what the trial knows, since it holds the processes and the links; so
  an attempt that would fail takes no time, as in the lab. Everything else happens on connections, one for
  each client and broker, through the switchboard.
* A time-out leaves the connection as it is: late answers arrive and are ignored by those they come too late
  for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog.core.messages import Message
from tidelog.core.types import Millis
from tidelog.faults.places import Node
from tidelog.kafka_client.aio import Address, Connection
from tidelog.process_stage.clock import ScenarioClock
from tidelog.process_stage.conversations import from_wire, gets_an_answer, to_wire
from tidelog.process_stage.pace import Pace
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.events import ClientEvent
from tidelog.scenario.clients.producer import Producer, ProducerConfig

FIRST_PRODUCER_ID = 1_000


class Clients:
    """The clients of a trial, and what they may ask of the world (``ClientHost``)."""

    def __init__(
        self,
        clock: ScenarioClock,
        pace: Pace,
        loop: asyncio.AbstractEventLoop,
        *,
        brokers: int,
        zone_of: Callable[[Node], str],
        can_connect: Callable[[str, int], bool],
        route: Callable[[str, int], Address],
        observe: Callable[[ClientEvent], None],
    ) -> None:
        self._clock = clock
        self._pace = pace
        self._loop = loop
        self._brokers = tuple(range(brokers))
        self.all: dict[str, Producer | Consumer] = {}
        self._connections: dict[tuple[str, int], Connection] = {}
        self.zone_of = zone_of
        self.can_connect = can_connect
        self._route = route
        self.client_observed = observe

    def add_producer(self, name: str, config: ProducerConfig) -> Producer:
        producer = Producer(name, config, self, FIRST_PRODUCER_ID + len(self.all))
        self.all[name] = producer
        return producer

    def add_consumer(self, name: str, *, uses_epochs: bool) -> Consumer:
        consumer = Consumer(name, self, uses_epochs)
        self.all[name] = consumer
        return consumer

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # ------------------------------------------------------------ what clients ask

    @property
    def now(self) -> Millis:
        return self._clock.now

    @now.setter
    def now(self, _value: Millis) -> None:
        raise AttributeError("time passes by itself")

    def broker_ids(self) -> tuple[int, ...]:
        return self._brokers

    def wake_client(self, client: str, at: Millis) -> None:
        self._clock.call_at(at, self.all[client].wake)

    def client_sends(self, client: str, broker: int, correlation: int, message: Message) -> None:
        connection = self._connections.get((client, broker))
        if connection is None or connection.ended:
            connection = self._connections[client, broker] = self._connect(client, broker)
        api, version, body = to_wire(message, self._pace)
        connection.send(api, version, body, (correlation, message) if gets_an_answer(message) else None)

    # ------------------------------------------------------------ connections

    def _connect(self, client: str, broker: int) -> Connection:
        def answered(asked: tuple[int, Message], body: object) -> None:
            correlation, message = asked
            self.all[client].replied(correlation, from_wire(message, body))

        def ended(connection: Connection) -> None:
            if self._connections.get((client, broker)) is connection:
                self.all[client].disconnected(broker)

        return Connection(self._loop, client, self._route(client, broker), answered, ended)
