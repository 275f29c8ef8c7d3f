"""Every guard of ``core/guards.py`` earns its place: without it the search finds a violation, with it none.

Some guards fall to a blind search in a second or two. Others need a long story before they matter (two
elections that one follower sleeps through): there the search starts from that story, as with
``tidelog explore --from FILE``, and is left alone at the point where it becomes dangerous.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest
from tests.effort import tries

from tidelog.core.generations import GENERATIONS
from tidelog.core.guards import Guards
from tidelog.lab.search.schedule import FaultChoice
from tidelog.lab.search.search import SearchOptions, SearchResult, search
from tidelog.scenario.scenario import parse
from tidelog.scenario.violations import Grade

NONE = FaultChoice((), budget=0)
DATA = Grade.DATA

# The follower sleeps through two elections: it still follows 0 in epoch 0, and holds b where 0 now holds c.
ZOMBIE_FOLLOWER = """
scenario zombie
cluster brokers=4 controller=3
topic t replicas=0,1,2
producer q zone=az4 acks=all
produce q a
wait knows 1 a
wait knows 2 a
hold fetch-reply 0->1
send q b
wait holds 2 b
hold control 3->2
crash 0
drop fetch-reply 0->1
release fetch-reply 0->1
wait leads 1
send q c d
restart 0
wait isr 0,1,2 within 8s
wait holds 0 d
elect-preferred
wait leads 0
"""

# Broker 0 once knew that follower 2 had three records. Since then 2 has truncated two of them, 0 has
# followed and has led again.
LED_BEFORE = """
scenario led-before
cluster brokers=4 controller=3 replica.lag.time.max.ms=60000
topic t replicas=0,1,2
producer p zone=az4 acks=all
produce p a
wait knows 1 a
wait knows 2 a
hold fetch-reply 0->1
send p b c
wait holds 2 c
pause 0
wait leads 1
drop fetch-reply 0->1
release fetch-reply 0->1
wait follows 2 1
hold fetch-reply 1->2
send p d e
resume 0
wait holds 0 e
"""

# Follower 1 was elected while it rebooted without its data; the news is on its way to a process that is gone.
REBOOTED_LEADER = """
scenario rebooted-leader
cluster brokers=4 controller=3
topic t replicas=0,1,2
producer p zone=az4 acks=all
produce p a b
wait knows 1 b
wait knows 2 b
crash 0
advance 1s
power-off 1
restart 1
"""

# The leader has proposed to take follower 1 back. Before the controller hears of it, 1 loses power and data.
REBOOTED_FOLLOWER = """
scenario rebooted-follower
cluster brokers=4 controller=3
topic t replicas=0,1,2
producer p zone=az4 acks=all
produce p a
wait knows 1 a
wait knows 2 a
crash 1
wait isr 0,2
produce p b
hold isr 0->3
restart 1
wait in-flight isr 0->3
hold fetch-reply 0->1
power-off 1
wait unregistered 1
restart 1
wait registered 1
"""

# Brokers 1 and 2 hold a, which is committed, but do not know it yet; broker 3 is empty and comes back.
STALE_WATERMARK = """
scenario stale-watermark
cluster brokers=5 controller=4
topic t replicas=0,1,2,3
producer p zone=az5 acks=all
crash 3
wait isr 0,1,2
produce p a
hold fetch 2->1
crash 0
wait leads 1
hold fetch-reply 1->3
restart 3
wait registered 3
"""

# Follower 2 has a new leader, and the old leader's last answer, with a record that no other replica has, is
# still on its way.
LATE_ANSWER = """
scenario late-answer
cluster brokers=4 controller=3
topic t replicas=0,1,2
producer q zone=az4 acks=all
produce q a
wait knows 1 a
wait knows 2 a
hold fetch-reply 0->1
hold fetch-reply 0->2
send q b
pause 0
wait leads 1
wait follows 2 1
"""

# Broker 2 was shut down and is eligible; the leader, alone in the ISR, is about to lose power.
LAST_IN_SYNC = """
scenario last-in-sync
cluster brokers=4 controller=3
topic t replicas=0,1,2 min.insync.replicas=2
producer p zone=az4 acks=all
produce p a
stop 1
wait isr 0,2
stop 2
wait isr 0
power-off 0
wait leader none
restart 0
"""

# b is on the leader alone when the others leave the ISR. Broker 2 is eligible, and back first.
ALONE_IN_THE_ISR = """
scenario alone-in-the-isr
cluster brokers=4 controller=3
topic t replicas=0,1,2 min.insync.replicas=2
producer p zone=az4 acks=all retries=0 request.timeout.ms=2000 delivery.timeout.ms=2000
produce p a
hold fetch-reply 0->1
hold fetch-reply 0->2
send p b
stop 1
wait isr 0,2
stop 2
wait isr 0
advance 3s
stop 0
wait leader none
restart 2
"""

# Broker 2 left the ISR because it lost power, and with it the record that it had acknowledged.
LOST_ITS_TAIL = """
scenario lost-its-tail
cluster brokers=4 controller=3
topic t replicas=0,1,2 min.insync.replicas=2
producer p zone=az4 acks=all
produce p a
stop 1
wait isr 0,2
power-off 2
wait isr 0
stop 0
wait leader none
restart 2
"""

# Figure 8 of the Raft paper: x is on 0 and 1; 2 led a later epoch and died with its first record; then 1
# leads and knows x on three replicas, a majority, but nothing of its own epoch on as many. 1 and 3 die, and
# 2 is back: its last record is of a later epoch than x.
FIGURE_8 = """
scenario figure-8
cluster brokers=6 controller=5
topic t replicas=0,1,2,3,4
producer p zone=az6 acks=all request.timeout.ms=2000 delivery.timeout.ms=2000
produce p a
wait knows 1 a
wait knows 2 a
wait knows 3 a
wait knows 4 a
hold fetch 1->0
hold fetch-reply 0->2
hold fetch-reply 0->3
hold fetch-reply 0->4
send p x
wait holds 1 x
hold control-reply 1->5
hold fetch 1->2
hold fetch 3->2
hold fetch 4->2
crash 0
wait leads 2
crash 2
wait unregistered 2
hold fetch-reply 1->0
hold fetch-reply 1->2
hold fetch-reply 1->4
release control-reply 1->5
wait leads 1
wait holds 3 x
restart 0
wait follows 0 1
deliver fetch-reply 1->0
restart 2
wait registered 2
crash 1 3
"""


# The partition moves from 0 and 1 to 2 and 3. Broker 2 has caught up, 3 has not.
HALF_MOVED = """
scenario half-moved
cluster brokers=5 controller=4
topic t replicas=0,1
producer p zone=az5 acks=all
produce p a
hold fetch 3->0
reassign t 2,3
"""

# The same; then both old replicas die, and only broker 2 holds b when the move is cancelled.
CANCELLED = """
scenario cancelled
cluster brokers=5 controller=4
topic t replicas=0,1
producer p zone=az5 acks=all retries=10
produce p a
pause 3
reassign t 2,3
advance 5s
crash 1
wait unregistered 1
crash 0
wait leader 2
produce p b
reassign t cancel
"""


# Broker 2 is down when its replica is removed, and when the topic is deleted and created anew.
RECREATED = """
scenario recreated
cluster brokers=4 controller=3
topic t replicas=0,1,2
producer p zone=az4 acks=all retries=10
produce p a
advance 10s
crash 2
wait unregistered 2
reassign t 0,1
wait replicas 0,1
delete-topic t
wait replicas none
create-topic t 0,1,2
wait leader 0
produce p b c
restart 2
wait isr 0,1,2
"""


ISR_IN_DOUBT = """
scenario isr-in-doubt
cluster brokers=3 controller=2 replica.lag.time.max.ms=10000
topic t replicas=0,1
producer p zone=az3 acks=all request.timeout.ms=30000
produce p a
wait knows 1 a
crash 1
wait isr 0
produce p b
hold keeper-reply keeper->0
restart 1
wait isr 0,1
hold fetch-reply 0->1
send p c
advance 16s
send p d
advance 1s
sync 0
power-off 0
release all
wait leader 1
restart 0
"""


@dataclass(frozen=True)
class Case:
    guard: str
    generation: str = "epoch"
    story: str = ""
    strategy: str = "random"
    schedules: int = 4_000
    seed: int = 0
    """Where the search begins: in front of the first finding, where it takes a thousand schedules to one."""
    brokers: int = 3
    replicas: int = 2
    operations: int = 8
    faults: FaultChoice = FaultChoice()  # noqa: RUF009
    grade: Grade = Grade.STRUCTURE
    """How bad the finding must be. Where a replica loses power, its place in the ISR is void until the
    controller notices, guard or no guard: there only the loss of a record tells them apart."""

    def search(self, *, without: tuple[str, ...], schedules: int) -> SearchResult:
        options = SearchOptions(
            generation=self.generation,
            strategy=self.strategy,
            schedules=schedules,
            seed=self.seed,
            brokers=self.brokers,
            replicas=self.replicas,
            operations=self.operations,
            faults=self.faults,
            without=without,
            story=parse(self.story) if self.story else None,
        )
        return search(options, stop_at=self.grade)


CASES = (
    Case("truncate_on_every_epoch"),
    Case(
        "reset_followers_on_new_leadership",
        story=LED_BEFORE,
        operations=2,
        faults=FaultChoice(("elect",), budget=2),
    ),
    Case("count_unknown_followers"),
    Case("isr_entry_above_high_watermark"),
    Case("isr_entry_above_epoch_start", story=STALE_WATERMARK, operations=2, faults=NONE),
    Case("match_fetch_offset", generation="kip101"),
    Case("match_fetch_epoch", story=LATE_ANSWER, operations=3, faults=NONE),
    Case("fence_fetch_by_epoch", story=ZOMBIE_FOLLOWER, operations=2, faults=NONE),
    Case("maximal_isr"),
    Case("isr_write_lock", generation="kip101", story=ISR_IN_DOUBT, operations=1, faults=NONE, grade=DATA),
    Case("partition_version", generation="kip101"),
    Case("broker_epoch", story=REBOOTED_LEADER, operations=2, faults=NONE, grade=Grade.DATA),
    Case("incarnation_in_isr", story=REBOOTED_FOLLOWER, operations=2, faults=NONE),
    Case(
        "eligible_leader_replicas",
        generation="elr",
        story=LAST_IN_SYNC,
        operations=1,
        faults=NONE,
        grade=DATA,
    ),
    Case("strict_min_isr", generation="elr", story=ALONE_IN_THE_ISR, operations=1, faults=NONE, grade=DATA),
    Case("unclean_shutdown", generation="elr", story=LOST_ITS_TAIL, operations=1, faults=NONE, grade=DATA),
    Case("topic_ids", story=RECREATED, operations=1, faults=NONE),
    Case("target_in_sync", story=HALF_MOVED, operations=1, faults=NONE),
    Case("in_sync_replica_stays", story=CANCELLED, operations=1, faults=NONE),
    Case(
        "own_epoch_commit",
        seed=1_100,
        generation="majority",
        story=FIGURE_8,
        operations=1,
        faults=NONE,
    ),
)


def test_every_guard_has_a_case() -> None:
    """A guard that cannot be shown to be needed is not a guard."""
    assert [case.guard for case in CASES] == [field.name for field in fields(Guards)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.guard)
def test_without_the_guard_the_search_finds_a_violation(case: Case) -> None:
    """Switching one guard off is enough for a schedule to exist that breaks an invariant."""
    assert getattr(GENERATIONS[case.generation].guards, case.guard), "the generation must have the guard"
    result = case.search(without=(case.guard,), schedules=case.schedules)
    assert result.finding is not None
    assert not result.finding.grade.milder_than(case.grade)


@pytest.mark.parametrize("case", [c for c in CASES if c.generation != "kip101"], ids=lambda case: case.guard)
def test_with_all_guards_the_same_search_finds_nothing(case: Case) -> None:
    """The violation is the missing guard's doing. (kip101 lacks other guards and breaks anyway.)"""
    result = case.search(without=(), schedules=tries(75))
    assert result.finding is None or result.finding.grade.milder_than(case.grade)
