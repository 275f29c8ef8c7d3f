"""Values in the keeper as bytes: the JSON of Kafka 2.7 (its ``ZkData``), so that its tools can read it.

The core works with plain Python values; the simulator stores them as they are, and a process encodes them
here. The path alone determines the format of a value:

=============================================  ===============================================================
``/brokers/ids/N``                             ``BrokerEndpoint``
``/brokers/topics/T``                          ``TopicNode``
``/brokers/topics/T/partitions/P/state``       ``PartitionState``; its version is the node's and is not stored
``/controller``                                ``BrokerId``
``/controller_epoch``                          ``int``
``/isr_change_notification/isr_change_N``      ``tuple[TopicPartition, ...]``
``/config/topics/T``, ``/config/brokers/N``    ``{name: value}``
``/config/changes/config_change_N``            ``"topics/T"``
``/latest_producer_id_block``                  ``{"version": 1, "broker": N, "block_start": "0", …}``
``/cluster/id``                                ``str``
=============================================  ===============================================================

At other paths a value is plain JSON. ``None`` is empty bytes at every path. Bytes that do not fit their path
raise ``MalformedValue``, which names the path.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidelog.core.assignments import Reassignment, TopicNode
from tidelog.core.keeper_paths import PERSISTENT
from tidelog.core.keeper_port import (
    Children,
    Create,
    Get,
    KeeperError,
    Multi,
    Operation,
    Result,
    SetValue,
    StoredNode,
    Subtree,
    Write,
)
from tidelog.core.types import (
    NO_BROKER_EPOCH,
    NO_TOPIC_ID,
    BrokerEndpoint,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Millis,
    PartitionState,
    TopicId,
    TopicPartition,
)

CLUSTER_ID = "/cluster/id"
QUOTED_BYTES_MAX = 60
WHY_LENGTH_MAX = 120


class MalformedValue(ValueError):
    """The bytes at a path do not have the format that Kafka and tidelog write there."""

    def __init__(self, path: str, stored: bytes, why: str) -> None:
        shown = stored if len(stored) <= QUOTED_BYTES_MAX else stored[:QUOTED_BYTES_MAX] + b"..."
        super().__init__(
            f"the keeper holds something unreadable at {path}: {why[:WHY_LENGTH_MAX]}: {shown!r}"
        )
        self.path = path


def encode(path: str, value: Any, now: Millis) -> bytes:
    """The bytes to store; ``now`` is the wall clock, which some formats contain."""
    if value is None:
        return b""
    to_json, _ = _format_of(path)
    return json.dumps(to_json(value, now), separators=(",", ":"), ensure_ascii=False).encode()


def decode(path: str, stored: bytes | None) -> Any:
    if not stored:
        return None
    _, from_json = _format_of(path)
    try:
        return from_json(json.loads(stored))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        why = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise MalformedValue(path, stored, why) from None


def encode_operation(operation: Operation, now: Millis) -> Operation:
    """The operation with bytes instead of values."""
    if isinstance(operation, Multi):
        return Multi(tuple(_encode_write(write, now) for write in operation.writes))
    return _encode_write(operation, now) if isinstance(operation, (Create, SetValue)) else operation


def _encode_write(write: Write, now: Millis) -> Write:
    if isinstance(write, (Create, SetValue)):
        return replace(write, value=encode(write.path, write.value, now))
    return write


def decode_result(operation: Operation, result: Result) -> tuple[Result, list[MalformedValue]]:
    """The result with values instead of bytes, and the errors of nodes that are left out as unreadable."""
    if not result.ok or not isinstance(operation, (Get, Children, Subtree)):
        return result, []
    stored = {operation.path: result.value} if isinstance(operation, Get) else result.nodes
    nodes: dict[str, StoredNode] = {}
    unreadable = []
    for path, node in stored.items():
        try:
            nodes[path] = StoredNode(decode(path, node.value), node.stat)
        except MalformedValue as error:
            unreadable.append(error)
    if not isinstance(operation, Get):
        return Result(None, nodes), unreadable
    return Result(KeeperError.NO_NODE) if unreadable else Result(None, nodes[operation.path]), unreadable


# ---------------------------------------------------------------- one pair of functions per format


def _broker_to_json(endpoint: BrokerEndpoint, now: Millis) -> Any:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    registration = {
        "version": 5,
        "host": endpoint.host,
        "port": endpoint.port,
        "endpoints": [f"PLAINTEXT://{host}:{endpoint.port}"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "jmx_port": -1,
        "timestamp": str(now),
        "features": {},
    }
    if endpoint.rack is not None:
        registration["rack"] = endpoint.rack
    if endpoint.previous_epoch != NO_BROKER_EPOCH:
        registration["previous_broker_epoch"] = endpoint.previous_epoch
    return registration


def _broker_from_json(stored: Any) -> BrokerEndpoint:
    rack = stored.get("rack")
    return BrokerEndpoint(
        _typed(stored["host"], str),
        _typed(stored["port"], int),
        None if rack is None else _typed(rack, str),
        BrokerEpoch(_typed(stored.get("previous_broker_epoch", NO_BROKER_EPOCH), int)),
    )


def _topic_to_json(topic: TopicNode, _now: Millis) -> Any:
    """Version 3 has the id of the topic (Kafka 2.8)."""
    moves = {str(partition): move for partition, move in topic.moves.items()}
    stored = {
        "version": 2,
        "partitions": {str(partition): list(replicas) for partition, replicas in topic.partitions.items()},
        "adding_replicas": {name: list(move.adding) for name, move in moves.items() if move.adding},
        "removing_replicas": {name: list(move.removing) for name, move in moves.items() if move.removing},
    }
    return stored | {"version": 3, "topic_id": topic.topic_id} if topic.topic_id else stored


def _topic_from_json(stored: Any) -> TopicNode:
    """Version 1 (before Kafka 2.4) names no replicas that are added or removed."""
    adding, removing = (
        {int(name): _brokers(brokers) for name, brokers in stored.get(field, {}).items()}
        for field in ("adding_replicas", "removing_replicas")
    )
    moves = {
        partition: Reassignment(adding.get(partition, ()), removing.get(partition, ()))
        for partition in sorted({*adding, *removing})
    }
    return TopicNode(
        {int(partition): _brokers(replicas) for partition, replicas in stored["partitions"].items()},
        {partition: move for partition, move in moves.items() if move},
        TopicId(_typed(stored.get("topic_id", NO_TOPIC_ID), str)),
    )


def _state_to_json(state: PartitionState, _now: Millis) -> Any:
    """With three fields of KRaft where they say something: 2.7 ignores what it does not know."""
    stored = {
        "version": 1,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "controller_epoch": state.controller_epoch,
        "isr": list(state.isr),
    }
    if state.elr:
        stored["eligible_leader_replicas"] = list(state.elr)
    if state.last_known_elr:
        stored["last_known_elr"] = list(state.last_known_elr)
    if state.recovering:
        stored["leader_recovery_state"] = 1
    return stored


def _state_from_json(stored: Any) -> PartitionState:
    return PartitionState(
        leader=BrokerId(_typed(stored["leader"], int)),
        leader_epoch=LeaderEpoch(_typed(stored["leader_epoch"], int)),
        isr=_brokers(stored["isr"]),
        controller_epoch=ControllerEpoch(_typed(stored["controller_epoch"], int)),
        elr=_brokers(stored.get("eligible_leader_replicas", ())),
        last_known_elr=_brokers(stored.get("last_known_elr", ())),
        recovering=stored.get("leader_recovery_state", 0) == 1,
    )


def _controller_to_json(broker: BrokerId, now: Millis) -> Any:
    return {"version": 1, "brokerid": broker, "timestamp": str(now)}


def _isr_change_to_json(changed: tuple[TopicPartition, ...], _now: Millis) -> Any:
    return {"version": 1, "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in changed]}


def _isr_change_from_json(stored: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(_typed(change["topic"], str), _typed(change["partition"], int))
        for change in stored["partitions"]
    )


def _config_from_json(stored: Any) -> dict[str, str]:
    return {name: _typed(value, str) for name, value in stored["config"].items()}


def _brokers(stored: Any) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(_typed(broker, int)) for broker in stored)


def _typed(stored: Any, kind: type) -> Any:
    if type(stored) is not kind:
        raise TypeError(f"{stored!r} is not {'a string' if kind is str else 'a whole number'}")
    return stored


_Format = tuple[Callable[[Any, Millis], Any], Callable[[Any], Any]]

_PLAIN: _Format = (lambda value, _: value, lambda stored: stored)

_FORMATS: tuple[tuple[re.Pattern[str], _Format], ...] = tuple(
    (re.compile(pattern), to_and_from)
    for pattern, to_and_from in (
        (r"/brokers/topics/[^/]+/partitions/[^/]+/state", (_state_to_json, _state_from_json)),
        (r"/brokers/topics/[^/]+", (_topic_to_json, _topic_from_json)),
        (r"/brokers/ids/[^/]+", (_broker_to_json, _broker_from_json)),
        (r"/controller", (_controller_to_json, lambda stored: BrokerId(_typed(stored["brokerid"], int)))),
        (r"/controller_epoch", (lambda epoch, _: epoch, lambda stored: _typed(stored, int))),
        (r"/isr_change_notification/isr_change_[^/]*", (_isr_change_to_json, _isr_change_from_json)),
        (
            r"/config/(topics|brokers)/[^/]+",
            (lambda config, _: {"version": 1, "config": config}, _config_from_json),
        ),
        (
            r"/config/changes/config_change_[^/]*",
            (
                lambda entity, _: {"version": 2, "entity_path": entity},
                lambda stored: _typed(stored["entity_path"], str),
            ),
        ),
        (
            r"/cluster/id",
            (lambda name, _: {"version": "1", "id": name}, lambda stored: _typed(stored["id"], str)),
        ),
    )
)


def _format_of(path: str) -> _Format:
    for pattern, to_and_from in _FORMATS:
        if pattern.fullmatch(path):
            return to_and_from
    return _PLAIN


# ---------------------------------------------------------------- nodes of every cluster


def standard_nodes(now: Millis) -> list[Create]:
    """Nodes that the keeper, or else the first broker, creates if they are missing: parents first, values as
    bytes. The cluster id is new in each call; only the first one is stored."""
    nodes: dict[str, Create] = {}
    for path in (*PERSISTENT, CLUSTER_ID):
        names = path.split("/")[1:]
        for depth in range(1, len(names) + 1):
            ancestor = "/" + "/".join(names[:depth])
            nodes[ancestor] = Create(ancestor, b"")
    nodes[CLUSTER_ID] = Create(CLUSTER_ID, encode(CLUSTER_ID, _new_cluster_id(), now))
    return list(nodes.values())


def _new_cluster_id() -> str:
    """As Kafka does it: a random UUID in 22 characters that are safe in a URL."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
