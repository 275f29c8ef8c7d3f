"""Running the page's server until somebody ends it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from tidelog.web.server import LOOPBACK, app


def listen(host: str, port: int) -> socket.socket:
    """A bound socket, so that the port is known before anything is said. Raises ``OSError``."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(64)
    except OSError:
        listener.close()
        raise
    return listener


def address(host: str, listener: socket.socket) -> str:
    """Where a browser on this machine finds the page."""
    name = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    port = listener.getsockname()[1]
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"


def hosts_of(host: str) -> tuple[str, ...]:
    """The names under which the page may be asked for: any, where the server listens on every address."""
    if host in ("", "0.0.0.0", "::"):
        return ()
    return (*LOOPBACK, f"[{host}]" if ":" in host else host)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ours, not uvicorn's: it would raise the signal again when it is done, and Ctrl-C is how one
        leaves."""
        yield


def serve(listener: socket.socket, host: str, on_ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM. ``on_ready`` is called once requests are answered."""
    asyncio.run(_serve(listener, host, on_ready))


async def _serve(listener: socket.socket, host: str, on_ready: Callable[[], None]) -> None:
    config = uvicorn.Config(
        app(hosts_of(host)), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2
    )
    server = _Server(config)
    loop = asyncio.get_running_loop()

    def end() -> None:
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not task.done():
        await asyncio.sleep(0.005)
    on_ready()
    await task
