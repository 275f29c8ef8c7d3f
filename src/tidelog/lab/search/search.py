"""A search from beginning to end: which cluster, which strategy, how many schedules, what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from tidelog.core.config import BrokerConfig
from tidelog.core.types import TopicConfig
from tidelog.lab.search.schedule import DECIDERS, Decider, FaultChoice, Finding, deviations, explore_one
from tidelog.scenario.clients.producer import ProducerConfig
from tidelog.scenario.scenario import ClientSetup, Scenario
from tidelog.scenario.setup import Setup, TopicSetup
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
    operations: int = 20
    faults: FaultChoice = field(default_factory=FaultChoice)
    depth: int = 2
    """Exhaustive: at most so many faults in one schedule."""
    without: tuple[str, ...] = ()
    """Guards to switch off."""
    invariant: str | None = None
    """Stop only when this one breaks."""
    story: Scenario | None = None
    """A scenario to begin with: its cluster, its clients, its steps. The search goes on from where it ends,
    and what is said here of brokers, topics and producers does not count."""

    def scenario(self) -> Scenario:
        """The cluster and the clients to search with. Raises ``SetupError`` if they cannot be."""
        if self.story is not None:
            setup = replace(self.story.setup, generation=self.generation, without=self.without)
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
        producer = ProducerConfig(
            acks=self.acks,
            retries=self.retries,
            idempotent=self.idempotent,
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


@dataclass(slots=True)
class SearchResult:
    schedules: int = 0
    """How many schedules were played."""
    finding: Finding | None = None
    broken: dict[str, int] = field(default_factory=dict)
    """How often each invariant broke."""
    exhausted: bool = False
    """The whole bounded space was searched."""

    def add(self, finding: Finding | None) -> int:
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
    progress: Callable[[int], None] = lambda _: None,
    result: SearchResult | None = None,
) -> SearchResult:
    """Play schedules until one breaks an invariant or the number is reached.

    ``stop_at`` is how bad a finding must be to end the search: by default records must be at stake. A lesser
    finding is kept in case nothing worse turns up. ``Grade.LIVENESS`` stops at anything, None at nothing.
    ``result`` may be passed in by a caller that wants to keep what was found when it is interrupted.
    """
    scenario = options.scenario()
    result = result if result is not None else SearchResult()
    numbered: Iterable[tuple[int, Decider]]
    if options.strategy == "exhaustive":
        numbered = deviations(options.depth)
    else:
        decider = DECIDERS[options.strategy]
        numbered = ((options.seed + number, decider) for number in range(options.schedules))
    for number, decide in numbered:
        if result.schedules >= options.schedules:
            return result
        finding = explore_one(scenario, number, decide, operations=options.operations, faults=options.faults)
        progress(result.add(finding))
        if finding is None or stop_at is None:
            continue
        if options.invariant is not None:
            if finding.invariant == options.invariant:
                result.finding = finding
                return result
        elif not finding.grade.milder_than(stop_at):
            return result
    result.exhausted = options.strategy == "exhaustive"
    return result
