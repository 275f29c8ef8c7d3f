"""Processes that a benchmark or a test starts, watches through /proc, and stops by their ids.

Every process started here leads a session of its own: Ctrl-C reaches only the program that started it, which
then stops it in order. What is still alive when that program ends is killed; where there is a `setpriv`, also
when that program is killed itself.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

LOOPBACK = "127.0.0.1"
PATIENCE_SECONDS = 120.0
"""For what would otherwise hang. A machine with much else to do is slow, not wrong: no claim rests on it."""

Result = TypeVar("Result")

_alive: set[subprocess.Popen[Any]] = set()
_SETPRIV = shutil.which("setpriv")
_ticks_per_second = os.sysconf("SC_CLK_TCK")


class Unavailable(Exception):
    """Something that is needed is missing. The message is one line that says what to do."""


def spawn(
    command: Sequence[str | Path],
    *,
    stdout: int | IO[Any] | None = subprocess.DEVNULL,
    stderr: int | IO[Any] | None = subprocess.STDOUT,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    when_orphaned: str = "KILL",
) -> subprocess.Popen[bytes]:
    """Start a process that does not outlive this one. To be called in the main thread: the kernel sends
    `when_orphaned` when the *thread* that started a process ends."""
    leash = [_SETPRIV, "--pdeathsig", when_orphaned, "--"] if _SETPRIV else []
    process = subprocess.Popen(
        [*leash, *(str(word) for word in command)],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env=None if environment is None else {**os.environ, **environment},
        start_new_session=True,
    )
    _alive.add(process)
    return process


def stop(
    processes: Sequence[subprocess.Popen[Any]],
    sent: signal.Signals = signal.SIGTERM,
    patience_seconds: float = 30.0,
) -> None:
    """Ask all to stop at once, wait for all, kill those that did not. A paused process is let run first."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(sent)
    deadline = time.monotonic() + patience_seconds
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        finally:
            _alive.discard(process)


@atexit.register
def _kill_the_rest() -> None:
    for process in list(_alive):
        if process.poll() is None:
            process.kill()
            process.wait()


def is_alive(pid: int) -> bool:
    """Whether a process, ours or not, still runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def resident_bytes(pid: int) -> int:
    """The memory of a process that is in RAM now, pages it shares included."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process so far."""
    after_the_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_the_name[11]) + int(after_the_name[12])) / _ticks_per_second


def busy_seconds() -> float:
    """CPU time that everything on this machine has used so far, of all cores together."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / _ticks_per_second


def free_ports(count: int) -> list[int]:
    """Free ports of the loopback interface, all different.

    They are free when this returns and may be taken a moment later: a program that can bind port 0 and say
    which port it got should do that instead.
    """
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind((LOOPBACK, 0))
        return [listener.getsockname()[1] for listener in listeners]


def accepts(port: int, host: str = LOOPBACK) -> bool:
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def eventually(
    check: Callable[[], Result | None],
    what: str,
    timeout_seconds: float = PATIENCE_SECONDS,
    every_seconds: float = 0.02,
) -> Result:
    """Ask again and again until the answer is true, and return it."""
    deadline = time.monotonic() + timeout_seconds
    while not (answer := check()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {timeout_seconds:g} s still not: {what} (last answer: {answer!r})")
        time.sleep(every_seconds)
    return answer
