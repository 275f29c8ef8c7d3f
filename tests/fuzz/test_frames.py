"""What the attack is made of: requests whose parts are known, and frames drawn from seed and number alone."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from fuzz.frames import BETWEEN_BROKERS, Fate, Frames, How, foresee
from fuzz.layout import Part, Role, draw
from fuzz.mutations import changed_bytes, changed_fields
from fuzz.vocabulary import Speaker

from tidelog.broker.apis import offered
from tidelog.wire.api import Api, decode_request, encode_request
from tidelog.wire.api_keys import schema_of
from tidelog.wire.errors import ProtocolError
from tidelog.wire.messages.alter_isr import AlterIsrRequest
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tidelog.wire.messages.produce import ProduceRequest

OFFERED = {each.api_key: (each.min_version, each.max_version) for each in offered()}
SPOKEN = [
    (known, version) for known in map(schema_of, [*OFFERED, *BETWEEN_BROKERS]) for version in known.versions
]


@pytest.mark.parametrize("seed", range(3))
def test_a_request_is_drawn_as_it_is_encoded(seed: int) -> None:
    """Of every API and version, to the byte."""
    for known, version in SPOKEN:
        body = Speaker(Random(seed), version).struct(known.request)
        encoded = b"".join(encode_request(known.api, version, 0, "me", body))[4:]
        assert draw(known, version, "me", body).frame == encoded, (known.api, version)


def test_parts_are_where_the_layout_says() -> None:
    """A length or count is followed by what it counts; elements lie one behind the other."""
    for known, version in SPOKEN:
        drawn = draw(known, version, "me", Speaker(Random(7), version).struct(known.request))
        parts = drawn.parts
        assert all(0 <= part.start <= part.end <= len(drawn.frame) for part in parts)
        for part in parts:
            if part.role is Role.CONTENT:
                length = parts[part.owner]
                assert (length.role, length.end) == (Role.LENGTH, part.start)
            if part.role is Role.COUNT and part.items > 0:
                assert _elements(parts, part) == part.items, (known.api, version)


def _elements(parts: list[Part], count: Part) -> int:
    place, found = parts.index(count), 0
    end = count.end
    for part in parts:
        if part.role is Role.ELEMENT and part.owner == place:
            assert part.start == end
            end, found = part.end, found + 1
    return found


def test_a_frame_depends_on_seed_and_number_only() -> None:
    one, other = Frames(3, OFFERED), Frames(3, OFFERED)
    numbers = [0, 5, 4, 999, 5]
    assert [one.frame(n) for n in numbers] == [other.frame(n) for n in numbers]
    assert one.frame(1).data != Frames(4, OFFERED).frame(1).data


def test_frames_are_of_every_kind_and_version() -> None:
    """Most go behind the decoder; some are left as they are, and some are nothing at all."""
    frames = Frames(1, OFFERED)
    seen = [frames.frame(number) for number in range(6_000)]
    fates, hows = Counter(frame.fate for frame in seen), Counter(frame.how for frame in seen)
    assert fates.keys() == set(Fate)
    assert hows.keys() == set(How)
    assert fates[Fate.ANSWER] > 0.5 * len(seen)
    versions = {(each.header.api_key, each.header.api_version) for each in seen if each.header is not None}
    assert versions >= {(known.api, version) for known, version in SPOKEN if known.api in OFFERED}


def test_a_change_of_fields_mostly_stays_a_request() -> None:
    """Otherwise nothing behind the decoder would be reached. A change of bytes mostly does not."""

    def share(changed: list[bytes]) -> float:
        return sum(_is_request(data) for data in changed) / len(changed)

    drawn = [
        draw(known, version, "me", Speaker(Random(n), version).struct(known.request))
        for known, version in SPOKEN
        for n in range(10)
    ]
    dice = Random(1)
    of_fields = share([changed_fields(dice, each) for each in drawn])
    of_bytes = share([changed_bytes(dice, each.frame, drawn[0].frame) for each in drawn])
    assert of_fields > 0.6 > of_bytes


def _is_request(data: bytes) -> bool:
    try:
        decode_request(data)
    except ProtocolError:
        return False
    return True


def test_orders_are_told_from_attacks() -> None:
    """What a broker would rightly do is not sent if it takes long or breaks the cluster; what it must refuse
    is."""

    def topic(partitions: int) -> CreateTopicsRequest:
        wanted = CreatableTopic(
            name="t", num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        return CreateTopicsRequest(topics=[wanted])

    def fate(api: Api, version: int, body: object) -> Fate | None:
        return foresee(b"".join(encode_request(api, version, 0, None, body))[4:])[0]

    assert fate(Api.CREATE_TOPICS, 4, topic(5)) is not None
    assert fate(Api.CREATE_TOPICS, 4, topic(5_000)) is None
    assert fate(Api.CREATE_TOPICS, 4, topic(2**31 - 1)) is not None
    orders = LeaderAndIsrRequest(controller_id=1, controller_epoch=9, live_leaders=[])
    assert fate(Api.LEADER_AND_ISR, 1, orders) is None
    orders.controller_epoch = 0
    assert fate(Api.LEADER_AND_ISR, 1, orders) is Fate.ANSWER
    assert fate(Api.ALTER_ISR, 0, AlterIsrRequest(broker_id=1, broker_epoch=30, topics=[])) is None
    unanswered = ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
    assert fate(Api.PRODUCE, 7, unanswered) is Fate.SILENCE
    assert foresee(b"\x00")[0] is Fate.CLOSE
