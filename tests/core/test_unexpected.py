"""An exception that no rule foresees costs a partition, a task or a timer, and never what comes after it.

Only where a world says what becomes of it: a simulation, which says nothing, ends with the exception.
"""

from __future__ import annotations

import pytest
from tests.core.controller.test_requests import LoneController
from tests.core.harness import TP, Bench

from tidelog.core.effects import KeeperCall
from tidelog.core.keeper_port import Get, KeeperError, KeeperReply, Result
from tidelog.core.keeper_tasks import Task, TaskQueue, Together
from tidelog.core.messages import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    Message,
    PartitionAssignment,
    UpdateMetadataRequest,
    VoteRequest,
    VoteResponse,
)
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.timers import Timer, Timers
from tidelog.core.types import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    InvariantViolation,
    LeaderEpoch,
    Millis,
    PartitionState,
    TopicPartition,
)
from tidelog.storage.memory import MemoryLog, MemoryStorage
from tidelog.wire.errors import ErrorCode

NEW, NEXT = TopicPartition("new", 0), TopicPartition("next", 0)


class Bug(Exception):
    pass


class BuggyStorage(MemoryStorage):
    def __init__(self, bug: Exception) -> None:
        super().__init__()
        self._bug = bug

    def open(self, tp: TopicPartition) -> MemoryLog:
        if tp == NEW:
            raise self._bug
        return super().open(tp)


def buggy(bug: Exception | None = None) -> tuple[Bench, list[Exception]]:
    """A broker that cannot open one log, for a reason that no rule foresees; and what it met."""
    bench = Bench(storage=BuggyStorage(bug or Bug()))
    met: list[Exception] = []
    bench.core.ctx.unexpected = met.append
    return bench, met


def told_to_lead(bench: Bench, *tps: TopicPartition) -> LeaderAndIsrRequest:
    state = PartitionState(bench.me, LeaderEpoch(0), bench.replicas, ControllerEpoch(1))
    parts = tuple(PartitionAssignment(tp=tp, replicas=bench.replicas, state=state) for tp in tps)
    return LeaderAndIsrRequest(**bench.header(), partitions=parts)


def test_a_partition_costs_the_others_nothing() -> None:
    """Nor the requests behind it, which wait for the keeper with it."""
    bench, met = buggy()
    live = {BrokerId(0): BrokerEpoch(1)}
    requests: list[Message] = [
        told_to_lead(bench, NEXT, NEW, TP),
        told_to_lead(bench, NEW),
        UpdateMetadataRequest(**bench.header(), live_brokers=live, endpoints={}, partitions=()),
    ]
    for number, request in enumerate(requests):
        bench.core.receive(number, request, bench.now)
    bench._collect()
    unknown = ErrorCode.UNKNOWN_SERVER_ERROR
    answers = [bench.answer(number, ControlResponse) for number in range(3)]
    assert [(a.error, a.partition_errors) for a in answers if a is not None] == [
        (ErrorCode.NONE, {NEW: unknown}),
        (ErrorCode.NONE, {NEW: unknown}),
        (ErrorCode.NONE, {}),
    ]
    assert [type(bench.core.replicas[tp].role) for tp in (NEXT, TP)] == [LeaderRole, LeaderRole]
    assert (bench.core.metadata.live_brokers, len(met)) == (live, 2)


def test_a_request_is_answered_whatever_happens() -> None:
    """A controller that gets no answer repeats itself and says nothing else."""
    bench, met = buggy()
    vote = VoteRequest(**bench.header(), tp=NEW, leader_epoch=LeaderEpoch(1))
    bench.hear(vote, "vote")
    answer = bench.answer("vote", VoteResponse)
    assert answer is not None
    assert (answer.error, answer.request_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, vote.request_id)
    bench.core._controlled._metadata = None  # type: ignore[assignment]
    bench.hear(
        UpdateMetadataRequest(**bench.header(), live_brokers={}, endpoints={}, partitions=()), "metadata"
    )
    told = bench.answer("metadata", ControlResponse)
    assert told is not None
    assert told.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(met) == 2


def test_a_simulation_ends_with_it() -> None:
    bench = Bench(storage=BuggyStorage(Bug()))
    with pytest.raises(Bug):
        bench.hear(told_to_lead(bench, NEW), "controller")


def test_a_controller_leaves_to_others_what_a_broker_fails_on() -> None:
    """Here on the whole request, so that all of its partitions count as failed."""
    lone = LoneController()
    lone.create_topic((1, 0, 2))
    for error in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR):  # the metadata, and then its role
        request = [
            send.message for send in lone.sent if isinstance(send.message, ControlRequest) and send.to == 1
        ][-1]
        lone.hear(ControlResponse(request_id=request.request_id, error=error), BrokerId(1))
    assert isinstance(request, LeaderAndIsrRequest)
    assert lone.state is not None
    assert (lone.state.leader, lone.state.isr) == (0, (0, 2))


def test_tasks_behind_one_that_fails_are_done() -> None:
    """Its caller gets an answer; tasks submitted after it run."""
    bench = Bench()
    met: list[Exception] = []
    bench.core.ctx.unexpected = met.append
    queue = TaskQueue(bench.core._keeper)
    done: list[str] = []

    def fails() -> Task:
        yield Get("/controller")
        raise Bug

    def works() -> Task:
        yield Get("/controller")
        done.append("works")

    queue.submit(fails, abandoned=lambda: done.append("abandoned"))
    queue.submit(works)
    bench._collect()
    queue.submit(works)
    bench._collect()
    assert done == ["abandoned", "works", "works"]
    assert [type(error) for error in met] == [Bug]


@pytest.mark.parametrize("step", [Get("/controller"), Together((Get("/brokers"), Get("/controller")))])
def test_a_task_that_the_keeper_refuses_ends(step: Get | Together) -> None:
    """For a reason that no task knows, such as missing rights: the next one runs."""
    bench = Bench()
    queue = TaskQueue(bench.core._keeper)
    done: list[str] = []

    def refused() -> Task:
        while (yield step) is not None:
            done.append("tries again")

    def works() -> Task:
        yield Get("/brokers")
        done.append("works")

    queue.submit(refused, abandoned=lambda: done.append("abandoned"))
    queue.submit(works)
    for _ in range(3):
        for call in [effect for effect in bench.core.effects if isinstance(effect, KeeperCall)]:
            bench.core.effects.remove(call)
            is_refused = call.operation == Get("/controller")
            result = Result(KeeperError.REFUSED) if is_refused else Result()
            bench.core.keeper_notice(KeeperReply(call.call, result), bench.now)
    assert done == ["abandoned", "works"]


def test_timers_behind_one_that_fails_are_fired() -> None:
    """And the owner is woken for those to come."""
    timers = Timers()
    fired: list[Millis] = []
    met: list[Exception] = []

    def fail(_now: Millis) -> None:
        raise Bug

    for at, callback in ((1, fail), (2, fired.append), (9, fired.append)):
        timers.set(Timer(at, callback))
    assert timers.fire(5, met.append) == 9
    assert (fired, [type(error) for error in met]) == ([5], [Bug])
    assert timers.set(Timer(7, fail)) == 7


def test_a_broken_invariant_ends_it_in_any_case() -> None:
    """There is nothing to go on with: not from a request, not from a timer, not from a task."""
    violation = InvariantViolation("two leaders of one epoch")

    def fails(*_: object) -> None:
        raise violation

    def task() -> Task:
        yield Get("/controller")
        raise violation

    bench, met = buggy(violation)
    with pytest.raises(InvariantViolation):
        bench.hear(told_to_lead(bench, NEW), "controller")
    bench.core.ctx.set_timer(1, fails)
    bench._collect()
    with pytest.raises(InvariantViolation):
        bench.pass_time(2)
    TaskQueue(bench.core._keeper).submit(task)
    with pytest.raises(InvariantViolation):
        bench._collect()
    assert met == []
