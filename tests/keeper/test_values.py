"""Values become the JSON that Kafka 2.7 stores, and come back; what is not that JSON is refused by name."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.assignments import Reassignment, TopicNode
from tidelog.core.types import (
    NO_LEADER,
    BrokerEndpoint,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicPartition,
)
from tidelog.keeper.values import MalformedValue, decode, encode

NOW = 1_700_000_000_123

# Fields and their order are irrelevant to Kafka; names, nesting and types are not.
KAFKA: list[tuple[str, Any, Any]] = [
    (
        "/brokers/ids/1",
        BrokerEndpoint("h", 9092, "az1"),
        {
            "version": 5,
            "host": "h",
            "port": 9092,
            "endpoints": ["PLAINTEXT://h:9092"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "jmx_port": -1,
            "timestamp": str(NOW),
            "rack": "az1",
            "features": {},
        },
    ),
    (
        "/brokers/ids/7",
        BrokerEndpoint("::1", 1),
        {
            "version": 5,
            "host": "::1",
            "port": 1,
            "endpoints": ["PLAINTEXT://[::1]:1"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "jmx_port": -1,
            "timestamp": str(NOW),
            "features": {},
        },
    ),
    (
        "/brokers/topics/t.1",
        TopicNode({0: (BrokerId(1), BrokerId(2)), 10: (BrokerId(3),)}),
        {
            "version": 2,
            "partitions": {"0": [1, 2], "10": [3]},
            "adding_replicas": {},
            "removing_replicas": {},
        },
    ),
    (
        "/brokers/topics/t.2",
        TopicNode(
            {0: (BrokerId(3), BrokerId(1)), 1: (BrokerId(2),)},
            {0: Reassignment(adding=(BrokerId(3),), removing=(BrokerId(1),))},
        ),
        {
            "version": 2,
            "partitions": {"0": [3, 1], "1": [2]},
            "adding_replicas": {"0": [3]},
            "removing_replicas": {"0": [1]},
        },
    ),
    (
        "/brokers/topics/t.1/partitions/10/state",
        PartitionState(BrokerId(3), LeaderEpoch(5), (BrokerId(3), BrokerId(1)), ControllerEpoch(9)),
        {"version": 1, "leader": 3, "leader_epoch": 5, "controller_epoch": 9, "isr": [3, 1]},
    ),
    (
        "/brokers/topics/t/partitions/0/state",
        PartitionState(NO_LEADER, LeaderEpoch(5), (), ControllerEpoch(9)),
        {"version": 1, "leader": -1, "leader_epoch": 5, "controller_epoch": 9, "isr": []},
    ),
    ("/controller", BrokerId(2), {"version": 1, "brokerid": 2, "timestamp": str(NOW)}),
    ("/controller_epoch", 12, 12),
    (
        "/isr_change_notification/isr_change_0000000003",
        (TopicPartition("t", 4), TopicPartition("u", 0)),
        {"version": 1, "partitions": [{"topic": "t", "partition": 4}, {"topic": "u", "partition": 0}]},
    ),
    ("/config/topics/t", {"a": "1"}, {"version": 1, "config": {"a": "1"}}),
    ("/config/brokers/1", {}, {"version": 1, "config": {}}),
    ("/config/changes/config_change_0000000003", "topics/t", {"version": 2, "entity_path": "topics/t"}),
    (
        "/latest_producer_id_block",
        {"version": 1, "broker": 1, "block_start": "0", "block_end": "999"},
        {"version": 1, "broker": 1, "block_start": "0", "block_end": "999"},
    ),
    ("/cluster/id", "abc", {"version": "1", "id": "abc"}),
    ("/brokers/topics/t/partitions/0", {"x": [1]}, {"x": [1]}),
    ("/config/users/u", [1, "a", None], [1, "a", None]),
]


@pytest.mark.parametrize(("path", "value", "stored"), KAFKA, ids=[path for path, _, _ in KAFKA])
def test_a_value_is_stored_as_kafka_stores_it(path: str, value: Any, stored: Any) -> None:
    """Kafka's tools and brokers can read it, and it comes back as it was."""
    data = encode(path, value, NOW)
    assert json.loads(data) == stored
    back = decode(path, data)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("path", ["/brokers/ids", "/brokers/ids/1", "/brokers/topics/t", "/controller", "/x"])
def test_no_value_is_no_bytes(path: str) -> None:
    """At every path, as in Kafka; ZooKeeper may also answer with nothing at all."""
    assert encode(path, None, NOW) == b""
    assert decode(path, b"") is None
    assert decode(path, None) is None


def test_what_kafka_itself_wrote_can_be_read() -> None:
    """Also a reassignment under way. Unknown fields do not disturb; a version is not our business."""
    topic = b'{"removing_replicas":{"0":[3]},"partitions":{"0":[1,2,3]},"adding_replicas":{},"version":3}'
    assert decode("/brokers/topics/t", topic) == TopicNode(
        {0: (BrokerId(1), BrokerId(2), BrokerId(3))}, {0: Reassignment(removing=(BrokerId(3),))}
    )
    broker = (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://broker:9092"],"jmx_port":9999,"port":9092,"host":"broker","version":5,'
        b'"timestamp":"1612345678901","rack":"r"}'
    )
    assert decode("/brokers/ids/3", broker) == BrokerEndpoint("broker", 9092, "r")


MALFORMED = [
    ("/brokers/ids/1", b"{"),
    ("/brokers/ids/1", b'{"host":"h"}'),
    ("/brokers/ids/1", b'{"host":"h","port":"9092"}'),
    ("/brokers/ids/1", b'{"host":null,"port":-1}'),
    ("/brokers/topics/t", b"[]"),
    ("/brokers/topics/t", b'{"partitions":{"x":[1]}}'),
    ("/brokers/topics/t", b'{"partitions":{"0":["1"]}}'),
    ("/brokers/topics/t", b'{"partitions":{"0":7}}'),
    ("/brokers/topics/t/partitions/0/state", b'{"leader":1}'),
    ("/brokers/topics/t/partitions/0/state", b"null"),
    ("/controller", b"1"),
    ("/controller", b'{"brokerid":true}'),
    ("/controller_epoch", b"one"),
    ("/controller_epoch", b"1.5"),
    ("/isr_change_notification/isr_change_0", b'{"partitions":[1]}'),
    ("/config/topics/t", b'{"config":{"a":1}}'),
    ("/config/changes/config_change_0", b"{}"),
    ("/cluster/id", b"\xff\xfe"),
    ("/x", b"[" * 100_000),
]


@pytest.mark.parametrize(("path", "stored"), MALFORMED, ids=[f"{p} {s[:20]!r}" for p, s in MALFORMED])
def test_malformed_bytes_name_their_path(path: str, stored: bytes) -> None:
    """One line that says where and what, and no other kind of error."""
    with pytest.raises(MalformedValue) as raised:
        decode(path, stored)
    message = str(raised.value)
    assert path in message
    assert "\n" not in message
    assert len(message) < 400


PATHS = st.sampled_from(sorted({path for path, _, _ in KAFKA}))


@given(path=PATHS, stored=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(path: str, stored: bytes) -> None:
    """No stored bytes can crash a broker."""
    with suppress(MalformedValue):
        decode(path, stored)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["partitions", "host", "port", "leader", "isr", "config", "brokerid", "id", "rack"])


@given(path=PATHS, stored=JSON | st.dictionaries(NAMES, JSON, max_size=6))
def test_any_json_is_read_or_refused(path: str, stored: Any) -> None:
    """Also where the fields have the right names and hold the wrong things."""
    with suppress(MalformedValue):
        decode(path, json.dumps(stored).encode())


BROKERS = st.integers(0, 2**31 - 1).map(BrokerId)
TOPICS = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=10)


@given(
    topic=TOPICS,
    assignment=st.dictionaries(st.integers(0, 9999), st.lists(BROKERS, max_size=5).map(tuple), max_size=5),
    state=st.builds(
        PartitionState, BROKERS, st.integers(0, 2**31 - 1), st.lists(BROKERS).map(tuple), st.integers(0, 99)
    ),
    endpoint=st.builds(BrokerEndpoint, TOPICS, st.integers(1, 65535), st.none() | TOPICS),
    config=st.dictionaries(TOPICS, TOPICS, max_size=3),
)
def test_every_value_comes_back(
    topic: str,
    assignment: dict[int, tuple[BrokerId, ...]],
    state: PartitionState,
    endpoint: BrokerEndpoint,
    config: dict[str, str],
) -> None:
    """Whatever the core may write it reads back as it was."""
    values = {
        f"/brokers/topics/{topic}": TopicNode(assignment),
        f"/brokers/topics/{topic}/partitions/3/state": state,
        "/brokers/ids/3": endpoint,
        f"/config/topics/{topic}": config,
        "/isr_change_notification/isr_change_": (TopicPartition(topic, 3),),
    }
    for path, value in values.items():
        assert decode(path, encode(path, value, NOW)) == value
