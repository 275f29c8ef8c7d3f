"""``python -m tidelog.broker.forkserver FD``: the process that a cluster's brokers are forked from.

Half of the time in which a broker starts goes into loading its code. Here that is done once: a nursery loads
everything, then forks a broker for each request, so that three brokers cost little more than one and a broker
that is started again serves at once. Each is a process of its own, in a session of its own; nothing is shared
but code.

The conversation, on the Unix socket FD, in lines of JSON: a request is the path of a properties file and
carries three descriptors, the broker's standard input, output and error; the answer is `{"pid": N}`, and when
a broker ends `{"ended": N, "code": C}` follows. The next request may come after the answer to the one before.

No broker outlives its cluster. Its standard input is a pipe that nothing is ever written to; when that ends,
whoever held the other end is gone, and the broker shuts down as at SIGTERM.
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
from contextlib import suppress
from pathlib import Path

_REQUEST_BYTES_MAX = 64 * 1024
_PATIENCE_SECONDS = 10.0


def serve(control: socket.socket) -> None:
    """Fork a broker for each request until the other side is gone."""
    import tidelog.broker.process  # noqa: F401  # the point of it all: loaded before anybody asks

    gc.collect()
    gc.freeze()  # so that the collector does not touch, and thereby copy, what all brokers share
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
            data, descriptors, _, _ = socket.recv_fds(control, _REQUEST_BYTES_MAX, 3)
            if not data:
                _wake_paused(running)
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                control.close()
                _become_broker(json.loads(data), descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            running.add(pid)
            _say(control, {"pid": pid})


def _wake_paused(brokers: set[int]) -> None:
    """A broker that somebody had stopped would not see that its cluster is gone."""
    for pid in brokers:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _tell_who_ended(control: socket.socket, running: set[int]) -> None:
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            running.discard(pid)
            _say(control, {"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _say(control: socket.socket, message: dict[str, int]) -> None:
    with suppress(OSError):  # nobody listens any more: the next read says so
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
        with suppress(OSError):  # how ps and top call it, where that can be chosen
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
    """Shut down in order when standard input ends; and at once if that takes too long."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        serve(given)
