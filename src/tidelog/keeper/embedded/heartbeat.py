"""Sends pings for a busy event loop, from a thread with a descriptor of the same connection.

A turn of the loop takes milliseconds, but forty times as long on a machine with forty busy processes. A busy
broker would then be silent for longer than its session time-out and lose its session, while it still serves
as a leader beside its elected successor. Apache Kafka avoids this in the same way: the client of ZooKeeper
sends its heartbeats from its own thread.

Rules of the file:

* It sends only when the loop is late, which is rare, and only whole frames.
* It sends only if the loop ran not long ago. A loop that hangs for good must lose its session.
* The descriptor is a duplicate that this thread owns, so its number cannot be reused for another file.
"""

from __future__ import annotations

import os
import threading
import time

LATE_AFTER = 1.5
"""In units of the interval at which the loop should send."""
VOUCHED_FOR_S = 20.0
"""How long one turn of the loop may take. A loop that only lacks processor time is faster."""


class Heartbeat:
    def __init__(
        self, descriptor: int, frame: bytes, every_s: float, vouched_for_s: float = VOUCHED_FOR_S
    ) -> None:
        self._descriptor = os.dup(descriptor)
        self._frame = frame
        self._every_s = every_s
        self._vouched_for_s = vouched_for_s
        self._said = self._turned = time.monotonic()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.spoken = 0
        """How many pings it has sent."""
        threading.Thread(target=self._watch, name="keeper-heartbeat", daemon=True).start()

    def loop_spoke(self) -> None:
        """The loop has just sent a message itself."""
        self._said = self._turned = time.monotonic()

    def stop(self) -> None:
        self._over.set()
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def _watch(self) -> None:
        while not self._over.wait(self._every_s / 2):
            now = time.monotonic()
            if now - self._said > self._every_s * LATE_AFTER and now - self._turned < self._vouched_for_s:
                self._say(now)

    def _say(self, now: float) -> None:
        with self._lock:
            if self._descriptor < 0:
                return
            try:
                # A partial write means that the connection is stuck; the loop will close it.
                os.write(self._descriptor, self._frame)
            except OSError:
                return
        self._said = now
        self.spoken += 1
