"""A small run from its start to its end, and what it leaves: events of each process, metrics over HTTP."""

from __future__ import annotations

import re
import urllib.request
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.broker.running import (
    Lines,
    create,
    events,
    eventually,
    partition,
    produce,
    wait_until_equal,
    without_tracebacks,
)

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec, Profile
from tidelog.core.reasons import ElectionKind, IsrChange, TruncationRule

pytestmark = pytest.mark.slow

TOPIC = "records"


def scraped(cluster: Cluster, number: int, metric: str) -> float:
    """A gauge without labels, as a Prometheus would see it."""
    broker = next(broker for broker in cluster.brokers if broker.id == number)
    with urllib.request.urlopen(
        f"http://127.0.0.1:{broker.metrics_port}/metrics", timeout=PATIENCE_SECONDS
    ) as page:
        text = page.read().decode("utf-8")
    found = re.search(rf"^{metric} (\S+)$", text, re.MULTILINE)
    assert found, metric
    return float(found[1])


def under_replicated(cluster: Cluster) -> float:
    return sum(scraped(cluster, number, "tidelog_under_replicated_partitions") for number in cluster.pids)


@dataclass
class Run:
    """A cluster whose leader died with records that no other replica had, and returned."""

    killed: int
    successor: int
    rows: list[dict[str, Any]]
    lines: Lines
    under_replicated: list[float]
    """Before the leader was killed, while it was away, after it returned."""

    def of(self, event: str, broker: int | None = None, **values: object) -> list[dict[str, Any]]:
        return [
            row
            for row in self.rows
            if row["event"] == event
            and broker in (None, row["broker"])
            and all(row.get(name) == value for name, value in values.items())
        ]

    @property
    def successor_end(self) -> int:
        """Where the log of the new leader ended at its election. The killed one is truncated to it."""
        end: int = self.of("became_leader", self.successor, topic=TOPIC)[0]["log_end_offset"]
        return end


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("run")
    lines = Lines()
    settings = {"zookeeper.session.timeout.ms": "2000", "tidelog.evidence.dir": str(folder / "events")}
    spec = ClusterSpec(settings=settings, profile=Profile.TRIAL)  # with no topic but this one
    with Cluster(spec, folder, on_line=lines) as cluster:
        create(cluster, TOPIC)
        assert produce(cluster, TOPIC, ["everywhere"] * 10) == []
        wait_until_equal(cluster, TOPIC)
        eventually(lambda: under_replicated(cluster) == 0)
        killed = partition(cluster, TOPIC).leader
        others = [number for number in cluster.pids if number != killed]
        for number in others:
            cluster.pause(number)
        # A follower that had asked for the next record before it was paused gets it; another one does not.
        assert produce(cluster, TOPIC, ["perhaps on its way"], acks="1") == []
        assert produce(cluster, TOPIC, ["only here"] * 3, acks="1") == []
        cluster.kill(killed)
        for number in others:
            cluster.resume(number)
        successor = cluster.leader_of(TOPIC)
        eventually(lambda: under_replicated(cluster) > 0)
        away = under_replicated(cluster)
        cluster.start_broker(killed)
        cluster.wait_isr(TOPIC, 3)
        wait_until_equal(cluster, TOPIC)
        eventually(lambda: under_replicated(cluster) == 0)
        measured = [0.0, away, under_replicated(cluster)]
    return Run(killed, successor, events(folder / "events"), lines, measured)


def test_the_evidence_of_each_process_is_complete(run: Run):
    """Four processes, each with its rows from 0 on without a gap; only the killed one has no last word."""
    by_process = {
        key: list(rows)
        for key, rows in groupby(
            sorted(run.rows, key=lambda row: (row["broker"], row["process_start_ms"], row["sequence"])),
            key=lambda row: (row["broker"], row["process_start_ms"]),
        )
    }
    assert len(by_process) == 4
    for (broker, start), rows in by_process.items():
        assert [row["sequence"] for row in rows] == list(range(len(rows)))
        assert rows[0]["event"] == "process_started"
        assert [row["event"] for row in rows[1:3]] == ["storage_recovered", "keeper_session_started"]
        was_killed = broker == run.killed and start == min(s for b, s in by_process if b == broker)
        assert (rows[-1]["event"] == "process_stopped") == (not was_killed)


def test_the_evidence_tells_what_happened(run: Run):
    """Registration, the controller, roles, the fail-over, what was cut off for it, the return, the end."""
    assert {row["broker"] for row in run.of("broker_registered")} == {1, 2, 3}
    assert run.of("controller_elected")
    assert run.of("became_leader", run.killed, topic=TOPIC, leader_epoch=0, log_end_offset=0)
    assert len(run.of("became_follower", topic=TOPIC, leader_epoch=0, leader=run.killed)) == 2
    assert run.successor_end in (10, 11)
    assert run.of("partition_state_written", leader=run.successor, rule=ElectionKind.CLEAN)
    (cut,) = run.of("truncated", run.killed, topic=TOPIC)
    assert (cut["previous_log_end_offset"], cut["log_end_offset"]) == (14, run.successor_end)
    assert cut["rule"] == TruncationRule.EPOCH_END_ON_LEADER
    assert run.of("isr_change_proposed", run.successor, rule=IsrChange.CAUGHT_UP)
    # Not the last one: at the end brokers leave one after the other, and some are removed once more.
    assert any(sorted(row["isr"]) == [1, 2, 3] for row in run.of("isr_changed", run.successor))
    (crashed,) = run.of("storage_recovered", run.killed, clean_shutdown=False, partitions=1)
    assert crashed["findings"] == 0
    assert {row["broker"] for row in run.of("controlled_shutdown_begun", cause="SIGTERM")} == {1, 2, 3}


def test_the_log_tells_it_too(run: Run):
    """In a handful of lines, each about one thing."""
    without_tracebacks(line for _, line in run.lines.said)
    said = run.lines.with_words
    assert len(said("is the controller now, epoch 1")) == 1
    assert len(said(f"elected a leader of {TOPIC}-0", "first live in-sync replica")) == 1
    assert len(said(f"truncated {TOPIC}-0 from 14 to {run.successor_end}: ")) == 1
    # Once more, perhaps, at the end: the next controller does not know who was leaving already.
    assert 1 <= len(said(f"broker {run.killed} joined the in-sync replicas of {TOPIC}-0")) <= 2
    assert len(said("opened 1 logs in", "after a crash")) == 1
    assert len(said("SIGTERM: handing leadership over")) == 3
    assert len(said("leaving")) == 3
    assert (
        2 <= len(said(f"lost the connection to broker {run.killed}")) <= 4
    )  # at the crash, and perhaps at the end
    assert not said("ERROR")


def test_metrics_count_what_lacks_replicas(run: Run):
    assert run.under_replicated == [0, 1, 0]


def test_brokers_that_stop_together_end_by_themselves(run: Run):
    """Also the last one, which cannot move its leaderships: none was killed for taking too long."""
    assert len(run.of("process_stopped", cause="asked to")) == 3
    assert len(run.of("controlled_shutdown_finished")) == 3
