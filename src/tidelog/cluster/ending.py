"""Ending the brokers of a data directory, whoever started them.

A cluster knows the brokers it has started. It does not know one that was killed and started again by hand;
and once the process that runs the cluster is killed, none is known to anybody. All of them are found by the
locks on their data. Nothing else is ever signalled: `running_brokers` names only a process that holds such a
lock now.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from tidelog.cluster.directory import RunningBroker, running_brokers
from tidelog.storage.lock_file import Process


class Ending:
    """Each broker is asked once to shut down in order: a second SIGTERM would make it hurry."""

    def __init__(self, data_dir: Path, spared: Collection[int] = ()) -> None:
        """`spared`: process ids of brokers that are ended in another way. This process never ends itself."""
        self._data_dir = data_dir
        self._spared = frozenset((*spared, os.getpid()))
        self.asked: set[Process] = set()
        self.of_others: set[Process] = set()
        """Processes of other users, which cannot be ended from here."""

    def ask(self) -> list[RunningBroker]:
        """Ask those that were not asked yet; the ones that have not ended."""
        left = self._left()
        for broker in left:
            if broker.process is not None and broker.process not in self.asked:
                self.asked.add(broker.process)
                # A paused one could not end.
                self._send(broker.process, signal.SIGCONT, signal.SIGTERM)
        return left

    def kill(self) -> None:
        for broker in self._left():
            if broker.process is not None:
                self.asked.add(broker.process)
                self._send(broker.process, signal.SIGKILL)

    def _left(self) -> list[RunningBroker]:
        return [
            broker
            for broker in running_brokers(self._data_dir)
            if broker.process is None
            or (broker.process.pid not in self._spared and broker.process not in self.of_others)
        ]

    def _send(self, process: Process, *signals: signal.Signals) -> None:
        try:
            for sent in signals:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, sent)
        except PermissionError:
            self.of_others.add(process)
            self.asked.discard(process)
