"""Producer ids: one to a producer, never one to two, whatever happens to brokers and to their connections."""

from hypothesis import given
from hypothesis import strategies as st
from tests.core.administrator import Administrator

from tidelog.core import keeper_paths
from tidelog.core.config import BrokerConfig
from tidelog.core.context import Context
from tidelog.core.effects import KeeperCall, Reply
from tidelog.core.generations import GENERATIONS
from tidelog.core.keeper_port import Create, Delete, KeeperReply
from tidelog.core.keeper_tasks import KeeperClient
from tidelog.core.messages import InitProducerIdRequest, InitProducerIdResponse
from tidelog.core.producer_ids import BLOCK_SIZE, RESERVE, TRY_AGAIN, ProducerIds
from tidelog.core.types import BrokerId
from tidelog.keeper.tree import Tree
from tidelog.wire.errors import ErrorCode


def init(admin: Administrator, broker: int) -> int:
    answer = admin.ask(InitProducerIdRequest(), InitProducerIdResponse, to=broker)
    assert (answer.error, answer.producer_epoch) == (ErrorCode.NONE, 0)
    return answer.producer_id


def test_brokers_take_blocks_and_give_ids_from_them() -> None:
    """A thousand at a time, written down as Kafka does."""
    admin = Administrator()
    given_out = [init(admin, broker) for broker in (1, 1, 0, 1, 2, 0)]
    assert given_out == [0, 1, 1000, 2, 2000, 1001]
    assert admin.value(keeper_paths.PRODUCER_ID_BLOCK) == {
        "version": 1,
        "broker": 2,
        "block_start": "2000",
        "block_end": "2999",
    }


def test_a_rebooted_broker_takes_a_new_block() -> None:
    """It cannot know how many of the old one it gave away."""
    admin = Administrator()
    assert init(admin, 2) == 0
    admin.world.crash(2)
    admin.world.start(2)
    admin.world.settle()
    assert init(admin, 2) == 1000


def test_more_requests_than_a_block_has_ids() -> None:
    """Those that wait when a block runs out are served from the next."""
    admin = Administrator()
    numbers = [admin.send(InitProducerIdRequest(), to=1) for _ in range(BLOCK_SIZE + 5)]
    admin.world.settle()
    ids = [admin.answer(number, InitProducerIdResponse).producer_id for number in numbers]
    assert ids == list(range(BLOCK_SIZE + 5))


def test_requests_wait_while_the_keeper_is_away() -> None:
    """Also through the end of the session: they are served when there is a new one."""
    admin = Administrator()
    admin.world.cut([(1, f"keeper-{member}") for member in range(3)])
    number = admin.send(InitProducerIdRequest(), to=1)
    admin.world.advance(20_000)
    assert number not in admin.answers
    admin.world.heal()
    admin.world.settle()
    assert admin.answer(number, InitProducerIdResponse).producer_id == 0


def test_a_node_that_nobody_can_read_gives_no_ids() -> None:
    """Rather none than some for the second time; as soon as it is mended there are some."""
    admin = Administrator()
    admin.tool(Create(keeper_paths.PRODUCER_ID_BLOCK, "lost"))
    answer = admin.ask(InitProducerIdRequest(), InitProducerIdResponse)
    assert (answer.error, answer.producer_id) == (TRY_AGAIN, -1)
    admin.tool(Delete(keeper_paths.PRODUCER_ID_BLOCK))
    assert init(admin, 0) == 0


def away(admin: Administrator, broker: int) -> None:
    admin.world.cut([(broker, f"keeper-{member}") for member in range(3)])


def test_a_broker_with_a_reserve_has_ids_while_the_keeper_is_away() -> None:
    """The first block before anything is asked for, the next one while a tenth of it is left."""
    admin = Administrator()
    admin.core(1).keep_producer_ids()
    admin.world.settle()
    away(admin, 1)
    first = [init(admin, 1) for _ in range(BLOCK_SIZE - RESERVE)]
    admin.world.heal()
    admin.world.advance(20_000)
    first.append(init(admin, 1))
    away(admin, 1)
    second = [init(admin, 1) for _ in range(RESERVE - 1 + BLOCK_SIZE)]
    assert first + second == list(range(2 * BLOCK_SIZE))


def test_a_reserve_that_cannot_be_had_is_not_asked_for_without_end() -> None:
    admin = Administrator()
    admin.tool(Create(keeper_paths.PRODUCER_ID_BLOCK, "lost"))
    admin.core(1).keep_producer_ids()
    admin.world.settle()
    answer = admin.ask(InitProducerIdRequest(), InitProducerIdResponse, to=1)
    assert answer.error is TRY_AGAIN
    admin.tool(Delete(keeper_paths.PRODUCER_ID_BLOCK))
    assert init(admin, 1) == 0


class Process:
    """One broker's producer ids, its calls to a shared keeper in flight until the test says what happens."""

    def __init__(self, tree: Tree, broker: int) -> None:
        self.tree = tree
        self.session = tree.open_session()
        self.ctx = Context(
            BrokerId(broker), BrokerConfig(), GENERATIONS["epoch"], GENERATIONS["epoch"].guards
        )
        self.keeper = KeeperClient(self.ctx)
        self.ids = ProducerIds(self.ctx, self.keeper)
        self.given: list[int] = []
        self.calls: list[KeeperCall] = []
        self.answers: list[KeeperReply] = []

    def collect(self) -> None:
        for effect in self.ctx.effects:
            if isinstance(effect, KeeperCall):
                self.calls.append(effect)
            elif isinstance(effect, Reply) and isinstance(effect.message, InitProducerIdResponse):
                assert effect.message.error is ErrorCode.NONE
                self.given.append(effect.message.producer_id)
        self.ctx.effects.clear()

    def do(self, action: str) -> None:
        if action == "ask":
            self.ids.init("client")
        elif action == "ask for many":
            for _ in range(BLOCK_SIZE // 2):
                self.ids.init("client")
        elif action == "keep some":
            self.ids.keep_reserve()
        elif action == "execute" and self.calls:
            call = self.calls.pop(0)
            result, _ = self.tree.apply(self.session, call.operation)
            self.answers.append(KeeperReply(call.call, result))
        elif action == "answer" and self.answers:
            self.keeper.answered(self.answers.pop(0))
        elif action == "break":
            self.calls, self.answers = [], []
            self.keeper.resend()
        elif action == "new session":
            self.calls, self.answers = [], []
            self.keeper.forget()
            self.ids.session_started()
        self.collect()


def test_two_processes_under_one_broker_id_never_share_a_block() -> None:
    """An old process that was thought dead and its successor make the very same write: one of them is
    refused and must not take the block for its own, though the node says its name."""
    tree = Tree()
    twins = [Process(tree, 1), Process(tree, 1)]
    for _ in range(3):
        for action in ("ask", *["execute", "answer"] * 6):
            for process in twins:
                process.do(action)
    assert sorted(id_ for process in twins for id_ in process.given) == [0, 1, 2, 1000, 1001, 1002]


ACTIONS = ("ask", "ask for many", "keep some", "execute", "answer", "break", "new session", "reboot")


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(ACTIONS)), max_size=120))
def test_no_id_is_given_out_twice(steps: list[tuple[int, str]]) -> None:
    """Several brokers, two of them processes under the same id, with calls and answers lost, sessions lost
    and processes replaced at any moment."""
    tree = Tree()
    brokers = (0, 1, 1, 2)
    processes = [Process(tree, broker) for broker in brokers]
    buried: list[Process] = []
    for number, action in steps:
        if action == "reboot":
            buried.append(processes[number])
            processes[number] = Process(tree, brokers[number])
        else:
            processes[number].do(action)
    given_out = [id_ for process in (*processes, *buried) for id_ in process.given]
    assert len(given_out) == len(set(given_out))


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(ACTIONS[:-1])), max_size=60))
def test_everybody_is_served_in_the_end(steps: list[tuple[int, str]]) -> None:
    """When calls get through again, no producer is left waiting."""
    tree = Tree()
    processes = [Process(tree, broker) for broker in range(3)]
    asked = [0, 0, 0]
    for number, action in steps:
        asked[number] += {"ask": 1, "ask for many": BLOCK_SIZE // 2}.get(action, 0)
        processes[number].do(action)
    for process in processes:
        process.do("break")
        while process.calls or process.answers:
            process.do("execute")
            process.do("answer")
    assert [len(process.given) for process in processes] == asked
