"""The keeper's tree keeps ZooKeeper's promises: versions, ephemeral nodes, one-shot watches, atomic multi."""

import copy
import gc
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.effort import tries

from tidelog.core.keeper_port import (
    ANY_VERSION,
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
    WatchFired,
    Write,
)
from tidelog.core.types import InvariantViolation
from tidelog.keeper.tree import Notifications, Tree


def grown(*paths: str) -> tuple[Tree, int]:
    """A tree with these persistent paths, and an open session."""
    tree = Tree()
    for path in paths:
        tree.make_path(path)
    return tree, tree.open_session()


def done(tree: Tree, session: int, operation: Operation) -> Result:
    """The answer to an operation that must succeed."""
    result, _ = tree.apply(session, operation)
    assert result.ok, result
    return result


def fired(tree: Tree, session: int, operation: Operation) -> Notifications:
    """The notifications of an operation that must succeed."""
    result, notifications = tree.apply(session, operation)
    assert result.ok, result
    return notifications


def data(session: int, path: str) -> tuple[int, WatchFired]:
    return session, WatchFired(path, children=False)


def child(session: int, path: str) -> tuple[int, WatchFired]:
    return session, WatchFired(path, children=True)


def refused(tree: Tree, session: int, operation: Operation) -> KeeperError | None:
    """The error of an operation, which must leave no trace in the tree and fire nothing."""
    before = tree.dump()
    result, notifications = tree.apply(session, operation)
    assert tree.dump() == before
    assert notifications == []
    return result.error


# ---------------------------------------------------------------- sessions


def test_session_ids_count_up_from_one_and_are_never_reused() -> None:
    """A session id names one session for ever, so an ephemeral node's owner is never mistaken."""
    tree = Tree()
    assert [tree.open_session(), tree.open_session()] == [1, 2]
    tree.close_session(2)
    assert tree.open_session() == 3
    assert [tree.has_session(session) for session in range(5)] == [False, True, False, True, False]


def test_closing_a_session_deletes_its_ephemeral_nodes_in_path_order() -> None:
    """Others hear of the deletions by path, whatever the order of creation; persistent nodes stay."""
    tree, mine = grown("/ids")
    other = tree.open_session()
    for path in ("/ids/3", "/ids/1", "/ids/2"):
        done(tree, mine, Create(path, ephemeral=True))
        done(tree, other, Get(path, watch=True))
    done(tree, mine, Create("/ids/kept"))
    done(tree, other, Create("/ids/theirs", ephemeral=True))
    assert tree.close_session(mine) == [data(other, "/ids/1"), data(other, "/ids/2"), data(other, "/ids/3")]
    assert list(done(tree, other, Children("/ids")).nodes) == ["/ids/kept", "/ids/theirs"]


def test_closing_a_session_fires_child_watches_on_the_parent_once() -> None:
    """A broker's death fires the watches on the list of brokers: one notification, not one per node."""
    tree, mine = grown("/ids")
    other = tree.open_session()
    done(tree, mine, Create("/ids/1", ephemeral=True))
    done(tree, mine, Create("/ids/2", ephemeral=True))
    done(tree, other, Children("/ids", watch=True))
    assert tree.close_session(mine) == [child(other, "/ids")]


def test_a_closed_session_is_told_nothing() -> None:
    """Its watches die with it: neither its own end nor anything later is reported to it."""
    tree, mine = grown("/ids")
    other = tree.open_session()
    done(tree, mine, Create("/ids/1", ephemeral=True))
    for watcher in (mine, other):
        done(tree, watcher, Get("/ids/1", watch=True))
        done(tree, watcher, Children("/ids", watch=True))
    done(tree, mine, Get("/ids", watch=True))
    assert tree.close_session(mine) == [data(other, "/ids/1"), child(other, "/ids")]
    assert fired(tree, other, SetValue("/ids", 1)) == []
    assert tree.dump()["data watches"] == tree.dump()["child watches"] == {}


def test_closing_twice_changes_nothing() -> None:
    """Expiry and a client's own close may race; the loser finds nothing to do."""
    tree, mine = grown()
    tree.close_session(mine)
    before = tree.dump()
    assert tree.close_session(mine) == []
    assert tree.close_session(99) == []
    assert tree.dump() == before


def test_a_deleted_ephemeral_node_no_longer_belongs_to_its_session() -> None:
    """A node of the same name that another session created later survives the first owner."""
    tree, mine = grown()
    other = tree.open_session()
    done(tree, mine, Create("/leader", ephemeral=True))
    done(tree, other, Delete("/leader"))
    done(tree, other, Create("/leader", "other", ephemeral=True))
    assert tree.close_session(mine) == []
    assert tree.get("/leader") == StoredNode("other", Stat(created=3, version=0, owner=other))


def test_an_operation_of_a_closed_session_is_a_bug_of_the_caller() -> None:
    """The port has no error for it, and silence could hide a zombie's write."""
    tree, mine = grown()
    tree.close_session(mine)
    for session in (mine, 0, 99):
        with pytest.raises(InvariantViolation):
            tree.apply(session, Get("/"))


def test_watches_can_be_forgotten_without_the_session() -> None:
    """When the connection is gone; ephemeral nodes stay, and others' watches too."""
    tree, mine = grown("/ids")
    other = tree.open_session()
    done(tree, mine, Create("/ids/1", ephemeral=True))
    for watcher in (mine, other):
        done(tree, watcher, Get("/ids/1", watch=True))
        done(tree, watcher, Children("/ids", watch=True))
    tree.forget_watches(mine)
    assert fired(tree, other, Delete("/ids/1")) == [data(other, "/ids/1"), child(other, "/ids")]
    assert tree.has_session(mine)


def test_a_tree_can_be_loaded_from_its_dump() -> None:
    """Equal in everything but the watches, and with an equal future."""
    tree, mine = grown("/ids", "/a/b/c")
    tree.close_session(tree.open_session())
    done(tree, mine, Create("/ids/e", 1, ephemeral=True))
    done(tree, mine, Create("/ids/n-", sequential=True))
    done(tree, mine, SetValue("/a/b", (1, 2)))
    twin = Tree.load(tree.dump())
    assert twin.dump() == tree.dump()
    done(tree, mine, Get("/a", watch=True))
    assert Tree.load(tree.dump()).dump() == twin.dump()
    tree.forget_watches(mine)
    for each in (tree, twin):
        done(each, mine, Create("/ids/n-", sequential=True))
        each.close_session(mine)
        each.open_session()
    assert twin.dump() == tree.dump()


# ---------------------------------------------------------------- writes


def test_the_root_exists_always() -> None:
    """The root can be read and set but neither created nor deleted."""
    tree, me = grown()
    assert tree.get("/") == StoredNode(None, Stat(created=0, version=0, owner=0))
    assert refused(tree, me, Create("/")) is KeeperError.NODE_EXISTS
    assert refused(tree, me, Delete("/")) is KeeperError.NOT_EMPTY
    assert done(tree, me, SetValue("/", 7)).value == Stat(created=0, version=1)


def test_create_answers_with_the_stat_and_the_path() -> None:
    """A new node is at version 0, knows its transaction, and its owner only if it is ephemeral."""
    tree, me = grown()
    assert done(tree, me, Create("/a", "x")) == Result(None, Stat(created=1, version=0, owner=0), "/a")
    assert done(tree, me, Create("/b", ephemeral=True)) == Result(None, Stat(2, 0, owner=me), "/b")
    assert done(tree, me, Get("/a")).value == StoredNode("x", Stat(1, 0, 0))
    assert refused(tree, me, Create("/a", "y")) is KeeperError.NODE_EXISTS


def test_create_needs_a_parent_that_may_have_children() -> None:
    """A missing parent and an ephemeral one are the same refusal."""
    tree, me = grown()
    done(tree, me, Create("/e", ephemeral=True))
    assert refused(tree, me, Create("/no/child")) is KeeperError.NO_PARENT
    assert refused(tree, me, Create("/e/child")) is KeeperError.NO_PARENT
    assert refused(tree, me, Create("/e/child-", sequential=True)) is KeeperError.NO_PARENT


@pytest.mark.parametrize("path", ["", "a", "a/b", "/a/", "//a", "/a//b", "//"])
def test_a_path_that_names_no_place_is_never_created(path: str) -> None:
    """Relative paths and empty names are refused, or two spellings would name two nodes."""
    tree, me = grown("/a")
    assert refused(tree, me, Create(path)) is KeeperError.NO_PARENT
    with pytest.raises(InvariantViolation):
        tree.make_path(path)


def test_sequential_nodes_are_numbered_by_their_parent() -> None:
    """Ten digits, counted per parent over every child it ever had, and never given twice."""
    tree, me = grown("/p", "/q")
    numbered = Create("/p/n-", sequential=True, ephemeral=True)
    assert done(tree, me, numbered).path == "/p/n-0000000000"
    assert done(tree, me, numbered).path == "/p/n-0000000001"
    done(tree, me, Delete("/p/n-0000000001"))
    assert done(tree, me, numbered).path == "/p/n-0000000002"
    done(tree, me, Create("/p/plain"))
    assert done(tree, me, Create("/p/", sequential=True)).path == "/p/0000000004"
    assert done(tree, me, Create("/q/n-", sequential=True)).path == "/q/n-0000000000"
    assert done(tree, me, Create("/", sequential=True)).path == "/0000000002"


def test_a_recreated_parent_numbers_from_zero() -> None:
    """The counter belongs to the node, not to its name."""
    tree, me = grown("/p/c")
    done(tree, me, Delete("/p/c"))
    done(tree, me, Delete("/p"))
    tree.make_path("/p")
    assert done(tree, me, Create("/p/n", sequential=True)).path == "/p/n0000000000"


def test_each_set_raises_the_version_and_nothing_else_of_the_stat() -> None:
    """Version +1 per SetValue; creation and owner stay."""
    tree, me = grown()
    done(tree, me, Create("/a", 0, ephemeral=True))
    assert done(tree, me, SetValue("/a", 1)) == Result(None, Stat(1, 1, me))
    assert done(tree, me, SetValue("/a", 1, version=1)).value == Stat(1, 2, me)
    assert tree.get("/a") == StoredNode(1, Stat(1, 2, me))


def test_a_recreated_node_starts_at_version_zero() -> None:
    """What tells it from its predecessor is the transaction that made it."""
    tree, me = grown("/a")
    done(tree, me, SetValue("/a", 1))
    assert done(tree, me, Delete("/a")) == Result()
    assert tree.get("/a") is None
    assert done(tree, me, Create("/a")).value == Stat(created=4, version=0)


@pytest.mark.parametrize("write", [lambda p, v: SetValue(p, 9, v), Delete, Check])
def test_a_versioned_write_needs_the_node_at_that_version(write) -> None:
    """A missing node is NO_NODE, another version BAD_VERSION; ANY_VERSION asks only for existence."""
    tree, me = grown("/a")
    done(tree, me, SetValue("/a", 1))
    assert refused(tree, me, write("/b", ANY_VERSION)) is KeeperError.NO_NODE
    assert refused(tree, me, write("/b", 0)) is KeeperError.NO_NODE
    assert refused(tree, me, write("/a", 0)) is KeeperError.BAD_VERSION
    assert refused(tree, me, write("/a", 2)) is KeeperError.BAD_VERSION
    for version in (1, ANY_VERSION):
        assert copy.deepcopy(tree).apply(me, write("/a", version))[0].ok


def test_only_a_leaf_can_be_deleted() -> None:
    """A node with children is NOT_EMPTY until they are gone; a wrong version is reported first."""
    tree, me = grown("/a/b")
    assert refused(tree, me, Delete("/a")) is KeeperError.NOT_EMPTY
    assert refused(tree, me, Delete("/a", version=5)) is KeeperError.BAD_VERSION
    done(tree, me, Delete("/a/b"))
    done(tree, me, Delete("/a"))


def test_only_successful_writes_are_transactions() -> None:
    """Each counts one, a Multi of many too; reads, refusals and sessions without nodes count nothing."""
    tree, me = grown("/a")
    counted: list[Operation] = [
        SetValue("/a", 1),
        Check("/a", 1),
        Multi((Create("/b"), Create("/c"), Delete("/b"))),
        Delete("/c"),
    ]
    for number, operation in enumerate(counted, start=2):
        done(tree, me, operation)
        assert tree.dump()["zxid"] == number
    for read in (Get("/a", watch=True), Children("/a", watch=True), Subtree("/")):
        done(tree, me, read)
    refused(tree, me, Create("/a"))
    tree.close_session(tree.open_session())
    assert done(tree, me, Create("/d", ephemeral=True)).value.created == 6
    tree.close_session(me)
    assert tree.dump()["zxid"] == 7


# ---------------------------------------------------------------- reads and bootstrapping


def test_children_and_subtree_list_what_is_below_in_path_order() -> None:
    """Full paths with their nodes, sorted, without the node itself; nothing that merely shares a prefix."""
    tree, me = grown("/a/z", "/a/b/c", "/a/b-1", "/ab")
    children = done(tree, me, Children("/a")).nodes
    assert list(children) == ["/a/b", "/a/b-1", "/a/z"]
    assert list(done(tree, me, Subtree("/a")).nodes) == ["/a/b", "/a/b-1", "/a/b/c", "/a/z"]
    assert list(done(tree, me, Children("/")).nodes) == ["/a", "/ab"]
    assert len(done(tree, me, Subtree("/")).nodes) == 6
    assert done(tree, me, Children("/ab")).nodes == {}
    assert all(tree.get(path) == node for path, node in children.items())


def test_an_answer_does_not_change_afterwards() -> None:
    """A listing is what was true at its time: the tree never hands out what it goes on modifying."""
    tree, me = grown("/a/b")
    listing = done(tree, me, Subtree("/")).nodes
    node = tree.get("/a/b")
    before = dict(listing)
    done(tree, me, SetValue("/a/b", 1))
    done(tree, me, Create("/a/c"))
    assert listing == before
    assert node == StoredNode(None, Stat(2, 0))


@pytest.mark.parametrize("read", [Get, Children, Subtree])
def test_reading_what_is_missing_is_no_node(read) -> None:
    """Without a watch a read leaves no trace, found or not."""
    tree, me = grown()
    assert refused(tree, me, read("/missing")) is KeeperError.NO_NODE
    assert refused(tree, me, read("/")) is None


def test_make_path_creates_only_what_is_missing() -> None:
    """Bootstrapping twice is harmless, and watches fire as for any creation."""
    tree, me = grown("/a")
    done(tree, me, SetValue("/a", "kept"))
    done(tree, me, Children("/a", watch=True))
    tree.apply(me, Get("/a/b/c", watch=True))
    assert tree.make_path("/a/b/c") == [child(me, "/a"), data(me, "/a/b/c")]
    before = tree.dump()
    assert tree.make_path("/a/b/c") == tree.make_path("/") == []
    assert tree.dump() == before
    assert tree.get("/a") == StoredNode("kept", Stat(1, 1))
    assert tree.get("/a/b/c") == StoredNode(None, Stat(created=4, version=0))


def test_a_discarded_tree_leaves_no_cycles() -> None:
    """The simulator drops trees by the thousand; none may wait for the garbage collector."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)  # what is found is kept: clusters of other tests leave cycles, too
    try:
        tree, me = grown("/a/b/c")
        done(tree, me, Get("/a", watch=True))
        tree.apply(me, Multi((Create("/e", ephemeral=True), Delete("/a/b/c"), Check("/a", 5))))
        del tree
        gc.collect()
        assert [each for each in gc.garbage if type(each).__module__.startswith("tidelog.keeper.")] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


# ---------------------------------------------------------------- watches


def test_a_data_watch_fires_on_change_deletion_and_creation_once_each_time_it_is_set() -> None:
    """Get sets it also on a missing node, which is how one waits for a creation."""
    tree, me = grown("/a")
    for write in (SetValue("/a", 1), Delete("/a"), Create("/a")):
        tree.apply(me, Get("/a", watch=True))
        assert fired(tree, me, write) == [data(me, "/a")]
    assert fired(tree, me, SetValue("/a", 2)) == []


def test_a_watch_on_a_missing_node_is_set_although_the_answer_is_no_node() -> None:
    """NO_NODE says what is, the watch says when that ends."""
    tree, me = grown()
    result, notifications = tree.apply(me, Get("/a", watch=True))
    assert (result.error, notifications) == (KeeperError.NO_NODE, [])
    assert fired(tree, me, Create("/a")) == [data(me, "/a")]


def test_a_data_watch_ignores_children() -> None:
    """A child that comes, changes or goes is not a change of the node."""
    tree, me = grown("/a")
    done(tree, me, Get("/a", watch=True))
    for write in (Create("/a/b"), SetValue("/a/b", 1), Delete("/a/b"), Check("/a", 0)):
        assert fired(tree, me, write) == []


@pytest.mark.parametrize("read", [Children, Subtree])
def test_a_child_watch_fires_when_a_child_comes_or_goes_or_the_node_goes(read) -> None:
    """Direct children only, and not their values: for both reads the watch is on the path itself."""
    tree, me = grown("/a/b")
    done(tree, me, read("/a", watch=True))
    for write in (SetValue("/a", 1), SetValue("/a/b", 1), Create("/a/b/c"), Delete("/a/b/c"), Create("/ab")):
        assert fired(tree, me, write) == []
    assert fired(tree, me, Create("/a/d")) == [child(me, "/a")]
    assert fired(tree, me, Delete("/a/d")) == []
    done(tree, me, read("/a", watch=True))
    assert fired(tree, me, Delete("/a/b")) == [child(me, "/a")]
    done(tree, me, read("/a", watch=True))
    assert fired(tree, me, Delete("/a")) == [child(me, "/a")]
    done(tree, me, read("/", watch=True))
    assert fired(tree, me, Create("/a")) == [child(me, "/")]


@pytest.mark.parametrize("read", [Children, Subtree])
def test_no_child_watch_on_a_missing_node(read) -> None:
    """There are no children to wait for; the caller must watch for the node itself."""
    tree, me = grown()
    assert refused(tree, me, read("/a", watch=True)) is KeeperError.NO_NODE
    tree.make_path("/a")
    assert fired(tree, me, Create("/a/b")) == []


def test_one_write_fires_data_watches_then_child_watches_each_by_who_asked_first() -> None:
    """The node's own watches come before its parent's, and sessions in the order of their reads."""
    tree, one = grown("/a/b")
    two = tree.open_session()
    for session in (two, one, two):
        done(tree, session, Children("/a", watch=True))
        done(tree, session, Children("/a/b", watch=True))
        done(tree, session, Get("/a/b", watch=True))
    assert fired(tree, one, Delete("/a/b")) == [
        data(two, "/a/b"),
        data(one, "/a/b"),
        child(two, "/a/b"),
        child(one, "/a/b"),
        child(two, "/a"),
        child(one, "/a"),
    ]


def test_children_and_subtree_share_one_watch() -> None:
    """A watch is one per session, path and kind, however often and by whichever read it was set."""
    tree, me = grown("/a")
    for read in (Children("/a", watch=True), Subtree("/a", watch=True), Children("/a")):
        done(tree, me, read)
    assert fired(tree, me, Create("/a/b")) == [child(me, "/a")]


# ---------------------------------------------------------------- multi


def test_later_writes_of_a_multi_see_the_earlier_ones() -> None:
    """One transaction may build on itself; its value lists the stats, None for Delete and Check."""
    tree, me = grown()
    writes: tuple[Write, ...] = (
        Create("/a", 0),
        Create("/a/n-", sequential=True),
        SetValue("/a", 1, version=0),
        Check("/a", 1),
        Delete("/a/n-0000000000"),
        Create("/a/n-", ephemeral=True, sequential=True),
    )
    result = done(tree, me, Multi(writes))
    assert result.value == [Stat(1, 0), Stat(1, 0), Stat(1, 1), None, None, Stat(1, 0, me)]
    assert list(done(tree, me, Subtree("/")).nodes) == ["/a", "/a/n-0000000001"]


@pytest.mark.parametrize(
    ("failing", "error"),
    [
        (Create("/a"), KeeperError.NODE_EXISTS),
        (Create("/a/mine/child"), KeeperError.NO_PARENT),
        (Create("/gone/child"), KeeperError.NO_PARENT),
        (SetValue("/a", 0, version=0), KeeperError.BAD_VERSION),
        (Check("/gone", ANY_VERSION), KeeperError.NO_NODE),
        (Delete("/a"), KeeperError.NOT_EMPTY),
    ],
)
def test_a_multi_that_fails_late_leaves_no_trace(failing: Write, error: KeeperError) -> None:
    """Values, children, counters, ephemeral nodes, watches, transactions: all as before, and no watch fires.

    The error and its index are those of the first write that fails.
    """
    tree, me = grown("/a/b", "/gone")
    other = tree.open_session()
    done(tree, other, Create("/a/theirs", ephemeral=True))
    for path in ("/a", "/a/b", "/a/mine", "/gone"):
        tree.apply(other, Get(path, watch=True))
        tree.apply(other, Children(path, watch=True))
    changing: tuple[Write, ...] = (
        SetValue("/a", 1),
        SetValue("/a", 2),
        Create("/a/mine", ephemeral=True),
        Create("/a/n-", sequential=True),
        Delete("/a/theirs"),
        Delete("/gone"),
    )
    multi = Multi((*changing, failing, Check("/nowhere", 3)))
    before = tree.dump()
    assert tree.apply(me, multi) == (Result(error, len(changing)), [])
    assert tree.dump() == before
    heard = [data(other, "/a"), data(other, "/a/mine"), child(other, "/a"), data(other, "/gone")]
    assert fired(tree, me, Multi(changing)) == [*heard, child(other, "/gone")]


def test_a_refused_multi_takes_a_whole_subtree_back() -> None:
    """Deleted and made again, or made and deleted: undone last first, every step finds its parent."""
    tree, me = grown("/a/b/c")
    done(tree, me, Create("/a/b/n", sequential=True))
    writes: tuple[Write, ...] = (
        Delete("/a/b/n0000000001"),
        Delete("/a/b/c"),
        Delete("/a/b"),
        Create("/a/b", "new"),
        Create("/a/b/n", sequential=True),
        SetValue("/a/b/n0000000000", 1),
        Delete("/a/b/n0000000000"),
    )
    assert refused(tree, me, Multi((*writes, Check("/a", 1)))) is KeeperError.BAD_VERSION
    assert done(tree, me, Create("/a/b/n", sequential=True)).path == "/a/b/n0000000002"


def test_a_multi_notifies_in_write_order_and_each_watch_once() -> None:
    """Several writes may concern one watch; the first one fires it."""
    tree, me = grown("/a", "/b")
    for read in (Get("/a", watch=True), Children("/a", watch=True), Get("/b", watch=True)):
        done(tree, me, read)
    tree.apply(me, Get("/a/x", watch=True))
    writes = (SetValue("/b", 1), Create("/a/x"), SetValue("/b", 2), SetValue("/a", 1), Delete("/a/x"))
    assert fired(tree, me, Multi(writes)) == [
        data(me, "/b"),
        data(me, "/a/x"),
        child(me, "/a"),
        data(me, "/a"),
    ]


def test_a_multi_of_nothing_succeeds() -> None:
    """No write, no failure."""
    tree, me = grown()
    assert tree.apply(me, Multi(())) == (Result(None, []), [])


# ---------------------------------------------------------------- any sequence of operations

# Few paths, most of them there from the start, so that writes meet nodes and nodes have watchers.
PATHS = ["/", "/a", "/a/x", "/a/x/1", "/a/y", "/a/n0000000002"]
paths = st.sampled_from(PATHS)
versions = st.sampled_from([ANY_VERSION, ANY_VERSION, ANY_VERSION, 0, 1])
values = st.integers(0, 2)
mostly = st.sampled_from([True, True, True, False])
writes = st.one_of(
    st.builds(Create, paths, values, st.booleans()),
    st.builds(Create, st.just("/a/n"), values, st.booleans(), st.just(True)),
    st.builds(SetValue, paths, values, versions),
    st.builds(Delete, paths, versions),
    st.builds(Delete, paths),
    st.builds(Check, paths, versions),
)
reads = st.one_of(*(st.builds(kind, paths, mostly) for kind in (Get, Children, Subtree)))
Watch = tuple[int, str, bool]
Dump = dict[str, Any]
Answer = TypeVar("Answer")


class AnySequence(RuleBasedStateMachine):
    """Two trees fed the same calls, and a list of the watches that were set and not yet heard of."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = Tree()
        self.twin = Tree()
        self.calls: list[Callable[[Tree], object]] = []
        self.sessions: list[int] = []
        self.pending: dict[Watch, None] = {}

    def both(self, call: Callable[[Tree], Answer]) -> Answer:
        """The answer of both trees, which must be the same."""
        answer = call(self.tree)
        assert call(self.twin) == answer
        self.calls.append(call)
        return answer

    def apply(self, session: int, operation: Operation) -> tuple[Result, Notifications]:
        return self.both(lambda tree: tree.apply(session, operation))

    def a_third(self) -> Tree:
        """Another tree with the same history, to try something else on."""
        tree = Tree()
        for call in self.calls:
            call(tree)
        return tree

    def a_session(self, choice: int) -> int:
        return self.sessions[choice % len(self.sessions)]

    @initialize()
    def bootstrap(self) -> None:
        self.both(lambda tree: tree.make_path("/a/x/1"))
        self.both(lambda tree: tree.make_path("/a/y"))
        self.open()

    @precondition(lambda self: len(self.sessions) < 4)
    @rule()
    def open(self) -> None:
        self.sessions.append(self.both(Tree.open_session))

    @precondition(lambda self: len(self.sessions) > 1)
    @rule(choice=st.integers(0, 3))
    def close(self, choice: int) -> None:
        """Afterwards no node is the session's, and all others still are what they were."""
        session = self.a_session(choice)
        before = nodes_of(self.tree.dump())
        notifications = self.both(lambda tree: tree.close_session(session))
        self.sessions.remove(session)
        self.pending = {watch: None for watch in self.pending if watch[0] != session}
        self.hear(notifications, before, exact=True)
        survivors = {path: node for path, node in before.items() if node.stat.owner != session}
        assert nodes_of(self.tree.dump()) == survivors

    @rule(choice=st.integers(0, 3), some=st.lists(reads, min_size=1, max_size=5))
    def read(self, choice: int, some: list[Get | Children | Subtree]) -> None:
        """A read returns the node and changes nothing but the watches."""
        session = self.a_session(choice)
        before = nodes_of(self.tree.dump())
        for read in some:
            result, notifications = self.apply(session, read)
            assert (notifications, nodes_of(self.tree.dump())) == ([], before)
            assert result.ok == (read.path in before)
            is_get = isinstance(read, Get)
            if result.ok and not is_get:
                below = paths_below(before, read.path, direct=isinstance(read, Children))
                assert list(result.nodes.items()) == [(path, before[path]) for path in below]
            if read.watch and (result.ok or is_get):
                self.pending.setdefault((session, read.path, not is_get))

    @rule(choice=st.integers(0, 3), write=writes)
    def write(self, choice: int, write: Write) -> None:
        """A refused write leaves no trace, and a done one fires exactly the watches it concerns."""
        session = self.a_session(choice)
        before = self.tree.dump()
        result, notifications = self.apply(session, write)
        after = self.tree.dump()
        assert after["zxid"] == before["zxid"] + 1 if result.ok else after == before
        self.hear(notifications, nodes_of(before), exact=True)

    @rule(choice=st.integers(0, 3), writes=st.lists(writes, max_size=5))
    def multi(self, choice: int, writes: list[Write]) -> None:
        """All writes, as if one by one; or none, if one by one the reported one is the first to fail."""
        session = self.a_session(choice)
        stepwise = self.a_third()
        steps = [stepwise.apply(session, write) for write in writes]
        errors = [(step.error, index) for index, (step, _) in enumerate(steps) if not step.ok]
        before = self.tree.dump()
        result, notifications = self.apply(session, Multi(tuple(writes)))
        after = self.tree.dump()
        if errors:
            assert (result.error, result.value) == errors[0]
            assert (after, notifications) == (before, [])
        else:
            assert [versioned(stat) for stat in result.value] == [versioned(step.value) for step, _ in steps]
            assert shape_of(after) == shape_of(stepwise.dump())
            assert after["zxid"] == before["zxid"] + 1
            assert notifications == [notification for _, some in steps for notification in some]
        self.hear(notifications, nodes_of(before), exact=False)

    def hear(self, notifications: Notifications, before: dict[str, StoredNode], exact: bool) -> None:
        """Only a pending watch fires, it fires once, and it does fire when what it watches has changed.

        What a Multi does and takes back itself (not ``exact``) also fires, though no difference is left.
        """
        after = nodes_of(self.tree.dump())
        concerned = {watch for watch in self.pending if seen(before, watch) != seen(after, watch)}
        heard = [(session, watch.path, watch.children) for session, watch in notifications]
        for watch in heard:
            assert watch in self.pending, f"{watch} fired without being set"
            del self.pending[watch]
        assert concerned == set(heard) if exact else concerned <= set(heard)

    @invariant()
    def equal_calls_make_equal_trees(self) -> None:
        assert self.tree.dump() == self.twin.dump()

    @invariant()
    def the_tree_is_a_tree(self) -> None:
        """Every node has a persistent parent that lists it, and every owner is a session that knows it."""
        dump = self.tree.dump()
        nodes = nodes_of(dump)
        assert sorted(nodes) == sorted(
            ["/", *(path for entry in dump["nodes"].values() for path in entry[2])]
        )
        for path, node in nodes.items():
            assert nodes[path.rpartition("/")[0] or "/"].stat.owner == 0
            assert node.stat.owner in [0, *self.sessions]
        owned = {me: sorted(path for path, n in nodes.items() if n.stat.owner == me) for me in self.sessions}
        assert dump["ephemerals"] == owned

    @invariant()
    def the_pending_watches_are_those_that_were_set(self) -> None:
        dump = self.tree.dump()
        kept = [
            (session, path, children)
            for children, kind in enumerate(("data watches", "child watches"))
            for path, who in dump[kind].items()
            for session in who
        ]
        assert sorted(kept) == sorted(self.pending)


def nodes_of(dump: Dump) -> dict[str, StoredNode]:
    return {path: node for path, (node, _, _) in dump["nodes"].items()}


def shape_of(dump: Dump) -> Dump:
    """Everything but transaction numbers, which a Multi uses fewer of than its writes one by one."""
    nodes = {
        path: (node.value, node.stat.version, node.stat.owner, children_created, children)
        for path, (node, children_created, children) in dump["nodes"].items()
    }
    return {**dump, "nodes": nodes, "zxid": None}


def versioned(stat: Stat | None) -> tuple[int, int] | None:
    return None if stat is None else (stat.version, stat.owner)


def seen(nodes: dict[str, StoredNode], watch: Watch) -> object:
    """What a watch is about: the node, or its children, each distinguished from later ones of the same
    name."""
    _, path, children = watch
    if not children:
        return nodes.get(path)
    return path in nodes, [(p, nodes[p].stat.created) for p in paths_below(nodes, path, direct=True)]


def paths_below(nodes: dict[str, StoredNode], top: str, direct: bool) -> list[str]:
    inside = top.rstrip("/") + "/"
    below = sorted(path for path in nodes if path.startswith(inside) and path != top)
    return [path for path in below if not direct or "/" not in path[len(inside) :]]


# A failure must be shrunk before pytest's timeout strikes, or the timeout is all one sees: hence few steps,
# one bug at a time, and no phase that explains.
AnySequence.TestCase.settings = settings(
    max_examples=tries(60),
    stateful_step_count=20,
    deadline=None,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
TestAnySequence = AnySequence.TestCase
