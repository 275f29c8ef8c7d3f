"""Schedules drawn from a seed, and a nemesis that carries them out and undoes everything."""

import itertools
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.evidence.journals.lines import LineJournal, read_lines
from tidelog.faults import TRIAL_FAULTS
from tidelog.faults.places import Channel, Node
from tidelog.faults.schedule import (
    FaultSettings,
    PlannedFault,
    ScheduleError,
    as_json,
    draw,
    from_file,
)
from tidelog.faults.sequences import STALE_REPLICA_RETURNS, TWO_LEADERS_DIE
from tidelog.faults.targets import places
from tidelog.faults.testbed import FaultFailed, HealingTestbed, Links
from tidelog.trials.nemesis import Nemesis

USUAL = [name for name, fault in TRIAL_FAULTS.items() if fault.by_default]
TAKES_AWAY = ("kill", "power", "pause", "restart", "zone", "full", "slow", "clock")
ZONES = {1: "az1", 2: "az2", 3: "az3"}
FIVE = {1: "az1", 2: "az2", 3: "az3", 4: "az1", 5: "az2"}


def brokers_of(fault: PlannedFault, zones: dict[int, str]) -> set[int]:
    """The brokers that a fault takes away."""
    if fault.kind == "zone":
        return {broker for broker, zone in zones.items() if zone == fault.targets[0]}
    if fault.kind == "cut":
        ends = [set(target.split(">")) - {"keeper"} for target in fault.targets]
        return {int(broker) for broker in set.intersection(*ends)} if len(ends) > 2 else {int(min(ends[0]))}
    return {int(target) for target in places(fault.targets)}


# ---------------------------------------------------------------- schedules


@given(
    st.integers(0, 2**32),
    st.sets(st.sampled_from(sorted(USUAL)), min_size=1),
    st.integers(300, 10_000),
    st.integers(1, 3),
    st.integers(500, 120_000),
)
def test_never_more_brokers_are_away_than_allowed(
    seed: int, kinds: set[str], every_ms: int, down_max: int, total_ms: int
):
    """At no moment; and every fault begins and ends within the load."""
    settings = FaultSettings(tuple(kinds), every_ms=every_ms, down_max=down_max)
    for zones in (ZONES, FIVE):
        faults = draw(seed, settings, zones, total_ms)
        assert {fault.kind for fault in faults} <= kinds
        assert [fault.number for fault in faults] == list(range(len(faults)))
        assert all(0 <= fault.at_ms <= fault.end_ms <= total_ms for fault in faults)
        for fault in faults:
            if fault.kind in TAKES_AWAY:
                meanwhile = [
                    other
                    for other in faults
                    if other.kind in TAKES_AWAY
                    and other.at_ms <= fault.at_ms < max(other.end_ms, other.at_ms + 1)
                ]
                away = [broker for other in meanwhile for broker in brokers_of(other, zones)]
                assert len(away) == len(set(away)) <= down_max


@given(st.integers(0, 2**32), st.integers(300, 5_000))
def test_no_broker_is_started_while_the_keeper_is_away(seed: int, every_ms: int):
    """It could not register, and would give up."""
    faults = draw(seed, FaultSettings(("kill", "restart", "keeper"), every_ms=every_ms), ZONES, 60_000)
    away = [(fault.at_ms, fault.end_ms) for fault in faults if fault.kind == "keeper"]
    starts = [fault.end_ms for fault in faults if fault.kind != "keeper" and fault.end_ms < 60_000]
    assert not [(start, gone) for start in starts for gone in away if gone[0] <= start <= gone[1]]
    assert all(one[1] < two[0] for one, two in itertools.pairwise(away))


@given(st.integers(0, 2**32), st.integers(1_000, 20_000))
def test_what_loses_power_is_missed_before_it_is_back(seed: int, total_ms: int):
    """Also at the end of the load, with which other faults end early: a leader that comes back with less than
    it had must not lead on."""
    settings = FaultSettings(("power", "elect"), every_ms=500, session_ms=3_000)
    faults = draw(seed, settings, ZONES, total_ms)
    assert all(fault.duration_ms >= 3_000 for fault in faults if fault.kind == "power")
    assert [fault.number for fault in faults] == list(range(len(faults)))


def test_the_same_seed_draws_the_same_faults_and_another_others():
    settings = FaultSettings(tuple(TRIAL_FAULTS))
    assert draw(7, settings, ZONES, 60_000) == draw(7, settings, ZONES, 60_000)
    assert draw(7, settings, ZONES, 60_000) != draw(8, settings, ZONES, 60_000)


def test_the_order_in_which_kinds_are_named_does_not_matter():
    one = FaultSettings(("kill", "pause", "elect"))
    two = FaultSettings(("elect", "kill", "pause"))
    assert draw(1, one, ZONES, 60_000) == draw(1, two, ZONES, 60_000)


def test_every_kind_is_drawn_some_day():
    settings = FaultSettings(tuple(TRIAL_FAULTS), every_ms=500, min_insync=2)
    kinds = {fault.kind for fault in draw(1, settings, ZONES, 600_000)}
    assert kinds == set(TRIAL_FAULTS)


@pytest.mark.parametrize("sequence", [TWO_LEADERS_DIE, STALE_REPLICA_RETURNS])
def test_an_ordeal_comes_first_and_everybody_is_back_before_and_after(sequence: str):
    """In every minute there is one, whatever the seed; and what happens is in order."""
    for seed in range(50):
        faults = draw(seed, FaultSettings(tuple(TRIAL_FAULTS), sequence=sequence), ZONES, 60_000)
        kinds = [fault.kind for fault in faults]
        expected = ["elect", "delay", "hold", "kill", "kill"] if sequence == TWO_LEADERS_DIE else ["kill"] * 3
        assert kinds[: len(expected)] == expected
        assert [fault.at_ms for fault in faults] == sorted(fault.at_ms for fault in faults)
        assert all(fault.end_ms <= 60_000 for fault in faults)
        done = max(fault.end_ms for fault in faults[: len(expected)])
        assert all(fault.at_ms > done for fault in faults[len(expected) :])


def test_no_ordeal_with_fewer_brokers_than_it_needs():
    faults = draw(1, FaultSettings(("pause",), sequence=TWO_LEADERS_DIE), {1: "az1", 2: "az2"}, 60_000)
    assert {fault.kind for fault in faults} == {"pause"}


def test_no_kinds_no_faults():
    assert draw(1, FaultSettings(()), ZONES, 60_000) == []


def test_a_schedule_can_be_done_again_from_the_evidence(tmp_path: Path):
    """From `trial.json`, or from the list in it."""
    faults = draw(3, FaultSettings(tuple(TRIAL_FAULTS)), ZONES, 60_000)
    (tmp_path / "trial.json").write_text(json.dumps({"schedule": as_json(faults)}))
    (tmp_path / "list.json").write_text(json.dumps(as_json(faults)))
    assert from_file(tmp_path / "trial.json", ZONES) == faults
    assert from_file(tmp_path / "list.json", ZONES) == faults


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file or directory"),
        ("{", "holds no schedule"),
        ('{"faults": []}', "holds no schedule"),
        ("[1]", "holds no schedule"),
        (
            '[{"kind": "nuke", "targets": [], "at_ms": 1, "duration_ms": 1}]',
            "fault 0 cannot be: nuke at 1 ms",
        ),
        ('[{"kind": "kill", "targets": ["9"], "at_ms": 1, "duration_ms": 1}]', "about 9, which there is not"),
        ('[{"kind": "kill", "targets": ["1"], "at_ms": -1, "duration_ms": 1}]', "cannot be: kill at -1 ms"),
        ('[{"kind": "slow", "targets": ["1"], "at_ms": 1, "duration_ms": 1}]', "targets like 1, 300ms"),
        ('[{"kind": "kill", "targets": ["1", "5ms"], "at_ms": 1, "duration_ms": 1}]', "targets like 1"),
    ],
)
def test_a_file_that_is_no_schedule_is_refused(tmp_path: Path, content: str | None, message: str):
    path = tmp_path / "schedule.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ScheduleError, match=message):
        from_file(path, ZONES)


# ---------------------------------------------------------------- carrying out


class Ward(HealingTestbed):
    """A cluster that only remembers what was done to it."""

    def __init__(self, refuses: str = "") -> None:
        self.done: list[str] = []
        self._refuses = refuses

    def _do(self, what: str) -> None:
        if what == self._refuses:
            raise FaultFailed(f"cannot {what}")
        self.done.append(what)

    def kill(self, broker: int) -> None:
        self._do(f"kill {broker}")

    def lose_power(self, broker: int) -> None:
        self._do(f"power off {broker}")

    def stop(self, broker: int) -> None:
        self._do(f"stop {broker}")

    def start(self, broker: int) -> None:
        self._do(f"start {broker}")

    def pause(self, broker: int) -> None:
        self._do(f"pause {broker}")

    def resume(self, broker: int) -> None:
        self._do(f"resume {broker}")

    def border(self, zone: str) -> list[tuple[Node, Node]]:
        return [(zone, "others")]

    def cut(self, links: Links) -> None:
        self._do(f"cut {list(links)}")

    def mend(self, links: Links | None) -> None:
        self._do(f"mend {list(links or ())}")

    def delay(self, links: Links, ms: int) -> None:
        self._do(f"delay {list(links)} {ms}")

    def hold(self, channels: Iterable[Channel] | None) -> None:
        self._do(f"hold {', '.join(map(str, channels or ()))}")

    def release(self, channels: Iterable[Channel] | None) -> None:
        self._do(f"release {', '.join(map(str, channels or ()))}")

    def fill_disk(self, broker: int) -> None:
        self._do(f"fill {broker}")

    def free_disk(self, broker: int) -> None:
        self._do(f"free {broker}")

    def slow_disk(self, broker: int, ms: int) -> None:
        self._do(f"slow {broker} {ms}")

    def set_clock(self, broker: int, offset_ms: int) -> None:
        self._do(f"clock {broker} {offset_ms}")

    def keeper_member(self, member: int, *, running: bool) -> None:
        self._do(f"{'start' if running else 'stop'} keeper {member}")

    def keeper(self, *, running: bool) -> None:
        self._do(f"{'start' if running else 'stop'} keeper")

    def elect_preferred(self) -> bool:
        self._do("elect")
        return True

    def heal(self) -> list[str]:
        self._do("heal")
        return []


def carried_out(tmp_path: Path, ward: Ward, faults: list[PlannedFault], wait: int) -> list[dict[str, Any]]:
    """The lines of the journal after so many things were done, and everything was healed."""
    journal = LineJournal(tmp_path / "faults.jsonl")
    nemesis = Nemesis(ward, faults, journal)
    nemesis.start()
    deadline = time.monotonic() + 30
    while len(ward.done) < wait and time.monotonic() < deadline:
        time.sleep(0.005)
    assert nemesis.heal() == []
    journal.close()
    assert nemesis.active() == []
    return list(read_lines(tmp_path / "faults.jsonl"))


def test_each_fault_is_done_and_undone_in_its_way(tmp_path: Path):
    faults = [
        PlannedFault(0, "kill", ("1",), 0, 10),
        PlannedFault(1, "pause", ("2",), 20, 10),
        PlannedFault(2, "restart", ("3",), 40, 0),
        PlannedFault(3, "cut", ("1>2", "2>1"), 50, 10),
        PlannedFault(4, "zone", ("az3",), 70, 10),
        PlannedFault(5, "keeper", ("keeper",), 90, 10),
        PlannedFault(6, "power", ("1",), 110, 10),
        PlannedFault(7, "delay", ("1>2", "2>1", "40ms"), 130, 10),
        PlannedFault(8, "full", ("2",), 150, 10),
        PlannedFault(9, "slow", ("2", "50ms"), 170, 10),
        PlannedFault(10, "clock", ("2", "-3000ms"), 190, 10),
        PlannedFault(11, "keeper", ("keeper-2",), 210, 10),
        PlannedFault(12, "elect", (), 230, 0),
        PlannedFault(13, "hold", ("1>2", "1>3"), 250, 10),
    ]
    ward = Ward()
    lines = carried_out(tmp_path, ward, faults, 27)
    pairs = [(1, 2), (2, 1)]
    assert ward.done == [
        "kill 1",
        "start 1",
        "pause 2",
        "resume 2",
        "stop 3",
        "start 3",
        f"cut {pairs}",
        f"mend {pairs}",
        "cut [('az3', 'others')]",
        "mend [('az3', 'others')]",
        "stop keeper",
        "start keeper",
        "power off 1",
        "start 1",
        f"delay {pairs} 40",
        f"delay {pairs} 0",
        "fill 2",
        "free 2",
        "slow 2 50",
        "slow 2 0",
        "clock 2 -3000",
        "clock 2 0",
        "stop keeper 2",
        "start keeper 2",
        "elect",
        "hold fetch 1->2, fetch 1->3",
        "release fetch 1->2, fetch 1->3",
        "heal",
    ]
    assert [line["number"] for line in lines if "began_us" in line] == list(range(14))
    assert [line["number"] for line in lines if "ended_us" in line] == list(range(14))
    assert lines[0]["planned_ms"] == 0
    assert lines[0]["targets"] == ["1"]


def test_what_is_still_going_on_at_the_end_is_undone(tmp_path: Path):
    """Also what had a long time to go; and what had not begun does not happen."""
    faults = [PlannedFault(0, "pause", ("1",), 0, 600_000), PlannedFault(1, "kill", ("2",), 500_000, 1)]
    ward = Ward()
    lines = carried_out(tmp_path, ward, faults, 1)
    assert ward.done == ["pause 1", "resume 1", "heal"]
    assert len(lines) == 2


def test_the_keeper_comes_back_first_and_what_lost_power_last(tmp_path: Path):
    """No broker can start without a keeper; and none that lost power is back sooner than planned."""
    faults = [
        PlannedFault(0, "power", ("1",), 0, 400),
        PlannedFault(1, "kill", ("2",), 0, 600_000),
        PlannedFault(2, "keeper", ("keeper",), 0, 600_000),
    ]
    ward = Ward()
    lines = carried_out(tmp_path, ward, faults, 3)
    assert ward.done[3:] == ["start keeper", "start 2", "start 1", "heal"]
    (began,) = (line["began_us"] for line in lines if line["number"] == 0 and "began_us" in line)
    (ended,) = (line["ended_us"] for line in lines if line["number"] == 0 and "ended_us" in line)
    assert ended - began >= 390_000


def test_a_fault_that_cannot_be_done_is_written_down_as_such(tmp_path: Path):
    """It never began, so it is not undone either; the others go on."""
    faults = [PlannedFault(0, "kill", ("1",), 0, 5), PlannedFault(1, "elect", (), 10, 0)]
    ward = Ward(refuses="kill 1")
    lines = carried_out(tmp_path, ward, faults, 1)
    assert ward.done == ["elect", "heal"]
    assert lines[1] == {"number": 0, "began_us": None, "error": "cannot kill 1"}


def test_a_broker_that_cannot_be_started_again_is_written_down(tmp_path: Path):
    ward = Ward(refuses="start 1")
    lines = carried_out(
        tmp_path, ward, [PlannedFault(0, "kill", ("1",), 0, 5), PlannedFault(1, "elect", (), 10, 0)], 2
    )
    assert {"number": 0, "error": "cannot start 1"} in lines


class SlowWard(Ward):
    """Brokers take their time to start."""

    def start(self, broker: int) -> None:
        time.sleep(0.5)
        super().start(broker)


def test_what_takes_long_puts_off_what_follows_and_does_not_shorten_it(tmp_path: Path):
    faults = [PlannedFault(0, "kill", ("1",), 0, 5), PlannedFault(1, "pause", ("2",), 20, 1_000)]
    ward = SlowWard()
    lines = carried_out(tmp_path, ward, faults, 4)
    assert ward.done == ["kill 1", "start 1", "pause 2", "resume 2", "heal"]
    began = next(line["began_us"] for line in lines if line["number"] == 1 and "began_us" in line)
    ended = next(line["ended_us"] for line in lines if line["number"] == 1 and "ended_us" in line)
    assert ended - began >= 690_000
