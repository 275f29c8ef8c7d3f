"""The recorder: order is kept, a kill takes little, files are bounded, and no disk can hurt a broker."""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest
from bench.processes import PATIENCE_SECONDS
from hypothesis import given
from hypothesis import strategies as st
from tests.evidence.specimens import ISR, ME, OTHER, SPECIMENS, TP

from tidelog.core.events import (
    BecameFollower,
    BecameLeader,
    ControllerElected,
    HighWatermarkAdvanced,
    Truncated,
)
from tidelog.core.reasons import TruncationRule, WatermarkMoment
from tidelog.core.types import ControllerEpoch, LeaderEpoch, TopicPartition
from tidelog.evidence.event_schema import Row, to_row
from tidelog.evidence.journals.event_files import event_files, read_events
from tidelog.evidence.journals.recorder import EventRecorder
from tidelog.evidence.process_events import RecordedEvent

DAY = 1_731_715_200_000
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Clock:
    """The time of day, set by the test."""

    def __init__(self) -> None:
        self.now = DAY

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def advanced(tp: TopicPartition, before: int, after: int) -> HighWatermarkAdvanced:
    return HighWatermarkAdvanced(ME, tp, LeaderEpoch(5), before, after, ISR, WatermarkMoment.FOLLOWER_FETCHED)


def all_rows(directory: Path) -> list[Row]:
    return [row for file in event_files(directory) for row in read_events(file.path)]


def story(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    """Rows in short: the kind, the topic, and how far the watermark went."""
    return [
        (row["event"], row.get("topic"), row.get("previous_high_watermark"), row.get("high_watermark"))
        for row in rows
    ]


# ---------------------------------------------------------------- what is written, and when


def test_every_kind_of_event_is_written_at_once(tmp_path: Path, clock: Clock) -> None:
    """Each event but a high watermark is in its file when ``record`` returns; a flush adds the watermark."""
    recorder = EventRecorder(tmp_path, ME, clock)
    recorder.record(advanced(B, 0, 1), 0)
    for event in SPECIMENS:
        recorder.record(event, 1)
        if not isinstance(event, HighWatermarkAdvanced):
            *_, last = read_events(recorder.path)
            expected = to_row(event, DAY, ME, process_start_ms=DAY, sequence=last["sequence"])
            assert last == json.loads(json.dumps(expected))
    recorder.close()
    rows = all_rows(tmp_path)
    assert {row["event"] for row in rows} == {to_row(event, 0, ME)["event"] for event in SPECIMENS}
    assert [row["sequence"] for row in rows] == list(range(len(rows)))


def test_moves_of_a_watermark_become_one_row(tmp_path: Path, clock: Clock) -> None:
    """At most one row per partition and interval: from where the first move began to where the last ended,
    at the time of the last."""
    recorder = EventRecorder(tmp_path, ME, clock, flush_interval_ms=100)
    recorder.record(advanced(A, 0, 1), 1_000)  # the first after a silence need not wait
    for step in range(1, 50):
        clock.now = DAY + step
        recorder.record(advanced(A, step, step + 1), 1_000 + step)
    assert story(all_rows(tmp_path)) == [("high_watermark_advanced", "a", 0, 1)]
    clock.now = DAY + 100
    recorder.record(advanced(B, 7, 8), 1_100)
    rows = all_rows(tmp_path)
    assert story(rows[1:]) == [
        ("high_watermark_advanced", "a", 1, 50),
        ("high_watermark_advanced", "b", 7, 8),
    ]
    assert [row["time_ms"] - DAY for row in rows] == [0, 49, 100]
    recorder.close()
    assert all_rows(tmp_path) == rows


def test_nothing_overtakes_the_watermark_of_its_partition(tmp_path: Path, clock: Clock) -> None:
    """The high watermark is written before a truncation or a change of leadership; other partitions wait for
    the flush."""
    recorder = EventRecorder(tmp_path, ME, clock)
    recorder.record(advanced(A, 0, 1), 0)
    recorder.record(advanced(A, 1, 2), 1)
    recorder.record(advanced(B, 0, 5), 1)
    recorder.record(BecameFollower(ME, A, LeaderEpoch(6), OTHER), 2)
    recorder.record(Truncated(ME, A, 4, 2, TruncationRule.OWN_HIGH_WATERMARK), 2)
    assert story(all_rows(tmp_path)) == [
        ("high_watermark_advanced", "a", 0, 1),
        ("high_watermark_advanced", "a", 1, 2),
        ("became_follower", "a", None, None),
        ("truncated", "a", None, None),
    ]
    recorder.close()
    assert story(all_rows(tmp_path))[4:] == [("high_watermark_advanced", "b", 0, 5)]


def test_nothing_overtakes_what_concerns_the_whole_broker(tmp_path: Path, clock: Clock) -> None:
    """Becoming controller happened after every move that was made before it."""
    recorder = EventRecorder(tmp_path, ME, clock)
    recorder.record(advanced(A, 0, 1), 0)
    for at, (tp, after) in enumerate([(A, 2), (B, 9), (A, 3)], start=1):
        clock.now = DAY + at
        recorder.record(advanced(tp, after - 1, after), at)
    recorder.record(ControllerElected(ME, ControllerEpoch(2)), 4)
    recorder.close()
    assert story(all_rows(tmp_path)) == [
        ("high_watermark_advanced", "a", 0, 1),
        ("high_watermark_advanced", "b", 8, 9),
        ("high_watermark_advanced", "a", 1, 3),
        ("controller_elected", None, None, None),
    ]


events_of_two_partitions = st.lists(
    st.tuples(
        st.sampled_from([A, B, None]),
        st.sampled_from(["advance", "advance", "advance", "lead", "follow"]),
        st.integers(0, 60),
    ),
    max_size=40,
)


@given(events_of_two_partitions, st.integers(1, 200))
def test_a_partition_s_rows_tell_its_story_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    plan: list[tuple[TopicPartition | None, str, int]],
    interval: int,
) -> None:
    """For any events: without its watermarks a partition's rows are its events; and each run of moves between
    two of them is there as rows that join end to end and cover all of it."""
    directory = tmp_path_factory.mktemp("events")
    recorder = EventRecorder(directory, ME, Clock(), flush_interval_ms=interval)
    ends = {A: 0, B: 0}
    lived: dict[str, list[tuple[object, ...]]] = {"a": [], "b": []}
    now = 0
    for tp, what, pause in plan:
        now += pause
        event: RecordedEvent
        if tp is None:
            event = ControllerElected(ME, ControllerEpoch(1))
            for one in lived.values():
                one.append(("controller_elected",))
        elif what == "advance":
            event = advanced(tp, ends[tp], ends[tp] + 3)
            ends[tp] += 3
            lived[tp.topic].append((ends[tp] - 3, ends[tp]))
        else:
            event = (
                BecameLeader(ME, tp, LeaderEpoch(1), ISR, 0, 0)
                if what == "lead"
                else BecameFollower(ME, tp, LeaderEpoch(1), OTHER)
            )
            lived[tp.topic].append(("became_leader" if what == "lead" else "became_follower",))
        recorder.record(event, now)
    recorder.close()
    rows = all_rows(directory)
    for topic, events in lived.items():
        told = [
            (row["previous_high_watermark"], row["high_watermark"])
            if row["event"] == "high_watermark_advanced"
            else (row["event"],)
            for row in rows
            if row.get("topic", topic) == topic
        ]
        assert list(joined(told)) == list(joined(events))


def joined(told: Iterable[tuple[object, ...]]) -> Iterator[tuple[object, ...]]:
    """Moves that follow each other without anything in between, as one."""
    run: tuple[object, ...] | None = None
    for one in told:
        if len(one) == 2 and run is not None:
            assert run[1] == one[0], "a gap"
            run = (run[0], one[1])
        elif len(one) == 2:
            run = one
        else:
            if run is not None:
                yield run
            run = None
            yield one
    if run is not None:
        yield run


def test_a_clock_that_is_set_back_changes_only_the_stamps(tmp_path: Path, clock: Clock) -> None:
    """``sequence`` gives the order, and flushes are due by the broker's monotonic time."""
    recorder = EventRecorder(tmp_path, ME, clock, flush_interval_ms=100)
    recorder.record(advanced(A, 0, 1), 0)
    clock.now -= 3_600_000
    recorder.record(advanced(A, 1, 2), 100)
    rows = all_rows(tmp_path)
    assert [(row["sequence"], row["time_ms"] - DAY) for row in rows] == [(0, 0), (1, -3_600_000)]
    recorder.close()


# ---------------------------------------------------------------- files


def test_a_full_file_is_followed_by_the_next(tmp_path: Path, clock: Clock) -> None:
    """No part is larger than allowed, every line is whole, and the parts read as one."""
    recorder = EventRecorder(tmp_path, ME, clock, file_bytes_max=1_000)
    for _ in range(50):
        recorder.record(BecameFollower(ME, TP, LeaderEpoch(6), OTHER), 0)
    recorder.close()
    files = event_files(tmp_path)
    assert [file.part for file in files] == list(range(len(files)))
    assert len(files) > 5
    assert all(file.path.stat().st_size <= 1_000 for file in files)
    assert [row["sequence"] for row in all_rows(tmp_path)] == list(range(50))
    assert {row["process_start_ms"] for row in all_rows(tmp_path)} == {DAY}


def test_the_oldest_files_make_room(tmp_path: Path, clock: Clock) -> None:
    """However long it runs and however often it restarts, a broker keeps to its bound, the newest rows are
    kept, and files of others are not its business."""
    bystanders = [tmp_path / "events-4-1.jsonl", tmp_path / "ledger-3-1.jsonl"]
    for path in bystanders:
        path.write_text("{}\n" * 2_000)
    for restart in range(30):
        clock.now = DAY + restart
        recorder = EventRecorder(tmp_path, ME, clock, file_bytes_max=1_000, total_bytes_max=5_000)
        for number in range(20 if restart % 3 else 1):
            recorder.record(BecameFollower(ME, TP, LeaderEpoch(number), OTHER), 0)
            sizes = [file.path.stat().st_size for file in event_files(tmp_path, ME)]
            assert sum(sizes) <= 5_000
        recorder.close()
    *_, last = (row for file in event_files(tmp_path, ME) for row in read_events(file.path))
    assert (last["process_start_ms"], last["leader_epoch"]) == (DAY + 29, 19)
    assert all(path.exists() for path in bystanders)


def test_each_process_has_files_of_its_own(tmp_path: Path, clock: Clock) -> None:
    """Also one that starts within the same millisecond: a file never has two writers."""
    first, second = EventRecorder(tmp_path, ME, clock), EventRecorder(tmp_path, ME, clock)
    other = EventRecorder(tmp_path, OTHER, clock)
    assert [path.name for path in (first.path, second.path, other.path)] == [
        f"events-{ME}-{DAY}.jsonl",
        f"events-{ME}-{DAY + 1}.jsonl",
        f"events-{OTHER}-{DAY}.jsonl",
    ]
    for recorder in (first, second, other):
        recorder.record(ControllerElected(ME, ControllerEpoch(1)), 0)
        recorder.close()
    keys = [(row["broker"], row["process_start_ms"], row["sequence"]) for row in all_rows(tmp_path)]
    assert len(set(keys)) == 3


def test_nothing_is_written_after_the_end(tmp_path: Path, clock: Clock) -> None:
    """A closed recorder takes events, flushes and another close without a word."""
    recorder = EventRecorder(tmp_path, ME, clock)
    assert recorder.active
    recorder.close()
    recorder.record(ControllerElected(ME, ControllerEpoch(1)), 0)
    recorder.record(advanced(A, 0, 1), 0)
    recorder.flush()
    recorder.close()
    assert not recorder.active
    assert all_rows(tmp_path) == []


# ---------------------------------------------------------------- disks that refuse


def test_a_folder_that_cannot_be_made_costs_the_record_only(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """One line in the log says what to do; everything else is silent."""
    (tmp_path / "file").touch()
    with caplog.at_level(logging.DEBUG):
        recorder = EventRecorder(tmp_path / "file" / "evidence", ME, clock)
        recorder.record(ControllerElected(ME, ControllerEpoch(1)), 0)
        recorder.record(advanced(A, 0, 1), 0)
        recorder.flush()
        recorder.close()
    assert not recorder.active
    assert len(caplog.messages) == 1
    assert "Not a directory" in caplog.text
    assert "restart" in caplog.text


def test_a_folder_that_disappears_costs_the_record_only(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Going on in the next file fails: recording ends, and what was written was written."""
    directory = tmp_path / "evidence"
    recorder = EventRecorder(directory, ME, clock, file_bytes_max=1_000)
    recorder.record(ControllerElected(ME, ControllerEpoch(1)), 0)
    directory.rename(tmp_path / "moved")
    for _ in range(50):
        recorder.record(BecameFollower(ME, TP, LeaderEpoch(6), OTHER), 0)
    assert not recorder.active
    assert len(caplog.messages) == 1
    assert len(all_rows(tmp_path / "moved")) > 1


CHILD = """
import logging, os, resource, signal, sys
from pathlib import Path
from tests.evidence.specimens import ME, OTHER, TP
from tidelog.core.events import BecameFollower, HighWatermarkAdvanced, WatermarkMoment
from tidelog.evidence.journals.recorder import EventRecorder

logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
recorder = EventRecorder(Path(sys.argv[1]), ME, lambda: 5)
"""


def child(directory: Path, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", "-c", CHILD + dedent(script), str(directory)],
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


@pytest.mark.parametrize("limit", [0, 1, 5_000, 5_001])
def test_a_full_disk_costs_the_record_only(tmp_path: Path, limit: int) -> None:
    """The system refuses to write on, in the middle of a line: recording ends with one line in the log, the
    process goes on, and the file holds whole rows only."""
    script = f"""
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
        for number in range(1_000):
            recorder.record(BecameFollower(ME, TP, number, OTHER), number)
            moment = WatermarkMoment.FOLLOWER_FETCHED
            recorder.record(HighWatermarkAdvanced(ME, TP, 1, number, number + 1, (), moment), number)
        recorder.flush()
        assert not recorder.active
        recorder.close()
        print("alive")
    """
    done = child(tmp_path, script)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    complaint, alive = done.stdout.splitlines()
    assert "File too large" in complaint
    assert complaint.startswith("ERROR stopped recording events in")
    assert alive == "alive"
    [file] = event_files(tmp_path)
    content = file.path.read_bytes()
    assert content.endswith(b"\n") or not content
    assert [row["sequence"] for row in all_rows(tmp_path)] == list(range(content.count(b"\n")))
    assert limit - 300 < len(content) <= limit or limit < 300


def test_a_killed_process_loses_no_more_than_its_last_watermarks(tmp_path: Path) -> None:
    """``kill -9`` right after ``record``: every event is in the file, and watermarks up to the last flush."""
    script = """
        for number in range(100):
            recorder.record(BecameFollower(ME, TP, number, OTHER), number)
        recorder.record(HighWatermarkAdvanced(ME, TP, 1, 0, 10, (), WatermarkMoment.FOLLOWER_FETCHED), 1_000)
        recorder.record(HighWatermarkAdvanced(ME, TP, 1, 10, 20, (), WatermarkMoment.FOLLOWER_FETCHED), 1_001)
        recorder.flush()
        recorder.record(HighWatermarkAdvanced(ME, TP, 1, 20, 30, (), WatermarkMoment.FOLLOWER_FETCHED), 1_002)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    assert child(tmp_path, script).returncode == -9
    rows = all_rows(tmp_path)
    assert [row.get("leader_epoch") for row in rows[:100]] == list(range(100))
    assert [row["high_watermark"] for row in rows[100:]] == [10, 20]


def test_moves_before_and_after_a_standstill_are_two_rows(tmp_path: Path, clock: Clock) -> None:
    """A process that was stopped for seconds does not date what it had committed before to afterwards: a
    consumer that read it meanwhile would seem to have read what was not committed."""
    recorder = EventRecorder(tmp_path, ME, clock)
    recorder.record(advanced(TP, 0, 1), 0)
    recorder.record(advanced(TP, 1, 2), 1)
    clock.now += 5_000
    recorder.record(advanced(TP, 2, 3), 2)  # its own clock need not have noticed
    recorder.close()
    moves = [(row["high_watermark"], row["time_ms"] - DAY) for row in all_rows(tmp_path)]
    assert moves == [(1, 0), (2, 0), (3, 5_000)]


def test_rows_come_with_the_time_of_day(tmp_path: Path) -> None:
    """Whatever the broker's own clock counts from, rows of several machines can be put in order."""
    before = time.time_ns() // 1_000_000
    recorder = EventRecorder(tmp_path, ME, lambda: time.time_ns() // 1_000_000)
    for uptime in (17, 18):
        recorder.record(BecameFollower(ME, TP, LeaderEpoch(6), OTHER), uptime)
        recorder.record(advanced(TP, 0, 1), uptime)
    recorder.close()
    times = [before, *(row["time_ms"] for row in all_rows(tmp_path)), time.time_ns() // 1_000_000]
    assert all(earlier <= later for earlier, later in pairwise(times))
