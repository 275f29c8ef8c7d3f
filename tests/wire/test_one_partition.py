"""Messages for one partition are read and written without the codec as the codec reads and writes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tidelog.wire.api import (
    Api,
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tidelog.wire.errors import ProtocolError
from tidelog.wire.messages import fetch, produce
from tidelog.wire.one_partition import (
    CLIENT_ID,
    FETCH_VERSION,
    read_fetch,
    read_fetched,
    read_produce,
    write_fetch,
    write_fetched,
    write_produced,
)

INT16, INT32, INT64 = (some.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (16, 32, 64))
TOPICS = some.text("abcXYZ019._-", min_size=1, max_size=126)
CLIENTS = some.none() | some.text(max_size=20)
VERSIONS = some.integers(3, 9)
RECORDS = some.binary(min_size=30, max_size=40) | some.sampled_from((b"x" * 126, b"x" * 127, b"x" * 20_000))


def joined(buffers: Any) -> bytes:
    return b"".join(buffers)


# ---------------------------------------------------------------- Produce


def produce_frame(version: int, number: int, client: str | None, body: produce.ProduceRequest) -> bytearray:
    return bytearray(joined(encode_request(Api.PRODUCE, version, number, client, body))[4:])


@given(some.tuples(VERSIONS, INT32, CLIENTS, INT16, INT32, TOPICS, INT32, RECORDS))
def test_a_produce_for_one_partition_is_read_as_by_the_codec(asked: Any) -> None:
    version, number, client, acks, timeout_ms, topic, partition, records = asked
    part = produce.PartitionProduceData(index=partition, records=records)
    topics = [produce.TopicProduceData(name=topic, partition_data=[part])]
    body = produce.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)
    read = read_produce(produce_frame(version, number, client, body))
    assert read is not None
    assert read == asked


@given(VERSIONS, some.data())
def test_what_is_not_a_plain_produce_is_left_to_the_codec(version: int, data: Any) -> None:
    """Of other requests, and of bytes that were changed, nothing is read that the codec reads otherwise."""
    part = produce.PartitionProduceData(index=3, records=b"records" * 5)
    topics = [produce.TopicProduceData(name="topic", partition_data=[part])]
    body = produce.ProduceRequest(acks=-1, timeout_ms=9, topic_data=topics)
    frame = produce_frame(version, 1, "client", body)
    place = data.draw(some.integers(0, len(frame) - 1))
    frame[place] = data.draw(some.integers(0, 255))
    del frame[data.draw(some.just(len(frame)) | some.integers(0, len(frame))) :]
    read = read_produce(frame)
    if read is None:
        return
    header, decoded = decode_request(frame)
    assert (header.api_key, header.api_version, header.correlation_id) == (Api.PRODUCE, *read[:2])
    assert (header.client_id, decoded.transactional_id) == (read.client_id, None)
    assert (decoded.acks, decoded.timeout_ms) == (read.acks, read.timeout_ms)
    ((topic,),) = (decoded.topic_data,)
    ((found,),) = (topic.partition_data,)
    assert (topic.name, found.index, found.records) == (read.topic, read.partition, read.records)


def test_other_produces_are_left_to_the_codec() -> None:
    part = produce.PartitionProduceData(index=3, records=b"records" * 5)
    one = produce.TopicProduceData(name="topic", partition_data=[part])
    several = [
        produce.ProduceRequest(acks=-1, timeout_ms=9, topic_data=[one, one]),
        produce.ProduceRequest(acks=-1, timeout_ms=9, topic_data=[]),
        produce.ProduceRequest(
            acks=-1,
            timeout_ms=9,
            topic_data=[produce.TopicProduceData(name="topic", partition_data=[part, part])],
        ),
        produce.ProduceRequest(
            acks=-1,
            timeout_ms=9,
            topic_data=[produce.TopicProduceData(name="t" * 127, partition_data=[part])],
        ),
        produce.ProduceRequest(transactional_id="t", acks=-1, timeout_ms=9, topic_data=[one]),
        produce.ProduceRequest(
            acks=-1,
            timeout_ms=9,
            topic_data=[
                produce.TopicProduceData(
                    name="topic", partition_data=[produce.PartitionProduceData(index=1, records=None)]
                )
            ],
        ),
    ]
    for version in range(3, 10):
        for body in several:
            assert read_produce(produce_frame(version, 1, "client", body)) is None


@given(some.tuples(VERSIONS, INT32, TOPICS, INT32, INT16, INT64, INT64))
def test_the_answer_to_a_produce_is_that_of_the_codec(answered: Any) -> None:
    version, number, topic, partition, error, base_offset, log_start = answered
    part = produce.PartitionProduceResponse(
        index=partition, error_code=error, base_offset=base_offset, log_start_offset=log_start
    )
    body = produce.ProduceResponse(
        responses=[produce.TopicProduceResponse(name=topic, partition_responses=[part])]
    )
    header = RequestHeader(Api.PRODUCE, version, number, None)
    assert write_produced(*answered) == joined(encode_response(header, body))


# ---------------------------------------------------------------- Fetch between brokers


@given(some.tuples(INT32, *[INT32] * 6, TOPICS, INT32, INT32, INT64, INT64, INT32))
def test_a_fetch_for_one_partition_is_that_of_the_codec(asked: Any) -> None:
    number, replica, wait, least, most, session, epoch, topic, partition, leader_epoch, *rest = asked
    offset, log_start, partition_bytes = rest
    part = fetch.FetchPartition(
        partition=partition,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        log_start_offset=log_start,
        partition_max_bytes=partition_bytes,
    )
    body = fetch.FetchRequest(
        replica_id=replica,
        max_wait_ms=wait,
        min_bytes=least,
        max_bytes=most,
        session_id=session,
        session_epoch=epoch,
        topics=[fetch.FetchTopic(topic=topic, partitions=[part])],
    )
    frame = joined(encode_request(Api.FETCH, FETCH_VERSION, number, CLIENT_ID, body))
    assert write_fetch(*asked) == frame
    assert read_fetch(bytearray(frame[4:])) == asked


@given(some.data())
def test_a_fetch_that_says_more_is_left_to_the_codec(data: Any) -> None:
    """A byte that differs changes a value that is read, or it is not read here."""
    asked = (1, 2, 500, 1, 1 << 20, 77, 5, "topic", 3, 4, 100, 0, 1 << 20)
    frame = bytearray(write_fetch(*asked)[4:])
    place = data.draw(some.integers(0, len(frame) - 1))
    frame[place] = data.draw(some.integers(0, 255))
    del frame[data.draw(some.just(len(frame)) | some.integers(0, len(frame))) :]
    read = read_fetch(frame)
    if read is not None:
        assert write_fetch(*read)[4:] == frame
        decode_request(frame)


@given(some.tuples(INT32, INT32, TOPICS, INT32, INT64, INT64, some.lists(RECORDS, max_size=3)))
def test_the_answer_to_a_fetch_is_that_of_the_codec(answered: Any) -> None:
    number, session, topic, partition, high_watermark, log_start, records = answered
    part = fetch.PartitionData(
        partition_index=partition,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=log_start,
        records=records or b"",
    )
    body = fetch.FetchResponse(
        session_id=session, responses=[fetch.FetchableTopicResponse(topic=topic, partitions=[part])]
    )
    header = RequestHeader(Api.FETCH, FETCH_VERSION, number, CLIENT_ID)
    expected = joined(encode_response(header, body))
    places = (number, session, topic, partition, high_watermark, log_start)
    written = write_fetched(*places, records, sum(map(len, records)))
    assert joined(written) == expected
    read = read_fetched(bytearray(expected[4:]))
    assert read is not None
    assert read == (*answered[:-1], joined(records))


@given(some.data())
def test_an_answer_that_says_more_is_left_to_the_codec(data: Any) -> None:
    frame = bytearray(joined(write_fetched(1, 77, "topic", 3, 50, 2, [b"records"], 7))[4:])
    place = data.draw(some.integers(0, len(frame) - 1))
    frame[place] = data.draw(some.integers(0, 255))
    del frame[data.draw(some.just(len(frame)) | some.integers(0, len(frame))) :]
    read = read_fetched(frame)
    if read is None:
        return
    number, body = decode_response(Api.FETCH, FETCH_VERSION, frame)
    ((topic,),) = (body.responses,)
    ((part,),) = (topic.partitions,)
    assert (number, body.session_id, body.error_code) == (read.correlation_id, read.session_id, 0)
    assert (topic.topic, part.partition_index, part.error_code) == (read.topic, read.partition, 0)
    assert (part.high_watermark, part.log_start_offset) == (read.high_watermark, read.log_start_offset)
    assert part.records == read.records


@pytest.mark.parametrize("read", [read_produce, read_fetch, read_fetched])
def test_short_frames_are_left_to_the_codec(read: Any) -> None:
    for size in range(80):
        for byte in (b"\0", b"\1", b"\xff"):
            frame = bytearray(byte * size)
            found = read(frame)
            if found is not None:
                pytest.fail(f"{size} bytes of {byte!r} were read as {found}")
    with pytest.raises(ProtocolError):
        decode_request(b"")
