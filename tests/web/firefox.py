"""Firefox without a window, driven by its own protocol (Marionette): Playwright drives only its own Firefox.

A command is a JSON list with its length before it; the answer comes on the same connection.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench.processes import PATIENCE_SECONDS
from bench.tools import Tool, find

_ANSWER_SECONDS_MAX = 600.0
_SETTINGS = {
    "marionette.port": 0,  # any; Firefox writes into its folder which one it took
    "app.update.enabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "browser.shell.checkDefaultBrowser": False,
}


class Firefox:
    """One page. `run` is a script with `return`; `ask` one that calls ``done(value)``."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_SECONDS_MAX)
        self._stream = self._socket.makefile("rb")
        self._number = 0
        self._read()
        self._send("WebDriver:NewSession")
        self._send("WebDriver:SetTimeouts", script=int(_ANSWER_SECONDS_MAX * 1000))

    def go(self, address: str) -> None:
        self._send("WebDriver:Navigate", url=address)

    def run(self, script: str, *values: Any) -> Any:
        return self._send("WebDriver:ExecuteScript", script=script, args=values)["value"]

    def ask(self, script: str, *values: Any) -> Any:
        whole = f"const done = arguments[arguments.length - 1];\n{script}"
        return self._send("WebDriver:ExecuteAsyncScript", script=whole, args=values)["value"]

    def until(self, script: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.run(script):
            assert time.monotonic() < deadline, f"timed out: {script}"
            time.sleep(0.1)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def _send(self, command: str, **values: Any) -> Any:
        self._number += 1
        content = json.dumps([0, self._number, command, values]).encode()
        self._socket.sendall(b"%d:%s" % (len(content), content))
        _, number, error, result = self._read()
        assert (number, error) == (self._number, None)
        return result

    def _read(self) -> Any:
        length = b""
        while (digit := self._stream.read(1)) != b":":
            assert digit, "Firefox closed the connection"
            length += digit
        return json.loads(self._stream.read(int(length)))


def _port(folder: Path, process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + PATIENCE_SECONDS
    written = folder / "MarionetteActivePort"
    while not (written.exists() and (port := written.read_text().strip())):
        assert process.poll() is None, f"Firefox ended with {process.returncode}"
        assert time.monotonic() < deadline, "Firefox does not answer"
        time.sleep(0.1)
    return int(port)


@contextmanager
def firefox(folder: Path) -> Iterator[Firefox]:
    """A Firefox that keeps everything it writes in a folder."""
    program = find(Tool.FIREFOX)
    lines = [f'user_pref("{name}", {json.dumps(value)});\n' for name, value in _SETTINGS.items()]
    (folder / "user.js").write_text("".join(lines))
    process = subprocess.Popen(
        [program, "--headless", "--marionette", "--no-remote", "--profile", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(folder)},
    )
    try:
        with closing(Firefox(_port(folder, process))) as driven:
            yield driven
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
