"""A controller alone with a keeper: its election, its fenced writes, its lines to brokers, its answers."""

from dataclasses import replace
from typing import TypeVar

import pytest
from tests.core.harness import TP, ids

from tidelog.core import keeper_paths
from tidelog.core.assignments import TopicNode
from tidelog.core.broker import Broker
from tidelog.core.config import BrokerConfig
from tidelog.core.effects import KeeperCall, Reply, Send
from tidelog.core.events import ControllerElected, ControllerResigned, PartitionStateWritten
from tidelog.core.generations import GENERATIONS
from tidelog.core.keeper_port import Create, KeeperReply, SessionStarted, SetValue, WatchFired
from tidelog.core.messages import (
    AlterIsrRequest,
    AlterIsrResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControlResponse,
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    LeaderAndIsrRequest,
    Message,
    UpdateMetadataRequest,
)
from tidelog.core.reasons import ElectionKind, ResignReason
from tidelog.core.types import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicPartition,
)
from tidelog.keeper.tree import Tree
from tidelog.storage.memory import MemoryStorage
from tidelog.wire.errors import ErrorCode

M = TypeVar("M")
ELSEWHERE = TopicPartition("u", 0)


class LoneController:
    """Broker 0 with a keeper in which brokers 1 and 2 are registered too. It becomes controller; whatever it
    sends to the others stays in ``sent``."""

    def __init__(self, generation: str = "epoch") -> None:
        self.tree = Tree()
        for path in keeper_paths.PERSISTENT:
            self.tree.make_path(path)
        self.others = self.tree.open_session()
        for broker in ids((1, 2)):
            self.tree.apply(self.others, Create(keeper_paths.broker_path(broker), ephemeral=True))
        self.session = self.tree.open_session()
        self.core = Broker(BrokerId(0), MemoryStorage(), GENERATIONS[generation], BrokerConfig())
        self.events: list[object] = []
        self.sent: list[Send] = []
        self.replies: list[Reply] = []
        self.core.keeper_notice(SessionStarted(self.session), 0)
        self.settle()

    def settle(self) -> None:
        """Answer every keeper call at once, and what it sends to itself."""
        while self.core.effects:
            effects = list(self.core.effects)
            self.core.effects.clear()
            for effect in effects:
                if isinstance(effect, KeeperCall):
                    result, _ = self.tree.apply(self.session, effect.operation)
                    self.core.keeper_notice(KeeperReply(effect.call, result), 0)
                elif (isinstance(effect, Send) and effect.to == 0) or (
                    isinstance(effect, Reply) and effect.to == 0
                ):
                    self.core.receive(BrokerId(0), effect.message, 0)
                elif isinstance(effect, Send):
                    self.sent.append(effect)
                elif isinstance(effect, Reply):
                    self.replies.append(effect)
                else:
                    self.events.append(effect)

    def hear(self, message: Message, sender: object) -> None:
        self.core.receive(sender, message, 0)
        self.settle()

    def ask(self, message: Message, kind: type[M]) -> M:
        """The answer to a request."""
        self.hear(message, "asker")
        answer = self.replies[-1].message
        assert isinstance(answer, kind)
        return answer

    def create_topic(self, replicas: tuple[int, ...] = (0, 1, 2)) -> None:
        admin = self.tree.open_session()
        self.tree.apply(admin, Create(keeper_paths.topic_path("t"), TopicNode({0: ids(replicas)})))
        self.core.keeper_notice(WatchFired(keeper_paths.TOPICS, children=True), 0)
        self.settle()

    def kill(self, broker: int) -> None:
        """A broker's node disappears."""
        node = keeper_paths.broker_path(BrokerId(broker))
        survivors = [
            b for b in (1, 2) if b != broker and self.tree.get(keeper_paths.broker_path(BrokerId(b)))
        ]
        assert self.tree.get(node) is not None
        self.tree.close_session(self.others)
        self.others = self.tree.open_session()
        for survivor in survivors:
            self.tree.apply(self.others, Create(keeper_paths.broker_path(BrokerId(survivor)), ephemeral=True))
        self.core.keeper_notice(WatchFired(keeper_paths.BROKERS, children=True), 0)
        self.settle()

    def broker_epoch(self, broker: int) -> BrokerEpoch:
        node = self.tree.get(keeper_paths.broker_path(BrokerId(broker)))
        assert node is not None
        return BrokerEpoch(node.stat.created)

    @property
    def state(self) -> PartitionState | None:
        node = self.tree.get(keeper_paths.state_path(TP))
        return None if node is None else node.value


# ---------------------------------------------------------------- election and fencing


def test_election_claims_the_node_and_raises_the_controller_epoch() -> None:
    """One atomic step: the ephemeral /controller and /controller_epoch + 1."""
    lone = LoneController()
    node, epoch = lone.tree.get(keeper_paths.CONTROLLER), lone.tree.get(keeper_paths.CONTROLLER_EPOCH)
    assert node is not None
    assert epoch is not None
    assert (node.value, node.stat.owner, epoch.value) == (0, lone.session, 1)
    assert ControllerElected(BrokerId(0), ControllerEpoch(1)) in lone.events


def test_a_new_partition_is_led_by_its_first_replica() -> None:
    """New → Online: epoch 0, all live replicas in sync, in assignment order."""
    lone = LoneController()
    lone.create_topic((2, 0, 1))
    assert lone.state == PartitionState(
        BrokerId(2), LeaderEpoch(0), ids((2, 0, 1)), controller_epoch=ControllerEpoch(1)
    )


def test_the_keeper_refuses_the_writes_of_a_deposed_controller() -> None:
    """Every write checks the version of /controller_epoch: once another controller raised it, nothing is
    written any more, and the old one resigns."""
    lone = LoneController()
    lone.tree.apply(lone.tree.open_session(), SetValue(keeper_paths.CONTROLLER_EPOCH, 2))
    lone.create_topic()
    assert lone.state is None
    resigned = [event.reason for event in lone.events if isinstance(event, ControllerResigned)]
    assert resigned == [ResignReason.WRITE_REFUSED]
    assert not lone.core.controller.active


def test_a_deposed_controller_cannot_elect_either() -> None:
    """The state of an existing partition is as safe as a new one."""
    lone = LoneController()
    lone.create_topic((1, 0))
    before = lone.state
    lone.tree.apply(lone.tree.open_session(), SetValue(keeper_paths.CONTROLLER_EPOCH, 2))
    lone.kill(1)
    assert lone.state == before
    assert not lone.core.controller.active


# ---------------------------------------------------------------- the lines to brokers


def test_a_line_carries_one_request_at_a_time_in_order() -> None:
    """Metadata first, then the role that relies on it; the next request leaves when the last was answered."""
    lone = LoneController()
    lone.create_topic()

    def to_broker_1() -> list[Message]:
        return [send.message for send in lone.sent if send.to == 1]

    assert [type(message) for message in to_broker_1()] == [UpdateMetadataRequest]
    kinds = []
    while True:
        request = to_broker_1()[-1]
        assert isinstance(request, UpdateMetadataRequest | LeaderAndIsrRequest)
        kinds.append(type(request))
        before = len(to_broker_1())
        lone.hear(ControlResponse(request_id=request.request_id, error=ErrorCode.NONE), BrokerId(1))
        if len(to_broker_1()) == before:
            break
    assert kinds == [UpdateMetadataRequest, LeaderAndIsrRequest, UpdateMetadataRequest]


def test_a_new_connection_repeats_the_request_in_flight() -> None:
    """The same request with the same number; a late answer to another number changes nothing."""
    lone = LoneController()
    lone.create_topic()
    first = [send for send in lone.sent if send.to == 1]
    lone.core.connected(BrokerId(1))
    lone.settle()
    again = [send for send in lone.sent if send.to == 1]
    assert again == [*first, first[-1]]
    lone.hear(ControlResponse(request_id=999, error=ErrorCode.NONE), BrokerId(1))
    assert [send for send in lone.sent if send.to == 1] == again


def test_requests_name_the_incarnation_they_are_meant_for() -> None:
    """Controller, controller epoch and broker epoch are in every request."""
    lone = LoneController()
    for broker in (1, 2):
        request = next(send.message for send in lone.sent if send.to == broker)
        assert isinstance(request, UpdateMetadataRequest)
        assert (request.controller, request.controller_epoch) == (0, 1)
        assert request.broker_epoch == lone.broker_epoch(broker)


# ---------------------------------------------------------------- ISR proposals


def proposal(lone: LoneController, isr: tuple[int, ...] = (0, 1)) -> AlterIsrRequest:
    """What the leader, broker 0, could ask for now."""
    members = tuple(lone.broker_epoch(broker) for broker in isr)
    return AlterIsrRequest(
        tp=TP,
        broker=BrokerId(0),
        broker_epoch=lone.broker_epoch(0),
        leader_epoch=LeaderEpoch(0),
        isr=ids(isr),
        version=0,
        member_epochs=members,
    )


def test_an_isr_proposal_is_written_without_a_new_epoch() -> None:
    """KIP-497: the controller writes it for the leader; version + 1, the epoch stays."""
    lone = LoneController()
    lone.create_topic()
    answer = lone.ask(proposal(lone), AlterIsrResponse)
    assert (answer.error, list(answer.isr), answer.version) == (ErrorCode.NONE, [0, 1], 1)
    assert lone.state is not None
    assert (lone.state.leader_epoch, list(lone.state.isr)) == (0, [0, 1])


def test_a_repeated_proposal_finds_its_own_write() -> None:
    """The answer was lost and the leader asks again: the same answer, no second write."""
    lone = LoneController()
    lone.create_topic()
    request = proposal(lone)
    first = lone.ask(request, AlterIsrResponse)
    again = lone.ask(request, AlterIsrResponse)
    assert (again.error, again.isr, again.version) == (first.error, first.isr, first.version)


def test_proposals_are_refused() -> None:
    """A deposed leader, an old registration, an outdated version, an unknown partition."""
    lone = LoneController()
    lone.create_topic()
    lone.ask(proposal(lone, (0, 1)), AlterIsrResponse)  # version 1 from here on
    good = replace(proposal(lone, (0,)), version=1)
    for wrong, error in (
        (replace(good, leader_epoch=LeaderEpoch(-1)), ErrorCode.FENCED_LEADER_EPOCH),
        (replace(good, broker_epoch=BrokerEpoch(good.broker_epoch - 1)), ErrorCode.STALE_BROKER_EPOCH),
        (replace(good, version=0), ErrorCode.INVALID_UPDATE_VERSION),
        (replace(good, tp=ELSEWHERE), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        assert lone.ask(wrong, AlterIsrResponse).error is error
    assert lone.state is not None
    assert list(lone.state.isr) == [0, 1]
    assert lone.ask(good, AlterIsrResponse).error is ErrorCode.NONE


def test_a_rebooted_replica_is_not_taken_in() -> None:
    """KIP-903: the proposal counted an incarnation that is gone; its successor has proved nothing yet."""
    lone = LoneController()
    lone.create_topic()
    lone.ask(proposal(lone, (0, 2)), AlterIsrResponse)
    request = replace(proposal(lone, (0, 2, 1)), version=1)
    stale = replace(
        request, member_epochs=(*request.member_epochs[:2], BrokerEpoch(request.member_epochs[2] - 1))
    )
    assert lone.ask(stale, AlterIsrResponse).error is ErrorCode.INELIGIBLE_REPLICA
    assert lone.ask(request, AlterIsrResponse).error is ErrorCode.NONE


def test_a_replica_that_is_leaving_is_not_taken_in_again() -> None:
    """It was taken out of the ISR when it began to leave; its last fetches prove that it has everything, and
    would bring it back for the moment until it is gone."""
    lone = LoneController()
    lone.create_topic()
    leaving = ControlledShutdownRequest(broker=BrokerId(2), broker_epoch=lone.broker_epoch(2))
    assert lone.ask(leaving, ControlledShutdownResponse).error is ErrorCode.NONE
    assert lone.state is not None
    assert list(lone.state.isr) == [0, 1]
    back = replace(
        proposal(lone, (0, 1, 2)), leader_epoch=lone.state.leader_epoch, version=lone.state.version
    )
    assert lone.ask(back, AlterIsrResponse).error is ErrorCode.INELIGIBLE_REPLICA
    assert list(lone.state.isr) == [0, 1]


# ---------------------------------------------------------------- preferred elections


@pytest.mark.parametrize(
    ("leader", "isr", "error"),
    [
        (0, (0, 1), ErrorCode.ELECTION_NOT_NEEDED),
        (1, (1, 0), ErrorCode.NONE),
        (1, (1,), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ],
)
def test_elect_leaders(leader: int, isr: tuple[int, ...], error: ErrorCode) -> None:
    """84 if it leads already, 80 if it is not in sync, else it leads in the next epoch."""
    lone = LoneController()
    admin = lone.tree.open_session()
    for path, value in (
        (keeper_paths.topic_path("t"), TopicNode({0: ids((0, 1))})),
        (f"{keeper_paths.topic_path('t')}/partitions", None),
        (keeper_paths.partition_path(TP), None),
        (
            keeper_paths.state_path(TP),
            PartitionState(BrokerId(leader), LeaderEpoch(4), ids(isr), ControllerEpoch(1)),
        ),
    ):
        lone.tree.apply(admin, Create(path, value))
    lone.core.keeper_notice(WatchFired(keeper_paths.TOPICS, children=True), 0)
    lone.settle()
    assert lone.ask(ElectLeadersRequest(tp=TP), ElectLeadersResponse).error is error
    assert lone.state is not None
    expected = (0, 5, list(isr)) if error is ErrorCode.NONE else (leader, 4, list(isr))
    assert (lone.state.leader, lone.state.leader_epoch, list(lone.state.isr)) == expected


def test_requests_to_somebody_who_is_not_the_controller() -> None:
    """NOT_CONTROLLER (41), and UNKNOWN_TOPIC_OR_PARTITION (3) from one who is but does not know it."""
    lone = LoneController()
    assert lone.ask(ElectLeadersRequest(tp=ELSEWHERE), ElectLeadersResponse).error is (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    lone.create_topic()
    request = proposal(lone)
    lone.tree.apply(lone.tree.open_session(), SetValue(keeper_paths.CONTROLLER_EPOCH, 2))
    lone.kill(1)
    assert lone.ask(ElectLeadersRequest(tp=TP), ElectLeadersResponse).error is ErrorCode.NOT_CONTROLLER
    assert lone.ask(request, AlterIsrResponse).error is ErrorCode.NOT_CONTROLLER


def test_an_election_past_a_leaving_in_sync_replica_is_unclean() -> None:
    """Before KIP-497 a leader may write a leaving replica back into the ISR. That replica is alive and in
    sync, but must not lead: the replica elected in its place may lack records, and the kind of election shows
    that."""
    lone = LoneController("hw")
    lone.create_topic((2, 0, 1))
    leaving = ControlledShutdownRequest(broker=BrokerId(0), broker_epoch=lone.broker_epoch(0))
    assert lone.ask(leaving, ControlledShutdownResponse).error is ErrorCode.NONE
    assert lone.state is not None
    written = replace(lone.state, isr=ids((2, 0)))
    lone.tree.apply(lone.others, SetValue(keeper_paths.state_path(TP), written))
    lone.kill(2)
    assert (lone.state.leader, lone.state.isr) == (-1, (0,))
    lone.ask(ElectLeadersRequest(tp=TP, election=ElectionType.UNCLEAN), ElectLeadersResponse)
    assert (lone.state.leader, lone.state.isr) == (1, (1,))
    elected = [event for event in lone.events if isinstance(event, PartitionStateWritten)][-1]
    assert elected.reason is ElectionKind.UNCLEAN
