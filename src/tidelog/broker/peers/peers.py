"""Connections to the other brokers: one for commands and one for fetches to each of them.

Rules of this file:

* Two connections per peer, because answers come in the order of requests: a fetch may wait half a second for
  data, and a command must not wait behind it.
* All requests of a follower to its leader use one connection, as in Kafka: the end of an epoch, the offsets
  of a log, and fetches. They do not wait behind a fetch that waits for data: any request makes the leader
  answer that fetch.
* The core fetches one partition at a time; ``fetching.py`` makes one request to each leader of that.
* This module never repeats a request. Requests on a broken connection are forgotten; after a reconnect
  ``connected`` is passed to the core, which repeats what still matters.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidelog.broker.peers.connection import PeerConnection
from tidelog.broker.peers.fetching import Flight, FollowerFetches
from tidelog.broker.translation import brokers, replication
from tidelog.core.messages import EpochEndRequest, FetchRequest, ListOffsetsRequest, Message
from tidelog.core.types import BrokerEndpoint, BrokerId, TopicPartition
from tidelog.wire.messages import fetch
from tidelog.wire.one_partition import FetchedOne

if TYPE_CHECKING:
    from tidelog.broker.node import Node

RELIEF_AFTER_SECONDS = 1.0
_QUESTIONS = (EpochEndRequest, ListOffsetsRequest)
"""Requests of a follower to its leader before it fetches."""


@dataclass(slots=True)
class StopFollowing:
    """An effect beside those of the core: it gives up a leader. In order with them, because they may wait for
    the disk."""

    leader: BrokerId
    tp: TopicPartition


class Peers:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._peers: dict[BrokerId, _Peer] = {}
        self.due: dict[BrokerId, None] = {}
        """Peers to which a fetch may be due."""
        node.throttles.follower.go_on = self._go_on

    def send(self, to: BrokerId, message: Message) -> None:
        peer = self._peers.get(to)
        if peer is None:
            peer = self._peers[to] = _Peer(self._node, to)
        if isinstance(message, FetchRequest):
            peer.following.want(message)
            self.due[to] = None
        else:
            line = peer.fetches if isinstance(message, _QUESTIONS) else peer.commands
            line.send(*brokers.request_to_wire(message), message)

    def stop_following(self, effect: StopFollowing) -> None:
        peer = self._peers.get(effect.leader)
        if peer is not None:
            peer.following.give_up(effect.tp)
            self.due[effect.leader] = None

    def fetch_answered(self, peer: BrokerId) -> None:
        self.due[peer] = None

    def flush(self, *, waiting: bool) -> None:
        """Send the fetches that are due, one request per leader. Called after all effects are executed, or
        while some are ``waiting`` for the disk."""
        due = self.due
        if not waiting:
            self.due = {}
        for broker in due:
            self._peers[broker].following.send(waiting=waiting)

    def _go_on(self) -> None:
        """Fetch what a throttle held back, as far as it allows now."""
        for broker, peer in self._peers.items():
            if peer.following.held_back:
                peer.following.go_on()
                self.due[broker] = None
        self._node.settle()

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
        self.commands = PeerConnection(
            self._endpoint, self._command_answered, self._reconnected, self._troubled
        )
        self.fetches = PeerConnection(self._endpoint, self._fetch_answered, self._reconnected, self._troubled)
        self.following = FollowerFetches(
            self.fetches,
            self._fetch_header,
            node.settings.replica_fetch_max_bytes,
            node.throttles.follower,
        )
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
            self.following.reconnected()
            self._node.connected(self._broker)
        else:
            self.commands.endpoint_changed()
            self.fetches.endpoint_changed()

    def _fetch_header(self) -> fetch.FetchRequest:
        node, context = self._node, self._node.core.ctx
        return replication.fetch_header(
            node.id,
            context.broker_epoch,
            context.config.replica_fetch_wait_max_ms,
            node.settings.replica_fetch_response_max_bytes,
        )

    def _fetch_answered(self, asked: Flight | Message, body: Any) -> None:
        if not isinstance(asked, Flight):
            self._command_answered(asked, body)
            return
        node = self._node
        throttle = node.throttles.follower
        if isinstance(body, FetchedOne):
            response = self.following.answer_for_one(asked, body)
            if response is not None:
                if throttle.topics:
                    throttle.fetched(response)
                node.answered(self._broker, response)
        else:
            for response in self.following.answers(asked, body):
                if throttle.topics:
                    throttle.fetched(response)
                node.answered(self._broker, response)
        node.peers.fetch_answered(self._broker)
        node.settle()

    def _command_answered(self, asked: Message, body: Any) -> None:
        node = self._node
        node.command_answered(self._broker, brokers.response_from_wire(asked, body))
        node.settle()
