"""The lab's page in a browser: the server, the browser, and a page that notes what it complains of."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.processes import PATIENCE_SECONDS
from bench.tools import Tool, find

SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LONG_MS = 60_000


@contextmanager
def lab_server() -> Iterator[str]:
    """Where ``tidelog lab`` serves the page."""
    command = [sys.executable, "-m", "tidelog", "lab", "--no-browser", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    url = process.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:"), process.stderr.read()
    yield url
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err) == (0, "", "")


@contextmanager
def launched() -> Iterator[Any]:
    """A browser, driven by Playwright. While it runs, its thread can have no event loop of its own."""
    from playwright.sync_api import sync_playwright

    program = find(Tool.BROWSER)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(SWITCHES))
        yield browser
        browser.close()


class Opened:
    """A page of its own, and whatever it complained about."""

    def __init__(self, browser: Any, address: str, **settings: Any) -> None:
        size = settings.pop("size", (1440, 900))
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            **{"locale": "en-US", "reduced_motion": "reduce", **settings},
        )
        self.context.set_default_timeout(LONG_MS)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._heard)
        self.address = address

    def _heard(self, message: Any) -> None:
        # The browser itself notes refusals (422) as errors; the page says them to its reader.
        if message.type == "error" and "status of 4" not in message.text:
            self.complaints.append(message.text)

    def go(self, fragment: str = "") -> Any:
        self.page.goto(self.address + fragment)
        self.page.wait_for_selector("#story, .complaint")
        return self.page

    def until(self, condition: str, seconds: float = LONG_MS / 1000) -> None:
        """Wait for a JavaScript expression to hold. (Playwright's own way is against the page's policy.)"""
        deadline = time.monotonic() + seconds
        while not self.page.evaluate(condition):
            assert time.monotonic() < deadline, f"timed out: {condition}"
            self.page.wait_for_timeout(20)

    def close(self) -> None:
        self.context.close()
        assert not self.complaints, self.complaints
