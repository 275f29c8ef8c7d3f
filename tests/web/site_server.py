"""The lab as static files, built once, behind a server that can do nothing but serve files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from bench.tools import Missing, Tool
from tests.cli.calling import call

from tidelog.web.pyodide import NoPyodide, fetched


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """No log: the browser shows what was asked for."""


def needs_pyodide() -> None:
    """Raises `Missing` where Python for browsers cannot be had."""
    try:
        fetched()
    except NoPyodide as reason:
        raise Missing(Tool.NPM, str(reason)) from None


@contextmanager
def served_site(folder: Path) -> Iterator[str]:
    """Where the built site is served, in a folder below the root."""
    needs_pyodide()
    answer = call("lab", "--site", folder / "docs" / "lab")
    assert (answer.code, answer.err) == (0, "")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/docs/lab/"
        server.shutdown()
        thread.join()
