"""One seed as a row of numbers: what a sweep keeps of a simulated trial.

An explorer watches every invariant at every step, because it wants the moment at which something breaks. A
sweep plays very many trials and wants shares: it looks at the end only (`verdict.py`), and on the way counts
what happened, so that a cell of an atlas can say what it has seen and not only that nothing was lost.

Rules of the file: the schedule of a seed is the explorer's, so what a sweep finds can be shrunk, replayed and
drawn like any other finding. Nothing here reads a clock; a trial that does not end is ended by counting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, assert_never

from tidelog.core import events as e
from tidelog.core.reasons import ElectionKind, TruncationRule
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.types import NO_LEADER, InvariantViolation, Millis, TopicPartition
from tidelog.faults import SEARCH_FAULTS
from tidelog.faults.step import Step
from tidelog.lab.search.schedule import ALL_FAULT_KINDS, Decider, FaultChoice, Schedule, decide_randomly
from tidelog.lab.world.convergence import is_converged
from tidelog.lab.world.snapshot import judge
from tidelog.lab.world.world import Stuck, World
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.events import Outcome
from tidelog.scenario.scenario import VERDICT_KINDS, Scenario
from tidelog.scenario.verdict import ledger_of
from tidelog.wire.errors import ErrorCode

MARKS = (
    "clean_election",
    "unclean_election",
    "preferred_election",
    "majority_election",
    "eligible_election",
    "last_known_election",
    "no_leader",
    "isr_shrunk",
    "isr_grown",
    "isr_refused",
    "controller_changed",
    "control_refused",
    "follower_fenced",
    "truncated",
    "truncated_to_watermark",
    "truncated_by_epoch",
    "truncated_again",
    "truncated_to_leader",
    "retried",
    "refused_too_few",
    "timed_out",
)
"""Rules and transitions of replication that a trial may pass through; a row counts how often it did."""

_TOO_FEW = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
MEASURES = (
    "sent",
    "acknowledged",
    "failed",
    "unknown",
    "read",
    "unavailable_ms",
    "elapsed_ms",
    "steps",
    "messages",
)


@dataclass(slots=True)
class TrialCounts:
    """What became of one trial."""

    outcome: str
    """held, violated, unrecovered (nothing is wrong, but the cluster has not come back), stuck or crashed"""
    reason: str = ""
    """Why it is stuck or crashed, in one line."""
    verdict: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICT_KINDS, 0))
    measures: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MEASURES, 0))
    faults: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ALL_FAULT_KINDS, 0))
    marks: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MARKS, 0))


class EventCounter:
    """The witness of a trial that only counts."""

    __slots__ = ("_acks", "_handlers", "_min_insync", "_since", "_tp", "_world", "marks", "unavailable_ms")

    def __init__(self, acks: int) -> None:
        """``acks`` of the producers: with all, too few in-sync replicas are no availability either."""
        self._acks = acks
        self.marks = dict.fromkeys(MARKS, 0)
        self.unavailable_ms: Millis = 0
        self._since: Millis | None = None
        """Since when no broker could take a write."""
        self._handlers: dict[type, Callable[[Any], None]] = {
            e.PartitionStateWritten: self._written,
            e.BecameLeader: self._changed,
            e.IsrChanged: self._changed,
            e.IsrChangeProposed: self._isr_proposed,
            e.IsrChangeRefused: self._marks("isr_refused"),
            e.ControllerElected: self._marks("controller_changed"),
            e.ControlRequestRefused: self._marks("control_refused"),
            e.FollowerStalled: self._follower_stalled,
            e.Truncated: self._truncated,
        }

    def attach(self, world: World) -> None:
        topic = world.setup.topics[0]
        self._world = world
        self._tp = TopicPartition(topic.name, 0)
        self._min_insync = topic.config.min_insync_replicas if self._acks == -1 else 0

    def __call__(self, event: object) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def at_end(self) -> None:
        self.look()
        if self._since is not None:
            self.unavailable_ms += self._world.now - self._since

    # ------------------------------------------------------------ what is counted

    def _marks(self, name: str) -> Callable[[Any], None]:
        marks = self.marks

        def count(_event: object) -> None:
            marks[name] += 1

        return count

    def _written(self, event: e.PartitionStateWritten) -> None:
        if event.state.leader == NO_LEADER:
            self.marks["no_leader"] += 1
        elif isinstance(event.reason, ElectionKind):
            mark = _election_mark(event.reason)
            if mark is not None:
                self.marks[mark] += 1
        self.look()

    def _changed(self, _event: e.BecameLeader | e.IsrChanged) -> None:
        self.look()

    def _isr_proposed(self, event: e.IsrChangeProposed) -> None:
        self.marks["isr_shrunk" if len(event.isr) < len(event.before) else "isr_grown"] += 1

    def _truncated(self, event: e.Truncated) -> None:
        self.marks["truncated"] += 1
        self.marks[_truncation_mark(event.rule)] += 1

    def _follower_stalled(self, event: e.FollowerStalled) -> None:
        if event.error is ErrorCode.FENCED_LEADER_EPOCH:
            self.marks["follower_fenced"] += 1

    # ------------------------------------------------------------ availability

    def look(self) -> None:
        """Something changed that may decide whether a write would be taken."""
        if self._writable():
            if self._since is not None:
                self.unavailable_ms += self._world.now - self._since
                self._since = None
        elif self._since is None:
            self._since = self._world.now

    def _writable(self) -> bool:
        """The broker that leads according to the keeper runs, knows it, and has enough in-sync replicas."""
        world = self._world
        state = world.partition_state(self._tp)
        if state is None or state.leader == NO_LEADER or state.leader in world.paused:
            return False
        core = world.processes[state.leader].core
        replica = core.replicas.get(self._tp) if core is not None else None
        if replica is None or replica.leader_epoch != state.leader_epoch:
            return False
        role = replica.role
        return isinstance(role, LeaderRole) and len(role.isr) >= self._min_insync


def _election_mark(kind: ElectionKind) -> str | None:
    match kind:
        case ElectionKind.CLEAN:
            return "clean_election"
        case ElectionKind.UNCLEAN:
            return "unclean_election"
        case ElectionKind.PREFERRED:
            return "preferred_election"
        case ElectionKind.MAJORITY:
            return "majority_election"
        case ElectionKind.ELIGIBLE:
            return "eligible_election"
        case ElectionKind.LAST_KNOWN_LEADER:
            return "last_known_election"
        case ElectionKind.CONTROLLED_SHUTDOWN:
            return None  # no fault of a trial
        case ElectionKind.REASSIGNED:
            return "reassigned_election"
    assert_never(kind)


def _truncation_mark(rule: TruncationRule) -> str:
    match rule:
        case TruncationRule.OWN_HIGH_WATERMARK:
            return "truncated_to_watermark"
        case TruncationRule.EPOCH_END_ON_LEADER | TruncationRule.EPOCH_END_HERE:
            return "truncated_by_epoch"
        case TruncationRule.EPOCH_UNKNOWN:
            return "truncated_again"
        case TruncationRule.LEADER_LOG_SHORTER | TruncationRule.LEADER_LOG_STARTS_LATER:
            return "truncated_to_leader"
    assert_never(rule)


class CountedTrial(Schedule):
    """A trial that knows which of its faults came about."""

    def __init__(self, scenario: Scenario, operations: int, faults: FaultChoice) -> None:
        acks = next(client.producer.acks for client in scenario.clients if client.producer is not None)
        self.census = EventCounter(acks)
        super().__init__(scenario, operations, faults, self.census)
        self.allowed = faults
        """Before ``focus`` left some out."""
        self.injected = dict.fromkeys(ALL_FAULT_KINDS, 0)

    def inject(self, step: Step) -> None:
        super().inject(step)
        for kind in self.allowed.kinds:
            if SEARCH_FAULTS[kind].is_step(step, self.world.zone_of, self.world.broker_ids()):
                self.injected[kind] += 1

    def perform(self, verb: str, *args: object) -> None:
        super().perform(verb, *args)
        self.census.look()


def play(
    scenario: Scenario, seed: int, *, operations: int, faults: FaultChoice, decide: Decider = decide_randomly
) -> TrialCounts:
    """Make and play the schedule of one seed, and say what became of it. Never raises what a trial raises."""
    try:
        trial = CountedTrial(scenario, operations, faults)
        trial.begin()
        decide(trial, Random(seed))
        trial.finish()
    except Stuck as stuck:
        return TrialCounts("stuck", str(stuck))
    except InvariantViolation as violation:
        return TrialCounts("crashed", _one_line(f"a state that the rules exclude: {violation}"))
    except Exception as error:  # a bug of the simulation must cost one row, not the sweep
        return TrialCounts("crashed", _one_line(f"{type(error).__name__}: {error}"))
    return _tally(trial)


def schedule(scenario: Scenario, seed: int, *, operations: int, faults: FaultChoice) -> Scenario:
    """The same trial as a scenario: the steps of the seed, as far as it gets."""
    trial = CountedTrial(scenario, operations, faults)
    try:
        trial.begin()
        decide_randomly(trial, Random(seed))
        trial.finish()
    except Exception:  # the steps up to here are needed to look into it
        pass
    return trial.as_scenario()


def _tally(trial: CountedTrial) -> TrialCounts:
    world, census = trial.world, trial.census
    verdict = {kind: len(found) for kind, found in judge(world).as_json().items()}
    ledger = ledger_of(world.clients.values())
    outcomes = [record.outcome for record in ledger]
    marks = census.marks
    marks["retried"] = sum(record.attempts > 1 for record in ledger)
    marks["refused_too_few"] = sum(record.error in _TOO_FEW for record in ledger)
    marks["timed_out"] = sum(record.error is ErrorCode.REQUEST_TIMED_OUT for record in ledger)
    measures = {
        "sent": len(outcomes),
        "acknowledged": outcomes.count(Outcome.OK),
        "failed": outcomes.count(Outcome.FAILED),
        "unknown": outcomes.count(Outcome.UNKNOWN) + outcomes.count(None),
        "read": sum(len(client.reads) for client in world.clients.values() if isinstance(client, Consumer)),
        "unavailable_ms": census.unavailable_ms,
        "elapsed_ms": world.now,
        "steps": len(trial.steps),
        "messages": world.network.messages_sent,
    }
    outcome = "violated" if any(verdict.values()) else "held" if is_converged(world) else "unrecovered"
    return TrialCounts(outcome, "", verdict, measures, trial.injected, marks)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]
