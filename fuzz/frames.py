"""Frame number N of seed S: always the same bytes.

Each frame is a request of an API and version that the broker offers, drawn from the vocabulary and then
changed, or not. What the decoder makes of it is looked up here, before it is sent: it says what the broker
must do with it, and it keeps out the few requests that are no attack but an order, such as a topic of five
thousand partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from random import Random
from typing import Any, Final, NamedTuple

from fuzz.layout import draw
from fuzz.mutations import changed_bytes, changed_fields, changed_header
from fuzz.vocabulary import Speaker
from tidelog.wire.api import Api, RequestHeader, UnsupportedVersion, decode_request
from tidelog.wire.api_keys import find_schema, schema_of
from tidelog.wire.errors import ProtocolError

BETWEEN_BROKERS: Final = (
    Api.LEADER_AND_ISR,
    Api.STOP_REPLICA,
    Api.UPDATE_METADATA,
    Api.CONTROLLED_SHUTDOWN,
    Api.ALTER_ISR,
    Api.VOTE,
)
"""Not offered to clients and yet within their reach. Sent as by a controller or a broker of long ago: one of
today a broker believes, and must."""

PARTITIONS_MAX: Final = 20
"""More partitions than that no request may ask for, unless it asks for more than a broker may grant."""
_PARTITIONS_GRANTED: Final = 10_000 + 1_000
"""That many more in one request, and a topic may have some already."""
WAIT_MS_MAX: Final = 200
"""A request that asks to wait for longer is left waiting."""
SESSION_MS_MAX: Final = 10_000
"""`group.max.session.timeout.ms` of the cluster: a member that left without a word is missed then."""
_EPOCHS_IN_USE: Final = range(-1, 1_000_000)
_BETWEEN_SHARE: Final = 0.05
_ATTEMPTS: Final = 16


class Fate(Enum):
    """What a broker must do with a frame."""

    ANSWER = "answer"
    SILENCE = "silence"
    """Produce with acks=0: nothing is said, unless it is refused, for which the connection is closed."""
    WAIT = "wait"
    """An answer, after the time that was asked for, or when others have acted."""
    CLOSE = "close"


class How(Enum):
    """What was done to a request before it was sent."""

    NOTHING = "valid"
    FIELDS = "fields"
    BYTES = "bytes"
    HEADER = "header"
    STALE = "stale"
    """One between brokers, of an epoch that is over."""


class Frame(NamedTuple):
    number: int
    data: bytes
    """Without its length."""
    how: How
    fate: Fate
    header: RequestHeader | None
    """Of one that can be decoded: by it the answer is decoded. ApiVersions of an unknown version has 0."""

    @property
    def named(self) -> str:
        if self.header is None:
            return "no request"
        return f"{Api(self.header.api_key).name} v{self.header.api_version}"


class Frames:
    def __init__(self, seed: int, offered: Mapping[int, tuple[int, int]]) -> None:
        """`offered` is what ApiVersions says."""
        self._seed = seed
        self._spoken = [
            (known, version)
            for key, versions in sorted(offered.items())
            if (known := find_schema(key)) is not None
            for version in known.versions
            if versions[0] <= version <= versions[1]
        ]
        self._between = [
            (known, version) for known in map(schema_of, BETWEEN_BROKERS) for version in known.versions
        ]

    @property
    def versions(self) -> int:
        """How many versions of APIs there are."""
        return len(self._spoken)

    def frame(self, number: int) -> Frame:
        for attempt in range(_ATTEMPTS):
            dice = Random((self._seed << 48) + (number << 4) + attempt)
            data, how = self._drawn(dice)
            fate, header = foresee(data)
            if fate is not None:
                return Frame(number, data, how, fate, header)
        return Frame(number, b"", How.BYTES, Fate.CLOSE, None)

    def _drawn(self, dice: Random) -> tuple[bytes, How]:
        if dice.random() < _BETWEEN_SHARE:
            return self._stale(dice), How.STALE
        known, version = dice.choice(self._spoken)
        drawn = draw(known, version, "fuzz", Speaker(dice, version).struct(known.request))
        match dice.randrange(20):
            case 0 | 1 | 2:
                return drawn.frame, How.NOTHING
            case 3:
                return changed_header(dice, drawn.frame), How.HEADER
            case 4 | 5:
                return changed_bytes(dice, drawn.frame, self._other(dice)), How.BYTES
            case _:
                return changed_fields(dice, drawn), How.FIELDS

    def _other(self, dice: Random) -> bytes:
        known, version = dice.choice(self._spoken)
        return draw(known, version, None, Speaker(dice, version).struct(known.request)).frame

    def _stale(self, dice: Random) -> bytes:
        known, version = dice.choice(self._between)
        body = Speaker(dice, version).struct(known.request)
        if hasattr(body, "controller_epoch"):
            body.controller_epoch = dice.choice((0, -1, -(2**31)))
        if hasattr(body, "broker_epoch"):
            body.broker_epoch = dice.choice((-2, 2**62, -(2**63)))
        drawn = draw(known, version, "fuzz", body)
        return drawn.frame if dice.random() < 0.5 else changed_fields(dice, drawn)


# ---------------------------------------------------------------- what must become of it


def foresee(data: bytes) -> tuple[Fate | None, RequestHeader | None]:
    """What a broker must do with these bytes; None: they would really do something that nobody wants."""
    try:
        header, body = decode_request(data)
    except UnsupportedVersion as error:
        asked = error.header
        if asked.api_key != Api.API_VERSIONS:
            return Fate.CLOSE, None
        return Fate.ANSWER, RequestHeader(asked.api_key, 0, asked.correlation_id, None)
    except ProtocolError:
        return Fate.CLOSE, None
    if _is_an_order(header, body):
        return None, header
    if header.api_key == Api.PRODUCE and body.acks == 0:
        return Fate.SILENCE, header
    return (Fate.WAIT if wait_ms(header, body) > WAIT_MS_MAX else Fate.ANSWER), header


def _is_an_order(header: RequestHeader, body: Any) -> bool:
    match header.api_key:
        case Api.LEADER_AND_ISR | Api.STOP_REPLICA | Api.UPDATE_METADATA | Api.VOTE:
            return bool(body.controller_epoch > 0)
        case Api.CONTROLLED_SHUTDOWN | Api.ALTER_ISR:
            return body.broker_epoch in _EPOCHS_IN_USE
        case Api.CREATE_TOPICS:
            return _too_many(sum(max(topic.num_partitions, len(topic.assignments)) for topic in body.topics))
        case Api.CREATE_PARTITIONS:
            return _too_many(sum(topic.count for topic in body.topics))
        case _:
            return False


def _too_many(partitions: int) -> bool:
    return PARTITIONS_MAX < partitions <= _PARTITIONS_GRANTED


def wait_ms(header: RequestHeader, body: Any) -> int:
    """For how long an answer may be held back: as long as the request says, or as a member of a group may
    wait for the others."""
    match header.api_key:
        case Api.FETCH:
            return int(body.max_wait_ms)
        case Api.JOIN_GROUP | Api.SYNC_GROUP:
            return SESSION_MS_MAX
        case Api.PRODUCE | Api.DELETE_RECORDS | Api.CREATE_TOPICS | Api.DELETE_TOPICS:
            return int(body.timeout_ms)
        case Api.CREATE_PARTITIONS | Api.ELECT_LEADERS:
            return int(body.timeout_ms)
        case _:
            return 0


def waits_seconds(frame: Frame) -> float:
    """For how long its answer may be held back."""
    return wait_ms(*decode_request(frame.data)) / 1000
