"""Connections to the other brokers: one for commands and one for fetches to each of them.

Rules of this file:

* Two connections per peer, because answers come in the order of requests: a fetch may wait half a second for
  data, and a command must not wait behind it.
* All requests of a follower to its leader use one connection, as in Kafka: the end of an epoch, the offsets
  of a log, and fetches. They do not wait behind a fetch that waits for data: any request makes the leader
  answer that fetch.
* The core fetches one partition at a time; here the fetches that are due for one leader become one request. A
  partition that becomes due while such a request waits at the leader does not wait with it: the next request
  makes the leader answer the waiting one (see ``apis/fetch.py``). Then there are two requests, which would
  release each other forever: an empty request makes the leader answer both, and they continue as one.
* This module never repeats a request. Requests on a broken connection are forgotten; after a reconnect
  ``connected`` is passed to the core, which repeats what still matters.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidelog.broker.peers.connection import PeerConnection
from tidelog.broker.translation import brokers, replication
from tidelog.core.messages import EpochEndRequest, FetchRequest, ListOffsetsRequest, Message
from tidelog.core.types import BrokerEndpoint, BrokerId, TopicPartition

if TYPE_CHECKING:
    from tidelog.broker.node import Node

FETCHES_IN_FLIGHT_MAX = 2
RELIEF_AFTER_SECONDS = 1.0
_QUESTIONS = (EpochEndRequest, ListOffsetsRequest)
"""Requests of a follower to its leader before it fetches."""


class Peers:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._peers: dict[BrokerId, _Peer] = {}
        self._due: dict[BrokerId, None] = {}
        """Peers to which fetches are due."""

    def send(self, to: BrokerId, message: Message) -> None:
        peer = self._peers.get(to)
        if peer is None:
            peer = self._peers[to] = _Peer(self._node, to)
        if isinstance(message, FetchRequest):
            peer.due[message.tp] = message
            self._due[to] = None
        else:
            line = peer.fetches if isinstance(message, _QUESTIONS) else peer.commands
            line.send(*brokers.request_to_wire(message), message)

    def flush(self) -> None:
        """Send the fetches that are due, one request per leader. Called after all effects are executed."""
        if self._due:
            due, self._due = self._due, {}
            for broker in due:
                self._peers[broker].fetch()

    def connections_changed(self) -> None:
        """The metadata changed: peers may have returned, perhaps at another address."""
        for peer in self._peers.values():
            peer.commands.endpoint_changed()
            peer.fetches.endpoint_changed()

    def close(self) -> None:
        for peer in self._peers.values():
            peer.commands.close()
            peer.fetches.close()


class _Peer:
    """One other broker."""

    def __init__(self, node: Node, broker: BrokerId) -> None:
        self._node = node
        self._broker = broker
        self._route = dict(node.settings.tidelog_peer_routes).get(broker)
        self.due: dict[TopicPartition, FetchRequest] = {}
        self.commands = PeerConnection(
            self._endpoint, self._command_answered, self._reconnected, self._troubled
        )
        self.fetches = PeerConnection(self._endpoint, self._fetch_answered, self._reconnected, self._troubled)
        self._in_trouble = False
        self._relief: asyncio.TimerHandle | None = None

    def _endpoint(self) -> BrokerEndpoint | None:
        """The peer's address: the configured route, if there is one. The metadata decides whether the peer is
        alive."""
        advertised = self._node.core.metadata.endpoints.get(self._broker)
        if advertised is None or self._route is None:
            return advertised
        return replace(advertised, host=self._route.host, port=self._route.port)

    def _troubled(self, why: str) -> None:
        """Log one incident for both connections and all attempts, and once more when it is over. A dying
        process may still accept a connection, so the end is logged after a delay."""
        self._node.unreachable(self._broker)
        if self._relief is not None:
            self._relief.cancel()
            self._relief = None
        if not self._in_trouble:
            self._in_trouble = True
            self._node.log.info("lost the connection to broker %s: %s", self._broker, why)

    def _relieved(self) -> None:
        self._relief = None
        self._in_trouble = False
        self._node.log.info("connected to broker %s again", self._broker)

    def _reconnected(self) -> None:
        """Both connections lead to one process. If one of them broke, the core repeats all requests; it drops
        an answer that comes twice. If the other one is still down, let it try again now: no other event
        would, and the core must learn that the peer is back."""
        if self.commands.usable and self.fetches.usable:
            if self._in_trouble and self._relief is None:
                loop = asyncio.get_running_loop()
                self._relief = loop.call_later(RELIEF_AFTER_SECONDS, self._relieved)
            self._node.connected(self._broker)
        else:
            self.commands.endpoint_changed()
            self.fetches.endpoint_changed()

    def fetch(self) -> None:
        outstanding = self._outstanding()
        if not self.due or len(outstanding) >= FETCHES_IN_FLIGHT_MAX or {} in outstanding:
            return
        due, self.due = self.due, {}
        for asked in outstanding:
            # After a reconnect of the other connection the core repeats requests that are still under way on
            # this one.
            due = {tp: request for tp, request in due.items() if asked.get(tp) != request}
        if due:
            settings = self._node.settings
            body = replication.fetch_to_wire(
                due.values(), settings.replica_fetch_max_bytes, settings.replica_fetch_response_max_bytes
            )
            self._send_fetch(body, due)

    def _outstanding(self) -> list[dict[TopicPartition, FetchRequest]]:
        return [asked for asked in self.fetches.outstanding() if isinstance(asked, dict)]

    def _send_fetch(self, body: Any, asked: dict[TopicPartition, FetchRequest]) -> None:
        self.fetches.send(replication.FETCH, replication.FETCH_VERSION, body, asked)

    def _fetch_answered(self, asked: dict[TopicPartition, FetchRequest] | Message, body: Any) -> None:
        if not isinstance(asked, dict):
            self._command_answered(asked, body)
            return
        node = self._node
        for response in replication.fetch_from_wire(asked, body):
            node.answered(self._broker, response)
        outstanding = self._outstanding()
        if not outstanding:
            self.fetch()
        elif {} not in outstanding:
            self._send_fetch(replication.fetch_of_nothing(node.id), {})
        node.settle()

    def _command_answered(self, asked: Message, body: Any) -> None:
        node = self._node
        node.command_answered(self._broker, brokers.response_from_wire(asked, body))
        node.settle()
