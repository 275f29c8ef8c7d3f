"""Live audits on Spark: of evidence as it is written, of live topics, and after a violent end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep, time_ns
from typing import Any
from zlib import crc32

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.evidence.folder import COMPLETE, EvidenceFolder, Manifest
from tidelog.evidence.journals.clients import OK, LedgerJournal, ReadsJournal
from tidelog.evidence.journals.slots import Slots
from tidelog.evidence.parquet.growing import Growth, limited, rows_between
from tidelog.evidence.parquet.sealing import seal
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.live.findings import Finding
from tidelog.pipeline.live.following import Followed, Follower
from tidelog.pipeline.live.targets import TopicTarget, TrialTarget

WITHIN_S = 120.0


class Trial:
    """What the clients of a trial write, by hand."""

    def __init__(self, path: Path) -> None:
        clients = [{"role": "producer", "name": "p1", "idempotent": True}]
        self.path = path
        self.folder = EvidenceFolder.create(path, Manifest(stage="cluster", started_us=7, clients=clients))
        journal = self.folder.journal
        self._ledger = LedgerJournal(journal, self._seal, producer="p1", rows=8, topic="t", acks=-1)
        self._reads = {
            name: ReadsJournal(journal, self._seal, consumer=name, topics=["t"], rows=8)
            for name in ("c1", "c2")
        }

    def _seal(self, slots: Slots) -> None:
        seal(slots, self.path)

    def send(self, number: int, offset: int | None) -> None:
        """A send that was acknowledged at an offset; None: not known yet."""
        value = b"p1-%d" % number
        sequence = self._ledger.intend(0, b"", value, size=len(value), crc=crc32(value), now_us=now_us())
        if offset is not None:
            self._ledger.settle(sequence, OK, offset, now_us())

    def read(self, who: str, number: int, offset: int, waited_for: int | None = None) -> None:
        reads = self._reads[who]
        reads.polled(now_us())
        reads.record(
            0,
            0,
            offset,
            epoch=0,
            timestamp_ms=1,
            key=None,
            value=b"p1-%d" % number,
            position=offset if waited_for is None else waited_for,
            high_watermark=-1,
        )

    def end(self) -> None:
        self._ledger.close()
        for reads in self._reads.values():
            reads.close()
        self.folder.manifest.state = COMPLETE
        self.folder.write_manifest()
        self.folder.release()


def now_us() -> int:
    return time_ns() // 1000


def eventually(is_so: Callable[[], object]) -> None:
    deadline = monotonic() + WITHIN_S
    while not is_so():
        assert monotonic() < deadline
        sleep(0.05)


def facts(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["anomaly"], row["severity"], row["offset"], row["consumer"]) for row in rows]


class Following(threading.Thread):
    """A follower in a thread of its own."""

    def __init__(self, spark: SparkSession, target: Any, folder: Path) -> None:
        super().__init__(daemon=True)
        self.told: list[dict[str, Any]] = []
        self.enough = threading.Event()
        self.result: Followed | PipelineError | None = None
        self._follower = Follower(spark, target, folder, self.told.append)

    def run(self) -> None:
        try:
            self.result = self._follower.follow(enough=self.enough)
        except PipelineError as error:
            self.result = error

    def ended(self) -> Followed:
        self.join(WITHIN_S)
        assert isinstance(self.result, Followed), self.result
        return self.result


# ---------------------------------------------------------------- evidence that grows


def test_positions_stay_true_when_journals_are_sealed(tmp_path: Path) -> None:
    """Rows are counted when they are final: reads at once, sends when they and those before are settled. The
    same rows are read from the journal and from the file that it becomes."""
    trial = Trial(tmp_path / "e")
    growth = Growth(trial.path)
    for number in range(5):
        trial.send(number, number if number != 3 else None)
        trial.read("c1", number, number)
    before = growth.position()
    assert before == {"ledger/ledger-p1-000000": 3, "reads/reads-c1-000000": 5, "reads/reads-c2-000000": 0}
    columns = ["offset", "value", "value_crc32"]
    first = rows_between(trial.path, "reads/reads-c1-000000", 2, 5, columns)
    for number in range(5, 12):
        trial.read("c1", number, number)
    trial.end()
    assert growth.position() == {
        "ledger/ledger-p1-000000": 5,
        "reads/reads-c1-000000": 8,
        "reads/reads-c1-000001": 4,
    }
    again = rows_between(trial.path, "reads/reads-c1-000000", 2, 5, columns)
    assert again.to_pylist() == first.to_pylist()
    assert [row["value"] for row in again.to_pylist()] == ["p1-2", "p1-3", "p1-4"]


def test_a_limit_takes_everybody_on_alike() -> None:
    """And of one client what came first."""
    end = {"reads/reads-c1-000000": 8, "reads/reads-c1-000001": 8, "reads/reads-c2-000000": 8}
    assert limited({}, end, 12) == {
        "reads/reads-c1-000000": 8,
        "reads/reads-c1-000001": 0,
        "reads/reads-c2-000000": 4,
    }
    assert limited({}, end, None) == limited({}, end, 24) == end


@pytest.mark.parametrize(
    ("event", "offset", "time_us", "severity"),
    [
        ("out_of_range", 5, 20, "notice"),
        ("rebalanced", 5, 20, "notice"),
        ("out_of_range", 5, 40, "violation"),
        ("out_of_range", 6, 20, "violation"),
        ("error", 5, 20, "violation"),
    ],
    ids=["its place is gone", "its group moved it", "only later", "another place", "something else"],
)
def test_moves_are_as_grave_as_the_audit_has_them(
    tmp_path: Path, event: str, offset: int, time_us: int, severity: str
) -> None:
    """A notice if the consumer had learnt before that it would be moved from this place; a line that is half
    written says nothing."""
    trial = Trial(tmp_path / "e")
    noticed = {"client": "c1", "event": event, "topic": "t", "partition": 0}
    line = json.dumps(noticed | {"offset": offset, "time_us": time_us})
    (trial.path / "journal" / "client_events-c1.jsonl").write_text(f"{line}\n{line[:20]}")
    moved = Finding("poll skip", 6, 7, 2, None, "c1", 30, "", position=5).row("t", 0)
    assert TrialTarget(trial.path).severity(moved) == severity
    trial.end()


@pytest.mark.slow
def test_findings_come_while_a_trial_runs_and_once(spark: SparkSession, tmp_path: Path) -> None:
    """Each is reported while the journals are open; the follower ends with the trial. Started again at the
    same checkpoint it reports nothing twice; a checkpoint of something else is refused."""
    trial, live = Trial(tmp_path / "e"), tmp_path / "e" / "audit" / "live"
    following = Following(spark, TrialTarget(trial.path), live)
    following.start()
    for number in range(10):
        trial.send(number, number)
        trial.read("c1", number, number)
    trial.send(10, 10)
    trial.read("c1", 11, 11, waited_for=10)
    eventually(lambda: following.told)
    assert facts(following.told) == [("gap", "violation", 10, "c1")]
    trial.read("c2", 10, 10)  # what is reported already is not reported as a skip again
    trial.read("c2", 99, 4)
    trial.read("c2", 7, 5, waited_for=6)
    trial.end()
    result = following.ended()
    assert sorted(facts(following.told[1:]), key=str) == [
        ("duplicated", "violation", 7, "c2"),
        ("non-monotonic poll", "violation", 5, "c2"),
        ("rewritten", "violation", 4, "c2"),
    ]
    assert result.ended
    kept = spark.read.parquet(str(live / "findings"))
    assert kept.count() == result.found == len(following.told)
    again = Following(spark, TrialTarget(trial.path), live)
    again.start()
    after = again.ended()
    assert (after.found, after.found_before, again.told) == (0, result.found, [])
    other = Trial(tmp_path / "other")
    other.folder.manifest.seed = 5
    other.end()
    with pytest.raises(PipelineError, match="is the checkpoint of something else: choose another folder"):
        Follower(spark, TrialTarget(other.path), live, print)


# ---------------------------------------------------------------- a violent end


@pytest.mark.long
@pytest.mark.slow
def test_a_follower_that_was_killed_is_gone_on_with(spark: SparkSession, tmp_path: Path) -> None:
    """`kill -9` in the middle of it: the next one starts from the checkpoint. Everything is found, and
    nothing twice, neither reported nor kept."""
    trial, live = Trial(tmp_path / "e"), tmp_path / "live"
    for number in range(20):
        trial.read("c1", number, number)
    trial.read("c2", 90, 2)
    command = [sys.executable, "-m", "tidelog", "audit", "--follow", str(trial.path), "--json"]
    with subprocess.Popen(
        [*command, "--checkpoint", str(live)], stdout=subprocess.PIPE, start_new_session=True
    ) as follower:
        try:
            assert follower.stdout is not None
            first = json.loads(follower.stdout.readline())
        finally:
            os.killpg(follower.pid, signal.SIGKILL)
    trial.read("c2", 91, 3)
    trial.read("c1", 90, 2, waited_for=20)
    trial.end()
    following = Following(spark, TrialTarget(trial.path), live)
    following.start()
    assert following.ended().found_before == 1
    assert facts([first]) == [("rewritten", "violation", 2, "c2")]
    assert sorted(facts(following.told)) == [
        ("non-monotonic poll", "violation", 2, "c1"),
        ("rewritten", "violation", 3, "c2"),
    ]
    assert spark.read.parquet(str(live / "findings")).count() == 3


# ---------------------------------------------------------------- a live topic


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Cluster(ClusterSpec(brokers=1), tmp_path_factory.mktemp("live")) as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.slow
def test_a_live_topic_is_followed(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    """A value that comes twice is reported while the topic grows, and ending is asked for."""
    producer = Producer({"bootstrap.servers": servers, "acks": "all"})

    def produce(*values: str) -> None:
        for value in values:
            producer.produce("live", value.encode(), partition=0)
        assert producer.flush(60) == 0

    produce("a 1", "b 1")
    following = Following(spark, TopicTarget(servers, "live", from_beginning=True), tmp_path / "live")
    following.start()
    produce("c 1", "b 1")
    eventually(lambda: following.told or not following.is_alive())
    assert facts(following.told) == [("duplicated", "notice", 3, None)], following.result
    following.enough.set()
    result = following.ended()
    assert (result.found, result.ended) == (1, False)
