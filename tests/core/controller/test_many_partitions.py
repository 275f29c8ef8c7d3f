"""What changes many partitions at once costs the keeper, and the other brokers, a few requests and not one
for each partition. What comes of it is what would have come of changing one after the other."""

from collections import Counter

import pytest
from tests.core.administrator import Administrator

from tidelog.core import keeper_paths
from tidelog.core.controller import broker_channels, requests, state_machines
from tidelog.core.effects import ReplyTo
from tidelog.core.generations import GENERATIONS
from tidelog.core.keeper_port import Multi, Operation, Result, SetValue
from tidelog.core.messages import (
    AlterIsrRequest,
    AlterIsrResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControlRequest,
    ElectLeadersRequest,
    LeaderAndIsrRequest,
    UpdateMetadataRequest,
)
from tidelog.core.metadata_cache import MetadataCache
from tidelog.core.replication.control_requests import ControlRequests
from tidelog.core.types import BrokerId, Millis, PartitionState, TopicPartition
from tidelog.keeper.tree import Notifications, Tree
from tidelog.scenario.setup import Setup
from tidelog.wire.errors import ErrorCode

PARTITIONS = 48
PER_WRITE = 20
WRITES = 4
"""An election for a third of the partitions, in one write; one replica less in the ISR of all others, in
three: all are looked at, the elected included."""
PER_REQUEST = 20
ISR_GENERATIONS = ("hw", "kip101", "epoch")


OPERATIONS: list[Operation] = []
"""What the keeper was asked."""
TOLD: list[UpdateMetadataRequest] = []
"""The requests that brokers received."""
ASSIGNED: list[LeaderAndIsrRequest] = []


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    apply, update = Tree.apply, MetadataCache.update

    def applied(tree: Tree, session: int, operation: Operation) -> tuple[Result, Notifications]:
        OPERATIONS.append(operation)
        return apply(tree, session, operation)

    def updated(cache: MetadataCache, request: UpdateMetadataRequest) -> list[str]:
        TOLD.append(request)
        return update(cache, request)

    def received(obeying: ControlRequests, request: ControlRequest, sender: ReplyTo, now: Millis) -> None:
        if isinstance(request, LeaderAndIsrRequest):
            ASSIGNED.append(request)
        receive(obeying, request, sender, now)

    receive = ControlRequests.receive
    monkeypatch.setattr(ControlRequests, "receive", received)
    monkeypatch.setattr(broker_channels, "PARTITIONS_PER_REQUEST", PER_REQUEST)
    for module in (state_machines, requests):
        monkeypatch.setattr(module, "PARTITIONS_PER_WRITE", PER_WRITE)
    monkeypatch.setattr(Tree, "apply", applied)
    monkeypatch.setattr(MetadataCache, "update", updated)


class Cluster(Administrator):
    """Three brokers, and a topic of many partitions on all of them."""

    def __init__(self, generation: str = "epoch") -> None:
        super().__init__(Setup(brokers=3, generation=generation))
        assert self.create("t", PARTITIONS).error is ErrorCode.NONE
        self.forget()

    def forget(self) -> None:
        """Count from now on."""
        OPERATIONS.clear()
        TOLD.clear()
        ASSIGNED.clear()

    @property
    def writes(self) -> list[Operation]:
        """Transactions that change the state of a partition."""
        return [
            operation
            for operation in OPERATIONS
            if isinstance(operation, Multi) and operation.writes[-1].path.startswith(keeper_paths.TOPICS)
        ]

    @property
    def states(self) -> dict[int, PartitionState]:
        found = {number: self.state("t", number) for number in range(PARTITIONS)}
        return {number: state for number, state in found.items() if state is not None}

    def assignment(self, number: int) -> tuple[BrokerId, ...]:
        return self.core(self.controller).metadata.topics["t"][number].replicas

    def lose(self, broker: int) -> None:
        self.forget()
        self.world.crash(broker)
        # Twice the lag time; where a leader writes to the keeper, one partition after the other.
        self.until(lambda: all(broker not in state.isr for state in self.states.values()), 70_000)
        self.world.settle()


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_the_death_of_a_broker(generation: str) -> None:
    cluster = Cluster(generation)
    cluster.lose(2)
    assert len(cluster.writes) <= WRITES
    assert len(TOLD) <= 8
    for number, state in cluster.states.items():
        left = [broker for broker in cluster.assignment(number) if broker != 2]
        assert (state.leader, list(state.isr), state.leader_epoch) == (left[0], left, 1)
        assert cluster.core(left[0]).replicas[TopicPartition("t", number)].leader_epoch == 1


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_the_death_of_the_controller(generation: str) -> None:
    """Its successor takes it out of all ISRs first, and then elects: two epochs for what it led. Before 2.0
    it only elects, and the leaders of the others shrink their ISRs: one epoch less."""
    early = not GENERATIONS[generation].takes_dead_replicas_offline
    cluster = Cluster(generation)
    cluster.lose(0)
    cluster.until(lambda: all(state.leader >= 0 for state in cluster.states.values()))
    assert len(cluster.writes) <= WRITES
    for number, state in cluster.states.items():
        first, *others = cluster.assignment(number)
        left = [broker for broker in (first, *others) if broker != 0]
        assert (state.leader, list(state.isr)) == (left[0], left)
        assert state.leader_epoch == (2 if first == 0 else 1) - early


def test_a_write_that_is_refused_costs_its_own_partition_a_second_try() -> None:
    """Another has written the state of one partition, so the transaction with it fails as a whole."""
    cluster = Cluster()
    path = keeper_paths.state_path(TopicPartition("t", 7))
    cluster.tool(SetValue(path, cluster.value(path)))
    cluster.lose(2)
    assert WRITES < len(cluster.writes) <= WRITES + PER_WRITE + 1
    for number, state in cluster.states.items():
        left = [broker for broker in cluster.assignment(number) if broker != 2]
        assert (state.leader, list(state.isr), state.leader_epoch) == (left[0], left, 1)


def test_a_broker_that_has_caught_up() -> None:
    """Its leaders ask for each partition by itself; those that wait are served together."""
    cluster = Cluster()
    cluster.lose(2)
    cluster.forget()
    cluster.world.start(2)
    cluster.until(lambda: all(len(state.isr) == 3 for state in cluster.states.values()))
    cluster.world.settle()
    assert len(cluster.writes) < PARTITIONS / 4
    assert len(TOLD) < 3 * PARTITIONS / 4
    assert {state.leader_epoch for state in cluster.states.values()} == {1}


def test_leadership_that_goes_back() -> None:
    cluster = Cluster()
    cluster.lose(2)
    cluster.world.start(2)
    cluster.until(lambda: all(len(state.isr) == 3 for state in cluster.states.values()))
    cluster.forget()
    numbers = [number for number in range(PARTITIONS) if cluster.assignment(number)[0] == 2]
    for number in numbers:
        cluster.send(ElectLeadersRequest(tp=TopicPartition("t", number)))
    cluster.world.settle()
    assert [cluster.states[number].leader for number in numbers] == [2] * len(numbers)
    assert len(cluster.writes) < len(numbers) / 4
    assert len(TOLD) < 3 * len(numbers) / 4


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_a_broker_that_leaves(generation: str) -> None:
    """It is answered when all its leaderships have moved."""
    cluster = Cluster(generation)
    cluster.forget()
    epoch = cluster.core(2).ctx.broker_epoch
    answer = cluster.ask(
        ControlledShutdownRequest(broker=BrokerId(2), broker_epoch=epoch), ControlledShutdownResponse
    )
    assert (answer.error, answer.remaining) == (ErrorCode.NONE, ())
    assert all(state.leader != 2 for state in cluster.states.values())
    assert len(cluster.writes) <= WRITES
    assert len(TOLD) <= 9


def test_the_last_broker_has_nothing_to_wait_for() -> None:
    """No other broker could lead its partitions: it gets that answer at once, and need not ask again."""
    cluster = Cluster()
    cluster.lose(1)
    cluster.lose(2)
    epoch = cluster.core(0).ctx.broker_epoch
    answer = cluster.ask(
        ControlledShutdownRequest(broker=BrokerId(0), broker_epoch=epoch), ControlledShutdownResponse
    )
    assert (answer.error, answer.remaining) == (ErrorCode.NONE, ())


def test_requests_for_one_partition_keep_their_order() -> None:
    """Though they are served together: the second one is made from what the first one left."""
    cluster = Cluster()
    tp = TopicPartition("t", 1)
    before = cluster.states[1]
    leader, epoch = before.leader, cluster.core(before.leader).ctx.broker_epoch
    members = tuple(broker for broker in before.isr if broker != leader)

    def proposal(isr: tuple[BrokerId, ...], version: int) -> AlterIsrRequest:
        epochs = tuple(cluster.core(broker).ctx.broker_epoch for broker in isr)
        return AlterIsrRequest(
            tp=tp,
            broker=leader,
            broker_epoch=epoch,
            leader_epoch=before.leader_epoch,
            isr=isr,
            version=version,
            member_epochs=epochs,
        )

    # The first one is at work when the others come, which then wait for it together.
    other = TopicPartition("t", 2)
    asked = [cluster.send(ElectLeadersRequest(tp=other))]
    asked += [
        cluster.send(proposal((leader, members[0]), before.version)),
        cluster.send(proposal((leader,), before.version + 1)),
        cluster.send(proposal((leader, members[1]), before.version)),
    ]
    cluster.world.settle()
    answers = [cluster.answer(number, AlterIsrResponse) for number in asked[1:]]
    assert [(answer.error, answer.isr) for answer in answers] == [
        (ErrorCode.NONE, (leader, members[0])),
        (ErrorCode.NONE, (leader,)),
        (ErrorCode.INVALID_UPDATE_VERSION, ()),
    ]
    assert cluster.states[1].isr == (leader,)


def test_a_broker_takes_on_a_few_partitions_at_a_time() -> None:
    """It serves others between two requests. Each partition is assigned once."""
    cluster = Cluster()
    assert cluster.create("many", PARTITIONS).error is ErrorCode.NONE
    assert max(len(request.partitions) for request in ASSIGNED) == PER_REQUEST
    assigned = Counter(partition.tp.partition for request in ASSIGNED for partition in request.partitions)
    assert assigned == dict.fromkeys(range(PARTITIONS), 3)
