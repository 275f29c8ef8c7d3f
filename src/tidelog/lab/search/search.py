"""A search from beginning to end: its cluster and strategy, its limits, and what it found.

`search` plays schedules; `find` also shrinks the finding and survives Ctrl-C. `searching` is the same as
`search`, a schedule at a time, for callers that have something else to do in between. The result depends on
the options alone, except with a limit in seconds, which ends the search after a number of schedules that
depends on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from tidelog.core.config import BrokerConfig
from tidelog.core.types import TopicConfig
from tidelog.lab.search.schedule import DECIDERS, Decider, FaultChoice, Violation, deviations, explore_one
from tidelog.lab.search.shrink import shrink
from tidelog.scenario.clients.producer import ProducerConfig
from tidelog.scenario.scenario import ClientSetup, Scenario
from tidelog.scenario.setup import Setup, SetupError, TopicSetup
from tidelog.scenario.violations import Grade

STRATEGIES = ("random", "pct", "exhaustive")

# Short times bring the timers close to each other, so that a schedule of a few hundred steps sees sessions
# expire, followers lag and checkpoints happen.
_QUICK = BrokerConfig(
    replica_lag_time_max_ms=4_000,
    replica_fetch_wait_max_ms=2_000,
    high_watermark_checkpoint_interval_ms=2_500,
)
_SESSION_TIMEOUT_MS = 3_000


@dataclass(slots=True, frozen=True)
class SearchOptions:
    generation: str = "epoch"
    strategy: str = "random"
    schedules: int = 10_000
    seed: int = 0
    brokers: int = 3
    replicas: int = 3
    acks: int = -1
    min_insync: int = 1
    unclean: bool = False
    flush_always: bool = False
    retries: int = 2
    idempotent: bool = False
    batch_records: int = 1
    """A send writes up to this many records as one batch; how many is drawn."""
    operations: int = 20
    faults: FaultChoice = field(default_factory=FaultChoice)
    depth: int = 2
    """Exhaustive: maximum faults per schedule."""
    without: tuple[str, ...] = ()
    """Guards to switch off."""
    invariant: str | None = None
    """Search until this invariant breaks."""
    story: Scenario | None = None
    """A scenario to begin with: its cluster, its clients, its steps. The search continues where it ends; the
    options of brokers, topics and producers have no effect."""

    def scenario(self) -> Scenario:
        """The cluster and the clients to search with. Raises ``SetupError`` for impossible ones."""
        if self.story is not None:
            setup = replace(self.story.setup, generation=self.generation, without=self.without)
            self._check_faults(setup)
            return replace(self.story, setup=setup, expectations=[])
        topic = TopicSetup(
            "t",
            tuple(range(self.replicas)),
            TopicConfig(min_insync_replicas=self.min_insync, unclean_leader_election=self.unclean),
        )
        setup = Setup(
            brokers=self.brokers,
            controller=self.brokers - 1,
            topics=(topic,),
            generation=self.generation,
            without=self.without,
            config=_QUICK,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            sync_each_append=self.flush_always,
        )
        setup.check()
        self._check_faults(setup)
        producer = ProducerConfig(
            acks=self.acks,
            retries=self.retries,
            idempotent=self.idempotent,
            batch_records=self.batch_records,
            request_timeout_ms=4_000,
            delivery_timeout_ms=8_000,
            retry_backoff_ms=500,
            retry_backoff_max_ms=2_000,
        )
        zones = [setup.zone(broker) for broker in range(self.brokers)]
        clients = [
            ClientSetup("p", zones[0], producer),
            ClientSetup("q", zones[1 % len(zones)], producer),
            ClientSetup("c", zones[-1], None),
        ]
        return Scenario("found", setup, clients=clients)

    def _check_faults(self, setup: Setup) -> None:
        """A search for a fault that cannot happen would find nothing, and mean nothing."""
        for fault in self.faults.in_order():
            if why := fault.impossible(setup.topics[0].config.min_insync_replicas):
                raise SetupError(why, "min.insync.replicas")


@dataclass(slots=True)
class SearchResult:
    schedules: int = 0
    """How many schedules were played."""
    finding: Violation | None = None
    """The worst finding."""
    shrunk: bool = False
    broken: dict[str, int] = field(default_factory=dict)
    """How often each invariant broke."""
    exhausted: bool = False
    """The whole bounded space was searched."""
    time_up: bool = False
    interrupted: bool = False

    def add(self, finding: Violation | None) -> int:
        """Count one more schedule, and keep the worst finding."""
        self.schedules += 1
        if finding is not None:
            self.broken[finding.invariant] = self.broken.get(finding.invariant, 0) + 1
            if self.finding is None or self.finding.grade.milder_than(finding.grade):
                self.finding = finding
        return self.schedules


def search(
    options: SearchOptions,
    *,
    stop_at: Grade | None = Grade.DATA,
    seconds: float | None = None,
    progress: Callable[[int], None] = lambda _: None,
    result: SearchResult | None = None,
) -> SearchResult:
    """Play schedules until one breaks an invariant or a limit is reached.

    ``stop_at`` is the mildest grade that ends the search: by default a violated guarantee about records. A
    milder finding is kept in case nothing worse turns up. ``Grade.LIVENESS`` stops at any, None at none.
    ``result`` may be passed in by a caller that wants to keep what was found when it is interrupted.
    """
    result = result if result is not None else SearchResult()
    for schedules in searching(options, result, stop_at=stop_at, seconds=seconds):
        progress(schedules)
    return result


def searching(
    options: SearchOptions,
    result: SearchResult,
    *,
    stop_at: Grade | None = Grade.DATA,
    seconds: float | None = None,
) -> Iterator[int]:
    """Search a schedule at a time: how many have been played. What was found so far is in ``result``."""
    deadline = None if seconds is None else time.monotonic() + seconds
    scenario = options.scenario()
    numbered: Iterable[tuple[int, Decider]]
    if options.strategy == "exhaustive":
        numbered = deviations(options.depth)
    else:
        decider = DECIDERS[options.strategy]
        numbered = ((options.seed + number, decider) for number in range(options.schedules))
    for number, decide in numbered:
        if result.schedules >= options.schedules:
            return
        finding = explore_one(scenario, number, decide, operations=options.operations, faults=options.faults)
        yield result.add(finding)
        if finding is not None and stop_at is not None:
            if options.invariant is not None:
                if finding.invariant == options.invariant:
                    result.finding = finding
                    return
            elif not finding.grade.milder_than(stop_at):
                return
        if deadline is not None and time.monotonic() >= deadline:
            result.time_up = True
            return
    result.exhausted = options.strategy == "exhaustive"


class SearchWatcher(Protocol):
    """Receives the progress of a search."""

    def began(self) -> None:
        """From now on Ctrl-C ends the search, and its result is returned."""

    def searched(self, schedules: int) -> None:
        """How many schedules were played."""

    def broke(self, invariant: str, schedule: int) -> None:
        """An invariant broke for the first time."""

    def shrinking(self, steps: int, left: int) -> None:
        """How many of the finding's steps are left."""


class _Silent:
    def began(self) -> None: ...
    def searched(self, schedules: int) -> None: ...
    def broke(self, invariant: str, schedule: int) -> None: ...
    def shrinking(self, steps: int, left: int) -> None: ...


def find(
    options: SearchOptions,
    *,
    seconds: float | None = None,
    keep_going: bool = False,
    watcher: SearchWatcher | None = None,
) -> SearchResult:
    """Search, then shrink the worst finding. On Ctrl-C it returns what was found until then."""
    watching = watcher or _Silent()
    result = SearchResult()
    announced = 0

    def progress(done: int) -> None:
        nonlocal announced
        watching.searched(done)
        for name in list(result.broken)[announced:]:
            watching.broke(name, done)
        announced = len(result.broken)

    try:
        watching.began()
        stop_at = None if keep_going else Grade.DATA
        search(options, stop_at=stop_at, seconds=seconds, progress=progress, result=result)
        if result.finding is not None:
            steps = len(result.finding.scenario.steps)
            result.finding = shrink(result.finding, progress=lambda left: watching.shrinking(steps, left))
            result.shrunk = True
    except KeyboardInterrupt:
        result.interrupted = True
    return result
