"""One broker whose disk refuses: a failure is an answer for its partition, and the next try may succeed."""

from __future__ import annotations

import pytest
from tests.core.harness import CONTROLLER, TP, Bench, M, letters, records
from tests.core.refusing import REASON, RefusingStorage

from tidelog.core.events import (
    BecameLeader,
    FollowerStalled,
    ReplicaCameOnline,
    ReplicaDeleted,
    ReplicaWentOffline,
    StorageFailed,
    Truncated,
)
from tidelog.core.messages import (
    ControlResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    EpochEndRequest,
    EpochEndResponse,
    FetchRequest,
    FetchResponse,
    LeaderAndIsrRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    Message,
    PartitionAssignment,
    RelieveReplicaRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    VoteRequest,
    VoteResponse,
)
from tidelog.core.replication.follower import FollowerRole
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.replication.replica import RELIEF_MS
from tidelog.core.types import (
    NO_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicConfig,
    TopicPartition,
)
from tidelog.wire.errors import ErrorCode

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
LEADER = BrokerId(1)


class Refusing(Bench):
    """A bench whose disk refuses what the test chooses."""

    def __init__(self, generation: str = "epoch") -> None:
        self.disk = RefusingStorage()
        super().__init__(generation=generation, storage=self.disk)
        for topic in ("a", "b"):
            self.core.configure_topic(topic, TopicConfig())

    def tell(self, *tps: TopicPartition, leader: int = 0, epoch: int = 0) -> ControlResponse:
        """LeaderAndIsr for several partitions. Returns the answer."""
        state = PartitionState(BrokerId(leader), LeaderEpoch(epoch), self.replicas, ControllerEpoch(1))
        parts = tuple(PartitionAssignment(tp=tp, replicas=self.replicas, state=state) for tp in tps)
        return self.obey(LeaderAndIsrRequest(**self.header(), partitions=parts))

    def stop(self, *tps: TopicPartition) -> ControlResponse:
        return self.obey(StopReplicaRequest(**self.header(), partitions=tps, delete=True))

    def vote(self, epoch: int) -> VoteResponse:
        return self.answered(
            VoteRequest(**self.header(), tp=TP, leader_epoch=LeaderEpoch(epoch)), VoteResponse
        )

    def obey(self, request: LeaderAndIsrRequest | StopReplicaRequest) -> ControlResponse:
        return self.answered(request, ControlResponse)

    def answered(self, request: Message, kind: type[M]) -> M:
        token = self._token("controller")
        self.hear(request, token)
        answer = self.answer(token, kind)
        assert answer is not None, "the request was not answered"
        return answer

    def role(self, tp: TopicPartition) -> type | None:
        replica = self.core.replicas.get(tp)
        return None if replica is None else type(replica.role)


# ---------------------------------------------------------------- logs that cannot be opened


def test_a_log_that_cannot_be_opened_costs_the_others_nothing() -> None:
    """Partitions before and behind it in the request take their roles; it has an error of its own."""
    bench = Refusing()
    bench.disk.refuse("open", TP)
    answer = bench.tell(A, TP, B)
    assert (answer.error, answer.partition_errors) == (ErrorCode.NONE, {TP: STORAGE_ERROR})
    assert [bench.role(tp) for tp in (A, TP, B)] == [LeaderRole, None, LeaderRole]
    assert dict(bench.core.offline) == {TP: f"cannot open t-0: {REASON}"}
    assert bench.happened(ReplicaWentOffline) == [
        ReplicaWentOffline(bench.me, TP, f"cannot open t-0: {REASON}")
    ]


def test_whoever_asks_for_an_offline_replica_is_told_so() -> None:
    """Not that it is elsewhere, nor that it does not exist."""
    bench = Refusing()
    bench.disk.refuse("open", TP)
    bench.tell(TP)
    token = bench.produce("a")
    assert bench.answer_to(token) == (STORAGE_ERROR, -1)
    token = bench.fetch(1, 0, epoch=0)
    assert bench.fetched(token).error is STORAGE_ERROR
    assert (
        bench.answered(
            EpochEndRequest(
                tp=TP, replica=LEADER, current_leader_epoch=LeaderEpoch(0), asked_epoch=LeaderEpoch(0)
            ),
            EpochEndResponse,
        ).error
        is STORAGE_ERROR
    )
    assert (
        bench.answered(
            ListOffsetsRequest(tp=TP, replica=LEADER, current_leader_epoch=LeaderEpoch(0)),
            ListOffsetsResponse,
        ).error
        is STORAGE_ERROR
    )
    assert (
        bench.answered(DeleteRecordsRequest(tp=TP, offset=0, timeout_ms=100), DeleteRecordsResponse).error
        is STORAGE_ERROR
    )


def test_told_again_it_comes_online_once_the_disk_takes_it() -> None:
    """The same request, the same epoch: there is no restart. It is said once, not at every try."""
    bench = Refusing()
    bench.disk.refuse("open", TP)
    for _ in range(3):
        assert bench.tell(TP).partition_errors == {TP: STORAGE_ERROR}
    bench.disk.mend()
    assert bench.tell(TP).partition_errors == {}
    assert bench.role(TP) is LeaderRole
    assert len(bench.happened(ReplicaWentOffline)) == 1
    assert bench.happened(ReplicaCameOnline) == [ReplicaCameOnline(bench.me, TP)]
    assert not bench.core.offline
    assert bench.answer_to(bench.produce("a", acks=1)) == (ErrorCode.NONE, 0)


def test_what_waited_behind_it_is_served() -> None:
    """A LeaderAndIsr that waits for the settings of a new topic, cannot open its log, and is followed by
    others: each of them is answered, in order, and so is every later one."""
    bench = Refusing()
    new, next_one = TopicPartition("new", 0), TopicPartition("next", 0)
    bench.disk.refuse("open", new)
    state = PartitionState(bench.me, LeaderEpoch(0), bench.replicas, ControllerEpoch(1))
    requests: list[Message] = [
        LeaderAndIsrRequest(
            **bench.header(), partitions=(PartitionAssignment(tp=tp, replicas=bench.replicas, state=state),)
        )
        for tp in (new, next_one)
    ]
    requests.append(
        UpdateMetadataRequest(
            **bench.header(), live_brokers={BrokerId(0): BrokerEpoch(1)}, endpoints={}, partitions=()
        )
    )
    for number, request in enumerate(requests):
        bench.core.receive(number, request, bench.now)  # before the keeper has said a word
    bench._collect()
    answers = [reply.message for reply in bench.replies if reply.to in (0, 1, 2)]
    assert [a.partition_errors for a in answers if isinstance(a, ControlResponse)] == [
        {new: STORAGE_ERROR},
        {},
        {},
    ]
    assert bench.role(next_one) is LeaderRole
    assert bench.tell(TP).partition_errors == {}


def test_an_offline_replica_of_a_topic_that_is_gone_is_forgotten() -> None:
    """There is nothing to delete, so deleting it succeeds."""
    bench = Refusing()
    bench.disk.refuse("open", TP, A)
    bench.tell(TP, A)
    assert bench.stop(TP).partition_errors == {}
    assert list(bench.core.offline) == [A]
    # A new controller introduces itself, and its metadata does not list the topic.
    bench.hear(
        UpdateMetadataRequest(
            controller=CONTROLLER,
            controller_epoch=ControllerEpoch(2),
            broker_epoch=bench.core.ctx.broker_epoch,
            request_id=1,
            live_brokers={},
            endpoints={},
            partitions=(),
        ),
        "new",
    )
    assert not bench.core.offline
    assert bench.happened(ReplicaCameOnline) == []


# ---------------------------------------------------------------- logs that cannot be deleted


def test_a_log_that_cannot_be_deleted_costs_the_others_nothing() -> None:
    """It has no role any more; a repeated request deletes it."""
    bench = Refusing()
    bench.tell(A, TP, B)
    bench.disk.refuse("delete", TP)
    answer = bench.stop(A, TP, B)
    assert (answer.error, answer.partition_errors) == (ErrorCode.NONE, {TP: STORAGE_ERROR})
    assert bench.happened(ReplicaDeleted) == [ReplicaDeleted(bench.me, A), ReplicaDeleted(bench.me, B)]
    assert (list(bench.core.replicas), bench.disk.partitions()) == ([], (TP,))
    assert list(bench.core.offline) == [TP]
    bench.disk.mend()
    assert bench.stop(A, TP, B).partition_errors == {}
    assert bench.happened(ReplicaDeleted)[-1] == ReplicaDeleted(bench.me, TP)
    assert bench.disk.partitions() == ()
    assert not bench.core.offline


# ---------------------------------------------------------------- leaders


def test_an_epoch_that_cannot_be_opened_is_not_led() -> None:
    """A majority leader opens its epoch with a record. Without it it is not the leader, and reports that at
    once; requests that waited for its previous epoch get NOT_LEADER_OR_FOLLOWER."""
    bench = Refusing("majority")
    bench.tell(TP)
    parked = bench.produce("a")
    bench.disk.refuse("append", TP)
    assert bench.tell(TP, epoch=1).partition_errors == {TP: STORAGE_ERROR}
    assert bench.replica.role is None
    assert bench.answer_to(parked) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)
    assert [event.epoch for event in bench.happened(BecameLeader)] == [0]
    bench.disk.mend()
    assert bench.tell(TP, epoch=2).partition_errors == {}
    assert bench.leader.epoch == 2


def test_a_vote_that_the_disk_refuses_is_an_error() -> None:
    """And no promise. A vote that is refused for another reason touches no disk."""
    bench = Refusing("majority")
    bench.disk.refuse("open", TP)
    assert bench.vote(3).error is STORAGE_ERROR
    bench.disk.mend()
    vote = bench.vote(3)
    assert (vote.error, vote.end_offset, bench.replica.leader_epoch) == (ErrorCode.NONE, 0, 3)
    stale = VoteRequest(
        controller=CONTROLLER,
        controller_epoch=ControllerEpoch(0),
        broker_epoch=bench.core.ctx.broker_epoch,
        request_id=99,
        tp=A,
        leader_epoch=LeaderEpoch(1),
    )
    assert bench.answered(stale, VoteResponse).error is ErrorCode.STALE_CONTROLLER_EPOCH
    assert A not in bench.disk.logs


def test_records_that_cannot_be_deleted_are_an_error_to_whoever_asked() -> None:
    disk = RefusingStorage()
    bench = Bench(storage=disk)
    bench.lead(isr=(0,))
    bench.produce("a", acks=1)
    disk.refuse("advance", TP)
    bench.hear(DeleteRecordsRequest(tp=TP, offset=0, timeout_ms=100), "none")
    bench.hear(DeleteRecordsRequest(tp=TP, offset=1, timeout_ms=100), "refused")
    answer = bench.answer("refused", DeleteRecordsResponse)
    assert answer is not None
    assert (answer.error, answer.low_watermark) == (STORAGE_ERROR, -1)
    assert len(bench.happened(StorageFailed)) == 1
    disk.mend()
    bench.hear(DeleteRecordsRequest(tp=TP, offset=1, timeout_ms=100), "taken")
    assert bench.replica.log.start_offset == 1


def test_what_a_leader_cannot_append_or_read_is_an_error_to_whoever_asked() -> None:
    """It goes on leading, and serves the next request."""
    disk = RefusingStorage()
    bench = Bench(storage=disk, replicas=(0,))
    bench.lead()
    bench.produce("a", acks=1)
    disk.refuse("append", TP)
    disk.refuse("read", TP)
    assert bench.answer_to(bench.produce("b", acks=1)) == (STORAGE_ERROR, -1)
    assert bench.fetched(bench.consume(0)).error is STORAGE_ERROR
    disk.mend()
    assert bench.answer_to(bench.produce("b", acks=1)) == (ErrorCode.NONE, 1)
    assert letters(bench.fetched(bench.consume(0))) == "ab"


def reliefs(bench: Bench) -> list[RelieveReplicaRequest]:
    return [send.message for send in bench.sent if isinstance(send.message, RelieveReplicaRequest)]


def test_a_replica_that_cannot_write_asks_to_be_relieved() -> None:
    """Its controller, in its epoch, and not at every failure. A replica that is the only one does not ask."""
    disk = RefusingStorage()
    bench = Bench(storage=disk)
    bench.lead(epoch=3)
    disk.refuse("append", TP)
    for _ in range(3):
        bench.produce("a")
    request = RelieveReplicaRequest(
        tp=TP, broker=bench.me, broker_epoch=bench.core.ctx.broker_epoch, leader_epoch=LeaderEpoch(3)
    )
    assert reliefs(bench) == [request]
    assert bench.sent[-1].to == CONTROLLER
    bench.pass_time(RELIEF_MS)
    bench.produce("a")
    assert reliefs(bench) == [request, request]
    disk.mend()
    bench.produce("a")
    bench.pass_time(RELIEF_MS)
    assert len(reliefs(bench)) == 2
    alone = Bench(storage=RefusingStorage(), replicas=(0,))
    alone.lead()
    assert isinstance(alone.storage, RefusingStorage)
    alone.storage.refuse("append", TP)
    alone.produce("a")
    assert reliefs(alone) == []


# ---------------------------------------------------------------- followers


def follower(generation: str, text: str, epoch: int = NO_EPOCH) -> Refusing:
    """A broker with these records on its disk, which is about to follow."""
    bench = Refusing(generation)
    log = bench.disk.open(TP)
    for batch in records(text, epoch=epoch):
        log.append_as_follower(batch)
    if epoch != NO_EPOCH:
        log.epochs.assign(LeaderEpoch(epoch), 0)
    return bench


def asked(bench: Refusing) -> list[type]:
    """What it asked its leader so far."""
    return [type(send.message) for send in bench.sent if send.to == LEADER]


def backoff(bench: Refusing) -> None:
    bench.pass_time(bench.core.ctx.config.replica_fetch_backoff_ms)


@pytest.mark.parametrize("generation", ["hw", "epoch"])
def test_nothing_is_fetched_before_the_log_is_truncated(generation: str) -> None:
    """A follower that cannot truncate when its leader's epoch begins tries again until it can: records that
    were fetched behind a tail which should be gone would be in the wrong place."""
    bench = follower(generation, "abc")
    bench.disk.refuse("truncate", TP)
    assert bench.tell(TP, leader=1).partition_errors == {}
    bench.core.connected(LEADER)
    bench._collect()
    backoff(bench)
    assert (asked(bench), bench.values) == ([], "abc")
    assert len(bench.happened(StorageFailed)) == 2
    assert {event.error for event in bench.happened(FollowerStalled)} == {STORAGE_ERROR}
    bench.disk.mend()
    backoff(bench)
    assert (asked(bench), bench.values) == ([FetchRequest], "")
    assert [(event.before, event.after) for event in bench.happened(Truncated)] == [(3, 0)]


def test_a_truncation_that_fails_is_asked_for_again() -> None:
    """From the question on: where the epoch ends may have changed by then."""
    bench = follower("epoch", "abc", epoch=0)
    bench.tell(TP, leader=1, epoch=1)
    bench.disk.refuse("truncate", TP)
    bench.told_epoch_end(0, 0, 1)
    assert bench.values == "abc"
    bench.disk.mend()
    backoff(bench)
    assert asked(bench) == [EpochEndRequest, EpochEndRequest]
    bench.told_epoch_end(0, 0, 2)
    assert (asked(bench)[-1], bench.values) == (FetchRequest, "ab")


@pytest.mark.parametrize(("end", "start", "kept"), [(1, 0, "a"), (9, 7, "")])
def test_a_log_that_cannot_follow_a_shorter_one_tries_again(end: int, start: int, kept: str) -> None:
    """The leader's log ends before ours, or starts behind it."""
    bench = follower("epoch", "abc", epoch=0)
    bench.tell(TP, leader=1, epoch=1)
    bench.told_epoch_end(0, 0, 3)
    bench.disk.refuse("truncate", TP)
    answer = ListOffsetsResponse(
        tp=TP, error=ErrorCode.NONE, current_leader_epoch=LeaderEpoch(1), offset=end, log_start_offset=start
    )
    for _ in range(2):
        bench.fed(3, error=ErrorCode.OFFSET_OUT_OF_RANGE)
        bench.hear(answer, LEADER)
        assert bench.values == "abc"
        backoff(bench)
        assert asked(bench)[-1] is ListOffsetsRequest
    bench.disk.mend()
    bench.hear(answer, LEADER)
    assert (asked(bench)[-1], bench.values, bench.leo) == (FetchRequest, kept, max(len(kept), start))


@pytest.mark.parametrize("operation", ["append", "advance"])
def test_what_a_follower_cannot_store_is_fetched_again(operation: str) -> None:
    bench = follower("epoch", "")
    bench.tell(TP, leader=1)
    bench.disk.refuse(operation, TP)
    answer = FetchResponse(TP, ErrorCode.NONE, 0, LeaderEpoch(0), 2, records("ab"), log_start_offset=1)
    bench.hear(answer, LEADER)
    assert (bench.hw, bench.replica.log.start_offset) == (0, 0)
    assert len(bench.happened(StorageFailed)) == 1
    bench.disk.mend()
    backoff(bench)
    request = bench.last_sent(FetchRequest)
    bench.hear(
        FetchResponse(
            TP, ErrorCode.NONE, request.offset, LeaderEpoch(0), 2, records("ab")[request.offset :], 1
        ),
        LEADER,
    )
    assert (bench.leo, bench.hw, bench.replica.log.start_offset) == (2, 2, 1)


def test_a_replica_that_was_offline_follows_as_any_other() -> None:
    bench = Refusing()
    bench.disk.refuse("open", TP)
    bench.tell(TP, leader=1)
    bench.disk.mend()
    bench.tell(TP, leader=1)
    assert bench.role(TP) is FollowerRole
    bench.fed(0, records("ab"), high_watermark=1)
    assert (bench.values, bench.hw) == ("ab", 1)
