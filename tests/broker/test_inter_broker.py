"""What brokers say to each other survives the wire: every request and every answer, there and back.

Each message goes the whole way: translated, encoded, decoded, handed to the handler of its API; what the
handler asks the core must be what was sent, and what the core answers must arrive as it was answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import is_dataclass, replace
from types import SimpleNamespace
from typing import Any, cast, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.values import samples

from tidelog.broker.apis import SERVED
from tidelog.broker.connection import Request
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.translation import brokers, replication
from tidelog.broker.translation.exchange import AnyExchange
from tidelog.core import messages as core
from tidelog.core import topic_ids, topic_messages
from tidelog.core.controller.topic_creation import PARTITIONS_PER_REQUEST_MAX
from tidelog.core.types import (
    NO_BROKER_EPOCH,
    BrokerEndpoint,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicPartition,
)
from tidelog.storage.background import finished
from tidelog.wire.api import decode_request, decode_response, encode_request
from tidelog.wire.api_keys import find_schema, schema_of
from tidelog.wire.batch import RecordBatch
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.records import Record, build_batch
from tidelog.wire.schema import fields_of

FEW = settings(max_examples=40)

# ---------------------------------------------------------------- both ends


class Echo:
    """A broker's side of the handlers: records its requests, and gives a prepared answer."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.asked: list[Any] = []
        self._answer = answer
        self._ready: list[Callable[[], None]] = []
        self.settings = SimpleNamespace(fetch_max_bytes=1 << 30, num_partitions=1)
        self.metrics = SimpleNamespace(error_answered=lambda api, error: None)
        self.peers = SimpleNamespace(connections_changed=lambda: None)
        self.keeper = SimpleNamespace(connected=True)
        self.throttles = SimpleNamespace(leader=SimpleNamespace(topics={}))
        self.fetch_sessions = FetchSessions(0, self.now)
        log = SimpleNamespace(epochs=SimpleNamespace(epoch_at=lambda offset: -1))
        self.core = SimpleNamespace(replicas=SimpleNamespace(get=lambda tp: SimpleNamespace(log=log)))
        self.topics = SimpleNamespace(
            checked=lambda values: values, described=lambda values: [], overrides=lambda topic: {}
        )

    def now(self) -> int:
        return 0

    def ask(self, waiter: Any, question: Any) -> None:
        self.asked.append(question)
        waiter.deliver(self._answer(question))

    def carry_out(self) -> None:
        pass

    def when_settled(self, action: Callable[[], None]) -> None:
        self._ready.append(action)

    def settle(self) -> None:
        for action in self._ready:
            action()


class Line:
    """A connection that keeps the answer."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self.server = SimpleNamespace(
            unflushed={},
            clock=lambda: 0.0,
            metrics=SimpleNamespace(request_finished=lambda key, latency, failed: None),
            slices=SimpleNamespace(begin=lambda client, steps: finished(steps)),
        )


def there(api: int, version: int, body: Any, answer: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """Send a body to the handler of its API: what the core was asked, and the body of the answer."""
    frame = b"".join(map(bytes, encode_request(api, version, 7, "tidelog", body)))
    header, received = decode_request(bytearray(frame[4:]))
    echo = Echo(answer)
    request = Request(cast(Any, Line()), header, received, 0.0)

    async def handle() -> None:
        steps = SERVED[api].handle(cast(Any, echo), request)
        if steps is not None:
            finished(steps)
        echo.settle()

    asyncio.run(handle())  # what waits for the keeper has a deadline in the event loop
    assert request.answer is not None
    encoded = b"".join(map(bytes, request.answer))
    correlation, answered = decode_response(api, version, bytearray(encoded[4:]))
    assert correlation == 7
    return echo.asked, answered


def exchange(request: Any, answer: Any) -> tuple[list[Any], Any]:
    """A request and the answer to it, as the other side and then this one understood them."""
    asked, body = there(*brokers.request_to_wire(request), lambda question: answer)
    return asked, brokers.response_from_wire(request, body)


# ---------------------------------------------------------------- what there is to say

int32s = st.integers(-1, 2**31 - 1)
int64s = st.integers(-1, 2**63 - 1)
broker_ids = st.integers(0, 2**31 - 1).map(BrokerId)
leaders = st.integers(-2, 2**31 - 1).map(BrokerId)
broker_lists = st.lists(broker_ids, max_size=5).map(tuple)
topics = st.text("abcdefgh.-_9", min_size=1, max_size=12)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))
ids_of_topics = st.binary(min_size=16, max_size=16).map(topic_ids.from_wire)
errors = st.sampled_from([error for error in ErrorCode if error is not ErrorCode.NONE])
results = st.just(ErrorCode.NONE) | errors
states = st.builds(PartitionState, leaders, int32s, broker_lists, int32s, int32s)
assignments = st.builds(core.PartitionAssignment, tp=partitions, replicas=broker_lists, state=states)
assignment_lists = st.lists(assignments, max_size=6, unique_by=lambda part: part.tp).map(tuple)
endpoints = st.builds(
    BrokerEndpoint, st.text("abc.", min_size=1), st.integers(0, 65535), st.none() | st.text("xyz", min_size=1)
)
headers = {"controller": broker_ids, "controller_epoch": int32s, "broker_epoch": int64s, "request_id": int64s}
control_responses = st.builds(core.ControlResponse, request_id=st.just(0), error=results)
answers_per_partition = st.builds(
    core.ControlResponse,
    request_id=st.just(0),
    error=results,
    partition_errors=st.dictionaries(partitions, errors, max_size=4),
)
metadata_lists = st.lists(
    st.builds(
        core.PartitionAssignment,
        tp=partitions,
        replicas=broker_lists,
        state=states,
        offline=broker_lists,
    ),
    max_size=6,
    unique_by=lambda part: part.tp,
).map(tuple)


def by_topic(parts: tuple[Any, ...], name: Callable[[Any], str]) -> tuple[Any, ...]:
    """The wire groups partitions by topic; their order inside a topic stays."""
    order = list(dict.fromkeys(name(part) for part in parts))
    return tuple(sorted(parts, key=lambda part: order.index(name(part))))


# ---------------------------------------------------------------- the controller's requests


@FEW
@given(st.builds(core.LeaderAndIsrRequest, **headers, partitions=assignment_lists), answers_per_partition)
def test_leader_and_isr(request: core.LeaderAndIsrRequest, answer: core.ControlResponse):
    asked, answered = exchange(request, answer)
    grouped = by_topic(request.partitions, lambda part: part.tp.topic)
    assert asked == [replace(request, request_id=0, partitions=grouped)]
    assert answered == replace(answer, request_id=request.request_id)


@FEW
@given(
    st.builds(
        core.UpdateMetadataRequest,
        **headers,
        live_brokers=st.just({}),
        endpoints=st.dictionaries(broker_ids, endpoints, max_size=5),
        partitions=metadata_lists,
    ),
    control_responses,
)
def test_update_metadata(request: core.UpdateMetadataRequest, answer: core.ControlResponse):
    """Brokers with an endpoint are alive; only the controller needs their epochs."""
    asked, answered = exchange(request, answer)
    grouped = by_topic(request.partitions, lambda part: part.tp.topic)
    live = dict.fromkeys(request.endpoints, NO_BROKER_EPOCH)
    assert asked == [replace(request, request_id=0, live_brokers=live, partitions=grouped)]
    assert answered == replace(answer, request_id=request.request_id)


@FEW
@given(
    st.builds(
        core.StopReplicaRequest,
        **headers,
        partitions=st.lists(partitions, min_size=1, max_size=6, unique=True).map(tuple),
        delete=st.booleans(),
    ),
    answers_per_partition,
)
def test_stop_replica(request: core.StopReplicaRequest, answer: core.ControlResponse):
    asked, answered = exchange(request, answer)
    grouped = by_topic(request.partitions, lambda tp: tp.topic)
    assert asked == [replace(request, request_id=0, partitions=grouped)]
    assert answered == replace(answer, request_id=request.request_id)


@FEW
@given(st.data(), st.builds(core.VoteRequest, **headers, tp=partitions, leader_epoch=int32s))
def test_vote(data: st.DataObject, request: core.VoteRequest):
    answer = data.draw(
        st.builds(
            core.VoteResponse,
            request_id=st.just(0),
            tp=st.just(request.tp),
            error=results,
            leader_epoch=int32s,
            last_epoch=int32s,
            end_offset=int64s,
        )
    )
    asked, answered = exchange(request, answer)
    assert asked == [replace(request, request_id=0)]
    assert answered == replace(answer, request_id=request.request_id)


# ---------------------------------------------------------------- requests to the controller


@FEW
@given(
    st.builds(
        core.RelieveReplicaRequest, tp=partitions, broker=broker_ids, broker_epoch=int64s, leader_epoch=int32s
    ),
    results,
)
def test_relieve_replica(request: core.RelieveReplicaRequest, error: ErrorCode):
    answer = core.RelieveReplicaResponse(tp=request.tp, error=error)
    assert exchange(request, answer) == ([request], answer)


@st.composite
def isr_changes(draw: st.DrawFn) -> core.AlterIsrRequest:
    isr = draw(broker_lists)
    epochs = draw(st.lists(int64s, min_size=len(isr), max_size=len(isr)).map(tuple))
    return draw(
        st.builds(
            core.AlterIsrRequest,
            tp=partitions,
            broker=broker_ids,
            broker_epoch=int64s,
            leader_epoch=int32s,
            isr=st.just(isr),
            version=int32s,
            member_epochs=st.just(epochs),
        )
    )


@FEW
@given(st.data(), isr_changes())
def test_alter_isr(data: st.DataObject, request: core.AlterIsrRequest):
    answers = st.builds(
        core.AlterIsrResponse,
        tp=st.just(request.tp),
        error=results,
        leader_epoch=st.just(request.leader_epoch),
        number=st.just(request.number),
        isr=broker_lists,
        version=int32s,
    )
    answer = data.draw(answers)
    assert exchange(request, answer) == ([request], answer)


@FEW
@given(
    st.builds(core.ControlledShutdownRequest, broker=broker_ids, broker_epoch=int64s),
    st.builds(
        core.ControlledShutdownResponse, error=results, remaining=st.lists(partitions, max_size=5).map(tuple)
    ),
)
def test_controlled_shutdown(
    request: core.ControlledShutdownRequest, answer: core.ControlledShutdownResponse
):
    assert exchange(request, answer) == ([request], answer)


@FEW
@given(
    st.data(),
    st.builds(
        topic_messages.CreateTopicRequest,
        topic=topics,
        partitions=st.integers(-(2**31), PARTITIONS_PER_REQUEST_MAX),
        replication_factor=st.integers(-1, 2**15 - 1),
        assignment=st.none() | st.dictionaries(st.integers(0, 99), broker_lists, min_size=1, max_size=4),
        config=st.dictionaries(st.text("abc.", min_size=1), st.text("xyz0"), max_size=4),
        validate_only=st.booleans(),
    ),
)
def test_create_topic(data: st.DataObject, request: topic_messages.CreateTopicRequest):
    """The answer's numbers are for clients; the broker that asked for a topic only wants to know why not."""
    message = st.none() | st.text(max_size=20)
    answers = st.builds(
        topic_messages.CreateTopicResponse, topic=st.just(request.topic), error=results, message=message
    )
    answer = data.draw(answers)
    assert exchange(request, answer) == ([request], answer)


# ---------------------------------------------------------------- a follower's requests


@FEW
@given(
    st.data(),
    st.builds(
        core.EpochEndRequest,
        tp=partitions,
        replica=broker_ids,
        current_leader_epoch=int32s,
        asked_epoch=int32s,
    ),
)
def test_epoch_end(data: st.DataObject, request: core.EpochEndRequest):
    answers = st.builds(
        core.EpochEndResponse,
        tp=st.just(request.tp),
        error=results,
        current_leader_epoch=st.just(request.current_leader_epoch),
        asked_epoch=st.just(request.asked_epoch),
        epoch=int32s,
        end_offset=int64s,
    )
    answer = data.draw(answers)
    assert exchange(request, answer) == ([request], answer)


@FEW
@given(
    st.data(),
    st.builds(core.ListOffsetsRequest, tp=partitions, replica=broker_ids, current_leader_epoch=int32s),
)
def test_list_offsets(data: st.DataObject, request: core.ListOffsetsRequest):
    """Two questions on the wire, for the end and for the start. An error comes without offsets."""
    offsets = st.integers(0, 2**63 - 1)
    repeated = {"tp": st.just(request.tp), "current_leader_epoch": st.just(request.current_leader_epoch)}
    fine = st.builds(
        core.ListOffsetsResponse,
        **repeated,
        error=st.just(ErrorCode.NONE),
        offset=offsets,
        log_start_offset=offsets,
    )
    failed = st.builds(
        core.ListOffsetsResponse,
        **repeated,
        error=errors,
        offset=st.just(-1),
        log_start_offset=st.just(-1),
    )
    answer = data.draw(fine | failed)
    if answer.error is ErrorCode.OFFSET_NOT_AVAILABLE:
        return  # only for consumers
    assert exchange(request, answer) == ([request, request], answer)


def batches(base_offset: int, counts: list[int]) -> list[RecordBatch]:
    found = []
    for count in counts:
        records = [Record(timestamp=1, value=str(n).encode()) for n in range(count)]
        data = build_batch(records, base_offset=base_offset, leader_epoch=3)
        found.append(RecordBatch.parse(bytearray(data)))
        base_offset += count
    return found


@st.composite
def fetches(draw: st.DrawFn) -> dict[TopicPartition, core.FetchRequest]:
    """What one follower asks one leader for."""
    tps = draw(st.lists(partitions, min_size=1, max_size=4, unique=True))
    ids = {tp.topic: draw(ids_of_topics) for tp in tps}
    replica, wait, incarnation = draw(broker_ids), draw(st.integers(0, 2**31 - 1)), draw(int64s)
    return {
        tp: core.FetchRequest(
            tp,
            replica,
            draw(int64s),
            LeaderEpoch(draw(int32s)),
            wait,
            BrokerEpoch(incarnation),
            log_start_offset=draw(int64s),
            topic_id=ids[tp.topic],
        )
        for tp in tps
    }


def fetch_of(
    requests: Collection[core.FetchRequest], partition_bytes: int, answer_bytes: int
) -> FetchRequest:
    """All requests of the core to one leader, in one request that opens no session."""
    one = next(iter(requests))
    body = replication.fetch_header(one.replica, one.broker_epoch, one.max_wait_ms, answer_bytes)
    ids = {request.tp.topic: request.topic_id for request in requests}
    body.topics = replication.named_partitions(requests, partition_bytes, ids)
    return body


@FEW
@given(st.data(), fetches())
def test_fetch(data: st.DataObject, requests: dict[TopicPartition, core.FetchRequest]):
    """Many partitions in one request; how many bytes of each is a setting, not part of the question. Once
    there is something to send, the leader waits no more for the rest."""
    answers = {}
    for tp, request in requests.items():
        about = tp, request.offset, request.current_leader_epoch
        if data.draw(st.booleans()):
            sent = batches(
                data.draw(st.integers(0, 1000)), data.draw(st.lists(st.integers(1, 3), max_size=3))
            )
            mark, start = data.draw(int64s), data.draw(int64s)
            answers[tp] = core.FetchResponse(tp, ErrorCode.NONE, *about[1:], mark, sent, start)
        else:
            answers[tp] = core.FetchResponse(tp, data.draw(errors), *about[1:])
    body = fetch_of(requests.values(), 1 << 20, 1 << 24)
    asked, answered = there(
        replication.FETCH, replication.FETCH_VERSION, body, lambda question: answers[question.tp]
    )
    expected = by_topic(tuple(requests.values()), lambda request: request.tp.topic)
    for question, request in zip(asked, expected, strict=True):
        assert replace(question, max_bytes=request.max_bytes, max_wait_ms=request.max_wait_ms) == request
        assert question.max_wait_ms in (0, request.max_wait_ms)
        assert 0 < question.max_bytes <= 1 << 20
    assert asked[0].max_wait_ms == expected[0].max_wait_ms
    received = {response.tp: response for response in replication.fetch_from_wire({}, requests, answered)}
    assert received.keys() == answers.keys()
    for tp, response in received.items():
        assert [bytes(batch.data) for batch in cast(Any, response.batches)] == [
            bytes(batch.data) for batch in cast(Any, answers[tp].batches)
        ]
        assert replace(response, batches=()) == replace(answers[tp], batches=())


def test_a_partition_named_twice_is_no_fetch():
    request = core.FetchRequest(TopicPartition("t", 0), BrokerId(1), 0, LeaderEpoch(0), 0)
    body = fetch_of([request, request], 1, 1)
    with pytest.raises(ProtocolError, match="names a partition twice"):
        there(replication.FETCH, replication.FETCH_VERSION, body, lambda question: None)


TP = TopicPartition("t", 0)
QUESTIONS = [
    core.EpochEndRequest(
        tp=TP, replica=BrokerId(1), current_leader_epoch=LeaderEpoch(0), asked_epoch=LeaderEpoch(0)
    ),
    core.ListOffsetsRequest(tp=TP, replica=BrokerId(1), current_leader_epoch=LeaderEpoch(0)),
    core.LeaderAndIsrRequest(
        controller=BrokerId(1),
        controller_epoch=ControllerEpoch(1),
        broker_epoch=BrokerEpoch(1),
        request_id=1,
        partitions=(),
    ),
    core.VoteRequest(
        controller=BrokerId(1),
        controller_epoch=ControllerEpoch(1),
        broker_epoch=BrokerEpoch(1),
        request_id=1,
        tp=TP,
        leader_epoch=LeaderEpoch(1),
    ),
    core.AlterIsrRequest(
        tp=TP,
        broker=BrokerId(1),
        broker_epoch=BrokerEpoch(1),
        leader_epoch=LeaderEpoch(1),
        isr=(BrokerId(1),),
        version=1,
        member_epochs=(),
    ),
    core.ControlledShutdownRequest(broker=BrokerId(1), broker_epoch=BrokerEpoch(1)),
    topic_messages.CreateTopicRequest(topic="t"),
]


def answers(question: core.Message) -> tuple[Any, Any]:
    """One that says nothing of what was asked, and one with everything in it."""
    api, version, _ = brokers.request_to_wire(question)
    known = schema_of(api)
    empty, full = samples(known.response, version, known.flexible(version), 2)
    return empty, full


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: type(question).__name__)
def test_an_error_of_a_later_release(question: core.Message):
    """A number that is not known here is a failure like any other."""
    _, full = answers(question)
    unknown_errors(full)
    response: Any = brokers.response_from_wire(question, full)
    assert response.error is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    "question",
    [
        core.EpochEndRequest(
            tp=TP, replica=BrokerId(1), current_leader_epoch=LeaderEpoch(0), asked_epoch=LeaderEpoch(0)
        ),
        core.ListOffsetsRequest(tp=TP, replica=BrokerId(1), current_leader_epoch=LeaderEpoch(0)),
    ],
    ids=lambda question: type(question).__name__,
)
def test_an_answer_to_something_else(question: core.Message):
    """Its sender is not a tidelog broker: the connection is closed, nothing else happens."""
    empty, _ = answers(question)
    with pytest.raises(ProtocolError, match=type(question).__name__):
        brokers.response_from_wire(question, empty)


def unknown_errors(part: Any) -> None:
    """Every error of a message is one that there is not."""
    for field in fields_of(type(part)):
        value = getattr(part, field.name)
        if field.name == "error_code":
            part.error_code = 9_999
        for each in value if isinstance(value, list) else ():
            if is_dataclass(each):
                unknown_errors(each)


@pytest.mark.parametrize("exchange", brokers.EXCHANGES, ids=lambda exchange: exchange.asked.__name__)
def test_a_row_names_the_classes_of_its_api(exchange: AnyExchange):
    """What a row sends and reads is what its API describes, in a version that it describes."""
    schema = find_schema(exchange.api)
    assert schema is not None
    assert exchange.version in schema.versions
    assert get_type_hints(exchange.to_wire)["return"] is schema.request
    read = get_type_hints(exchange.answer_from_wire)["body"]
    assert schema.response in (get_args(read) or (read,))


def test_every_request_is_tested_here():
    assert len({exchange.asked for exchange in brokers.EXCHANGES}) == len(brokers.EXCHANGES) == 10
