"""`make tools`: get what tests need besides Python packages, as far as this machine and its user allow.

As root on Debian and its kin: the distribution's packages. A browser otherwise: Playwright's own. Then
Kafka's jars, Java clients and Hadoop's jars, through Maven, into the cache of bench/jars.py, and Python for
browsers, through npm, into the same. Every step says
in one line what it does; what cannot be had is named, and stops nothing: the tests that need it are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from bench.jars import hadoop_jars, kafka_jars
from bench.tools import Missing, Tool, advice, is_there
from tests.clients.matrix.remote import JAVA_CLIENTS, compiled

from tidelog.web.pyodide import NoPyodide, fetched

WANTED = (Tool.BROWSER, Tool.KCAT, Tool.MAVEN, Tool.NODE, Tool.NPM, Tool.STRACE)
"""What `make test` uses. Go and Firefox, for `make test-all`, are left to their users: distributions have an
old Go, and one browser is enough for every commit."""
PACKAGES_SECONDS_MAX = 900.0
BROWSER_SECONDS_MAX = 300.0

_UNATTENDED = {"DEBIAN_FRONTEND": "noninteractive"}
_PATIENT = ("-q", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=2")


def say(text: str) -> None:
    print(f"tools: {text}", flush=True)


def run(command: Sequence[str], seconds_max: float, environment: Mapping[str, str] | None = None) -> bool:
    """Whether a command did what it is for; if not, its first error is said."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            text=True,
            errors="replace",
            check=False,
            timeout=seconds_max,
        )
    except subprocess.TimeoutExpired:
        say(f"{command[0]} was stopped after {seconds_max:g} s")
        return False
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if line.startswith(("E: ", "Error: "))]
        say(f"that failed: {errors[0] if errors else f'exit code {done.returncode}'}")
    return not done.returncode


def install_packages(tools: Sequence[Tool]) -> None:
    packages = [package for tool in tools for package in tool.packages]
    say(f"apt-get install {' '.join(packages)}")
    updated = run(["apt-get", *_PATIENT, "update"], PACKAGES_SECONDS_MAX, _UNATTENDED)
    install = ["apt-get", *_PATIENT, "install", "-y", "--no-install-recommends"]
    # Each for itself, if not all of them can be had.
    if updated and not run([*install, *packages], PACKAGES_SECONDS_MAX, _UNATTENDED):
        for tool in tools:
            run([*install, *tool.packages], PACKAGES_SECONDS_MAX, _UNATTENDED)


def download_browser(*, root: bool) -> None:
    with_libraries = ["--with-deps"] if root else []
    say("downloading Playwright's Chromium (some 150 MB)")
    command = [sys.executable, "-m", "playwright", "install", *with_libraries, "--only-shell", "chromium"]
    run(command, BROWSER_SECONDS_MAX, _UNATTENDED)


def fetch_jars() -> None:
    say("fetching Apache Kafka's jars, its Java clients and Hadoop's with Maven, unless they are here")
    try:
        kafka_jars()
        hadoop_jars()
        for client in JAVA_CLIENTS:
            compiled(client)
    except Missing as missing:
        say(str(missing))


def fetch_pyodide() -> None:
    say("fetching Python for browsers (Pyodide) with npm, unless it is here")
    try:
        fetched()
    except NoPyodide as missing:
        say(str(missing))


def main() -> int:
    root = os.geteuid() == 0
    missing = [tool for tool in WANTED if not is_there(tool)]
    if missing and root and shutil.which("apt-get"):
        install_packages(missing)
    if not is_there(Tool.BROWSER):
        download_browser(root=root)
    if is_there(Tool.MAVEN):
        fetch_jars()
    if is_there(Tool.NPM):
        fetch_pyodide()
    if left := [tool for tool in WANTED if not is_there(tool)]:
        names = ", ".join(tool.title for tool in left)
        say(f"without {names} some tests will be skipped; {advice(left)}, then make tools")
    return 0


if __name__ == "__main__":
    sys.exit(main())
