"""The embedded keeper's wire format: what is sent is what arrives, and nothing else is taken for it."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.keeper_port import (
    Check,
    Children,
    Create,
    Delete,
    Get,
    KeeperError,
    Multi,
    Operation,
    Result,
    SetValue,
    Stat,
    StoredNode,
    Subtree,
)
from tidelog.keeper.embedded.protocol import (
    JsonFrameReader,
    KeeperProtocolError,
    frame,
    operation_from_json,
    operation_to_json,
    result_from_json,
    result_to_json,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
STORED = st.none() | TEXT.filter(bool).map(str.encode)
NUMBERS = st.integers(-1, 2**63 - 1)
WRITES = (
    st.builds(Create, TEXT, STORED, st.booleans(), st.booleans())
    | st.builds(SetValue, TEXT, STORED, NUMBERS)
    | st.builds(Delete, TEXT, NUMBERS)
    | st.builds(Check, TEXT, NUMBERS)
)
READS = st.builds(Get, TEXT, st.booleans()) | st.builds(Subtree, TEXT, st.booleans())
OPERATIONS = READS | WRITES | st.lists(WRITES, max_size=4).map(tuple).map(Multi)
STATS = st.builds(Stat, NUMBERS, NUMBERS, NUMBERS)
NODES = st.builds(StoredNode, STORED, STATS)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(["create", "set", "delete", "check", "multi", "get", "children", "subtree"])


def over_the_wire(message: Any) -> Any:
    (arrived,) = JsonFrameReader(1 << 20).feed(frame({"it": message}))
    return arrived["it"]


@given(OPERATIONS)
def test_every_operation_arrives_as_it_was(operation: Operation) -> None:
    """Also inside a Multi, with any text in paths and values."""
    assert operation_from_json(over_the_wire(operation_to_json(operation))) == operation


@given(JSON | st.tuples(KINDS, JSON, JSON, JSON, JSON).map(list) | st.tuples(KINDS, JSON, JSON).map(list))
def test_any_json_is_an_operation_or_a_protocol_error(stored: Any) -> None:
    """Nothing that a stranger sends makes the keeper fall over."""
    with suppress(KeeperProtocolError):
        operation_from_json(over_the_wire(stored))


RESULTS: list[tuple[Operation, st.SearchStrategy[Result]]] = [
    (Get("/x"), NODES.map(lambda node: Result(None, node))),
    (Children("/x"), st.dictionaries(TEXT, NODES).map(lambda nodes: Result(None, nodes))),
    (Subtree("/x"), st.dictionaries(TEXT, NODES).map(lambda nodes: Result(None, nodes))),
    (Create("/x"), st.builds(Result, st.none(), STATS, TEXT)),
    (SetValue("/x", b"1"), st.builds(Result, st.none(), STATS)),
    (Delete("/x"), st.just(Result())),
    (Multi(()), st.lists(STATS | st.none()).map(lambda stats: Result(None, stats))),
    (Multi(()), st.builds(Result, st.sampled_from(KeeperError), st.integers(0, 9))),
    (Get("/x"), st.builds(Result, st.sampled_from(KeeperError))),
]


@pytest.mark.parametrize(("operation", "results"), RESULTS, ids=[repr(o)[:20] for o, _ in RESULTS])
def test_every_result_arrives_as_it_was(operation: Operation, results: st.SearchStrategy[Result]) -> None:
    """The shape of a result follows from what was asked."""

    @given(results)
    def check(result: Result) -> None:
        arrived = result_from_json(operation, over_the_wire(result_to_json(operation, result)))
        assert arrived == result

    check()


@given(st.sampled_from([operation for operation, _ in RESULTS]), JSON)
def test_any_json_is_a_result_or_a_protocol_error(operation: Operation, stored: Any) -> None:
    """A keeper that is not one does not make a broker fall over either."""
    with suppress(KeeperProtocolError):
        result_from_json(operation, over_the_wire(stored))


@given(st.lists(st.dictionaries(TEXT, JSON, max_size=2), max_size=4), st.data())
def test_frames_survive_any_cutting(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    """A stream has no edges but those that the lengths draw."""
    stream = b"".join(map(frame, messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader = JsonFrameReader(1 << 20)
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [message for piece in pieces for message in reader.feed(piece)] == json.loads(json.dumps(messages))


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_a_protocol_error(stream: bytes) -> None:
    """And a length is looked at before anything is kept for it."""
    with suppress(KeeperProtocolError):
        list(JsonFrameReader(1000).feed(stream))
