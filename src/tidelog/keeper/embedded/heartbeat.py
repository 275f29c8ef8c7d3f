"""Says "I am here" for an event loop that has no time to: a thread with a descriptor of the same connection.

A turn of the loop takes milliseconds, but on a machine with forty busy processes a millisecond takes forty. A
broker that has its hands full then falls silent for longer than its session, is taken for dead, and goes on
serving as a leader beside the one that was elected in its place. Apache Kafka has no such trouble: the client
of ZooKeeper sends its heartbeats from a thread of its own.

Rules of the file:

* It speaks only when the loop is late, so that it hardly ever does, and only whole frames.
* It vouches for a loop that was seen to turn not long ago. One that hangs for good shall lose its session.
* The descriptor is a duplicate and belongs to it, so that it cannot be somebody else's by now.
"""

from __future__ import annotations

import os
import threading
import time

LATE_AFTER = 1.5
"""In units of the interval at which the loop means to speak."""
VOUCHED_FOR_S = 20.0
"""How long a loop may take for one turn. Longer than any that only lacks a processor."""


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
        """How often it stood in for the loop."""
        threading.Thread(target=self._watch, name="keeper-heartbeat", daemon=True).start()

    def loop_spoke(self) -> None:
        """The loop is alive, and has just said so itself."""
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
                # A connection that takes less than these few bytes is no use anyway; the loop will find out.
                os.write(self._descriptor, self._frame)
            except OSError:
                return
        self._said = now
        self.spoken += 1
