"""The programs that tests and benchmarks need besides Python: where each is looked for, and what it is for.

A program that is not there raises `Missing`. Tests do not catch it: whichever test meets it is skipped, and
the end of the run says in one line what was not tested and how to get what was missing (tests/conftest.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache
from pathlib import Path

from bench.processes import Unavailable

_VERSION_WITHIN_SECONDS = 60.0


class Tool(Enum):
    """What is installed, what is not tested without it, and the packages of Debian that have it."""

    BROWSER = "Chromium, Chrome or Edge", "the pages in a browser", ("chromium",)
    FIREFOX = "Firefox", "the lab without a server in Firefox", ("firefox-esr",)
    KCAT = "kcat", "kcat as a client", ("kcat",)
    MAVEN = "Maven with a JDK", "Kafka's own tools and Java clients", ("maven", "default-jdk-headless")
    NODE = "Node.js", "the syntax of the page's scripts", ("nodejs",)
    NPM = "npm", "the lab without a server", ("npm",)
    STRACE = "strace", "disks that fail to sync", ("strace",)
    GO = "Go", "franz-go as a client", ("golang-go",)

    def __init__(self, title: str, subject: str, packages: tuple[str, ...]) -> None:
        self.title = title
        self.subject = subject
        self.packages = packages


class Missing(Unavailable):
    """A program cannot be had here. The message is one line that says what to do, or what went wrong."""

    def __init__(self, tool: Tool, reason: str = "") -> None:
        super().__init__(reason or f"{tool.title} not found: {advice([tool])}")
        self.tool = tool


def advice(tools: Iterable[Tool]) -> str:
    """What to do to have them, in one line."""
    tools = list(tools)
    if shutil.which("apt-get"):
        return "as root: apt-get install " + " ".join(package for tool in tools for package in tool.packages)
    return "install " + ", ".join(tool.title for tool in tools)


@cache
def find(tool: Tool) -> str:
    """Where the program is; `Missing` if it is nowhere. A browser was seen to run."""
    found = next(_found(tool), None)
    if found is None:
        raise Missing(tool)
    return found


def is_there(tool: Tool) -> bool:
    try:
        find(tool)
    except Missing:
        return False
    return True


def _found(tool: Tool) -> Iterator[str]:
    match tool:
        case Tool.BROWSER:
            yield from (str(path) for path in _browsers() if _runs(path))
        case Tool.MAVEN:
            home = os.environ.get("JAVA_HOME")
            if _on_path("javac") or (home and Path(home, "bin", "javac").exists()):
                yield from _on_path("mvn")
        case Tool.FIREFOX:
            yield from _on_path("firefox", "firefox-esr")
        case Tool.NODE:
            yield from _on_path("node", "nodejs")
        case _:
            yield from _on_path(tool.name.lower())


def _on_path(*names: str) -> list[str]:
    return [found for name in names if (found := shutil.which(name))]


# ---------------------------------------------------------------- browsers

_BROWSER_NAMES = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    *("microsoft-edge", "microsoft-edge-stable"),
)
_BROWSER_PLACES = (
    *("/opt/google/chrome/chrome", "/opt/microsoft/msedge/msedge", "/snap/bin/chromium"),
    *(
        f"{base}/{name}.app/Contents/MacOS/{name}"
        for base in ("/Applications", "~/Applications")
        for name in ("Chromium", "Google Chrome", "Microsoft Edge")
    ),
)
_PLAYWRIGHT_CACHES = ("~/.cache/ms-playwright", "~/Library/Caches/ms-playwright")
_PLAYWRIGHT_BROWSERS = (
    *("chromium-*/chrome-*/chrome", "chromium-*/chrome-*/*.app/Contents/MacOS/*"),
    *("chromium_headless_shell-*/*/*headless_shell", "chromium_headless_shell-*/*/*headless-shell"),
)


def _browsers() -> Iterator[Path]:
    """Every file that may be one: on the path, in its usual place, or where Playwright keeps its own."""
    yield from map(Path, _on_path(*_BROWSER_NAMES))
    yield from filter(Path.exists, (Path(place).expanduser() for place in _BROWSER_PLACES))
    chosen = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    for base in [chosen] if chosen else _PLAYWRIGHT_CACHES:
        for pattern in _PLAYWRIGHT_BROWSERS:
            yield from sorted(Path(base).expanduser().glob(pattern), reverse=True)


def _runs(program: Path) -> bool:
    """A name may stand for a program that is not there (Ubuntu's stub), or that lacks libraries."""
    try:
        said = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_VERSION_WITHIN_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return said.returncode == 0
