"""Syncs that wait for us: one process has a slow disk, its sibling does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tidelog.cluster.sync_gate import SyncGate

# Two children of one process, as brokers are; each syncs when it is told to and says so.
PARENT = """
import os, sys
def child(name):
    file = os.open(sys.argv[1] + name, os.O_CREAT | os.O_RDWR)
    for line in os.fdopen(int(sys.argv[2 if name == "a" else 3])):
        os.write(file, b"x")
        (os.fsync if line == "fsync\\n" else os.fdatasync)(file)
        print(name, flush=True)
    os._exit(0)
for name in "ab":
    pid = os.fork()
    if not pid:
        child(name)
    print(pid, flush=True)
os.wait(); os.wait()
"""
AN_HOUR_MS = 3_600_000


class Family:
    def __init__(self, gate: SyncGate, folder: Path) -> None:
        reads, self._writes = zip(*(os.pipe() for _ in range(2)), strict=True)
        self._process = subprocess.Popen(
            [*gate.command(), sys.executable, "-c", PARENT, str(folder / "f"), *map(str, reads)],
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=(gate.theirs.fileno(), *reads),
        )
        gate.open()
        for each in reads:
            os.close(each)
        self.pids = [int(self.hears()) for _ in range(2)]

    def tell(self, child: int, what: str) -> None:
        os.write(self._writes[child], f"{what}\n".encode())

    def hears(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.kill()
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for each in self._writes:
            os.close(each)
        self._process.communicate()


@pytest.fixture
def gate() -> Iterator[SyncGate]:
    made = SyncGate()
    yield made
    made.close()


@pytest.fixture
def family(gate: SyncGate, tmp_path: Path) -> Iterator[Family]:
    made = Family(gate, tmp_path)
    try:
        gate.slow_down(-1, 1)
    except OSError as error:
        made.close()
        pytest.skip(str(error))
    yield made
    made.close()


def test_only_the_syncs_of_a_slow_disk_wait(gate: SyncGate, family: Family):
    """While one child waits, the other goes on; and both kinds of syncs are asked about."""
    for what in ("fsync", "fdatasync"):
        family.tell(0, what)
        assert family.hears() == "a"
    gate.slow_down(family.pids[0], AN_HOUR_MS)
    family.tell(0, "fdatasync")
    for _ in range(3):
        family.tell(1, "fsync")
        assert family.hears() == "b"
    gate.speed_up(family.pids[0])
    family.tell(1, "fsync")
    assert family.hears() == "b"


def test_a_slow_sync_is_done_in_the_end(gate: SyncGate, family: Family):
    gate.slow_down(family.pids[0], 50)
    family.tell(0, "fsync")
    assert family.hears() == "a"
    gate.speed_up(family.pids[0])
    family.tell(0, "fsync")
    assert family.hears() == "a"


def test_whoever_ends_while_he_waits_is_forgotten(gate: SyncGate, family: Family):
    gate.slow_down(family.pids[0], 200)
    family.tell(0, "fsync")
    os.kill(family.pids[0], signal.SIGKILL)
    family.tell(1, "fsync")
    assert family.hears() == "b"


def test_where_nobody_asks_it_says_so(gate: SyncGate):
    """As on a kernel that cannot."""
    gate.open()  # no process was started: the other end of the socket is closed
    with pytest.raises(OSError, match="syncs cannot be watched here: no process asks"):
        gate.slow_down(1, 1)
