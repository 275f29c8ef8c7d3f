"""The way from one node to another: a port, and the connections that came through it.

The port is open while a connection could be made in a real network: the link works in both directions and
a process listens at its end. While the link is cut it is silent for a while and refuses after that, as a host
does whose neighbours have noticed that it is gone; where no process listens it refuses.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from tidelog.cluster.network.relays.addresses import Address
from tidelog.cluster.network.relays.labels import REPLY_HEADER, REQUEST_HEADER, SIZE, KeeperTalk, LinkProtocol
from tidelog.cluster.network.relays.lane import Lane, Waiting
from tidelog.cluster.network.relays.listening_port import HOST, ListeningPort, PortState
from tidelog.cluster.network.relays.relayed_connection import RelayedConnection, reset_on_close
from tidelog.cluster.network.relays.rewriting import Rewriting
from tidelog.cluster.network.relays.rules import Pair, is_client, is_keeper
from tidelog.faults.places import Channel, Node

if TYPE_CHECKING:
    from tidelog.cluster.network.relays.exchange import RelayExchange

CONNECT_SECONDS_MAX = 3.0


class Relay:
    def __init__(self, exchange: RelayExchange, source: Node, target: Node) -> None:
        self.source = source
        self.target = target
        self._exchange = exchange
        self._loop = asyncio.get_running_loop()
        self._door = ListeningPort(self._called)
        self._connecting: set[asyncio.Task[None]] = set()
        self._reaching: set[asyncio.Task[socket.socket]] = set()
        self._closed = False
        self._hanging: asyncio.TimerHandle | None = None
        self._gave_up = False
        """The link has been cut for so long that attempts are refused."""
        self.connections: dict[RelayedConnection, None] = {}
        rewriting = Rewriting(self._lead).of if is_client(source) else None
        self._protocol = LinkProtocol(source, target, rewriting)
        self.rules_changed()

    @property
    def address(self) -> Address:
        return HOST, self._door.port

    def _lead(self, broker: int, advertised: Address) -> Address:
        self._exchange.places.learn(broker, advertised)
        return self._exchange.route(self.source, broker)

    # ------------------------------------------------------------ rules

    def rules_changed(self) -> None:
        """Links, places or the tap are not what they were."""
        linked = self._exchange.links.linked(self.source, self.target)
        self._set_door(linked)
        for connection in list(self.connections):
            connection.rules_changed(self._exchange.tap, linked=linked)

    def _set_door(self, linked: bool) -> None:
        if linked:
            self._gave_up = False
            self._stop_hanging()
            up = self._exchange.places.is_up(self.target)
            self._door.set(PortState.OPEN if up else PortState.REFUSING)
        elif self._gave_up or self._exchange.hang_s <= 0:
            self._door.set(PortState.REFUSING)
        else:
            self._door.set(PortState.SILENT)
            if self._hanging is None:
                self._hanging = self._loop.call_later(self._exchange.hang_s, self._give_up)

    def _give_up(self) -> None:
        self._hanging = None
        self._gave_up = True
        self._door.set(PortState.REFUSING)

    def _stop_hanging(self) -> None:
        if self._hanging is not None:
            self._hanging.cancel()
            self._hanging = None

    # ------------------------------------------------------------ connections

    def _called(self, caller: socket.socket) -> None:
        task = self._loop.create_task(self._connect(caller))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, caller: socket.socket) -> None:
        reaching = self._loop.create_task(self._reach_target())
        self._reaching.add(reaching)
        try:
            far = await reaching
        except (OSError, asyncio.CancelledError) as error:
            if isinstance(error, OSError):
                self._exchange.places.doubt(self.target)
            reset_on_close(caller)
            caller.close()
            return
        finally:
            self._reaching.discard(reaching)
        connection = RelayedConnection(caller, far, *self._lanes())
        connection.on_end = self._ended
        connection.on_far_end = self._far_ended
        self.connections[connection] = None
        self._exchange.links.flow(self.source, self.target).connections += 1
        await connection.start(self._exchange.tap)
        if self._closed:
            connection.reset()

    async def _reach_target(self) -> socket.socket:
        address = self._exchange.places.get(self.target)
        if address is None:
            raise ConnectionRefusedError(f"it is not known where {self.target} listens")
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await self._loop.sock_connect(sock, address)
        except BaseException:
            sock.close()
            raise
        return sock

    def _lanes(self) -> tuple[Lane, Lane]:
        there, back = (self.source, self.target), (self.target, self.source)
        if is_keeper(self.target):
            talk = KeeperTalk(self.source, self.target)
            return (
                self._exchange.lane(there, talk.request, SIZE.size, whole=True),
                self._exchange.lane(back, talk.reply, SIZE.size, whole=True),
            )
        conversation = self._protocol.conversation()
        return (
            self._exchange.lane(there, conversation.request, REQUEST_HEADER.size, whole=False),
            self._exchange.lane(back, conversation.reply, REPLY_HEADER.size, whole=False),
        )

    def _ended(self, connection: RelayedConnection) -> None:
        self.connections.pop(connection, None)

    def _far_ended(self) -> None:
        # Before the near side hears of it: a client that reconnects at once must find the port right.
        self._exchange.places.doubt(self.target)

    # ------------------------------------------------------------ what a trial does

    def lanes(self, pair: Pair) -> list[tuple[RelayedConnection, Lane]]:
        """Of every connection the lane in that direction."""
        if pair == (self.source, self.target):
            return [(connection, connection.out) for connection in self.connections]
        if pair == (self.target, self.source):
            return [(connection, connection.back) for connection in self.connections]
        return []

    def heads(self, channel: Channel) -> list[tuple[Waiting, RelayedConnection, Lane]]:
        """The messages of a channel that are next on their connections."""
        lanes = self.lanes((channel.source, channel.target))
        found = ((lane.head(channel), connection, lane) for connection, lane in lanes)
        return [(message, connection, lane) for message, connection, lane in found if message is not None]

    def reset(self) -> None:
        for connection in list(self.connections):
            connection.reset()

    def close(self) -> None:
        self._closed = True
        self._stop_hanging()
        self._door.close()
        for task in self._reaching:
            task.cancel()
        self.reset()

    async def closed(self) -> None:
        """Until nothing is left after ``close``."""
        await asyncio.gather(*self._connecting)
        while self.connections:
            await asyncio.sleep(0.001)
