"""How fast the wire codec is: the messages of the hot path, next to two other codecs of the same machine.

A broker decodes Produce and Fetch requests and encodes their responses; a follower does the reverse for
Fetch. Each is measured with one partition and with fifty, as the body alone, without header and length. Times
are CPU time, the best of several rounds; what travels between machines is the ratio to the others. kio
decodes in Rust and encodes in Python, kafka-python does both in Python that it generates, like we do.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import platform
import sys
import warnings
from collections.abc import Callable
from time import process_time
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from tidelog.wire.api_keys import Api
from tidelog.wire.batch import RecordBatch
from tidelog.wire.codec import decoder, encoder
from tidelog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tidelog.wire.records import Record, build_batch, read_records

BATCH = build_batch([Record(timestamp=number, value=b"v" * 100) for number in range(160)])
TOPIC = "orders-by-customer"


def messages(partitions: int) -> dict[tuple[Api, str], Any]:
    produced = [PartitionProduceData(index=index, records=BATCH) for index in range(partitions)]
    appended = [PartitionProduceResponse(index=index, base_offset=1 << 33) for index in range(partitions)]
    asked = [
        FetchPartition(
            partition=index, current_leader_epoch=3, fetch_offset=1 << 33, partition_max_bytes=1 << 20
        )
        for index in range(partitions)
    ]
    fetched = [
        PartitionData(partition_index=index, high_watermark=1 << 33, records=BATCH)
        for index in range(partitions)
    ]
    return {
        (Api.PRODUCE, "request"): ProduceRequest(
            acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=produced)]
        ),
        (Api.PRODUCE, "response"): ProduceResponse(
            responses=[TopicProduceResponse(name=TOPIC, partition_responses=appended)]
        ),
        (Api.FETCH, "request"): FetchRequest(
            max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=asked)]
        ),
        (Api.FETCH, "response"): FetchResponse(
            responses=[FetchableTopicResponse(topic=TOPIC, partitions=fetched)]
        ),
    }


def kafka_python_class(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        area = "producer" if name.startswith("Produce") else "consumer"
        return getattr(importlib.import_module(f"kafka.protocol.{area}"), name)


Contestants = dict[str, Callable[[], object]]


def contests(api: Api, kind: str, version: int, message: Any) -> tuple[Contestants, Contestants]:
    """How each codec decodes the message, and how each encodes it."""
    flexible = version >= {Api.PRODUCE: 9, Api.FETCH: 12}[api]
    encode = encoder(type(message), version, flexible)
    decode = decoder(type(message), version, flexible)
    data = b"".join(encode(message, bytearray()))
    view = memoryview(bytearray(data))
    kio_class: Any = (load_request_schema if kind == "request" else load_response_schema)(api, version)
    kio_read, kio_write = entity_reader(kio_class), entity_writer(kio_class)
    kio_message, _ = kio_read(data, 0)
    theirs = kafka_python_class(type(message).__name__)
    their_message = theirs.decode(data, version=version)
    their_message._header = None
    assert b"".join(encode(message, bytearray())) == their_message.encode(version=version)
    return (
        {
            "tidelog": lambda: decode(view, 0, len(view)),
            "kio": lambda: kio_read(data, 0),
            "kafka-python": lambda: theirs.decode(data, version=version),
        },
        {
            "tidelog": lambda: encode(message, bytearray()),
            "kio": lambda: kio_write(io.BytesIO(), kio_message),
            "kafka-python": lambda: their_message.encode(version=version),
        },
    )


def microseconds(what: Callable[[], object], rounds: int) -> float:
    """The best of several rounds, each long enough for the clock."""
    calls = 1
    while (elapsed := _time_of(what, calls)) < 0.01:
        calls *= 2
    return min([elapsed, *(_time_of(what, calls) for _ in range(rounds))]) / calls * 1e6


def _time_of(what: Callable[[], object], calls: int) -> float:
    start = process_time()
    for _ in range(calls):
        what()
    return process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each kind; the best counts")
    rounds = parser.parse_args().rounds
    gc.disable()
    print(f"Python {platform.python_version()}, {platform.machine()}, CPU time, best of {rounds} rounds\n")
    print(f"{'':<42} {'tidelog':>9} {'kio':>8} {'kafka-python':>13}")
    for partitions in (1, 50):
        for (api, kind), message in messages(partitions).items():
            for version in {Api.PRODUCE: (7, 9), Api.FETCH: (11, 12)}[api]:
                for verb, contest in zip(
                    ("decode", "encode"), contests(api, kind, version, message), strict=True
                ):
                    times = {name: microseconds(what, rounds) for name, what in contest.items()}
                    ours = times["tidelog"]
                    name = f"{verb} {type(message).__name__} v{version}, {partitions} part."
                    print(f"{name:<42} {ours:6.1f} µs {times['kio'] / ours:7.1f}x "
                          f"{times['kafka-python'] / ours:12.1f}x")  # fmt: skip
    buffer = bytearray(BATCH)
    batch = RecordBatch.parse(buffer)
    print(f"\na batch of 160 records, {len(BATCH)} bytes")
    for name, what in {
        "parse": lambda: RecordBatch.parse(buffer),
        "stamp": lambda: batch.stamp(5, 6),
        "validate, CRC included": lambda: batch.validation_error(1 << 20),
        "read the records": lambda: list(read_records(batch)),
        "build": lambda: build_batch([Record(value=b"v" * 100)] * 160),
    }.items():
        print(f"{name:<42} {microseconds(what, rounds):6.1f} µs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
