"""The port's operations as ZooKeeper requests, and ZooKeeper's answers as the port's results.

Where ZooKeeper has no single request for an operation, several are combined, and the result is not a snapshot
of one moment: a node deleted in between is left out. The *first* request sets the watch, so a change in
between also fires it; the caller is notified right after the result.

* ``Get`` with a watch is ``exists`` + ``get``: a plain ``get`` of a missing node would leave no watch.
* ``Children`` is ``getChildren`` + a ``get`` of each, unless names are enough; ``Subtree`` repeats that level
  by level.
* ZooKeeper does not return the stats of nodes created in a ``Multi``, but they follow: a new node has version
  0, and its transaction is that of the answer.

kazoo normally runs the callbacks of answers and of watches on two threads, which loses the server's order.
With ``InlineHandler`` both run on the thread that reads the socket, and post to the event loop.
"""

from __future__ import annotations

import asyncio
import select
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.client import KazooClient  # type: ignore[import-untyped]
from kazoo.exceptions import (  # type: ignore[import-untyped]
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.handlers.threading import (  # type: ignore[import-untyped]
    AsyncResult,
    SequentialThreadingHandler,
)

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
    Write,
)

Heard = Callable[[Exception | None, Any, int], None]
"""An answer from kazoo: an error or a value, and the transaction id in its header."""

Then = Callable[[Result | Exception], None]

_NOT_ASKED = Stat(created=0, version=0)

_ERRORS: dict[type[Exception], KeeperError] = {
    NoNodeError: KeeperError.NO_NODE,
    NodeExistsError: KeeperError.NODE_EXISTS,
    BadVersionError: KeeperError.BAD_VERSION,
    NotEmptyError: KeeperError.NOT_EMPTY,
    NoChildrenForEphemeralsError: KeeperError.NO_PARENT,
}


class InlineHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Runs callbacks without extra threads: they only post to the event loop and never block."""

    running = False  # makes kazoo run the callbacks of a result at once instead of queueing them
    client: KazooClient = None

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def select(
        self, readers: list[Any], writers: list[Any], _errors: list[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """kazoo's own function creates an epoll object for each call, several times per answer."""
        poll = select.poll()
        for file in readers:
            poll.register(file, select.POLLIN)
        for file in writers:
            poll.register(file, select.POLLOUT)
        ready = {number for number, _ in poll.poll(None if timeout is None else max(timeout, 0) * 1000)}
        return [f for f in readers if f.fileno() in ready], [f for f in writers if f.fileno() in ready], []

    def async_result(self) -> AsyncResult:
        return _StampedResult(self)


class _StampedResult(AsyncResult):  # type: ignore[misc]
    """Stores the last transaction id at the time of the answer, on the thread that read it."""

    zxid = 0

    def set(self, value: Any = None) -> None:
        self.zxid = self._handler.client.last_zxid
        super().set(value)


class _Watch:
    """Delays a watch until the operation that set it is answered, even if it fires earlier."""

    __slots__ = ("_on_watch", "answered", "fired")

    def __init__(self, on_watch: Callable[[], None]) -> None:
        self._on_watch = on_watch
        self.fired = False
        self.answered = False

    def hear(self) -> None:
        self.fired = True
        self.tell()

    def tell(self) -> None:
        if self.fired and self.answered:
            self._on_watch()


class Requests:
    """The requests on one connection, from when kazoo reports it until it breaks."""

    def __init__(
        self,
        client: KazooClient,
        loop: asyncio.AbstractEventLoop,
        chroot: str,
        on_watch: Callable[[str, bool], None],
    ) -> None:
        """``on_watch`` is called with the path of a fired watch, and whether it was about children."""
        self._client = client
        self._loop = loop
        self._chroot = chroot
        self._on_watch = on_watch
        self._lock = threading.Lock()
        self._broken = False
        self._over = False
        self._posted: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._woken = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.session: int = client.client_id[0]

    def broke(self) -> None:
        """Called on kazoo's thread: unsent requests are dropped, and not sent on the next connection."""
        with self._lock:
            self._broken = True

    def end(self) -> None:
        """Called on the loop after all answers were delivered: ignore everything further from this
        connection."""
        self._over = True
        for task in self._tasks:
            task.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task until it is done or the connection ends."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------ from kazoo's thread to the loop

    def _ask(self, submit: Callable[[], Any], heard: Heard) -> None:
        with self._lock:
            if self._broken:
                return
            asked = submit()
        asked.rawlink(lambda result: self._post(heard, result.exception, result.value, result.zxid))

    def _post(self, heard: Callable[..., None], *what: Any) -> None:
        """Callable from any thread. Wakes the loop once for many calls, because waking it is slow."""
        self._posted.append((heard, what))
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._hear_posted)

    def _hear_posted(self) -> None:
        self._woken = False  # first, so that later posts wake the loop again
        while self._posted:
            heard, what = self._posted.popleft()
            if not self._over:
                heard(*what)

    def _watch(self, path: str, children: bool) -> tuple[_Watch, Callable[[Any], None]]:
        watch = _Watch(lambda: self._on_watch(path, children))

        def fired(event: Any) -> None:
            if event.type != "NONE":  # a session event; the listener reports those
                self._post(watch.hear)

        return watch, fired

    def _full(self, path: str) -> str:
        return self._chroot + path if path != "/" else self._chroot or "/"

    # ------------------------------------------------------------ operations

    def execute(self, operation: Operation, then: Then) -> None:
        """Values are bytes. ``then`` is called once, unless the connection breaks before."""
        path = self._full(operation.path) if not isinstance(operation, Multi) else ""
        if isinstance(operation, (Children, Subtree)):
            self.spawn(self._list(operation, then))
        elif isinstance(operation, Get) and operation.watch:
            watch, fired = self._watch(operation.path, False)

            def and_watch(error: Exception | None, answer: Any, zxid: int) -> None:
                then(self._result(operation, error, answer, zxid))
                watch.answered = True
                watch.tell()

            self._ask(lambda: self._client.exists_async(path, fired), lambda *_: None)
            self._ask(lambda: self._client.get_async(path), and_watch)
        else:
            self._ask(
                lambda: self._submit(operation, path), lambda *heard: then(self._result(operation, *heard))
            )

    def _submit(self, operation: Write | Get | Multi, path: str) -> Any:
        client = self._client
        if isinstance(operation, Get):
            return client.get_async(path)
        if isinstance(operation, SetValue):
            return client.set_async(path, operation.value, operation.version)
        if isinstance(operation, Delete):
            return client.delete_async(path, operation.version)
        if isinstance(operation, Create):
            kind = operation.ephemeral, operation.sequential
            return client.create_async(path, operation.value, None, *kind, include_data=True)
        transaction = client.transaction()
        for write in (operation,) if isinstance(operation, Check) else operation.writes:
            path = self._full(write.path)
            if isinstance(write, Create):
                transaction.create(path, write.value, None, write.ephemeral, write.sequential)
            elif isinstance(write, SetValue):
                transaction.set_data(path, write.value, write.version)
            elif isinstance(write, Delete):
                transaction.delete(path, write.version)
            else:
                transaction.check(path, write.version)
        return transaction.commit_async()

    def _result(
        self, operation: Operation, error: Exception | None, answer: Any, zxid: int
    ) -> Result | Exception:
        if error is not None:
            return _refusal(operation, error)
        if isinstance(operation, Get):
            return Result(None, StoredNode(answer[0], _stat(answer[1])))
        if isinstance(operation, Create):
            return Result(None, _stat(answer[1]), answer[0][len(self._chroot) :])
        if isinstance(operation, SetValue):
            return Result(None, _stat(answer))
        if isinstance(operation, Multi):
            return self._multi_result(operation.writes, answer, zxid)
        if isinstance(operation, Check):
            checked = self._multi_result((operation,), answer, zxid)
            return Result(checked.error) if isinstance(checked, Result) else checked
        return Result()

    def _multi_result(self, writes: Iterable[Write], answers: list[Any], zxid: int) -> Result | Exception:
        stats: list[Stat | None] = []
        for index, (write, answer) in enumerate(zip(writes, answers, strict=True)):
            if isinstance(answer, (RolledBackError, RuntimeInconsistency)):
                continue  # this write was not refused itself, only rolled back
            if isinstance(answer, Exception):
                return _refusal(write, answer, index)
            if isinstance(write, Create):
                stats.append(Stat(zxid, 0, self.session if write.ephemeral else 0))
            else:
                stats.append(_stat(answer) if isinstance(write, SetValue) else None)
        return Result(None, stats)

    # ------------------------------------------------------------ operations of several requests

    async def make(self, nodes: Iterable[Create]) -> None:
        """Create missing nodes, the chroot first. Raises ZooKeeper's error."""
        names = self._chroot.split("/")[1:]
        ancestors = ["/" + "/".join(names[:depth]) for depth in range(1, len(names) + 1)]
        wanted = [(path, b"") for path in ancestors] + [(self._full(n.path), n.value) for n in nodes]
        for path, value in wanted:
            with suppress(NodeExistsError):
                await self._answer(partial(self._client.create_async, path, value))

    async def _list(self, operation: Children | Subtree, then: Then) -> None:
        watch, fired = self._watch(operation.path, True)
        try:
            nodes = await self._nodes_below(operation, fired if operation.watch else None)
        except Exception as error:
            then(_refusal(operation, error))
            return
        then(Result(None, {path: nodes[path] for path in sorted(nodes)}))
        watch.answered = True
        watch.tell()

    async def _nodes_below(
        self, operation: Children | Subtree, watcher: Callable[[Any], None] | None
    ) -> dict[str, StoredNode]:
        names = await self._answer(
            lambda: self._client.get_children_async(self._full(operation.path), watcher)
        )
        found: dict[str, StoredNode] = {}
        level = _paths_below(operation.path, names)
        if isinstance(operation, Children) and not operation.values:
            return {path: StoredNode(None, _NOT_ASKED) for path in level}
        while level:
            nodes = await self._answers(self._client.get_async, level)
            found.update((path, StoredNode(value, _stat(stat))) for path, (value, stat) in nodes.items())
            if isinstance(operation, Children):
                break
            parents = [path for path, (_, stat) in nodes.items() if stat.numChildren]
            families = await self._answers(self._client.get_children_async, parents)
            level = [child for path, names in families.items() for child in _paths_below(path, names)]
        return found

    async def _answers(self, request: Callable[[str], Any], paths: Iterable[str]) -> dict[str, Any]:
        """Send the same request for many nodes at once, and leave out deleted ones."""
        asked = {path: self._answer(partial(request, self._full(path))) for path in paths}
        if asked:
            await asyncio.wait(asked.values())
        return {
            path: future.result()
            for path, future in asked.items()
            if not isinstance(future.exception(), NoNodeError)
        }

    def _answer(self, submit: Callable[[], Any]) -> asyncio.Future[Any]:
        """Wait for an answer. If the connection breaks, the waiting task is cancelled."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def heard(error: Exception | None, answer: Any, _zxid: int) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(answer)

        self._ask(submit, heard)
        return future


def _paths_below(path: str, names: Iterable[str]) -> list[str]:
    inside = path if path.endswith("/") else path + "/"
    return [inside + name for name in names]


def _stat(stat: Any) -> Stat:
    return Stat(stat.czxid, stat.version, stat.ephemeralOwner)


def _refusal(operation: Operation, error: Exception, index: int | None = None) -> Result | Exception:
    """The port's error, or the exception itself if the port has no error for it."""
    known = _ERRORS.get(type(error))
    if isinstance(operation, Create) and known is KeeperError.NO_NODE:
        known = KeeperError.NO_PARENT
    return error if known is None else Result(known, index)
