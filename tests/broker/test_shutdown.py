"""SIGTERM: a broker hands its leaderships over, then leaves; it waits for no more than can be moved."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.running import (
    address,
    consume,
    create,
    events,
    eventually,
    partition,
)
from tests.clients import raw

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.kafka_client.blocking import Client
from tidelog.wire.errors import ErrorCode

pytestmark = pytest.mark.slow

# So long that a broker that had to try twice would be noticed.
SETTINGS = {"controlled.shutdown.retry.backoff.ms": "600000", "zookeeper.session.timeout.ms": "6000"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("shutdown")
    overrides = SETTINGS | {"tidelog.evidence.dir": str(folder / "events")}
    with Cluster(ClusterSpec(settings=overrides), folder) as running:
        yield running
        for number in list(running.pids):
            running.kill(number)  # the last one would wait for another broker to take its leaderships


def told(cluster: Cluster, broker: int) -> list[dict[str, Any]]:
    """The events of a broker's last process, without those of groups."""
    rows = [
        row
        for row in events(cluster.data_dir / "events")
        if row["broker"] == broker and row.get("topic") != "__consumer_offsets"
    ]
    latest = max(row["process_start_ms"] for row in rows)
    return [row for row in rows if row["process_start_ms"] == latest]


def kinds(cluster: Cluster, broker: int) -> list[str]:
    return [row["event"] for row in told(cluster, broker)]


class Writer(threading.Thread):
    """Writes with acks=all to one broker, without ever repeating anything, until that hangs up."""

    def __init__(self, where: tuple[str, int], topic: str) -> None:
        super().__init__(daemon=True)
        self._where = where
        self._topic = topic
        self.acknowledged: list[str] = []
        self.errors: set[ErrorCode] = set()

    def run(self) -> None:
        number = 0
        with raw.Connection(self._where) as connection:
            try:
                while True:
                    number += 1
                    body = raw.produce_body(self._topic, raw.batch([str(number).encode()]))
                    produced = raw.produced(connection.ask(raw.PRODUCE, raw.PRODUCE_VERSION, body))
                    if produced.error == raw.NONE:
                        self.acknowledged.append(str(number))
                    else:
                        self.errors.add(ErrorCode(produced.error))
            except raw.Closed:
                pass


def test_a_leader_hands_over_before_it_leaves(cluster: Cluster):
    """Writers get nothing worse than errors that say try again, and what they were promised stays."""
    create(cluster, "busy", min_insync_replicas=2)
    leader = partition(cluster, "busy").leader
    writer = Writer(address(cluster, leader), "busy")
    writer.start()
    eventually(lambda: len(writer.acknowledged) > 50)
    cluster.stop_broker(leader)
    writer.join(60)
    assert not writer.is_alive()
    assert all(error.retriable for error in writer.errors), writer.errors
    order = ["became_leader", "controlled_shutdown_begun", "became_follower", "controlled_shutdown_finished"]
    order.append("process_stopped")
    assert [row["event"] for row in told(cluster, leader) if row["event"] in order] == order
    (finished,) = [row for row in told(cluster, leader) if row["event"] == "controlled_shutdown_finished"]
    assert finished["leaders"] == 0
    assert cluster.leader_of("busy") != leader
    # A write that was refused may be in the log nevertheless, so the last promise may not be the last record.
    last_promise = writer.acknowledged[-1]
    read: list[str] = []
    while last_promise not in read:
        count = 1 if read else len(writer.acknowledged)
        read += [value for _, value in consume(cluster, "busy", count, start=len(read))]
    assert set(writer.acknowledged) <= set(read)
    cluster.start_broker(leader)
    cluster.wait_isr("busy", 3)


def test_what_has_no_other_replica_is_not_waited_for(cluster: Cluster):
    create(cluster, "alone", replicas=1)
    leader = partition(cluster, "alone").leader
    cluster.stop_broker(leader)
    (finished,) = [row for row in told(cluster, leader) if row["event"] == "controlled_shutdown_finished"]
    assert finished["leaders"] == 1
    cluster.start_broker(leader)
    cluster.ready()


def test_the_second_signal_does_not_wait(cluster: Cluster):
    """The controller does not answer, so the first one could wait for long; the logs are left in order."""
    cluster.ready()
    with Client(*address(cluster, min(cluster.pids))) as client:
        controller = client.metadata([]).controller_id
    leaving = next(number for number in cluster.pids if number != controller)
    pid = cluster.pids[leaving]
    cluster.pause(controller)
    try:
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: "controlled_shutdown_begun" in kinds(cluster, leaving))
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: leaving not in cluster.pids, "the process ends")
    finally:
        cluster.resume(controller)
    assert kinds(cluster, leaving)[-1] == "process_stopped"
    assert "controlled_shutdown_finished" not in kinds(cluster, leaving)
    assert (cluster.data_dir / f"broker-{leaving}" / ".kafka_cleanshutdown").exists()
    cluster.start_broker(leaving)
    cluster.ready()
