"""A cluster with one failed disk: other replicas lead, the metadata shows it, and a repaired disk
recovers."""

from __future__ import annotations

import pytest
from tests.core.administrator import Administrator, replicas
from tests.core.refusing import RefusingStorage

from tidelog.core import keeper_paths
from tidelog.core.controller.failed_replicas import RETRY_MS_MAX
from tidelog.core.controller.state_machines import StateMachines
from tidelog.core.events import PartitionStateWritten, ReplicaCameOnline, ReplicaWentOffline
from tidelog.core.messages import (
    ACKS_ALL,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ProduceRequest,
    ProduceResponse,
)
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.topic_messages import CreateTopicRequest, CreateTopicResponse
from tidelog.core.types import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicPartition,
)
from tidelog.scenario.setup import Setup
from tidelog.storage.memory import MemoryBatch
from tidelog.wire.errors import ErrorCode

OLD, NEW = TopicPartition("old", 0), TopicPartition("new", 0)
GENERATIONS = ("hw", "kip101", "epoch", "majority")


class Refused(Administrator):
    """Three brokers with disks that can refuse, and a topic that all of them have."""

    def __init__(self, generation: str = "epoch") -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tidelog.lab.world.processes.MemoryStorage", RefusingStorage)
            super().__init__(Setup(brokers=3, generation=generation))
        self.assign("old", 0, 1, 2)

    def disk(self, broker: int) -> RefusingStorage:
        storage = self.world.processes[broker].storage
        assert isinstance(storage, RefusingStorage)
        return storage

    def assign(self, topic: str, *brokers: int) -> None:
        request = CreateTopicRequest(topic=topic, assignment={0: replicas(*brokers)})
        assert self.ask(request, CreateTopicResponse).error is ErrorCode.NONE

    def led(self, topic: str) -> int:
        """The broker that the keeper says leads."""
        state = self.state(topic)
        assert state is not None
        return state.leader

    def isr(self, topic: str) -> list[int]:
        state = self.state(topic)
        assert state is not None
        return sorted(state.isr)

    def offline(self, broker: int, topic: str = "new") -> tuple[BrokerId, ...]:
        """The offline replicas a client of this broker reads of."""
        known = self.core(broker).metadata.get(TopicPartition(topic, 0))
        assert known is not None
        return known.offline

    def acknowledged(self, topic: str, value: str = "v") -> ErrorCode:
        """Send with acks=all to whom the metadata names."""
        request = ProduceRequest(TopicPartition(topic, 0), ACKS_ALL, MemoryBatch(value), 5_000)
        number = self.send(request, to=self.led(topic))
        self.until(lambda: number in self.answers)
        return self.answer(number, ProduceResponse).error

    def mend(self, broker: int, topic: str = "new") -> None:
        """The disk works again. The cores get no notice of it."""
        self.disk(broker).mend()
        self.until(lambda: bool(self.happened(ReplicaCameOnline)), 2 * RETRY_MS_MAX)
        tp = TopicPartition(topic, 0)
        assert self.happened(ReplicaCameOnline) == [ReplicaCameOnline(BrokerId(broker), tp)]
        self.until(lambda: all(self.offline(b) == () for b in range(3)))


@pytest.fixture(params=GENERATIONS)
def cluster(request: pytest.FixtureRequest) -> Refused:
    return Refused(request.param)


# ---------------------------------------------------------------- a new partition


@pytest.mark.parametrize("broken", [0, 1])
def test_others_lead_what_a_broker_cannot_open(cluster: Refused, broken: int) -> None:
    """Broken is the preferred leader, which is the controller's broker too, or a follower. The metadata of
    all brokers names it; both topics take records; when the disk is mended it catches up."""
    cluster.disk(broken).refuse("open", NEW)
    cluster.assign("new", 0, 1, 2)
    cluster.until(lambda: cluster.led("new") not in (broken, NO_LEADER))
    cluster.until(lambda: all(cluster.offline(b) == (broken,) for b in range(3)))
    assert [event.broker for event in cluster.happened(ReplicaWentOffline)] == [broken]
    assert cluster.acknowledged("new") is ErrorCode.NONE
    assert cluster.acknowledged("old") is ErrorCode.NONE
    cluster.mend(broken)
    logs = [cluster.disk(b).logs[NEW] for b in range(3)]
    cluster.until(lambda: len({log.end_offset for log in logs}) == 1 and cluster.isr("new") == [0, 1, 2])
    assert [batch.value for batch in logs[broken].batches if batch.value] == ["v"]


def test_a_partition_without_another_replica_has_no_leader(cluster: Refused) -> None:
    """Until the disk is mended; then it is led as if it had been created just now."""
    cluster.disk(2).refuse("open", NEW)
    cluster.assign("new", 2)
    cluster.until(lambda: cluster.led("new") == NO_LEADER)
    cluster.until(lambda: all(cluster.offline(b) == (2,) for b in range(3)))
    cluster.world.advance(3 * RETRY_MS_MAX)
    assert cluster.led("new") == NO_LEADER
    assert cluster.acknowledged("old") is ErrorCode.NONE
    cluster.mend(2)
    cluster.until(lambda: cluster.led("new") == 2)
    cluster.until(lambda: isinstance(cluster.core(2).replicas[NEW].role, LeaderRole))
    assert cluster.acknowledged("new") is ErrorCode.NONE


def test_the_epochs_are_those_of_a_broker_that_died() -> None:
    """One election, and no epoch for each try to reach the disk."""
    cluster = Refused()
    cluster.disk(0).refuse("open", NEW)
    cluster.assign("new", 0, 1, 2)
    cluster.world.advance(6 * RETRY_MS_MAX)
    written = [e.state for e in cluster.happened(PartitionStateWritten) if e.tp == NEW]
    assert written == [
        PartitionState(BrokerId(0), LeaderEpoch(0), replicas(0, 1, 2), ControllerEpoch(1), 0),
        PartitionState(BrokerId(1), LeaderEpoch(1), replicas(1, 2), ControllerEpoch(1), 1),
    ]


def test_a_broker_is_not_asked_to_lead_what_it_cannot() -> None:
    """Neither by an administrator, nor when the others die."""
    cluster = Refused()
    cluster.disk(0).refuse("open", NEW)
    cluster.assign("new", 0, 1)
    cluster.until(lambda: cluster.led("new") == 1)
    answer = cluster.ask(ElectLeadersRequest(tp=NEW), ElectLeadersResponse)
    assert answer.error is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    cluster.world.crash(1)
    cluster.until(lambda: cluster.led("new") == NO_LEADER)
    cluster.world.start(1)
    cluster.until(lambda: cluster.led("new") == 1)


# ---------------------------------------------------------------- it goes on meanwhile


def test_a_new_controller_learns_of_it(cluster: Refused) -> None:
    """From the answers to its first requests: the former one wrote nothing down."""
    cluster.disk(2).refuse("open", NEW)
    cluster.assign("new", 2, 1, 0)
    cluster.until(lambda: cluster.led("new") in (0, 1))
    cluster.world.crash(0)
    cluster.until(lambda: cluster.exists(keeper_paths.CONTROLLER) and cluster.controller != 0)
    cluster.until(lambda: cluster.offline(1) == (2,) == cluster.offline(2))
    cluster.world.start(0)
    cluster.until(lambda: 0 in cluster.core(1).metadata.live_brokers)
    cluster.until(lambda: NEW in cluster.core(0).metadata)
    cluster.mend(2)


def test_a_broker_that_returns_with_a_mended_disk_says_so(cluster: Refused) -> None:
    """Its next life is asked like any other broker's, and nothing of the former is held against it."""
    cluster.disk(1).refuse("open", NEW)
    cluster.assign("new", 1, 2, 0)
    cluster.until(lambda: cluster.led("new") in (0, 2))
    cluster.world.crash(1)
    cluster.until(lambda: 1 not in cluster.core(0).metadata.live_brokers)
    cluster.disk(1).mend()
    cluster.world.start(1)
    cluster.until(lambda: 1 in cluster.core(0).metadata.live_brokers)
    cluster.until(lambda: cluster.offline(0) == () and cluster.isr("new") == [0, 1, 2])


def test_a_topic_may_be_deleted_while_a_replica_is_offline() -> None:
    """There is nothing to erase there, and the controller stops asking for it."""
    cluster = Refused()
    cluster.disk(1).refuse("open", NEW)
    cluster.assign("new", 1, 2)
    cluster.until(lambda: cluster.led("new") == 2)
    cluster.delete("new")
    cluster.until(lambda: not cluster.exists(keeper_paths.topic_path("new")))
    assert not cluster.core(1).offline
    cluster.disk(1).mend()
    cluster.world.advance(3 * RETRY_MS_MAX)
    assert NEW not in cluster.disk(1).logs
    assert cluster.happened(ReplicaCameOnline) == []


def test_a_topic_that_cannot_be_erased_goes_when_it_can() -> None:
    """Until then its name is taken; the controller asks again, and no broker is started."""
    cluster = Refused()
    cluster.disk(1).refuse("delete", OLD)
    cluster.delete("old")
    cluster.world.advance(3 * RETRY_MS_MAX)
    assert cluster.exists(keeper_paths.topic_path("old"))
    assert [cluster.logs(broker) for broker in range(3)] == [[], [OLD], []]
    cluster.disk(1).mend()
    cluster.until(lambda: not cluster.exists(keeper_paths.topic_path("old")), 2 * RETRY_MS_MAX)
    assert cluster.logs(1) == []
    cluster.assign("old", 0, 1, 2)


def machines(cluster: Refused) -> StateMachines:
    found = cluster.core(cluster.controller).controller.machines
    assert found is not None
    return found


def test_nobody_is_asked_again_once_all_is_well() -> None:
    """When the last replica is back, the controller has nothing more to say."""
    cluster = Refused()
    cluster.disk(1).refuse("open", NEW)
    cluster.assign("new", 1, 2)
    cluster.until(lambda: cluster.led("new") == 2)
    cluster.mend(1)
    cluster.world.advance(2 * RETRY_MS_MAX)
    last_request = machines(cluster).channels._last_id
    cluster.world.advance(5 * RETRY_MS_MAX)
    assert machines(cluster).channels._last_id == last_request


def test_a_controller_that_was_deposed_does_not_ask() -> None:
    """Its successor does."""
    cluster = Refused()
    cluster.disk(1).refuse("open", NEW)
    cluster.assign("new", 1, 2)
    cluster.until(lambda: cluster.led("new") == 2)
    deposed = machines(cluster)
    cluster.world.pause(0)
    cluster.until(lambda: cluster.exists(keeper_paths.CONTROLLER) and cluster.controller != 0)
    cluster.world.resume(0)
    cluster.until(lambda: not cluster.core(0).controller.active)
    cluster.until(lambda: cluster.offline(2) == (1,))
    last_request = deposed.channels._last_id
    cluster.world.advance(5 * RETRY_MS_MAX)
    assert deposed.channels._last_id == last_request
    cluster.mend(1)


# ---------------------------------------------------------------- disks that fill up


@pytest.mark.parametrize("broken", [0, 1])
def test_others_go_on_where_a_replica_cannot_write(cluster: Refused, broken: int) -> None:
    """A leader is succeeded, a follower no longer waited for, long before it would count as lagging. With
    room on its disk it catches up, and is in sync again."""
    old = cluster.disk(broken).logs[OLD]
    cluster.disk(broken).refuse("append", OLD)
    before = cluster.world.now
    cluster.until(lambda: cluster.acknowledged("old") is ErrorCode.NONE)
    cluster.until(lambda: cluster.led("old") != broken)
    took_ms = cluster.world.now - before
    assert took_ms < 1_000
    cluster.world.advance(20_000)
    assert old.end_offset < cluster.disk(2).logs[OLD].end_offset
    cluster.disk(broken).mend()
    cluster.until(lambda: cluster.isr("old") == [0, 1, 2])
    cluster.until(lambda: old.end_offset == cluster.disk(2).logs[OLD].end_offset)
    assert cluster.acknowledged("old") is ErrorCode.NONE


@pytest.mark.parametrize("generation", ["hw", "kip101", "epoch"])
def test_a_leader_that_is_alone_goes_on_leading(generation: str) -> None:
    """There is no replica to hand over to, and what it has can be read."""
    cluster = Refused(generation)
    for broker in (1, 2):
        cluster.world.crash(broker)
    cluster.until(lambda: set(cluster.core(0).metadata.live_brokers) == {0} == set(cluster.isr("old")))
    cluster.disk(0).refuse("append", OLD)
    for _ in range(3):
        assert cluster.acknowledged("old") is ErrorCode.KAFKA_STORAGE_ERROR
        cluster.world.advance(10_000)
    assert cluster.led("old") == 0
    cluster.disk(0).mend()
    assert cluster.acknowledged("old") is ErrorCode.NONE


def test_full_disks_everywhere_do_not_make_leaders_run_in_circles(cluster: Refused) -> None:
    """Each replica asks at most every ten seconds, however often producers try."""
    for broker in range(3):
        cluster.disk(broker).refuse("append", OLD)
    until = cluster.world.now + 60_000
    epoch = state_of(cluster).leader_epoch
    while cluster.world.now < until:
        if cluster.led("old") != NO_LEADER:
            cluster.acknowledged("old")
        cluster.world.advance(100)
    assert state_of(cluster).leader_epoch - epoch < 60
    for broker in range(3):
        cluster.disk(broker).mend()
    cluster.until(lambda: cluster.led("old") != NO_LEADER and cluster.isr("old") == [0, 1, 2], 120_000)
    cluster.until(lambda: cluster.acknowledged("old") is ErrorCode.NONE)


def state_of(cluster: Refused) -> PartitionState:
    state = cluster.state("old")
    assert state is not None
    return state
