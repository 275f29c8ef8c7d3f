"""What a message on a relayed connection is called: the lab's channel for every Kafka request and answer.

Between brokers the API tells the channel, as in the lab: ``fetch``, ``control``, or ``isr`` for everything
else, which is what brokers ask of the controller. Whatever a client says is ``client``, whatever is said to
the keeper ``keeper``. Answers carry no API: they are known by the correlation id of their request, and come
in the order of the requests, except that some requests get none (acks=0).

The keeper's protocols, the embedded one and ZooKeeper's, share Kafka's framing and nothing else. Of their
messages only the *heartbeats* are recognized: they keep a session alive, mean nothing else, and so are not
messages of a trial. They pass held channels and are not counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from tidelog.cluster.network.relays.rules import is_client, is_keeper
from tidelog.faults.places import Channel, Node
from tidelog.wire.api import Api
from tidelog.wire.errors import ProtocolError

CHANNEL_OF_API = {
    Api.FETCH: "fetch",
    Api.OFFSET_FOR_LEADER_EPOCH: "fetch",
    Api.LIST_OFFSETS: "fetch",
    Api.LEADER_AND_ISR: "control",
    Api.UPDATE_METADATA: "control",
    Api.STOP_REPLICA: "control",
    Api.VOTE: "control",
}

REQUEST_HEADER = Struct(">ihhi")
"""Size, API key, version, correlation id: so does every request begin."""
REPLY_HEADER = Struct(">ii")
SIZE = Struct(">i")

# As many small requests as fit into the buffers on the way. Requests without an answer stay here until some
# later one is answered, and a producer with acks=0 may send nothing else for minutes.
UNANSWERED_MAX = 65_536

_HEARTBEATS = (
    b'{"ping":1}',
    b'{"pong":1}',
)
_ZOOKEEPER_PING = b"\xff\xff\xff\xfe"  # the xid -2
_ZOOKEEPER_PING_BYTES = (8, 16)

Rewrite = Callable[[bytearray], bytes]
"""Takes a whole frame with its length and returns what to send in its place."""


class Label(NamedTuple):
    """What is known of a message from its first bytes."""

    channel: Channel
    api: str
    """For people. Empty on the keeper's connections."""
    rewrite: Rewrite | None = None


class LinkProtocol:
    """The labels of all messages on the connections from ``source`` to ``target``."""

    header_bytes = REQUEST_HEADER.size

    def __init__(
        self, source: Node, target: Node, rewriting: Callable[[int, int], Rewrite | None] | None = None
    ) -> None:
        """``rewriting`` says how the answer to a request of an API and version is to be changed."""
        self._source = source
        self._target = target
        self._rewriting = rewriting
        self._labels: dict[tuple[int, int], tuple[Label, Label]] = {}

    def labels(self, api: int, version: int) -> tuple[Label, Label]:
        """Of a request and of its answer."""
        known = self._labels.get((api, version))
        if known is None:
            known = self._labels[api, version] = self._make(api, version)
        return known

    def _make(self, api: int, version: int) -> tuple[Label, Label]:
        if is_client(self._source):
            name = "client"
        else:
            name = CHANNEL_OF_API.get(Api(api), "isr") if api in Api.__members__.values() else "isr"
        title = Api(api).name if api in Api.__members__.values() else f"API_{api}"
        rewrite = self._rewriting(api, version) if self._rewriting is not None else None
        return (
            Label(Channel(name, self._source, self._target), title),
            Label(Channel(f"{name}-reply", self._target, self._source), title, rewrite),
        )

    def conversation(self) -> Conversation:
        return Conversation(self)


class Conversation:
    """One Kafka connection: which requests wait for their answers."""

    __slots__ = ("_labels", "_unanswered")

    def __init__(self, protocol: LinkProtocol) -> None:
        self._labels = protocol.labels
        self._unanswered: deque[tuple[int, Label]] = deque(maxlen=UNANSWERED_MAX)

    def request(self, view: memoryview, position: int) -> Label:
        _, api, version, correlation = REQUEST_HEADER.unpack_from(view, position)
        label, answer = self._labels(api, version)
        self._unanswered.append((correlation, answer))
        return label

    def reply(self, view: memoryview, position: int) -> Label:
        _, correlation = REPLY_HEADER.unpack_from(view, position)
        unanswered = self._unanswered
        while unanswered:
            expected, label = unanswered.popleft()
            if expected == correlation:
                return label
        raise ProtocolError(f"an answer to request {correlation}, which was never made")


class KeeperTalk:
    """One connection to the keeper. Both sides send when they like; only heartbeats are recognized."""

    __slots__ = ("_reply", "_request")

    def __init__(self, source: Node, target: Node) -> None:
        self._request = Label(Channel("keeper", source, target), "")
        self._reply = Label(Channel("keeper-reply", target, source), "")

    def request(self, _view: memoryview, _position: int) -> Label:
        return self._request

    def reply(self, _view: memoryview, _position: int) -> Label:
        return self._reply


def is_heartbeat(label: Label, frame: bytes | bytearray) -> bool:
    if not (is_keeper(label.channel.source) or is_keeper(label.channel.target)):
        return False
    body = frame[SIZE.size : SIZE.size + 16]
    if len(frame) - SIZE.size in _ZOOKEEPER_PING_BYTES and body.startswith(_ZOOKEEPER_PING):
        return True
    return bytes(body) in _HEARTBEATS
