"""A job under a trial: killed in the state that a fault names, started again, given up when it only fails."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS

from tidelog.errors import Refusal
from tidelog.trials.job import Job, JobFault, JobPlan, wait_for_job

# Leaves what a streaming query leaves in its folders. The first run lingers between rows and commit.
BATCHES = """
import os, pathlib, time
table, checkpoint = (pathlib.Path(os.environ["TIDELOG_" + name]) for name in ("TABLE", "CHECKPOINT"))
for folder in ("offsets", "commits"):
    (checkpoint / folder).mkdir(parents=True, exist_ok=True)
first = len(list((checkpoint / "commits").iterdir()))
for batch in range(first, first + 3):
    (checkpoint / "offsets" / str(batch)).touch()
    time.sleep(0.05)
    (table / f"{os.getpid()}-{batch}.parquet").touch()
    time.sleep(600 if batch == 2 and first == 0 else 0)
    (checkpoint / "commits" / str(batch)).touch()
"""


def batches(folder: Path) -> dict[int, int]:
    """Stands for the progress of a checkpoint: how many batches are committed."""
    commits = folder / "commits"
    return {0: len(list(commits.iterdir()))} if commits.is_dir() else {}


def made(folder: Path, script: str, said: Callable[[str], None], *faults: JobFault) -> Job:
    return Job(JobPlan("own", (sys.executable, "-c", script), batches, faults), folder / "job", said)


def test_a_job_is_killed_between_rows_and_commit_and_goes_on(tmp_path: Path) -> None:
    """The batch that was killed is in the table once from each run."""
    said: list[str] = []
    job = made(tmp_path, BATCHES, said.append, JobFault.KILL)
    job.start("no servers", "t")
    try:
        assert wait_for_job(job, {0: 5}, PATIENCE_SECONDS, lambda: False) is None
    finally:
        job.close()
    assert job.suffered
    assert said == ["kill the job"]
    runs = [int(path.stem.split("-")[1]) for path in job.table.iterdir()]
    assert max(runs.count(batch) for batch in set(runs)) == 2


def test_what_it_read_of_a_topic_that_was_deleted_does_not_count(tmp_path: Path) -> None:
    """Its checkpoint is ahead of the new topic, and says nothing about it until it moves."""
    job = made(tmp_path, BATCHES, lambda text: None, JobFault.RECREATE)
    try:
        job.read_earlier("no servers", "t", {0: 2}, PATIENCE_SECONDS)
        assert batches(job.checkpoint) == {0: 2}
        assert not job.has_reached({0: 1})
    finally:
        job.close()
    with pytest.raises(Refusal, match="ended 3 times with an error"):
        made(tmp_path / "fails", "raise SystemExit(1)", lambda text: None).read_earlier(
            "no servers", "t", {0: 1}, PATIENCE_SECONDS
        )


def test_a_job_loses_its_checkpoint_and_begins_anew(tmp_path: Path) -> None:
    """What was committed is in the table once from each run."""
    said: list[str] = []
    job = made(tmp_path, BATCHES, said.append, JobFault.FORGET)
    job.start("no servers", "t")
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not job.suffered and time.monotonic() < deadline:
            time.sleep(0.01)
        assert wait_for_job(job, {0: 2}, PATIENCE_SECONDS, lambda: False) is None
    finally:
        job.close()
    assert said == ["kill the job and delete its checkpoint"]
    runs = [int(path.stem.split("-")[1]) for path in job.table.iterdir()]
    assert runs.count(0) == 2


def test_a_job_that_only_fails_is_given_up(tmp_path: Path) -> None:
    """With the last line that it wrote, so that the trial does not wait for it."""
    job = made(tmp_path, "raise SystemExit('no such table')", lambda text: None, JobFault.KILL)
    job.start("no servers", "t")
    try:
        words = wait_for_job(job, {0: 1}, PATIENCE_SECONDS, lambda: False)
    finally:
        job.close()
    assert words == "the job ended 3 times with an error: no such table"
    assert job.suffered


def test_nothing_of_a_job_outlives_it(tmp_path: Path) -> None:
    """Nor what it started itself."""
    script = f"import subprocess, sys; subprocess.run(['sleep', '{time.time_ns()}'])"
    job = made(tmp_path, script, lambda text: None)
    job.start("no servers", "t")
    try:
        while not _running(script.split("'")[3]):
            time.sleep(0.01)
    finally:
        job.close()
    while _running(script.split("'")[3]):  # killed, it takes a moment; not killed, for ever
        time.sleep(0.01)


def _running(argument: str) -> bool:
    """Whether a process has this argument of its own."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if argument.encode() in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False
