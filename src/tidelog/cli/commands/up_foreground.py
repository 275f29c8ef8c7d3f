"""Supervise a cluster: print its log and its ready line, report brokers that die, stop it.

Stdout gets one line, when the cluster is ready. Ctrl-C or SIGTERM stops the brokers in order; a second Ctrl-C
kills them. A second SIGTERM does not: two `tidelog down` may run at the same time.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.cli.show.announcements import Announcements
from tidelog.cli.show.cluster_log import NORMAL, ClusterLog
from tidelog.cluster.aio import Supervisor
from tidelog.cluster.broker_process import BrokerProcess
from tidelog.cluster.directory import remember
from tidelog.cluster.remote import RemoteControl
from tidelog.cluster.spec import ClusterSpec
from tidelog.errors import reason
from tidelog.narrate.numbers import counted


@dataclass(slots=True)
class Plan:
    """Options of the command. `notes` are (is it a warning, text); `started` is a time of `perf_counter`."""

    started: float
    spec: ClusterSpec
    data_dir: Path | None
    notes: list[tuple[bool, str]] = field(default_factory=list)
    least: int = NORMAL
    as_json: bool = False


def supervise(plan: Plan, announce: Callable[[str], None] | None = None, *, temporary: bool = False) -> None:
    """Run the cluster until it is stopped. `announce` gets the ready line instead of stdout. `temporary`
    empties the data directory at the start and removes it at the end, even if the plan names one."""
    asyncio.run(_Supervision(plan, announce, temporary=temporary or plan.data_dir is None).run())


class _Supervision:
    def __init__(self, plan: Plan, announce: Callable[[str], None] | None, *, temporary: bool) -> None:
        self._plan = plan
        self._log = ClusterLog(plan.least, plan.spec.brokers)
        self._temporary = temporary
        self._stopping = asyncio.Event()
        self._cluster = Supervisor(
            plan.spec, plan.data_dir, on_line=self._log.broker_said, on_death=self._died
        )
        self._shown = Announcements(self._log, self._cluster, as_json=plan.as_json)
        self._announce = announce or self._shown.print_ready
        self._remote = RemoteControl(self._cluster, self._shown.did)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupted)
        loop.add_signal_handler(signal.SIGTERM, self._stopping.set)
        watching = asyncio.create_task(self._start())
        interrupted = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((watching, interrupted), return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                await watching  # raises its error
        finally:
            interrupted.cancel()
            watching.cancel()
            await asyncio.gather(watching, interrupted, return_exceptions=True)
            await self._stop()

    async def _start(self) -> None:
        """Start the cluster, then watch the keeper. A broker that dies does not end the cluster; the keeper
        does."""
        for warning, text in self._plan.notes:
            self._log.note(text, warning=warning)
        self._cluster.occupy(empty=self._temporary)
        remember(self._cluster.data_dir)
        if left := self._cluster.left_alone():
            names = ", ".join(map(str, left))
            self._log.note(
                f"{self._cluster.data_dir} has data of brokers that this command does not start: {names}",
                warning=True,
            )
        await self._cluster.start()
        try:
            await self._remote.start()
        except OSError as error:  # for example a folder shared with another system
            self._log.note(
                f"tidelog kill and the like cannot reach this cluster: {reason(error)}", warning=True
            )
        self._announce(self._shown.ready_line(time.perf_counter() - self._plan.started))
        await self._cluster.keeper_failure()

    def _interrupted(self) -> None:
        if self._stopping.is_set():
            self._cluster.kill_all()
        self._stopping.set()

    async def _stop(self) -> None:
        began = time.perf_counter()
        self._remote.stop()
        stopped = await self._cluster.stop(remove_data=self._temporary)
        if stopped:
            kept = "" if self._temporary else f" · data kept in {self._cluster.data_dir}"
            words = f"stopped {counted(stopped, 'broker')} in {time.perf_counter() - began:.1f} s{kept}"
            self._log.note(words, warning=False)
        if self._stopping.is_set():
            # The cluster is stopped. After the loop removes its handlers, a signal would fail the process.
            for signum in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().remove_signal_handler(signum)
                signal.signal(signum, signal.SIG_IGN)

    def _died(self, process: BrokerProcess) -> None:
        self._shown.died(process)
