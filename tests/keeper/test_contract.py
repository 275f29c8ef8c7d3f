"""What the core may expect of a keeper, whichever it is: the tree in this process, the server, ZooKeeper."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from tests.forwarder import until
from tests.keeper.stages import Client, NetworkedStage, Stage

from tidelog.core import keeper_paths
from tidelog.core.assignments import Reassignment, TopicNode
from tidelog.core.keeper_port import (
    Check,
    Children,
    Create,
    Delete,
    Get,
    KeeperError,
    KeeperReply,
    Multi,
    Operation,
    SessionResumed,
    SessionStarted,
    SetValue,
    Stat,
    StoredNode,
    Subtree,
    WatchFired,
)
from tidelog.core.types import (
    BrokerEndpoint,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicPartition,
)
from tidelog.keeper.client import KeeperUnreachable
from tidelog.keeper.values import MalformedValue

# ---------------------------------------------------------------- nodes


async def test_the_nodes_of_every_cluster_are_there_at_once(stage: Stage) -> None:
    """Every client finds the paths that the core needs, and the same cluster id."""
    one, two = await stage.client(), await stage.client()
    for path in keeper_paths.PERSISTENT:
        assert (await one.do(Get(path))).value.stat.owner == 0
    (named,) = (await one.do(Children("/cluster"))).nodes.values()
    assert isinstance(named.value, str)
    assert len(named.value) == 22
    assert (await two.do(Get("/cluster/id"))).value.value == named.value


async def test_a_node_is_created_read_set_and_deleted(stage: Stage) -> None:
    """Versions count the sets, and the transaction of the creation stays."""
    client = await stage.client()
    made = await client.do(Create("/x", [1]))
    assert made.path == "/x"
    created = made.value.created
    assert made.value == Stat(created, version=0, owner=0)
    assert (await client.do(Get("/x"))).value == StoredNode([1], Stat(created, 0, 0))
    assert (await client.do(SetValue("/x", "two"))).value == Stat(created, 1, 0)
    assert (await client.do(SetValue("/x", None, version=1))).value == Stat(created, 2, 0)
    assert (await client.do(Get("/x"))).value == StoredNode(None, Stat(created, 2, 0))
    assert (await client.do(Delete("/x", version=2))).value is None
    assert (await client.ask(Get("/x"))).error is KeeperError.NO_NODE


async def test_every_refusal_has_its_name(stage: Stage) -> None:
    """The core decides by the error, so the same mistake is the same error everywhere."""
    client = await stage.client()
    await client.do(Create("/x"))
    await client.do(Create("/x/y", ephemeral=True))
    refusals: dict[Operation, KeeperError] = {
        Create("/x"): KeeperError.NODE_EXISTS,
        Create("/none/child"): KeeperError.NO_PARENT,
        Create("/x/y/child"): KeeperError.NO_PARENT,
        Get("/none"): KeeperError.NO_NODE,
        Children("/none"): KeeperError.NO_NODE,
        Subtree("/none", watch=True): KeeperError.NO_NODE,
        SetValue("/none", 1): KeeperError.NO_NODE,
        SetValue("/x", 1, version=7): KeeperError.BAD_VERSION,
        Delete("/none"): KeeperError.NO_NODE,
        Delete("/x", version=7): KeeperError.BAD_VERSION,
        Delete("/x"): KeeperError.NOT_EMPTY,
        Check("/x", 7): KeeperError.BAD_VERSION,
        Check("/none", 0): KeeperError.NO_NODE,
    }
    assert {asked: (await client.ask(asked)).error for asked in refusals} == refusals
    assert (await client.do(Check("/x", 0))).value is None


async def test_sequential_names_count_up(stage: Stage) -> None:
    """Ten digits behind the name, counted over all clients, and the caller gets the whole path."""
    one, two = await stage.client(), await stage.client()
    note = Create(f"{keeper_paths.ISR_NOTIFICATIONS}/isr_change_", (TopicPartition("t", 3),), sequential=True)
    made = [(await client.do(note)).path for client in (one, two, one)]
    assert made == [f"{keeper_paths.ISR_NOTIFICATIONS}/isr_change_{number:010}" for number in range(3)]
    assert list((await two.do(Children(keeper_paths.ISR_NOTIFICATIONS))).nodes) == made


async def test_children_and_subtrees_come_with_their_values(stage: Stage) -> None:
    """Full paths in path order: direct children, or everything below, and never the node itself."""
    client = await stage.client()
    for path in ("/a", "/a/z", "/a/b", "/a/b/c", "/a/b-1", "/a/b/c/d", "/ab"):
        await client.do(Create(path, path.upper()))
    children = (await client.do(Children("/a"))).nodes
    assert {path: node.value for path, node in children.items()} == {
        path: path.upper() for path in ("/a/b", "/a/b-1", "/a/z")
    }
    assert list(children) == ["/a/b", "/a/b-1", "/a/z"]
    below = (await client.do(Subtree("/a"))).nodes
    assert [(path, node.value) for path, node in below.items()] == [
        (path, path.upper()) for path in ("/a/b", "/a/b-1", "/a/b/c", "/a/b/c/d", "/a/z")
    ]
    assert below["/a/b/c"] == (await client.do(Get("/a/b/c"))).value
    assert (await client.do(Children("/ab"))).nodes == {}
    assert list((await client.do(Children("/a", values=False))).nodes) == list(children)
    everything = (await client.do(Subtree("/"))).nodes
    assert set(below) | {"/a", "/ab", *keeper_paths.PERSISTENT} <= set(everything)


KNOWN_VALUES: dict[str, Any] = {
    "/brokers/ids/1": BrokerEndpoint("host-1.example", 9092, "az1"),
    "/brokers/ids/2": BrokerEndpoint("::1", 9093),
    "/brokers/topics/t": TopicNode(
        {0: (BrokerId(1), BrokerId(2)), 11: (BrokerId(3), BrokerId(2)), 12: (BrokerId(1), BrokerId(3))},
        {11: Reassignment((BrokerId(3),), (BrokerId(2),)), 12: Reassignment((), (BrokerId(3),))},
    ),
    "/brokers/topics/t/partitions": None,
    "/brokers/topics/t/partitions/0": None,
    "/brokers/topics/t/partitions/0/state": PartitionState(
        BrokerId(1), LeaderEpoch(4), (BrokerId(1), BrokerId(2)), ControllerEpoch(7)
    ),
    "/controller": BrokerId(2),
    "/controller_epoch": 7,
    "/config/topics/t": {"min.insync.replicas": "2", "note": "größer \u2713"},
    "/config/brokers/1": {},
    "/config/changes/config_change_": "topics/t",
    "/isr_change_notification/isr_change_": (TopicPartition("t", 11), TopicPartition("u", 0)),
    "/admin/delete_topics/t": None,
    "/latest_producer_id_block": {"version": 1, "broker": 1, "block_start": "0", "block_end": "999"},
    "/elsewhere": {"any": ["thing", 1, None, True]},
}


async def test_values_of_all_known_paths_survive_the_way(stage: Stage) -> None:
    """What one broker writes another reads as the same value, by any kind of read."""
    writer, reader = await stage.client(), await stage.client()
    for path, value in KNOWN_VALUES.items():
        made = await writer.do(Create(path, value, sequential=path.endswith("_")))
        found = (await reader.do(Get(made.path))).value
        assert found.value == value
        assert type(found.value) is type(value)
        if value is not None:
            await writer.do(SetValue(made.path, value))
    everything = (await reader.do(Subtree("/"))).nodes
    for path, value in KNOWN_VALUES.items():
        (node,) = [node for found, node in everything.items() if found in (path, f"{path}0000000000")]
        assert node == StoredNode(value, Stat(node.stat.created, 0 if value is None else 1, 0))


# ---------------------------------------------------------------- transactions


async def test_a_multi_happens_as_a_whole(stage: Stage) -> None:
    """Each write that makes or changes a node has its stat, all of one transaction, and sees earlier ones."""
    client = await stage.client()
    (session,) = client.sessions
    await client.do(Create("/x"))
    await client.do(Create("/gone"))
    done = await client.do(
        Multi(
            (
                Check("/x", 0),
                Create("/x/a", 1),
                Create("/x/e", 2, ephemeral=True),
                SetValue("/x/a", 3),
                Delete("/gone"),
            )
        )
    )
    _, made, ephemeral, changed, _ = done.value
    assert done.value == [None, Stat(made.created, 0), Stat(made.created, 0, session), changed, None]
    assert changed == Stat(made.created, version=1)
    nodes = (await client.do(Subtree("/x"))).nodes
    assert nodes == {"/x/a": StoredNode(3, changed), "/x/e": StoredNode(2, ephemeral)}
    assert (await client.ask(Get("/gone"))).error is KeeperError.NO_NODE


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (Check("/x", 0), KeeperError.BAD_VERSION),
        (Check("/none", 0), KeeperError.NO_NODE),
        (Create("/x"), KeeperError.NODE_EXISTS),
        (Create("/none/child"), KeeperError.NO_PARENT),
        (SetValue("/x", 1, version=3), KeeperError.BAD_VERSION),
        (Delete("/x/child"), KeeperError.NO_NODE),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, KeeperError) else value.name,
)
async def test_a_refused_multi_leaves_no_trace(stage: Stage, refused: Any, error: KeeperError) -> None:
    """The index of the write that was refused says which; nothing changed, and no watch fired."""
    client, watcher = await stage.client(), await stage.client()
    await client.do(Create("/x"))
    for path in ("/x", "/y"):
        await watcher.ask(Get(path, watch=True))
    await watcher.do(Children("/", watch=True))
    result = await client.ask(Multi((SetValue("/x", 9), Create("/y"), refused, Create("/z"))))
    assert (result.error, result.value) == (error, 2)
    assert (await client.do(Get("/x"))).value.stat.version == 0
    assert (await client.ask(Get("/y"))).error is KeeperError.NO_NODE
    await watcher.settle()
    assert watcher.fired == []


# ---------------------------------------------------------------- order


async def test_calls_are_executed_and_answered_in_order(stage: Stage) -> None:
    """Hundreds at once, lists among them: every read sees exactly the writes that were called before it."""
    client = await stage.client()
    await client.do(Create("/x", 0))
    expected: dict[int, Any] = {}
    for turn in range(1, 101):
        expected[client.call(Create(f"/x/{turn:03}", turn))] = None
        expected[client.call(SetValue("/x", turn))] = None
        expected[client.call(Get("/x", watch=True))] = turn
        if turn % 10 == 0:
            expected[client.call(Subtree("/x") if turn % 20 else Children("/x"))] = turn
    await until(lambda: len(client.replies) == len(expected) + 1, "all the answers")
    answers = [notice for notice in client.notices if isinstance(notice, KeeperReply)][1:]
    assert [answer.call for answer in answers] == list(expected)
    for answer in answers:
        turn = expected[answer.call]
        if turn is not None and isinstance(answer.result.value, StoredNode):
            assert answer.result.value.value == turn
        elif turn is not None:
            assert [node.value for node in answer.result.nodes.values()] == list(range(1, turn + 1))


async def test_a_watch_is_heard_before_the_news_is_read(stage: Stage) -> None:
    """Who watches a node and reads another that was written later has heard of the first."""
    writer, reader = await stage.client(), await stage.client()
    await writer.do(Create("/flag"))
    for turn in range(20):
        await reader.ask(Get(f"/{turn}", watch=True))
        writer.call(Create(f"/{turn}"))
        writer.call(SetValue("/flag", turn))
        while (await reader.do(Get("/flag"))).value.value != turn:
            pass
        assert WatchFired(f"/{turn}", children=False) in reader.fired


# ---------------------------------------------------------------- watches


async def test_a_watch_fires_once(stage: Stage) -> None:
    """The first change after the read, and no second one; a new read is a new watch."""
    client, writer = await stage.client(), await stage.client()
    await writer.do(Create("/x"))
    for _ in range(2):
        await client.do(Get("/x", watch=True))  # twice the same watch is one watch
    for value in range(3):
        await writer.do(SetValue("/x", value))
    await client.settle()
    assert client.fired == [WatchFired("/x", children=False)]
    await client.do(Get("/x", watch=True))
    await writer.do(Delete("/x"))
    await client.settle()
    assert client.fired == [WatchFired("/x", children=False)] * 2


async def test_a_missing_node_can_be_watched(stage: Stage) -> None:
    """A broker waits for its controller, or for its own former life to end."""
    client, writer = await stage.client(), await stage.client()
    assert (await client.ask(Get("/x", watch=True))).error is KeeperError.NO_NODE
    await writer.do(Create("/x"))
    assert await client.hears(1) == [WatchFired("/x", children=False)]


async def test_a_child_watch_hears_of_children_only(stage: Stage) -> None:
    """Children that come and go, at one level: not what they hold, and not what is below them."""
    client, writer = await stage.client(), await stage.client()
    await writer.do(Create("/x"))
    await writer.do(Create("/x/a"))
    await client.do(Children("/x", watch=True))
    await client.do(Subtree("/x", watch=True))
    await writer.do(SetValue("/x/a", 1))
    await writer.do(SetValue("/x", 1))
    await writer.do(Create("/x/a/deeper"))
    await client.settle()
    assert client.fired == []
    await writer.do(Create("/x/b"))
    await writer.do(Create("/x/c"))
    await client.settle()
    assert client.fired == [WatchFired("/x", children=True)]
    await client.do(Children("/x", watch=True))
    await writer.do(Delete("/x/b"))
    await client.settle()
    assert client.fired == [WatchFired("/x", children=True)] * 2


async def test_the_end_of_a_watched_node_is_heard_by_both_kinds_of_watch(stage: Stage) -> None:
    """Also by the watch on its parent; a client's own changes fire its watches too."""
    client = await stage.client()
    await client.do(Create("/x"))
    await client.do(Get("/x", watch=True))
    await client.do(Children("/x", watch=True))
    await client.do(Children("/", watch=True))
    await client.do(Delete("/x"))
    await client.settle()
    assert sorted((watch.path, watch.children) for watch in client.fired) == [
        ("/", True),
        ("/x", False),
        ("/x", True),
    ]


async def test_no_change_is_missed_however_the_reads_fall(stage: Stage) -> None:
    """A reader that reads again on every watch ends up with the last value, under a storm of writes."""
    reader, writer = await stage.client(), await stage.client()
    await writer.do(Create("/x", 0))
    seen: list[int] = []

    async def follow() -> None:
        heard = 0
        while not seen or seen[-1] != 200:
            nodes = (await reader.do(Children("/", watch=True))).nodes
            seen.append((await reader.do(Get("/x", watch=True))).value.value)
            if seen[-1] == 200:
                assert "/last" in nodes
            heard = max(heard + 1, len(reader.fired))
            await reader.hears(heard)

    async def write() -> None:
        for value in range(1, 200):
            writer.call(SetValue("/x", value))
            if value % 20 == 0:
                await writer.settle()
        await writer.do(Create("/last"))
        await writer.do(SetValue("/x", 200))

    following = asyncio.create_task(follow())
    await write()
    await until(lambda: bool(seen) and seen[-1] == 200, "the last value")
    following.cancel()
    await asyncio.wait([following])
    assert seen == sorted(seen)


# ---------------------------------------------------------------- sessions


async def test_a_session_is_told_first(stage: Stage) -> None:
    """With an id of its own, and from then on there is a connection."""
    client, other = await stage.client(), await stage.client()
    assert client.notices == [SessionStarted(client.sessions[0])]
    assert client.connection.connected
    assert client.sessions[0] not in (0, *other.sessions)


async def test_ephemeral_nodes_live_as_long_as_their_session(stage: Stage) -> None:
    """Closing deletes them at once, and nothing else; watches fire."""
    client, other = await stage.client(), await stage.client()
    await client.do(Create("/brokers/ids/1", BrokerEndpoint("h", 1), ephemeral=True))
    await client.do(Create("/kept"))
    await other.do(Create("/brokers/ids/2", BrokerEndpoint("h", 2), ephemeral=True))
    found = (await other.do(Children("/brokers/ids", watch=True))).nodes
    assert [node.stat.owner for node in found.values()] == [client.sessions[0], other.sessions[0]]
    await client.connection.close()
    assert not client.connection.connected
    assert await other.hears(1) == [WatchFired("/brokers/ids", children=True)]
    assert list((await other.do(Children("/brokers/ids"))).nodes) == ["/brokers/ids/2"]
    assert (await other.do(Get("/kept"))).value.stat.owner == 0


async def test_broker_epochs_only_grow(stage: Stage) -> None:
    """Each registration of a broker has a larger creation id than all before it, in whichever session."""
    epochs = []
    for _ in range(3):
        client = await stage.client()
        for path in ("/brokers/ids/1", "/brokers/ids/2"):
            epochs.append((await client.do(Create(path, ephemeral=True))).value.created)
        await client.do(Delete("/brokers/ids/2"))
        (made,) = (await client.do(Multi((Create("/brokers/ids/2", ephemeral=True),)))).value
        epochs.append(made.created)
        await client.connection.close()
    assert all(earlier < later for earlier, later in pairwise(epochs)), epochs


async def test_a_broken_connection_resumes_its_session(stage: Stage) -> None:
    """The ephemeral nodes are still there and still ours, and calls work as before."""
    client = await stage.client()
    await client.do(Create("/brokers/ids/1", ephemeral=True))
    for times in (1, 2):
        stage.cut(client)
        await until(lambda: not client.connection.connected, "the break is noticed")
        stage.mend(client)
        await until(lambda times=times: client.times_resumed == times, "the session is back")  # type: ignore[misc]
        assert client.connection.connected
        assert (await client.do(Get("/brokers/ids/1"))).value.stat.owner == client.sessions[0]
    assert len(client.sessions) == 1


async def test_what_happened_meanwhile_is_heard_after_the_resumption(stage: Stage) -> None:
    """Watches that were pending when the connection broke fire once it is back, and then no more."""
    client, other = await stage.client(), await stage.client()
    await other.do(Create("/changed"))
    await other.do(Create("/deleted"))
    await client.do(Get("/changed", watch=True))
    await client.do(Get("/deleted", watch=True))
    await client.ask(Get("/created", watch=True))
    await client.do(Children("/brokers/ids", watch=True))
    stage.cut(client)
    await until(lambda: not client.connection.connected, "the break is noticed")
    await other.do(SetValue("/changed", 1))
    await other.do(Delete("/deleted"))
    await other.do(Create("/created"))
    await other.do(Create("/brokers/ids/1", ephemeral=True))
    assert client.fired == []
    stage.mend(client)
    await client.hears(4)
    news = client.notices[client.notices.index(SessionResumed()) + 1 :]
    assert sorted((n.path, n.children) for n in news if isinstance(n, WatchFired)) == [
        ("/brokers/ids", True),
        ("/changed", False),
        ("/created", False),
        ("/deleted", False),
    ]
    await other.do(SetValue("/changed", 2))
    await client.settle()
    assert len(client.fired) == 4


async def test_a_watch_set_after_the_resumption_works(stage: Stage) -> None:
    """And what was set before does not fire a second time."""
    client, other = await stage.client(), await stage.client()
    await other.do(Create("/x"))
    await client.do(Get("/x", watch=True))
    stage.cut(client)
    await until(lambda: not client.connection.connected, "the break is noticed")
    stage.mend(client)
    await client.hears(1)
    await client.do(Get("/x", watch=True))
    await other.do(SetValue("/x", 1))
    await client.settle()
    assert client.fired == [WatchFired("/x", children=False)] * 2


async def test_a_call_without_a_connection_is_dropped(stage: Stage) -> None:
    """The core repeats at the resumption what it still wants; a request raises KeeperUnreachable."""
    client = await stage.client()
    stage.cut(client)
    await until(lambda: not client.connection.connected, "the break is noticed")
    client.call(Create("/x"))
    with pytest.raises(KeeperUnreachable):
        await client.connection.request(Create("/x"), timeout_s=0.05)
    stage.mend(client)
    await until(lambda: client.times_resumed == 1, "the session is back")
    assert (await client.ask(Get("/x"))).error is KeeperError.NO_NODE
    assert list(client.replies) == [2]


async def test_an_expired_session_is_followed_by_a_new_one(stage: Stage) -> None:
    """Its ephemeral nodes are gone, others heard of it, its watches are dead, and its calls were dropped."""
    client, other = await stage.client(), await stage.client()
    await client.do(Create("/brokers/ids/1", ephemeral=True))
    await client.ask(Get("/x", watch=True))
    await other.do(Get("/brokers/ids/1", watch=True))
    await stage.expire(client)
    assert await other.hears(1) == [WatchFired("/brokers/ids/1", children=False)]
    await until(lambda: len(client.sessions) == 2, "a new session")
    assert client.sessions[0] != client.sessions[1]
    assert client.times_resumed == 0
    assert (await client.ask(Get("/brokers/ids/1"))).error is KeeperError.NO_NODE
    again = (await client.do(Create("/brokers/ids/1", ephemeral=True))).value
    assert again.owner == client.sessions[1]
    await other.do(Create("/x"))
    await client.settle()
    assert client.fired == []


async def test_no_answer_crosses_from_one_session_into_the_next(stage: Stage) -> None:
    """Whatever was on its way when the session ended stays unanswered for ever, or was answered before."""
    client, other = await stage.client(), await stage.client()
    await other.do(Create("/x"))
    calls = [client.call(Create(f"/x/{number}", ephemeral=True)) for number in range(50)]
    await stage.expire(client)
    await until(lambda: len(client.sessions) == 2, "a new session")
    started = client.notices.index(SessionStarted(client.sessions[1]))
    await client.settle()
    assert not any(isinstance(n, KeeperReply) and n.call in calls for n in client.notices[started:])
    assert (await other.do(Children("/x"))).nodes == {}


# ---------------------------------------------------------------- with a wire in between


async def test_silence_expires_a_session(networked: NetworkedStage) -> None:
    """A client that is cut off loses its session after its time-out, and starts again when it is back."""
    client, other = await networked.client(timeout_ms=1000), await networked.client()
    await client.do(Create("/brokers/ids/1", ephemeral=True))
    await other.do(Get("/brokers/ids/1", watch=True))
    sessions = len(client.sessions)
    networked.cut(client)
    assert await other.hears(1) == [WatchFired("/brokers/ids/1", children=False)]
    assert not client.connection.connected
    networked.mend(client)
    await until(lambda: len(client.sessions) > sessions, "a new session")
    assert client.sessions[-1] not in client.sessions[:-1]


async def test_a_wire_that_swallows_everything_is_noticed(networked: NetworkedStage) -> None:
    """Nothing breaks, nothing answers: the client gives the connection up on its own, and comes back."""
    client = await networked.client(timeout_ms=1500)
    assert client.line is not None
    client.line.freeze()
    await until(lambda: not client.connection.connected, "the silence is noticed")
    noticed = len(client.notices)
    client.line.thaw()
    await until(lambda: client.connection.connected and len(client.notices) > noticed, "it is back")
    await client.do(Get("/"))


async def test_idle_sessions_are_kept_alive(networked: NetworkedStage) -> None:
    """No client sends anything for several time-outs, and every session is still the same.

    If the machine was stopped for a large part of the time-out, a session may rightly end. Only then there is
    another round, with longer ones.
    """
    asking = await networked.client()
    for timeout_ms in (1000, 4000, 16_000):
        clients = [await networked.client(timeout_ms=timeout_ms) for _ in range(5)]
        stood_still_s = await slowest_answer(asking, 2.5 * timeout_ms / 1000)
        ended = [client.notices for client in clients if len(client.notices) > 1]
        if not ended:
            assert all(client.connection.connected for client in clients)
            return
        assert stood_still_s > timeout_ms / 3000, ended
    pytest.fail("the machine stalls for seconds again and again")


async def slowest_answer(client: Client, seconds: float) -> float:
    """Ask for a while. The longest time of an answer is how long the keeper or this process was stopped."""
    loop = asyncio.get_running_loop()
    slowest, asked = 0.0, loop.time()
    end = asked + seconds
    while asked < end:
        await client.ask(Get("/"))
        slowest, asked = max(slowest, loop.time() - asked), loop.time()
    return slowest


async def test_a_keeper_that_comes_later_is_found(networked: NetworkedStage) -> None:
    """A broker may be started first. It has no session until there is a keeper, and then has one."""
    client = await networked.unconnected(cut=True)
    assert client.line is not None
    await until(lambda: client.line is not None and client.line.accepted >= 3, "it keeps trying")
    assert client.notices == []
    assert not client.connection.connected
    with pytest.raises(KeeperUnreachable):
        await client.connection.request(Get("/"), timeout_s=0.05)
    networked.mend(client)
    await until(lambda: len(client.sessions) == 1, "a session")
    await client.do(Get("/"))


async def test_answers_lost_on_the_way_are_asked_for_again(networked: NetworkedStage) -> None:
    """Connections that break in the middle of everything: repeating what is unanswered gets it all done."""
    client = await networked.client()
    assert client.line is not None
    await client.do(Create("/x"))
    unanswered = {client.call(Create(f"/x/{number:03}")): Create(f"/x/{number:03}") for number in range(100)}
    for _ in range(3):
        client.line.drop()
        resumed = client.times_resumed
        await until(lambda resumed=resumed: client.times_resumed > resumed, "the session is back")  # type: ignore[misc]
        for number in [number for number in unanswered if number in client.replies]:
            del unanswered[number]
        again = {client.call(operation): operation for operation in unanswered.values()}
        unanswered = again
    await until(lambda: all(number in client.replies for number in unanswered), "the rest")
    assert len((await client.do(Children("/x"))).nodes) == 100
    assert len(client.sessions) == 1


async def test_a_request_is_answered_or_says_why_not(networked: NetworkedStage) -> None:
    """Tools await one answer at a time, beside the calls of the core."""
    client = await networked.client()
    assert (await client.connection.request(Create("/x", 1))).path == "/x"
    assert (await client.connection.request(Create("/x", 1))).error is KeeperError.NODE_EXISTS
    assert client.line is not None
    client.line.freeze()
    waiting = asyncio.create_task(client.connection.request(Get("/x")))
    await asyncio.sleep(0)
    networked.cut(client)
    with pytest.raises(KeeperUnreachable):
        await waiting
    assert client.replies == {}


async def test_an_unreadable_node_is_named_and_left_out(
    networked: NetworkedStage, caplog: pytest.LogCaptureFixture
) -> None:
    """Foreign bytes stop no client: calls do not see the node, requests name it."""
    client = await networked.client()
    await client.do(Create("/brokers/topics/good", TopicNode({0: (BrokerId(1),)})))
    await networked.put("/brokers/topics/bad", b'{"version":2,"partitions":[]}')
    assert list((await client.do(Children("/brokers/topics"))).nodes) == ["/brokers/topics/good"]
    assert (await client.ask(Get("/brokers/topics/bad"))).error is KeeperError.NO_NODE
    assert "unreadable at /brokers/topics/bad" in caplog.text
    with pytest.raises(MalformedValue, match="/brokers/topics/bad"):
        await client.connection.request(Get("/brokers/topics/bad"))


async def test_a_call_that_is_too_large_is_not_sent(
    networked: NetworkedStage, caplog: pytest.LogCaptureFixture
) -> None:
    """The keeper would close the connection, again and again; so the client answers it itself, in order.
    Without an answer the caller would wait forever, and everything behind it."""
    client = await networked.client()
    large = "v" * 5_000_000
    assert (await client.connection.request(Create("/x", large))).error is KeeperError.TOO_LARGE
    for operation in (
        Create("/x"),
        SetValue("/x", large),
        Multi((Create("/y"), SetValue("/x", large))),
        Get("/y"),
    ):
        last = client.call(operation)
    await until(lambda: last in client.replies, "the last answer")
    assert [(number, result.error) for number, result in client.replies.items()] == [
        (1, None),
        (2, KeeperError.TOO_LARGE),
        (3, KeeperError.TOO_LARGE),
        (4, KeeperError.NO_NODE),
    ]
    assert client.notices[0] == SessionStarted(client.sessions[0])
    assert len(client.notices) == 5
    assert "a SetValue of" in caplog.text


async def test_closing_twice_or_without_a_connection_does_no_harm(networked: NetworkedStage) -> None:
    """A process that leaves need not know how far it came."""
    never_there: Client = await networked.unconnected(cut=True)
    await never_there.connection.close()
    client = await networked.client()
    await client.connection.close()
    await client.connection.close()
    assert not client.connection.connected
