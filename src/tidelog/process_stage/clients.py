"""The scenario's clients on real sockets.

Many scenarios need a producer that retries exactly as often as it is configured, and a consumer that asks
only the leader it knows; a client library would batch, retry and refresh by its own rules. The clients of
scenarios (``scenario/clients``) do no IO: they ask their host to send, to wake them, and whether a broker can
be reached. Here sockets and clocks drive the same code. ``tests/clients`` tests real client libraries.

Rules of this file:

* Time is the scenario's (``clock``), also for time-outs.
* The stage knows whether a connection can be made, since it controls the processes and the links. So an
  attempt that would fail takes no time, as in the lab. Requests and responses use one connection for each
  client and broker, through the switchboard.
* A time-out does not close the connection: the client ignores a late response. But a broker answers the
  requests of a connection in order, so what the client sends after the time-out goes over a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog.broker.translation.clients import from_wire, gets_an_answer, to_wire
from tidelog.core.messages import Message
from tidelog.core.types import Millis
from tidelog.faults.places import Node
from tidelog.kafka_client.aio import Address, Connection
from tidelog.process_stage.clock import Pace, ScenarioClock
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.events import ClientEvent
from tidelog.scenario.clients.producer import Producer, ProducerConfig

FIRST_PRODUCER_ID = 1_000


class Clients:
    """The clients of a play, and their ``ClientHost``."""

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
        self._overtaken: list[Connection] = []
        """Connections on which a request timed out."""
        self._unanswered: dict[Connection, dict[int, Millis]] = {}
        """Requests by their correlation, and when they time out."""
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
        for connection in (*self._connections.values(), *self._overtaken):
            connection.close()
        self._connections.clear()
        self._overtaken.clear()
        self._unanswered.clear()

    # ------------------------------------------------------------ ClientHost

    @property
    def now(self) -> Millis:
        return self._clock.now

    @now.setter
    def now(self, _value: Millis) -> None:
        raise AttributeError("the clock sets the time")

    def broker_ids(self) -> tuple[int, ...]:
        return self._brokers

    def wake_client(self, client: str, at: Millis) -> None:
        self._clock.call_at(at, self.all[client].wake)

    def client_sends(self, client: str, broker: int, correlation: int, message: Message) -> None:
        connection = self._connections.get((client, broker))
        if connection is not None and self._is_stuck(connection):
            self._overtaken.append(connection)
            connection = None
        if connection is None or connection.ended:
            connection = self._connections[client, broker] = self._connect(client, broker)
        api, version, body = to_wire(message, self._pace.ms)
        if not gets_an_answer(message):
            connection.send(api, version, body, None)
            return
        sender = self.all[client]
        if isinstance(sender, Producer):
            times_out_at = self.now + sender.config.request_timeout_ms
            self._unanswered.setdefault(connection, {})[correlation] = times_out_at
        connection.send(api, version, body, (correlation, message))

    def _is_stuck(self, connection: Connection) -> bool:
        return any(at <= self.now for at in self._unanswered.get(connection, {}).values())

    # ------------------------------------------------------------ connections

    def _connect(self, client: str, broker: int) -> Connection:
        def answered(asked: tuple[int, Message], body: object) -> None:
            correlation, message = asked
            self._unanswered.get(connection, {}).pop(correlation, None)
            self.all[client].replied(correlation, from_wire(message, body))

        def ended(connection: Connection) -> None:
            self._unanswered.pop(connection, None)
            if self._connections.get((client, broker)) is connection:
                self.all[client].disconnected(broker)

        connection = Connection(self._loop, client, self._route(client, broker), answered, ended)
        return connection
