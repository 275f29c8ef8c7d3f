"""One audit, wherever it runs: on Spark and in processes, from a path and from an address."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NoReturn

import pytest
from pyspark.sql import SparkSession
from tests.cli.calling import call
from tests.pipeline.judged import found_rows, judge_evidence
from tests.pipeline.planted import FINAL, Case, write
from tests.pipeline.slow_workers import TOO_SLOW
from tests.pipeline.test_audits import CASES

from tidelog.pipeline.audit import engines
from tidelog.pipeline.audit.engines import Local, OnSpark
from tidelog.pipeline.audit.rounds import parcels, two
from tidelog.pipeline.errors import PipelineError, last_line, worker_failure
from tidelog.pipeline.files import Place


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All planted anomalies together."""
    folder = tmp_path_factory.mktemp("engines") / "e"
    return write(folder, [planted for planted, _ in CASES.values()], final_reader=FINAL)


def rows(path: Path) -> list[dict[str, Any]]:
    return sorted(found_rows(path), key=str)


@pytest.mark.slow
def test_spark_and_processes_find_the_same(
    spark: SparkSession, evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row by row, with causes; and so do processes when they share the work."""
    verdict = judge_evidence(evidence, engine=Local(1)).as_json()
    alone = rows(evidence)
    assert judge_evidence(evidence, engine=OnSpark(spark)).as_json() == verdict
    assert rows(evidence) == alone
    monkeypatch.setattr(engines, "_SERIAL_BYTES", 0)  # every step by workers, however small
    assert judge_evidence(evidence, engine=OnSpark(spark)).as_json() == verdict
    assert rows(evidence) == alone
    assert spark.read.parquet(str(evidence / "audit/anomalies")).count() == len(alone)
    assert judge_evidence(evidence, engine=Local(2)).as_json() == verdict
    assert rows(evidence) == alone


def test_many_buckets_find_the_same(evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the second round divides its rows, in the results of tasks or in files."""
    verdict = judge_evidence(evidence, engine=Local(1)).as_json()
    alone = rows(evidence)
    monkeypatch.setattr(two, "ROWS_PER_BUCKET", 1)
    monkeypatch.setattr(parcels, "INLINE_MAX", 100_000)
    assert judge_evidence(evidence, engine=Local(1)).as_json() == verdict
    assert rows(evidence) == alone


JOBS_MAX = 6


@pytest.mark.slow
def test_few_jobs(spark: SparkSession, evidence: Path) -> None:
    """However much is wrong: two rounds, and each step of them is one job."""
    context = spark.sparkContext
    context.setJobGroup("counted", "")
    judge_evidence(evidence, engine=OnSpark(spark))
    assert 0 < len(context.statusTracker().getJobIdsForGroup("counted")) <= JOBS_MAX


def fails(shared: object, piece: object) -> NoReturn:
    raise RuntimeError("no such place")


fails.on_workers = True  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_task_that_fails_is_no_clean_verdict(spark: SparkSession) -> None:
    """Its last line comes back, not a page of Java."""
    with pytest.raises(PipelineError) as refused:
        OnSpark(spark).run(fails, None, [1, 2])
    assert "\n" not in str(refused.value)
    assert str(refused.value) == "the evidence cannot be read: RuntimeError: no such place"


class Session:
    """A Spark whose jobs end as they are told: with an error, or with the numbers of the pieces."""

    def __init__(self, *ends: Exception | None) -> None:
        self.ends = list(ends)

    def range(self, start: int, end: int, step: int, tasks: int) -> Session:
        self._count = end
        return self

    def mapInArrow(self, work: object, schema: str) -> Session:
        return self

    def collect(self) -> list[tuple[int, bytes]]:
        if (end := self.ends.pop(0)) is not None:
            raise end
        return [(number, pickle.dumps(10 * number)) for number in range(self._count)]

    def registerProgressHandler(self, handler: object) -> None: ...
    def removeProgressHandler(self, handler: object) -> None: ...


def test_a_job_whose_workers_start_too_slowly_is_tried_again() -> None:
    """A bounded number of times, and only for that."""

    def run(session: Any) -> list[Any]:
        return OnSpark(session, cores=2).run(fails, None, [1, 2])

    assert run(Session(TOO_SLOW, TOO_SLOW, None)) == [0, 10]
    with pytest.raises(PipelineError, match="Python worker failed to connect back"):
        run(Session(*[TOO_SLOW] * 9))
    with pytest.raises(PipelineError, match="no such place"):
        run(Session(RuntimeError("no such place"), None))


def test_the_last_line_of_a_worker_s_trace() -> None:
    text = (
        "Job aborted.\nTraceback (most recent call last):\n  File 'x'\n"
        "ModuleNotFoundError: No module named 'tidelog'\n\n\tat org.apache.spark.Worker\n\t... 1 more"
    )
    assert last_line(RuntimeError(text)) == "ModuleNotFoundError: No module named 'tidelog'"
    said = worker_failure("the table cannot be read", RuntimeError(text))
    assert (
        "cannot import tidelog: install it on every worker, for the Python that PYSPARK_PYTHON names" in said
    )
    assert worker_failure("it cannot be read", RuntimeError("gone")) == "it cannot be read: gone"


SLEEPERS = """
import os, sys, time
from tidelog.pipeline.audit import engines

def sleep(shared, piece):
    sys.stdout.write(f"{os.getpid()}\\n")
    sys.stdout.flush()
    time.sleep(600)

engines._SERIAL_BYTES = 0
engines.Local(2).run(sleep, None, [1, 2])
"""


def test_processes_end_with_the_one_that_started_them() -> None:
    """However that ends: they would hold the lock of the evidence."""
    with subprocess.Popen([sys.executable, "-c", SLEEPERS], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        children = [int(parent.stdout.readline()) for _ in range(2)]
        parent.kill()
    deadline = monotonic() + 60
    while any(_alive(child) for child in children):
        assert monotonic() < deadline
        sleep(0.05)


def _alive(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


# ---------------------------------------------------------------- addresses


def test_evidence_is_judged_by_its_address(tmp_path: Path) -> None:
    """`file:` like a path, with the same verdict and files."""
    planted = Case("t").send("a", 0).send("b", 1).logs("a").final((0, "a"))
    path = write(tmp_path / "e", [planted], final_reader=FINAL)
    for address in (f"file://{path}", f"file:{path}", str(path)):
        answer = call("audit", address, "--engine", "local", "--json")
        assert answer.code == 1, answer
        told = json.loads(answer.out)
        assert told["counts"]["lost"] == {"violation": 1, "notice": 0}
        assert told["report"] == str(path / "audit/report.html")
    assert len(found_rows(path)) == 1


@pytest.mark.parametrize(
    ("address", "words"),
    [("file:///nowhere/e", "/nowhere/e: there is no such folder"), ("colour://x/e", "colour://x")],
)
def test_an_address_that_is_none(address: str, words: str) -> None:
    answer = call("audit", address, "--engine", "local", "--json")
    assert answer.code == 2
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_an_engine_that_is_none(tmp_path: Path) -> None:
    assert "engine" in call("audit", tmp_path, "--engine", "steam").err
    answer = call("audit", tmp_path, "--engine", "local", "--master", "local[1]")
    assert "are about Spark" in answer.err


def test_files_of_a_place(tmp_path: Path) -> None:
    """Written as a whole, listed with their sizes, removed with their folder."""
    place = Place.of(f"file://{tmp_path}")
    place.write("a/b", b"123")
    assert place.listed("a") == {"b": 3}
    assert (place.size("a/b"), place.size("a/c")) == (3, None)
    assert place.read("a/b") == b"123"
    assert place.listed("nothing") == {}
    place.remove("a")
    assert not list(tmp_path.iterdir())
