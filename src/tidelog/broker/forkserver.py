"""``python -m tidelog.broker.forkserver FD``: the process that a cluster's brokers are forked from.

Half of a broker's start time is spent loading its code. The fork server loads it once and forks a broker for
each request, so that three brokers take little longer than one and a restarted broker serves at once. Each
broker is a separate process in its own session; they share only code.

The protocol on the Unix socket FD is JSON lines: a request is the path of a properties file with three
descriptors, the broker's standard input, output and error; the answer is `{"pid": N}`, and when a broker ends
`{"ended": N, "code": C}` follows. A client waits for the answer before its next request.

No broker outlives its cluster. Its standard input is a pipe from its supervisor; when it is closed, the
supervisor is gone, and the broker shuts down as after SIGTERM. The fork server stays until they have ended:
it wakes those that are paused, and kills what has not ended in time.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_REQUEST_BYTES_MAX = 64 * 1024
_PATIENCE_SECONDS = 10.0
"""For a broker whose supervisor is gone to shut down."""
_ORPHANED_SECONDS = 2.0
"""Until the kernel has given the children of a supervisor that was killed to another process."""
_LOOK_SECONDS = 0.05


def serve(control: socket.socket) -> None:
    """Fork a broker for each request until the socket is closed."""
    import tidelog.broker.process  # noqa: F401  # loaded before the first request

    gc.collect()
    gc.freeze()  # so that the garbage collector does not write to, and thereby copy, shared pages
    supervisor = os.getppid()
    running: set[int] = set()
    children, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    while True:
        readable, _, _ = select.select([control.fileno(), children], [], [])
        if children in readable:
            os.read(children, 4096)
            _tell_who_ended(control, running)
        if control.fileno() in readable:
            data, descriptors = _request(control)
            if not data:
                _see_them_end(running, supervisor)
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                control.close()
                _become_broker(json.loads(data), descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            running.add(pid)
            _send(control, {"pid": pid})


def _request(control: socket.socket) -> tuple[bytes, list[int]]:
    try:
        data, descriptors, _, _ = socket.recv_fds(control, _REQUEST_BYTES_MAX, 3)
    except ConnectionResetError:  # the supervisor was killed before it had read all answers
        return b"", []
    return data, descriptors


def _see_them_end(running: set[int], supervisor: int) -> None:
    """The socket is closed. Return at once if the supervisor lives and only needs no more brokers."""
    _send_all(running, signal.SIGCONT)  # a paused broker would not notice that its cluster is gone
    began = time.monotonic()
    while True:
        running -= {pid for pid, _ in _ended()}
        waited = time.monotonic() - began
        if not running or (waited > _ORPHANED_SECONDS and os.getppid() == supervisor):
            return
        if waited > _PATIENCE_SECONDS + _ORPHANED_SECONDS:
            _send_all(running, signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)


def _send_all(brokers: set[int], sent: signal.Signals) -> None:
    for pid in brokers:
        with suppress(ProcessLookupError):
            os.kill(pid, sent)


def _tell_who_ended(control: socket.socket, running: set[int]) -> None:
    for pid, code in _ended():
        running.discard(pid)
        _send(control, {"ended": pid, "code": code})


def _ended() -> Iterator[tuple[int, int]]:
    """Brokers that have ended and have not been asked for yet, with their exit codes."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            yield pid, os.waitstatus_to_exitcode(status)


def _send(control: socket.socket, message: dict[str, int]) -> None:
    with suppress(OSError):  # the socket is closed: the next read returns its end
        control.sendall(json.dumps(message).encode() + b"\n")


# ---------------------------------------------------------------- in the broker


def _become_broker(properties: str, descriptors: list[int]) -> None:
    """Never returns."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for target, descriptor in enumerate(descriptors):
            os.dup2(descriptor, target)
            os.close(descriptor)
        with suppress(OSError):  # the name in ps and top, if the system allows it
            Path("/proc/self/comm").write_text(f"tidelog {Path(properties).stem}")
        threading.Thread(target=_follow_supervisor, name="supervisor", daemon=True).start()
        from tidelog.broker.__main__ import main

        code = main([properties])
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _follow_supervisor() -> None:
    """Pass on what the supervisor asks (`control`). Shut down cleanly when standard input ends; at once if
    that takes too long."""
    from tidelog.broker.control import MAILBOX

    rest = b""
    while data := os.read(0, 4096):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            MAILBOX.put(line)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        serve(given)
