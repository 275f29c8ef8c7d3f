"""The embedded keeper as a server: it keeps its word through crashes, and strangers cannot disturb it."""

import asyncio
import errno
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import uvloop
from bench.processes import PATIENCE_SECONDS
from tests.forwarder import until
from tests.giving_up import cancelled_at, listening
from tests.keeper import keeper_process
from tests.keeper.embedded.raw import RawClient
from tests.keeper.stages import LONG_MS, Client, EmbeddedStage

from tidelog.core.keeper_port import Children, Create, Delete, Get, KeeperError, SetValue, WatchFired
from tidelog.keeper.client import connect
from tidelog.keeper.embedded import session_connection
from tidelog.keeper.embedded.data_dir import KeeperStorageError
from tidelog.keeper.embedded.protocol import PROTOCOL, REQUEST_BYTES_MAX
from tidelog.keeper.embedded.server import EmbeddedKeeper
from tidelog.keeper.embedded.session_connection import UNREAD_NOTICE_BYTES_MAX


@pytest.fixture
def embedded(tmp_path: Path) -> EmbeddedStage:
    return EmbeddedStage(tmp_path / "keeper")


@pytest.fixture
def in_memory() -> EmbeddedStage:
    return EmbeddedStage(None)


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_start_that_is_given_up_leaves_nothing_open(tmp_path: Path, run: Callable[..., bool]) -> None:
    """At every moment; its caller may call stop again; and the directory is free again."""

    async def give_up(moment: int) -> bool:
        keeper = EmbeddedKeeper(tmp_path)
        given_up = await cancelled_at(moment, keeper.start())
        if given_up:
            assert listening() == before
        read, write = os.pipe()  # takes the descriptors that were closed just now
        await keeper.stop()
        os.close(read)
        os.close(write)
        again = EmbeddedKeeper(tmp_path)
        await again.start()
        assert len(listening() - before) == 1
        await again.stop()
        assert listening() == before
        return given_up

    before = listening()
    moments = next(moment for moment in count() if not run(give_up(moment)))
    assert moments >= 4, "it waits for its thread and for the port"


# ---------------------------------------------------------------- through crashes


class Process:
    """A keeper that can be killed."""

    def __init__(self, data_dir: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, keeper_process.__file__, str(data_dir)], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for process in started:
        process.kill()


@pytest.mark.slow
async def test_nothing_acknowledged_is_lost_when_the_keeper_is_killed(
    embedded: EmbeddedStage, tmp_path: Path, processes: list[Process]
) -> None:
    """kill -9 under load, several times: the session resumes, its ephemeral node is still its own, and every
    acknowledged write is there, through snapshots too."""
    data_dir = tmp_path / "killed"
    processes.append(Process(data_dir))
    client = await embedded.client()
    assert client.line is not None
    client.line.target = "127.0.0.1", processes[-1].port
    client.line.drop()
    await until(lambda: len(client.sessions) == 2, "a session with the process")
    await client.do(Create("/x"))
    await client.do(Create("/brokers/ids/1", ephemeral=True))
    epochs = []
    for life in range(3):
        names = {client.call(Create(f"/x/{life}-{number}", "v" * 100)): number for number in range(300)}
        await until(lambda names=names: sum(n in client.replies for n in names) >= 100, "some answers")  # type: ignore[misc]
        processes[-1].kill()
        await until(lambda: not client.connection.connected, "the end is noticed")
        acknowledged = {
            f"/x/{life}-{names[call]}" for call, r in client.replies.items() if call in names and r.ok
        }
        processes.append(await asyncio.to_thread(Process, data_dir))
        client.line.target = "127.0.0.1", processes[-1].port
        await until(lambda life=life: client.times_resumed == life + 1, "the session is back")  # type: ignore[misc]
        assert acknowledged <= set((await client.do(Children("/x"))).nodes)
        assert (await client.do(Get("/brokers/ids/1"))).value.stat.owner == client.sessions[1]
        epochs.append((await client.do(Create(f"/brokers/ids/{life + 10}"))).value.created)
    assert epochs == sorted(set(epochs))
    assert any(data_dir.glob("snapshot.*"))


async def test_a_session_that_does_not_come_back_after_a_restart_expires(tmp_path: Path) -> None:
    """It gets its full time first; then its ephemeral nodes are deleted, and watches fire."""
    keeper = EmbeddedKeeper(tmp_path, session_timeout_min_ms=100)
    await keeper.start()
    async with RawClient(keeper.port) as raw:
        await raw.greet(timeout_ms=800)
        await raw.ask(["create", "/e", None, True, False])
    await keeper.stop()

    again = EmbeddedKeeper(tmp_path, session_timeout_min_ms=100)
    started = time.monotonic()
    await again.start()
    client = Client(connect(f"embedded://127.0.0.1:{again.port}", LONG_MS))
    client.start()
    await until(lambda: bool(client.sessions), "a session")
    await client.ask(Get("/e", watch=True))
    await client.hears(1)
    assert time.monotonic() - started >= 0.8
    assert (await client.ask(Get("/e"))).error is KeeperError.NO_NODE
    await client.connection.close()
    await again.stop()


async def test_a_write_is_answered_when_it_is_on_disk(
    embedded: EmbeddedStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the disk is busy no client sees the write, not even its own session, and readers do not wait."""
    writer, reader = await embedded.client(), await embedded.client()
    await writer.do(Create("/x", 0))
    await reader.do(Get("/x", watch=True))
    disk, sync = threading.Event(), os.fdatasync
    syncs: list[int] = []

    def slow(file: int) -> None:
        syncs.append(file)
        assert disk.wait(PATIENCE_SECONDS)
        sync(file)

    monkeypatch.setattr(os, "fdatasync", slow)
    write, read = writer.call(SetValue("/x", 1)), writer.call(Get("/x"))
    await until(lambda: bool(syncs), "the disk is asked")
    assert (await reader.do(Get("/x", watch=True))).value.value == 0
    assert write not in writer.replies
    assert read not in writer.replies
    assert reader.fired == []
    behind = [writer.call(Create(f"/x/{number}")) for number in range(50)]
    disk.set()
    await until(lambda: behind[-1] in writer.replies, "all the answers")
    assert writer.replies[read].value.value == 1
    assert reader.fired == [WatchFired("/x", children=False)]
    assert len(syncs) < 10, "those that came meanwhile share a sync"


async def test_a_disk_that_refuses_stops_the_keeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In one line. It hangs up rather than promise what it cannot keep; what it promised is still there."""
    keeper = EmbeddedKeeper(tmp_path)
    await keeper.start()
    write = os.write

    def full(file: int, data: Any) -> int:
        if len(data) > 1000:
            write(file, data[:500])  # as far as there was room
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data)

    async with RawClient(keeper.port) as raw:
        await raw.greet()
        await raw.ask(["create", "/kept", None, False, False])
        monkeypatch.setattr(os, "write", full)
        raw.send({"call": 9, "operation": ["create", "/x", "v" * 2000, False, False]})
        assert await raw.closed()
    with pytest.raises(OSError, match="No space left"):
        await keeper.wait()
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == [
        "keeper: stopped, because a commit failed: [Errno 28] No space left on device"
    ]
    await keeper.stop()
    monkeypatch.undo()

    again = EmbeddedKeeper(tmp_path)
    await again.start()
    async with RawClient(again.port) as raw:
        await raw.greet()
        assert (await raw.ask(["get", "/kept", False]))[0] is None
        assert (await raw.ask(["get", "/x", False]))[0] == "no node"
    await again.stop()


async def test_a_second_keeper_on_the_same_directory_is_refused(
    embedded: EmbeddedStage, tmp_path: Path
) -> None:
    """And the first does not notice."""
    client = await embedded.client()
    with pytest.raises(KeeperStorageError, match="used by another keeper"):
        await EmbeddedKeeper(tmp_path / "keeper").start()
    await client.do(Create("/x"))


async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_behind(
    embedded: EmbeddedStage, tmp_path: Path
) -> None:
    """The directory is free again for the next attempt."""
    for _ in range(2):
        with pytest.raises(OSError, match="address"):
            await EmbeddedKeeper(tmp_path / "other", port=embedded.keeper.port).start()


async def test_waiting_ends_when_the_keeper_is_stopped(tmp_path: Path) -> None:
    """The process that runs a keeper waits for it like this."""
    keeper = EmbeddedKeeper(tmp_path)
    await keeper.start()
    waiting = asyncio.create_task(keeper.wait())
    await keeper.stop()
    await waiting


# ---------------------------------------------------------------- sessions


async def test_only_who_knows_the_secret_takes_up_a_session(in_memory: EmbeddedStage) -> None:
    """A session id alone, which every client can read in a node, gives a new session."""
    async with RawClient(in_memory.keeper.port) as mine, RawClient(in_memory.keeper.port) as thief:
        given = await mine.greet()
        await mine.ask(["create", "/e", None, True, False])
        assert (await thief.greet(given["session"], "guessed"))["resumed"] is False
        assert (await mine.ask(["get", "/e", False]))[0] is None
        async with RawClient(in_memory.keeper.port) as odd:
            assert (await odd.greet(given["session"], "\u00e4\ud800"))["resumed"] is False
    async with RawClient(in_memory.keeper.port) as back:
        assert (await back.greet(given["session"], given["secret"])) == {**given, "resumed": True}


async def test_the_newest_connection_of_a_session_wins(in_memory: EmbeddedStage) -> None:
    """The older one is cut: what is unread on it cannot be executed after what is said on the new one."""
    async with RawClient(in_memory.keeper.port) as old, RawClient(in_memory.keeper.port) as new:
        given = await old.greet()
        await old.ask(["get", "/x", True])
        assert (await new.greet(given["session"], given["secret"]))["resumed"]
        assert await old.closed()
        await new.ask(["create", "/x", None, False, False])
        new.send({"ping": 1})
        assert await new.receive() == {"pong": 1}, "the watch of the old connection is gone with it"


async def test_time_outs_are_kept_within_bounds() -> None:
    """The requested time-out is limited, and the answer holds the result."""
    keeper = EmbeddedKeeper(None, session_timeout_min_ms=1000, session_timeout_max_ms=5000)
    await keeper.start()
    granted = []
    for asked in (1, 3000, 10**12, -5):
        async with RawClient(keeper.port) as raw:
            granted.append((await raw.greet(timeout_ms=asked))["timeout_ms"])
    assert granted == [1000, 3000, 5000, 1000]
    await keeper.stop()


async def test_whoever_runs_it_may_decide_when_sessions_end(in_memory: EmbeddedStage) -> None:
    """Silence does not end those sessions; and they end together: no client sees one ended and another
    open."""
    keeper, watcher = in_memory.keeper, await in_memory.client()
    await watcher.do(Create("/ids"))
    async with RawClient(keeper.port) as one, RawClient(keeper.port) as two, RawClient(keeper.port) as last:
        sessions = []
        for name, raw in (("a", one), ("b", two), ("c", last)):
            sessions.append((await raw.greet(timeout_ms=500))["session"])
            keeper.keep(sessions[-1])
            await raw.ask(["create", f"/ids/{name}", None, True, False])
        await asyncio.sleep(0.8)  # not to wait for anything: silence is what is tested
        assert len((await watcher.do(Children("/ids", watch=True))).nodes) == 3
        keeper.expire(sessions[:2])
        await watcher.hears(1)
        assert [*(await watcher.do(Children("/ids", watch=True))).nodes] == ["/ids/c"]
        keeper.let_go(sessions[2], asyncio.get_running_loop().time())
        await watcher.hears(2)


async def test_there_is_a_limit_to_sessions(caplog: pytest.LogCaptureFixture) -> None:
    """One more than allowed is refused with the reason, and gets its session when another has left."""
    keeper = EmbeddedKeeper(None, sessions_max=2)
    await keeper.start()
    clients = [Client(connect(f"embedded://127.0.0.1:{keeper.port}", LONG_MS)) for _ in range(3)]
    for client in clients[:2]:
        client.start()
        await until(lambda client=client: bool(client.sessions), "a session")  # type: ignore[misc]
    clients[2].start()
    await until(lambda: "takes no more" in caplog.text, "the refusal")
    assert clients[2].notices == []
    await clients[0].connection.close()
    await until(lambda: bool(clients[2].sessions), "a session")
    for client in clients[1:]:
        await client.connection.close()
    await keeper.stop()


async def test_a_keeper_that_was_stopped_for_a_while_expires_nobody(in_memory: EmbeddedStage) -> None:
    """A paused or starved keeper could not receive anything."""
    client = await in_memory.client(timeout_ms=200)
    for _ in range(3):
        time.sleep(0.5)  # the keeper's loop is blocked
        await client.do(Get("/"))
    assert len(client.sessions) == 1


# ---------------------------------------------------------------- strangers


GARBAGE = {
    "noise": bytes(range(255, 191, -1)),
    "http": b"GET / HTTP/1.1\r\nHost: keeper\r\n\r\n",
    "a frame too large": (REQUEST_BYTES_MAX + 1).to_bytes(4, "big"),
    "no json": b"\x00\x00\x00\x03{]}",
    "no object": b"\x00\x00\x00\x02[]",
    "too deep": (50_000).to_bytes(4, "big") + b"[" * 50_000,
    "no greeting": b'\x00\x00\x00\x0a{"call":1}',
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_closes_its_connection_and_no_other(
    in_memory: EmbeddedStage, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """With one line in the log."""
    client = await in_memory.client()
    async with RawClient(in_memory.keeper.port) as raw:
        raw.writer.write(garbage)
        assert await raw.closed()
    await client.do(Create("/x"))
    assert client.connection.connected
    assert len(client.notices) == 2
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "closed the connection from 127.0.0.1:" in line
    assert "\n" not in line
    assert len(line) < 300


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else []


def multis(depth: int) -> Any:
    """Each inside the one before: too deep for a recursive reader, and not too deep for JSON."""
    return ["multi", [multis(depth - 1)] if depth else []]


NONSENSE: list[Any] = [
    {"call": 1},
    {"call": "1", "operation": ["get", "/", False]},
    {"call": 1, "operation": "get"},
    {"call": 1, "operation": []},
    {"call": 1, "operation": [["get"]]},
    {"call": 1, "operation": ["steal", "/"]},
    {"call": 1, "operation": ["get", "/"]},
    {"call": 1, "operation": ["get", 7, False]},
    {"call": 1, "operation": ["get", "/", 0]},
    {"call": 1, "operation": ["create", "/x", 7, False, False]},
    {"call": 1, "operation": ["create", "/x", "\ud800", False, False]},
    {"call": 1, "operation": ["set", "/x", None, 1.5]},
    {"call": 1, "operation": ["multi"]},
    {"call": 1, "operation": ["multi", ["create"]]},
    {"call": 1, "operation": ["multi", [["get", "/", False]]]},
    {"call": 1, "operation": ["multi", [["multi", []]]]},
    {"call": nested(900), "operation": ["get", "/", False]},
    {"call": 1, "operation": [nested(900)]},
    {"call": 1, "operation": ["x" * 1_000_000]},
    {"call": "x" * 1_000_000, "operation": ["get", "/", False]},
    {"call": 10**4_000, "operation": ["get", "/"]},
    {"call": 1, "operation": multis(450)},
    {"call": 1, "operation": ["set", "/", None, float("inf")]},
    {"x" * 1_000_000: 1},
    {"hello": PROTOCOL},
    {},
]


@pytest.mark.parametrize("message", NONSENSE, ids=[str(message)[:50] for message in NONSENSE])
async def test_nonsense_in_a_session_closes_the_connection(
    in_memory: EmbeddedStage, message: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """With one line in the log. The session itself lives on, for a client that reconnects."""
    async with RawClient(in_memory.keeper.port) as raw:
        given = await raw.greet()
        raw.send(message)
        assert await raw.closed()
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.exc_info is None
    assert len(record.getMessage()) < 300
    async with RawClient(in_memory.keeper.port) as raw:
        assert (await raw.greet(given["session"], given["secret"]))["resumed"]
        assert (await raw.ask(["get", "/", False]))[0] is None


@pytest.mark.parametrize(
    "greeting",
    [
        {"hello": "kafka", "timeout_ms": 1, "session": 0, "secret": ""},
        {"hello": PROTOCOL, "timeout_ms": "1", "session": 0, "secret": ""},
        {"hello": PROTOCOL, "timeout_ms": 1, "session": None, "secret": ""},
        {"hello": PROTOCOL, "timeout_ms": 1, "session": 0},
    ],
)
async def test_a_wrong_greeting_is_no_greeting(in_memory: EmbeddedStage, greeting: Any) -> None:
    """Nothing is opened for it."""
    async with RawClient(in_memory.keeper.port) as raw:
        raw.send(greeting)
        assert await raw.closed()


async def test_frames_may_come_in_any_pieces(in_memory: EmbeddedStage) -> None:
    """Byte by byte, or many in one piece: the answers are the same."""
    async with RawClient(in_memory.keeper.port) as raw:
        await raw.greet()
        frame = b'\x00\x00\x00\x2a{"call":1,"operation":["get","/x",false]  }'
        assert len(frame) == 4 + 0x2A + 1
        frame = frame.replace(b"  }", b" }")
        for byte in frame:
            raw.writer.write(bytes([byte]))
            await raw.writer.drain()
        assert await raw.receive() == {"reply": 1, "result": ["no node", None, ""]}
        raw.writer.write(frame * 500)
        for _ in range(500):
            assert await raw.receive() == {"reply": 1, "result": ["no node", None, ""]}


async def test_thousands_of_calls_at_once_are_all_answered_in_order(embedded: EmbeddedStage) -> None:
    """More than the keeper lets wait: it reads on when it has caught up."""
    async with RawClient(embedded.keeper.port) as raw:
        await raw.greet()
        for number in range(1, 5001):
            raw.send({"call": number, "operation": ["create", f"/{number}", None, False, False]})
        for number in range(1, 5001):
            assert (await raw.receive())["reply"] == number


@pytest.mark.slow
async def test_who_does_not_read_its_notifications_is_cut_off(
    in_memory: EmbeddedStage, caplog: pytest.LogCaptureFixture
) -> None:
    """They may not be dropped, and not be kept for ever. Who comes back reads again."""
    client = await in_memory.client()
    long_name = "n" * 200_000
    async with RawClient(in_memory.keeper.port) as sleeper:
        given = await sleeper.greet()
        for number in range(100):
            await sleeper.ask(["get", f"/{number}{long_name}", True])
        sleeper.reader._transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(100):
            await client.do(Create(f"/{number}{long_name}"))
        await until(lambda: "does not read its notifications" in caplog.text, "it is cut off")
    async with RawClient(in_memory.keeper.port) as back:
        assert (await back.greet(given["session"], given["secret"]))["resumed"]
    assert 100 * len(long_name) > 2 * UNREAD_NOTICE_BYTES_MAX


async def test_large_answers_do_arrive(in_memory: EmbeddedStage) -> None:
    """The whole tree of a large cluster in one answer, while its notifications come in between."""
    client = await in_memory.client()
    await client.do(Create("/x"))
    for number in range(40):
        client.call(Create(f"/x/{number:02}", "v" * 200_000))
    listed = client.call(Children("/x", watch=True))
    await client.do(Delete("/x/00"))
    assert len(client.replies[listed].nodes) == 40
    assert client.fired == [WatchFired("/x", children=True)]


async def test_there_is_a_limit_to_watches(in_memory: EmbeddedStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are pending count, not those that were ever set."""
    monkeypatch.setattr(session_connection, "WATCHES_MAX", 10)
    async with RawClient(in_memory.keeper.port) as raw:
        await raw.greet()
        await raw.ask(["create", "/x", None, False, False])
        for _ in range(30):
            await raw.ask(["get", "/x", True])
            await raw.ask(["set", "/x", None, -1])
        for number in range(10):
            await raw.ask(["get", f"/{number}", True])
        raw.send({"call": 99, "operation": ["children", "/", True]})
        assert await raw.closed()
