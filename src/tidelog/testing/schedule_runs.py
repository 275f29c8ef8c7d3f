"""`@pytest.mark.kafka_schedules`: a test runs again and again, each time under another schedule of faults.

Every run is a whole one, with its fixtures: a topic and a group of its own. The cluster is shared, and whole
again before the next run. The first failure is shrunk: the test runs under smaller schedules as long as it
still fails. What is reported is the run under the smallest, with the line that repeats it.

Real processes are not deterministic: a schedule under which a test fails makes it fail often, not always. So
a smaller schedule is tried more than once before it is given up.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import pytest
from _pytest.runner import runtestprotocol

from tidelog.cluster.active_fault import ActiveFault
from tidelog.cluster.cluster import Cluster
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.testbed import ClusterTestbed
from tidelog.errors import Refusal, unknown
from tidelog.evidence.event_schema import Row
from tidelog.faults import TRIAL_FAULTS
from tidelog.narrate.numbers import counted
from tidelog.testing import schedules
from tidelog.testing.again import command_for
from tidelog.testing.faults import Faults
from tidelog.testing.options import check_kind
from tidelog.testing.schedules import Schedule
from tidelog.trials.nemesis import Nemesis

MARKER: Final = "kafka_schedules"
RUN: Final = pytest.StashKey["Run"]()
_ARGUMENTS: Final[dict[str, type]] = {
    "n": int,
    "seed": int,
    "seconds": float,
    "faults": Sequence,
    "replay": str,
    "shrink_seconds": float,
}
_MAY_BE_NONE: Final = ("seed", "faults")
_SEEDS: Final = 1_000_000_000
_TRIES: Final = 2
_SESSION: Final = "zookeeper.session.timeout.ms"


@dataclass(slots=True)
class Wanted:
    """What a marker asks for."""

    n: int = 20
    """The number of schedules."""
    seed: int | None = None
    seconds: float = 2.0
    """Faults begin within this time after the body of the test begins."""
    faults: tuple[str, ...] | None = None
    replay: str = ""
    """This schedule and no other."""
    shrink_seconds: float = 120.0

    @classmethod
    def of(cls, item: pytest.Item) -> Wanted:
        """Of a test that has the marker. Raises `Refusal`."""
        marker = item.get_closest_marker(MARKER)
        assert marker is not None
        if marker.args:
            raise Refusal(f"give names, such as {MARKER}(n=20)")
        for name, value in marker.kwargs.items():
            if name not in _ARGUMENTS:
                raise unknown("argument", name, tuple(_ARGUMENTS))
            if value is not None or name not in _MAY_BE_NONE:
                check_kind(name, value, _ARGUMENTS[name])
        wanted = cls(**marker.kwargs)
        wanted.replay = item.config.getoption("--kafka-schedule") or wanted.replay
        if wanted.n < 1 or wanted.seconds <= 0:
            raise Refusal("n and seconds must be larger than 0")
        schedules.kinds(wanted.faults)
        if wanted.replay:
            schedules.parsed(wanted.replay)
        return wanted


@dataclass(slots=True)
class Run:
    """One run of a test. The schedule is drawn when its cluster is there."""

    wanted: Wanted
    seed: int
    schedule: Schedule | None = None
    done: int = 0
    """Faults that were really done."""
    body_seconds: float = 0.0
    not_done: list[str] = field(default_factory=list)
    """Faults that could not be done, and why."""

    def plan(self, cluster: Cluster) -> Schedule:
        """Raises `ClusterError` for a line that was written for another cluster."""
        if self.schedule is None and self.wanted.replay:
            self.schedule = schedules.parsed(self.wanted.replay)
            for fault in self.schedule:
                cluster.faults.check(TRIAL_FAULTS[fault.kind], fault.targets)
        if self.schedule is None:
            session_ms = int(cluster.spec.shared_settings()[_SESSION])
            names = schedules.kinds(self.wanted.faults)
            zones = cluster.spec.zones_of_brokers()
            self.schedule = schedules.draw(self.seed, names, zones, self.wanted.seconds, session_ms)
        return self.schedule


class _Book:
    """Enters what the nemesis does into the book of the cluster's faults."""

    def __init__(self, cluster: Cluster, not_done: list[str]) -> None:
        self._faults = cluster.faults
        self._begun: dict[int, ActiveFault] = {}
        self._not_done = not_done

    def write(self, row: Row) -> None:
        number = row["number"]
        if "kind" in row:
            self._begun[number] = self._faults.begun(row["kind"], row["targets"], lambda: None)
        elif "ended_us" in row:
            self._begun[number].ended()
        elif "began_us" in row:  # it was not done
            fault = self._begun.pop(number)
            self._faults.history.remove(fault)
            self._not_done.append(f"{' '.join((fault.kind, *fault.targets))}: {row['error']}")


@contextmanager
def faults_in(run: Run, cluster: Cluster, faults: Faults | None) -> Iterator[None]:
    """The schedule is carried out while the block runs. Afterwards the cluster is whole."""
    book = _Book(cluster, run.not_done)
    try:
        schedule = run.plan(cluster)
    except ClusterError as error:
        pytest.fail(f"no fault was done: {error}", pytrace=False)
    nemesis = Nemesis(ClusterTestbed(cluster, cluster.client_zones), schedule, book)
    if faults is not None:
        faults.end_schedule = nemesis.heal
    began = time.monotonic()
    nemesis.start()
    try:
        yield
    finally:
        run.body_seconds = time.monotonic() - began
        nemesis.heal()
        run.done = nemesis.done
        if faults is not None:
            faults.end_schedule = None
        cluster.wait_in_sync()


# ---------------------------------------------------------------- many runs


def run_all(item: pytest.Item, wanted: Wanted, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    """The reports of the run that counts: the last one, or the smallest failure."""
    seed = random.SystemRandom().randrange(_SEEDS) if wanted.seed is None else wanted.seed
    faults_done, reports, run = 0, [], Run(wanted, seed)
    count = 1 if wanted.replay else wanted.n
    for number in range(count):
        run = Run(wanted, seed + number)
        reports = _once(item, run)
        faults_done += run.done
        if not _is_fine(reports):
            if _failed(reports) and run.schedule and not wanted.replay:
                reports = _shrunk(item, run, reports, number, count)
            elif run.schedule:
                _say(reports, _repeated(item, run.schedule))
            break
    else:
        if not faults_done:
            reports = _nothing_happened(reports, run)
    return [*reports[:-1], _torn_down(item, reports[-1], nextitem)]


def _torn_down(item: pytest.Item, own: pytest.TestReport, nextitem: pytest.Item | None) -> pytest.TestReport:
    """What the next test does not need goes: perhaps the cluster."""
    call = pytest.CallInfo.from_call(
        lambda: item.session._setupstate.teardown_exact(nextitem), when="teardown"
    )
    return own if own.failed or call.excinfo is None else pytest.TestReport.from_item_and_call(item, call)


def _once(item: pytest.Item, run: Run) -> list[pytest.TestReport]:
    item.stash[RUN] = run
    # Nothing but the test itself is torn down: the next run uses the same cluster.
    return runtestprotocol(item, log=False, nextitem=item.parent)  # type: ignore[arg-type]


def _is_fine(reports: list[pytest.TestReport]) -> bool:
    return all(report.passed for report in reports)


def _failed(reports: list[pytest.TestReport]) -> bool:
    return any(report.when == "call" and report.failed for report in reports)


def _shrunk(
    item: pytest.Item, failing: Run, reports: list[pytest.TestReport], number: int, count: int
) -> list[pytest.TestReport]:
    assert failing.schedule is not None
    deadline = time.monotonic() + failing.wanted.shrink_seconds
    smallest, runs = reports, 0

    def fails(candidate: Schedule) -> bool:
        nonlocal smallest, runs
        for _ in range(_TRIES):
            runs += 1
            found = _once(item, Run(failing.wanted, failing.seed, candidate))
            if _failed(found):
                smallest = found
                return True
        return False

    schedule = schedules.shrink(failing.schedule, fails, lambda: time.monotonic() < deadline)
    more = f"smaller after {counted(runs, 'more run')}, {counted(len(schedule), 'fault')}"
    if schedule == failing.schedule:
        more = f"no smaller one after {counted(runs, 'more run')}"
    _say(
        smallest,
        f"failed under schedule {number + 1} of {count} (seed={failing.seed}, "
        f"{counted(len(failing.schedule), 'fault')})\n{more}:\n{_repeated(item, schedule)}",
    )
    return smallest


def _repeated(item: pytest.Item, schedule: Schedule) -> str:
    line = schedules.written(schedule)
    return f'    @pytest.mark.{MARKER}(replay="{line}")\n    {command_for(item, line)}'


def _say(reports: list[pytest.TestReport], text: str) -> None:
    for report in reports:
        if report.when == "call":
            report.sections.insert(0, ("Kafka schedule", text))


def _nothing_happened(reports: list[pytest.TestReport], run: Run) -> list[pytest.TestReport]:
    """A test that was never disturbed has shown nothing."""
    first = min((fault.at_ms for fault in run.schedule or ()), default=0) / 1000
    why = "; ".join(run.not_done) or (
        f"the body took {run.body_seconds:.1f} s, the first fault comes after {first:.1f} s. "
        f"Let the test do more, or give {MARKER}(seconds=) a smaller number"
    )
    for report in reports:
        if report.when == "call":
            report.outcome = "failed"
            report.longrepr = f"no fault was done: {why}"
    return reports
