"""A small attack on one broker, as `make fuzz` does it: nothing breaks. And what is broken is noticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS
from fuzz.campaign import ATTACKS, PAGE, Plan
from fuzz.evidence import BadFile, Sent, read_frames
from fuzz.frames import Frames
from fuzz.neighbour import Account
from fuzz.run import attack
from fuzz.starvation import Starvation
from fuzz.verdict import DESCRIPTORS_MARGIN, MEMORY_MARGIN_BYTES, judge, lines
from fuzz.watch import Kind, Log, Watch
from tests.fuzz.test_frames import OFFERED

from tidelog.cluster.directory import BrokerStatus

FRAMES = 2_000
# Those that take long by their nature, or a process of their own, have tests elsewhere.
QUICK = tuple(name for name in ATTACKS if name not in (PAGE, "frames left open"))
GOOD = Account(acknowledged=10, read=10, done=True)


@pytest.mark.slow
def test_a_small_attack_breaks_nothing(tmp_path: Path) -> None:
    """The neighbour's records are there, every frame got what it had to get, and nothing is left."""
    plan = Plan(
        seed=11,
        frames=FRAMES,
        lines=8,
        attacks=QUICK,
        # On a machine with much else to do everything takes long.
        patience_seconds=60.0,
        stall_seconds_max=60.0,
        probe_seconds_max=60.0,
    )
    result = attack(plan, tmp_path, 1, print)
    assert not result.watch.troubles, "\n".join(lines(result))
    assert result.tally.sent >= FRAMES
    assert result.account.held
    assert result.account.acknowledged > 10
    told = json.loads((tmp_path / "result.json").read_text())
    assert (told["frames"], told["troubles"]) == (result.tally.sent, [])
    assert not (tmp_path / "cluster").exists()


# ---------------------------------------------------------------- what is broken is noticed


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    """Of a broker that does nothing: this very process."""
    log = Log(tmp_path / "brokers.log")
    yield Watch([BrokerStatus(1, "127.0.0.1", 1, "", "", pid=os.getpid())], log)
    log.close()


def healthy(watch: Watch) -> Account:
    return GOOD


def traceback(watch: Watch) -> Account:
    for line in ("failed on FETCH v1 from 127.0.0.1:4711", "Traceback (most recent call last):", "  ouch"):
        watch.log.heard(f"broker 1 │ {line}")
    return GOOD


def death(watch: Watch) -> Account:
    watch.vitals[0].pid = 1 << 30
    return GOOD


def lost_session(watch: Watch) -> Account:
    watch.vitals[0].metrics["tidelog_keeper_sessions_lost_total"] = 1.0
    watch.read_metrics()
    return GOOD


def memory(watch: Watch) -> Account:
    watch.vitals[0].rss_end = watch.vitals[0].rss_warm + MEMORY_MARGIN_BYTES + 1
    return GOOD


def memory_for_recent_batches(watch: Watch) -> Account:
    memory(watch)
    watch.vitals[0].tails_end = MEMORY_MARGIN_BYTES
    return GOOD


def slow_growth(watch: Watch) -> Account:
    """Ten thousand objects every ten seconds, for twenty minutes."""
    watch.vitals[0].blocks = [number * 10_000 for number in range(120)]
    return GOOD


def growth_at_the_start(watch: Watch) -> Account:
    watch.vitals[0].blocks = [min(number, 20) * 10_000 for number in range(120)]
    return GOOD


def descriptors(watch: Watch) -> Account:
    watch.vitals[0].descriptors_end = watch.vitals[0].descriptors_warm + DESCRIPTORS_MARGIN + 1
    return GOOD


def missing_record(watch: Watch) -> Account:
    return Account(acknowledged=10, read=9, missing=1, done=True)


def foreign_record(watch: Watch) -> Account:
    return Account(acknowledged=10, read=11, faults=["b'x'"], done=True)


def unfinished(watch: Watch) -> Account:
    return Account(acknowledged=10, read=10)


def stalled(watch: Watch) -> Account:
    return Account(acknowledged=10, read=10, done=True, stalls=[(time.monotonic() - 60, 60.0)])


def late_probe(watch: Watch) -> Account:
    return Account(acknowledged=10, read=10, done=True, late_probes=[(time.monotonic() - 60, 60.0)])


def starved(watch: Watch) -> Account:
    """All of it while the broker could have run, and was not let."""
    watch.starvation = Starved()
    return Account(
        acknowledged=10, read=10, done=True, stalls=[(0.0, 60.0)], late_probes=[(0.0, 60.0), (0.0, 60.0)]
    )


class Starved(Starvation):
    def __init__(self) -> None:
        super().__init__([])

    def within(self, began: float, seconds: float) -> float:
        return seconds - 1.0


@pytest.mark.parametrize(
    ("seen", "kinds"),
    [
        (healthy, []),
        (traceback, [Kind.TRACEBACK]),
        (death, [Kind.DIED]),
        (lost_session, [Kind.SESSION]),
        (memory, [Kind.MEMORY]),
        (memory_for_recent_batches, []),
        (slow_growth, [Kind.MEMORY]),
        (growth_at_the_start, []),
        (descriptors, [Kind.DESCRIPTORS]),
        (missing_record, [Kind.NEIGHBOUR]),
        (foreign_record, [Kind.NEIGHBOUR]),
        (unfinished, [Kind.NEIGHBOUR]),
        (stalled, [Kind.STALL]),
        (late_probe, [Kind.STALL]),
        (starved, []),
    ],
)
def test_each_trouble_is_noticed(watch: Watch, seen: Callable[[Watch], Account], kinds: list[Kind]) -> None:
    judge(Plan(), seen(watch), watch)
    assert [trouble.kind for trouble in watch.troubles] == kinds


def test_what_starved_is_told_all_the_same(watch: Watch) -> None:
    judge(Plan(), starved(watch), watch)
    assert [trouble.kind for trouble in watch.excused] == [Kind.STALL] * 3


def test_a_process_that_is_not_let_run_is_seen(tmp_path: Path) -> None:
    """Two processes share one processor: each waits for about half of the time."""
    processor = min(os.sched_getaffinity(0))
    busy = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass"
    rivals = [
        subprocess.Popen([sys.executable, "-c", busy, str(processor)], stdout=subprocess.PIPE) for _ in "ab"
    ]
    try:
        for rival in rivals:
            assert rival.stdout is not None
            rival.stdout.readline()
        starvation = Starvation([rival.pid for rival in rivals])
        began = time.monotonic()
        starvation.look()
        deadline = began + PATIENCE_SECONDS
        while starvation.within(began, 60.0) < 0.2 and time.monotonic() < deadline:
            time.sleep(0.05)
            starvation.look()
        assert starvation.within(began, 60.0) >= 0.2
        assert starvation.within(began - 10.0, 1.0) == 0.0
    finally:
        for rival in rivals:
            rival.kill()
            rival.communicate()


def test_the_log_names_the_connection(watch: Watch) -> None:
    """By it the frames are found that were sent on it."""
    traceback(watch)
    (found,) = watch.log.tracebacks
    assert Log.place_of(found) == (1, 4711)


# ---------------------------------------------------------------- what is kept


def test_the_first_and_the_last_lines_of_the_brokers_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is ended for its silence shows its stack at the end of a long log."""
    monkeypatch.setattr("fuzz.watch._LINES_KEPT", 2)
    monkeypatch.setattr("fuzz.watch._LAST_LINES_KEPT", 3)
    log = Log(tmp_path / "brokers.log")
    for number in range(9):
        log.heard(str(number))
    log.close()
    assert (tmp_path / "brokers.log").read_text().split() == ["0", "1", "…", "6", "7", "8"]


def test_frames_that_did_harm_are_kept_and_read_again(tmp_path: Path) -> None:
    frames = [Frames(1, OFFERED).frame(number) for number in range(20)]
    sent = Sent(tmp_path, seed=1)
    sent.note(1, 4711, frames[:5])
    sent.note(1, 4711, frames[5:])
    sent.note(2, 4711, frames[:1])  # the same port, to another broker
    path = sent.keep(1, 4711, "it hung")
    assert path is not None
    why, again = read_frames(path)
    assert why == "it hung"
    assert [frame.data for frame in again] == [frame.data for frame in frames]
    assert [frame.fate for frame in again] == [frame.fate for frame in frames]
    assert sent.keep(1, 1, "nobody sent anything from there") is None


def test_what_is_no_file_of_frames_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    for path in (tmp_path / "x.json", tmp_path / "none"):
        with pytest.raises(BadFile, match=str(path)):
            read_frames(path)
