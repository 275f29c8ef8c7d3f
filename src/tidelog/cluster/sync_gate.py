"""Slow disks without a slow disk, and without root: the kernel asks us before a process syncs a file.

Linux can hand a system call of one process to another for a decision (seccomp's user notification). The
process that brokers are forked from is started through this module, which asks for that for ``fsync`` and
``fdatasync`` and then becomes what it was asked to start:

    python -m tidelog.cluster.sync_gate FD COMMAND…

The trial receives the kernel's end over the socket FD, lets every sync of every broker go on at once, and
those of a broker whose disk is slow only after a while. The broker is exactly the one that ships, and the
sync itself is its own. What a slow disk does to reads, and to writes once the page cache is full, is not
imitated.

Rules of this file: a process that ended while it waited is forgotten; when the trial is gone, syncs fail, and
brokers end by that if not by themselves.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import platform
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

# Numbers of system calls: seccomp, fsync, fdatasync; and how the kernel calls the architecture.
_CALLS: Final = {
    "x86_64": (317, 74, 75, 0xC000003E),
    "aarch64": (277, 82, 83, 0xC00000B7),
}
_PR_SET_NO_NEW_PRIVS: Final = 38
_SET_MODE_FILTER: Final = 1
_NEW_LISTENER: Final = 8
_RECEIVE: Final = 0xC0502100
_ANSWER: Final = 0xC0182101
_GO_ON: Final = 1
_QUESTION: Final = struct.Struct("=QII")  # id, thread, flags; more follows
_QUESTION_BYTES: Final = 80
_REPLY: Final = struct.Struct("=QqiI")  # id, value, error, flags
_INSTALL_SECONDS: Final = 60.0


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("if_true", ctypes.c_ubyte),
        ("if_false", ctypes.c_ubyte),
        ("value", ctypes.c_uint),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("first", ctypes.POINTER(_Instruction)))


# ---------------------------------------------------------------- in the process whose syncs are watched


def install() -> int:
    """From now on this process and its children ask before they sync; the descriptor by which they ask.
    Raises `OSError`."""
    calls = _CALLS.get(platform.machine())
    if sys.platform != "linux" or calls is None:
        raise OSError(f"not on {platform.system()} {platform.machine()}")
    seccomp, fsync, fdatasync, architecture = calls
    load, equal, answer, allow, ask = 0x20, 0x15, 0x06, 0x7FFF0000, 0x7FC00000
    lines = (
        _Instruction(load, 0, 0, 4),  # the architecture
        _Instruction(equal, 0, 4, architecture),
        _Instruction(load, 0, 0, 0),  # the number of the call
        _Instruction(equal, 1, 0, fsync),
        _Instruction(equal, 0, 1, fdatasync),
        _Instruction(answer, 0, 0, ask),
        _Instruction(answer, 0, 0, allow),
    )
    program = _Program(len(lines), (_Instruction * len(lines))(*lines))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    descriptor = int(libc.syscall(seccomp, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(program)))
    if descriptor < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return descriptor


def become(control: int, command: Sequence[str]) -> None:
    with socket.socket(fileno=control) as trial:
        try:
            descriptor = install()
        except OSError as error:
            trial.sendall(str(error.strerror or error).lower().encode())
        else:
            socket.send_fds(trial, [b"installed"], [descriptor])
            os.close(descriptor)
    os.execvp(command[0], list(command))


# ---------------------------------------------------------------- in the trial


class SyncGate:
    """Decides on the syncs of one process and all its children."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._delays_ms: dict[int, int] = {}
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._decide, name="sync-gate", daemon=True)
        self._ready = threading.Event()
        self.trouble: str | None = None
        """Why there is nothing to decide, if so."""

    def command(self) -> list[str]:
        """Words to put before a command for its syncs to be decided here; it inherits `theirs`."""
        return [sys.executable, "-m", "tidelog.cluster.sync_gate", str(self.theirs.fileno())]

    def open(self) -> None:
        """After the command was started."""
        self.theirs.close()
        self._thread.start()

    def slow_down(self, pid: int, ms: int) -> None:
        """Every sync of a process takes so much longer. Raises `OSError` if that cannot be had here."""
        self._ready.wait(_INSTALL_SECONDS)
        if self.trouble is not None:
            raise OSError(self.trouble)
        self._delays_ms[pid] = ms

    def speed_up(self, pid: int) -> None:
        """What waits already goes on waiting."""
        self._delays_ms.pop(pid, None)

    def close(self) -> None:
        """When all processes that could ask have ended."""
        os.close(self._wake_write)
        if self._thread.ident is not None:
            self._thread.join()
        os.close(self._wake_read)
        self._ours.close()
        with suppress(OSError):
            self.theirs.close()

    # ------------------------------------------------------------ the thread

    def _decide(self) -> None:
        descriptor = self._receive()
        self._ready.set()
        if descriptor < 0:
            return
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        waiting: list[tuple[float, int]] = []
        try:
            while True:
                left = max(waiting[0][0] - time.monotonic(), 0) * 1000 if waiting else None
                found = dict(poll.poll(left))
                if self._wake_read in found or found.get(descriptor, 0) & select.POLLHUP:
                    return
                if descriptor in found:
                    self._take(descriptor, waiting)
                while waiting and waiting[0][0] <= time.monotonic():
                    _let_go_on(descriptor, heapq.heappop(waiting)[1])
        finally:
            for _, question in waiting:
                _let_go_on(descriptor, question)
            os.close(descriptor)

    def _receive(self) -> int:
        try:
            said, descriptors, _, _ = socket.recv_fds(self._ours, 4096, 1)
        except OSError as error:
            said, descriptors = str(error).encode(), []
        if descriptors:
            return descriptors[0]
        self.trouble = f"syncs cannot be watched here: {said.decode() or 'no process asks'}"
        return -1

    def _take(self, descriptor: int, waiting: list[tuple[float, int]]) -> None:
        data = bytearray(_QUESTION_BYTES)
        try:
            fcntl.ioctl(descriptor, _RECEIVE, data)
        except OSError:  # who asked is gone
            return
        question, thread, _ = _QUESTION.unpack_from(data)
        delay_ms = self._delays_ms.get(_process_of(thread), 0) if self._delays_ms else 0
        if delay_ms:
            heapq.heappush(waiting, (time.monotonic() + delay_ms / 1000, question))
        else:
            _let_go_on(descriptor, question)


def _let_go_on(descriptor: int, question: int) -> None:
    with suppress(OSError):  # who asked is gone
        fcntl.ioctl(descriptor, _ANSWER, _REPLY.pack(question, 0, 0, _GO_ON))


def _process_of(thread: int) -> int:
    try:
        status = Path(f"/proc/{thread}/status").read_text("ascii", "replace")
    except OSError:
        return -1
    return int(status.partition("Tgid:")[2].split()[0])


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
