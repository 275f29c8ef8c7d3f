"""The life of a broker process: open the logs, bind, register, serve, hand over leadership, stop.

The order matters. The data directory is locked and recovered before anything listens; the port is bound
before the broker registers itself, so that no client connects to another process's port; clients are served
only after a controller has sent the metadata; the session with the keeper ends only after leadership has
moved away. An error at the start is one line on stderr.

Two lines on stdout, equal except for the first word: ``registered id=1 host=127.0.0.1 port=9092
metrics=9404`` after the registration, ``serving …`` once clients are served. The first is for a supervisor
that starts brokers without a reachable controller: then the second may not come.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from typing import Any

from tidelog import event_loop
from tidelog._version import __version__
from tidelog.broker.apis import SERVED
from tidelog.broker.control import MAILBOX, Control
from tidelog.broker.error_messages import reason
from tidelog.broker.housekeeping import Housekeeping
from tidelog.broker.loop_errors import LoopErrors
from tidelog.broker.loop_watch import LoopWatch
from tidelog.broker.metrics import http
from tidelog.broker.metrics.counters import Metrics
from tidelog.broker.node import Node
from tidelog.broker.server import Handler, Limits, Server, Shortcut
from tidelog.broker.topic_ids import random_topic_id
from tidelog.core import keeper_paths
from tidelog.core.broker import Broker
from tidelog.core.generations import GENERATIONS
from tidelog.core.keeper_port import Get
from tidelog.core.types import BrokerEndpoint, BrokerId
from tidelog.evidence import process_events as happened
from tidelog.evidence.journals.recorder import EventRecorder
from tidelog.keeper.client import KeeperConnection, KeeperUnreachable, Notice, connect
from tidelog.settings.broker import Settings
from tidelog.settings.topic import topic_defaults
from tidelog.storage.compaction.scheduler import UNLIMITED
from tidelog.storage.errors import StorageRefused
from tidelog.storage.file_storage import FileStorage, wall_clock

log = logging.getLogger("tidelog")

LOG_WAIT_AFTER_SECONDS = 1.0
SWITCH_SECONDS = 0.001
_MALLOPT_TRIM_THRESHOLD, _MALLOPT_MMAP_THRESHOLD = -1, -3
_FREE_BYTES_KEPT = 8 << 20
_LARGE_BLOCK_BYTES = 4 << 20


class CannotStart(Exception):
    """The broker cannot start. The message says why in one line."""


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code."""
    # Allocations of the hot path are short-lived and without cycles: collect garbage less often.
    # At most half a million objects wait for the second collection: some 50 MB, if all were garbage.
    gc.set_threshold(50_000, 10, 10)
    return_large_blocks()
    # Maximum time that the event loop waits for a thread that compacts or inflates.
    sys.setswitchinterval(SWITCH_SECONDS)
    # Every log and every client needs an open file, so raise the limit to the system's maximum.
    sys.dont_write_bytecode = (
        True  # on a full disk Python leaves half a file, which the next process cannot read
    )
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        return event_loop.run(_serve(settings))
    except (CannotStart, StorageRefused) as error:
        print(f"tidelog broker {settings.broker_id}: {error}", file=sys.stderr, flush=True)
        return 2


def return_large_blocks() -> None:
    """Let the C library return large blocks to the system when they are freed. By default glibc raises its
    limits with the largest block that was ever freed: after one large request it keeps tens of megabytes, in
    each thread."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not every C library has it
    if mallopt is not None:
        mallopt(_MALLOPT_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
        mallopt(_MALLOPT_TRIM_THRESHOLD, _FREE_BYTES_KEPT)


async def _serve(settings: Settings) -> int:
    started = time.perf_counter()
    async with AsyncExitStack() as leaving:
        threads = ThreadPoolExecutor(4, thread_name_prefix="disk")
        leaving.callback(threads.shutdown)
        storage = _open_storage(settings, threads)
        recovered_after = time.perf_counter() - started
        leaving.callback(storage.close)
        keeper = connect(settings.keeper_url, settings.zookeeper_session_timeout_ms)
        leaving.push_async_callback(_end_session, keeper)
        node = await assemble(settings, storage, keeper, threads)
        leaving.callback(node.close)
        _report_recovery(node, storage, recovered_after)
        leaving.push_async_callback(node.server.close)
        MAILBOX.open(Control(node.server).take)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(LoopErrors(log))
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, partial(_hand_over, node, signum))
        metrics_port = -1
        if settings.tidelog_metrics_port >= 0:
            metrics_port = await _expose(node, leaving)
        if not await _unless_stopped(node, register(node, keeper)):
            return 0
        _announce("registered", node, metrics_port)
        leaving.callback(LoopWatch(node.metrics).stop)
        housekeeping = Housekeeping(node)
        leaving.callback(housekeeping.stop)
        if await _unless_stopped(node, _await_metadata(node)):
            _announce("serving", node, metrics_port)
            log.info("serving after %.2f s", time.perf_counter() - started)
            await node.stopped.wait()
        node.report()
        node.narration.tell(all_of_it=True)
        log.info("leaving")
    return 1 if node.failure else 0


# ---------------------------------------------------------------- start


def _open_storage(settings: Settings, threads: ThreadPoolExecutor) -> FileStorage:
    def in_background(work: object) -> None:
        threads.submit(work)  # type: ignore[arg-type]

    return FileStorage(
        settings.log_dirs,
        broker_id=settings.broker_id,
        defaults=topic_defaults(settings),
        background=in_background,
        clock=lambda: wall_clock() + settings.tidelog_clock_offset_ms,
        # Before KIP-279 a log could hold epochs out of order, and before KIP-101 none at all.
        verify_epochs=GENERATIONS[settings.tidelog_generation].guards.truncate_on_every_epoch,
        producer_expiration_ms=settings.producer_id_expiration_ms,
        dedupe_bytes=settings.log_cleaner_dedupe_buffer_size,
        cleaner_bytes_per_second=settings.log_cleaner_io_max_bytes_per_second or UNLIMITED,
    )


async def assemble(
    settings: Settings, storage: FileStorage, keeper: KeeperConnection, threads: Executor
) -> Node:
    """A broker whose port is bound, ready to register."""
    metrics = Metrics()
    recorder = None
    if settings.tidelog_evidence_dir is not None:
        recorder = EventRecorder(
            settings.tidelog_evidence_dir,
            BrokerId(settings.broker_id),
            # The machine's clock, without the broker's offset: it orders the events of several brokers.
            lambda: int(time.time() * 1000),
        )
    node = Node(settings, storage, keeper, metrics=metrics, recorder=recorder, threads=threads)
    limits = Limits(
        settings.socket_request_max_bytes,
        settings.max_connections,
        settings.max_connections_per_ip,
        settings.connections_max_idle_ms / 1000 if settings.connections_max_idle_ms > 0 else float("inf"),
        settings.queued_max_requests,
        settings.fetch_max_bytes,
        settings.queued_max_request_bytes,
    )
    handlers: dict[int, Handler] = {key: partial(served.handle, node) for key, served in SERVED.items()}
    shortcuts: dict[int, Shortcut] = {
        key: partial(served.shortcut, node) for key, served in SERVED.items() if served.shortcut is not None
    }
    node.server = Server(handlers, limits, metrics, node.settle, on_violation=node.fail, shortcuts=shortcuts)
    host, port = settings.listeners
    try:
        bound = await node.server.listen(host, port)
    except OSError as error:
        raise CannotStart(
            f"cannot listen on {host or '*'}:{port}: {reason(error)}; "
            "free the port or set listeners=PLAINTEXT://HOST:PORT"
        ) from None
    advertised = settings.advertised(bound)
    node.endpoint = BrokerEndpoint(advertised.host, advertised.port, settings.broker_rack)
    node.core = Broker(
        node.id,
        storage,
        GENERATIONS[settings.tidelog_generation],
        settings.core_config(),
        guards=settings.guards(),
        registration=node.endpoint,
    )
    node.core.obey_settings(node.obey_settings)
    node.core.ctx.unexpected = node.unexpected
    node.core.ctx.new_topic_id = random_topic_id
    node.core.ctx.stop_following = node.stop_following
    node.observe(
        happened.ProcessStarted(
            __version__,
            settings.tidelog_generation,
            os.getpid(),
            advertised.host,
            advertised.port,
            settings.broker_rack,
        )
    )
    return node


def _report_recovery(node: Node, storage: FileStorage, seconds: float) -> None:
    for found in storage.recovered:
        node.recovered(found)
    node.observe(
        happened.StorageRecovered(
            storage.clean_shutdown, len(storage.partitions()), len(storage.recovered), int(seconds * 1000)
        )
    )


async def register(node: Node, keeper: KeeperConnection) -> None:
    """Connect to the keeper, check that the data belongs to this cluster, and register."""
    settings = node.settings
    url = settings.keeper_url
    early: list[Notice] = []
    notify: Callable[[Notice], None] = early.append
    keeper.start(lambda notice: notify(notice))  # noqa: PLW0108  # ``notify`` changes below
    try:
        with _waiting_for(url):
            found = await keeper.request(
                Get(f"{keeper_paths.CLUSTER}/id"), settings.connection_timeout_ms / 1000
            )
    except KeeperUnreachable:
        raise CannotStart(
            f"no keeper at {url} within {settings.connection_timeout_ms} ms; start it or set tidelog.keeper"
        ) from None
    node.cluster_id = found.value.value if found.ok else ""
    node.storage.claim(node.cluster_id)
    await node.server.serve()
    # Only now may the core learn of the session: it then registers the broker.
    notify = node.keeper_notice
    for notice in early:
        node.keeper_notice(notice)
    try:
        async with asyncio.timeout(settings.zookeeper_session_timeout_ms * 1.5 / 1000 + 2):
            await node.registered.wait()
    except TimeoutError:
        raise CannotStart(await _why_not_registered(node, keeper)) from None


async def _await_metadata(node: Node) -> None:
    with _logged_if_slow("registered; waiting for metadata from the controller before serving clients"):
        await node.informed.wait()


def _announce(state: str, node: Node, metrics_port: int) -> None:
    at = node.endpoint
    print(f"{state} id={node.id} host={at.host} port={at.port} metrics={metrics_port}", flush=True)


async def _why_not_registered(node: Node, keeper: KeeperConnection) -> str:
    try:
        holder = await keeper.request(Get(keeper_paths.broker_path(node.id)))
    except KeeperUnreachable:
        return f"the keeper at {node.settings.keeper_url} does not answer any more; start it again"
    if not holder.ok:
        return f"the keeper at {node.settings.keeper_url} does not register broker {node.id}; see its log"
    where = f"{holder.value.value.host}:{holder.value.value.port}"
    return f"broker.id={node.id} is taken by {where}; stop that broker or choose another id"


@contextmanager
def _waiting_for(url: str) -> Iterator[None]:
    """Log one line if it takes long, and suppress messages about single attempts to connect."""
    loud = logging.getLogger("tidelog.keeper")
    loud.setLevel(logging.ERROR)
    try:
        with _logged_if_slow("waiting for the keeper at %s", url):
            yield
    finally:
        loud.setLevel(logging.NOTSET)


@contextmanager
def _logged_if_slow(what: str, *words: object) -> Iterator[None]:
    timer = asyncio.get_running_loop().call_later(LOG_WAIT_AFTER_SECONDS, log.info, what, *words)
    try:
        yield
    finally:
        timer.cancel()


async def _unless_stopped(node: Node, start: Coroutine[Any, Any, None]) -> bool:
    """Run the start. False if a signal stopped the broker first; then the start is cancelled."""
    starting = asyncio.ensure_future(start)
    stopped = asyncio.ensure_future(node.stopped.wait())
    try:
        await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            return False
        starting.result()
        return True
    finally:
        for task in (starting, stopped):
            task.cancel()


async def _expose(node: Node, leaving: AsyncExitStack) -> int:
    settings = node.settings
    try:
        served = await http.serve(
            node.metrics,
            node.core,
            node.storage,
            keeper=node.keeper,
            recorder=node.recorder,
            groups=node.groups,
            host=settings.listeners.host,
            port=settings.tidelog_metrics_port,
        )
    except OSError as error:
        raise CannotStart(
            f"cannot serve metrics on port {settings.tidelog_metrics_port}: {reason(error)}; "
            "set tidelog.metrics.port"
        ) from None
    leaving.push_async_callback(served.stop)
    return served.port


# ---------------------------------------------------------------- shutdown


def _hand_over(node: Node, signum: int) -> None:
    """The first signal starts a controlled shutdown, the second one stops at once. A broker without metadata
    leads nothing and stops at once."""
    if node.leaving or not node.settings.controlled_shutdown_enable or not node.informed.is_set():
        node.stopped.set()
        return
    node.stop(signal.Signals(signum).name)


async def _end_session(keeper: KeeperConnection) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(3):
            await keeper.close()
