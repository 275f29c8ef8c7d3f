"""The page's server: static files, the catalogue, and three questions (play, explore, futures). No state.

It listens on this machine only, unless configured otherwise, and trusts no page from elsewhere: such a page
must not be able to use it through a reader's browser. So the ``Host`` must be one we serve under (a foreign
name that resolves to 127.0.0.1 is refused), an ``Origin`` must be our own, and the page may load nothing from
elsewhere and run no script that is not a file of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import re
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import anyio
import uvicorn
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tidelog.errors import Refusal, reason
from tidelog.scenario import catalogue
from tidelog.web.catalogue import shelf, static, words
from tidelog.web.play.playing import CannotPlay, play
from tidelog.web.play.questions import ask
from tidelog.web.policy import content_security_policy

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
BODY_BYTES_MAX = 1_000_000
PLAYS_AT_ONCE = 2
SEARCHES_AT_ONCE = 2
LONG_QUESTIONS = ("explore", "futures")
"""Answered line by line, as long as the page listens."""
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
_SURROGATE = re.compile("[\ud800-\udfff]")


def app(hosts: tuple[str, ...] = LOOPBACK) -> Starlette:
    """The application, for requests addressed to one of ``hosts``; an empty tuple is any."""
    limiter = anyio.CapacityLimiter(PLAYS_AT_ONCE)

    async def answer_play(request: Request) -> Response:
        asked = await _body(request)
        text, generation, against = (_text_of(asked, key) for key in ("text", "generation", "against"))
        if text is None:
            return _refused("the request holds no text to play")
        try:
            # In a thread: the page and other readers are served while the simulator works.
            return JSONResponse(await run_sync(play, text, generation, against, limiter=limiter))
        except CannotPlay as error:
            return _refused(str(error))
        except Exception as error:  # a fault of the simulator's: the page, and its reader, go on
            return _refused(_internal(error), 500)

    searches = anyio.CapacityLimiter(SEARCHES_AT_ONCE)

    def long_answer(question: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            replies = ask(json.dumps({**await _body(request), "ask": question}))
            try:
                searches.acquire_on_behalf_of_nowait(replies)
            except anyio.WouldBlock:
                return _refused("other searches are under way here: stop one of them first", 429)
            return StreamingResponse(_lines(replies, limiter, searches), media_type="application/x-ndjson")

        return answer

    return Starlette(
        routes=[
            Route("/", _index),
            Route("/static/{name}", _static_file),
            Route("/api/catalogue", _catalogue),
            Route("/api/words", _words),
            Route("/api/scenario/{name}", _scenario),
            Route("/api/play", answer_play, methods=["POST"]),
            *(Route(f"/api/{name}", long_answer(name), methods=["POST"]) for name in LONG_QUESTIONS),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=_guard(hosts))],
    )


# ---------------------------------------------------------------- what is served


async def _index(request: Request) -> Response:
    return _file("index.html")


async def _static_file(request: Request) -> Response:
    return _file(request.path_params["name"])


def _file(name: str) -> Response:
    found = next((file for file in static().iterdir() if file.name == name), None)
    suffix = "." + name.rpartition(".")[2]
    if found is None or suffix not in TYPES:
        raise HTTPException(404, "there is no such file")
    return Response(found.read_bytes(), media_type=TYPES[suffix])


async def _catalogue(request: Request) -> Response:
    return JSONResponse(await run_sync(shelf))


async def _words(request: Request) -> Response:
    return JSONResponse(await run_sync(words))


async def _scenario(request: Request) -> Response:
    try:
        return JSONResponse({"text": catalogue.text(request.path_params["name"])})
    except catalogue.UnknownScenario as error:
        return _refused(str(error), 404)


async def _body(request: Request) -> dict[str, Any]:
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > BODY_BYTES_MAX:
            raise HTTPException(413, f"more than {BODY_BYTES_MAX} bytes: this is no scenario")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):  # lists in lists, thousands deep, are JSON, too
        found = None
    if not isinstance(found, dict):
        raise HTTPException(400, "expected a JSON object")
    return found


def _text_of(asked: dict[str, Any], key: str) -> str | None:
    value = asked.get(key)
    if value is None:
        return None
    # JSON may hold halves of characters, of which no answer could speak.
    if not isinstance(value, str) or _SURROGATE.search(value):
        raise HTTPException(400, f"{key} must be a text")
    return value


async def _lines(
    replies: Iterator[str], limiter: anyio.CapacityLimiter, searches: anyio.CapacityLimiter
) -> AsyncIterator[str]:
    """A line for each reply, as long as the page listens: a reader who leaves ends the search."""
    try:
        while (reply := await run_sync(next, replies, None, limiter=limiter)) is not None:
            yield reply + "\n"
    except Exception as error:
        yield json.dumps({"error": _internal(error)}) + "\n"
    finally:
        searches.release_on_behalf_of(replies)


def _internal(error: Exception) -> str:
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return f"internal error: {what} (please keep this text and report it)"


def _refused(message: str, status: int = 422) -> Response:
    return JSONResponse({"error": message}, status)


# ---------------------------------------------------------------- whom we serve


Next = Callable[[Request], Awaitable[Response]]


def _guard(hosts: tuple[str, ...]) -> Callable[[Request, Next], Awaitable[Response]]:
    html = (static() / "index.html").read_text("utf-8")
    headers = {
        # Who may put the page into a frame can be said in a header only.
        "Content-Security-Policy": f"{content_security_policy(html)}; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-cache",
    }

    async def dispatch(request: Request, call_next: Next) -> Response:
        host = request.headers.get("host", "")
        origin = request.headers.get("origin")
        if hosts and re.sub(r":[0-9]+$", "", host) not in hosts:
            response: Response = PlainTextResponse("this page is not served under that name\n", 421)
        elif origin is not None and origin.partition("://")[2] != host:
            response = PlainTextResponse("only the page itself may ask\n", 403)
        else:
            response = await call_next(request)
        response.headers.update(headers)
        return response

    return dispatch


# ---------------------------------------------------------------- running it


def listen(host: str, port: int) -> socket.socket:
    """A bound socket, so that the port is known before anything is printed. Raises `Refusal`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        raise Refusal(_why_not(error, host, port)) from None
    return listener


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} is in use, perhaps by another tidelog lab: choose one with --port (0: a free one)"
        )
    if error.errno == errno.EACCES:
        return f"no permission for port {port}: choose one above 1023"
    return f"cannot listen on {host}: {reason(error)}"


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
