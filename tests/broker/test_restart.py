"""A broker comes back: with its logs as it left them, after a crash, with damaged ones, and with none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.running import (
    Lines,
    address,
    consume,
    create,
    events,
    log_bytes,
    log_folder,
    produce,
    wait_until_equal,
    without_tracebacks,
)
from tests.clients import raw

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.wire.errors import ErrorCode

pytestmark = pytest.mark.slow

SMALL_BATCHES: dict[str, Any] = {"batch.num.messages": 5}  # so that there are several segments


class Place:
    """A cluster, and one topic for each test."""

    def __init__(self, cluster: Cluster, lines: Lines) -> None:
        self.cluster = cluster
        self.lines = lines
        self.written = 0

    def prepare(self, topic: str) -> int:
        """A topic with some records everywhere; returns a follower."""
        create(self.cluster, topic, segment_bytes=4000)
        self.write(topic)
        leader = self.cluster.leader_of(topic)
        return next(number for number in self.cluster.pids if number != leader)

    def write(self, topic: str, count: int = 60) -> None:
        values = [f"{number:0>100}" for number in range(self.written, self.written + count)]
        assert produce(self.cluster, topic, values, **SMALL_BATCHES) == []
        self.written += count
        wait_until_equal(self.cluster, topic)

    def starts(self, broker: int) -> list[dict[str, Any]]:
        rows = events(self.cluster.data_dir / "events")
        return [row for row in rows if row["event"] == "storage_recovered" and row["broker"] == broker]

    def bring_back(self, broker: int, topic: str) -> dict[str, Any]:
        """Start a broker and wait until it has everything again; returns how its logs were opened."""
        del self.lines.said[:]
        self.cluster.start_broker(broker)
        self.cluster.ready()
        self.cluster.wait_isr(topic, 3)
        wait_until_equal(self.cluster, topic)
        return self.starts(broker)[-1]

    def check_reads(self, topic: str) -> None:
        """A consumer sees every record, once, in order, without a gap."""
        read = consume(self.cluster, topic, self.written)
        assert read == [(number, f"{number:0>100}") for number in range(self.written)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Lines]]:
    folder: Path = tmp_path_factory.mktemp("restart")
    lines = Lines()
    settings = {"zookeeper.session.timeout.ms": "2000", "tidelog.evidence.dir": str(folder / "events")}
    with Cluster(ClusterSpec(settings=settings), folder, on_line=lines) as running:
        yield running, lines
    without_tracebacks(line for _, line in lines.said)


@pytest.fixture
def place(cluster: tuple[Cluster, Lines]) -> Place:
    return Place(*cluster)


def newest_segment(place: Place, broker: int, topic: str) -> Path:
    return max(log_folder(place.cluster, broker, topic).glob("*.log"))


def test_after_a_clean_shutdown_nothing_is_scanned(place: Place):
    """And after the start nothing has to be fetched but what was written meanwhile."""
    follower = place.prepare("clean")
    place.cluster.stop_broker(follower)
    opened = place.bring_back(follower, "clean")
    assert opened["clean_shutdown"] is True
    assert opened["findings"] == 0
    place.lines.only("opened", "logs in", "as they were left")
    place.check_reads("clean")


def test_after_a_crash_logs_are_scanned_and_found_whole(place: Place):
    """What was only in the page cache survives the process."""
    follower = place.prepare("crash")
    place.cluster.kill(follower)
    opened = place.bring_back(follower, "crash")
    assert opened["clean_shutdown"] is False
    assert opened["findings"] == 0
    assert not place.lines.with_words("truncated crash-0")
    place.check_reads("crash")


def test_a_torn_end_is_cut_off_and_fetched_again(place: Place):
    """Half a batch at the end, as a power cut leaves it: one line says what was cut."""
    follower = place.prepare("torn")
    place.cluster.kill(follower)
    with newest_segment(place, follower, "torn").open("ab") as segment:
        segment.write(log_bytes(place.cluster, follower, "torn")[:50])
    opened = place.bring_back(follower, "torn")
    assert opened["findings"] == 1
    said = place.lines.only("recovered torn-0: cut 50 bytes at offset 60: ")
    assert " WARNING " in said
    place.check_reads("torn")


def test_a_flipped_bit_is_found_by_its_checksum(place: Place):
    """Everything from the damaged batch on goes, and comes back from the leader."""
    follower = place.prepare("flipped")
    place.cluster.kill(follower)
    segment = newest_segment(place, follower, "flipped")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    place.bring_back(follower, "flipped")
    place.lines.only("recovered flipped-0: cut ")
    place.check_reads("flipped")


def test_an_end_that_is_gone_is_fetched_again(place: Place):
    """The newest segment with all that was in it: to the leader this is a follower that is far behind."""
    follower = place.prepare("shorter")
    place.cluster.kill(follower)
    newest_segment(place, follower, "shorter").unlink()
    place.bring_back(follower, "shorter")
    place.check_reads("shorter")


def test_a_broker_that_lost_everything_is_filled_again(place: Place):
    """An empty disk is no obstacle: all that is committed is with the others."""
    follower = place.prepare("empty")
    place.cluster.kill(follower)
    shutil.rmtree(place.cluster.data_dir / f"broker-{follower}")
    place.bring_back(follower, "empty")
    place.check_reads("empty")


def test_a_whole_cluster_comes_back(place: Place):
    """All brokers are killed at once and started again: the first one waits for the others."""
    place.prepare("all")
    place.write("all", 7)
    for number in list(place.cluster.pids):
        place.cluster.kill(number)
    for number in (1, 2, 3):
        place.cluster.start_broker(number)
    place.cluster.ready()
    place.cluster.leader_of("all")
    place.cluster.wait_isr("all", 3)
    place.check_reads("all")


def test_damage_that_no_start_looks_for_is_found_by_whoever_reads_it(place: Place):
    """After a clean shutdown sealed segments are taken as they are. A damaged one is not served: who asks for
    it gets an error, is not hung up on, and everything else goes on. One line says where the damage is."""
    create(place.cluster, "rotten", replicas=1, segment_bytes=4000)
    values = [f"{number:0>100}" for number in range(60)]
    assert produce(place.cluster, "rotten", values, **SMALL_BATCHES) == []
    leader = place.cluster.leader_of("rotten")
    place.cluster.stop_broker(leader)
    oldest = min(log_folder(place.cluster, leader, "rotten").glob("*.log"))
    content = bytearray(oldest.read_bytes())
    content[-20] ^= 1
    oldest.write_bytes(content)
    place.cluster.start_broker(leader)
    place.cluster.ready()
    assert place.starts(leader)[-1]["findings"] == 0
    place.cluster.leader_of("rotten")
    with raw.Connection(address(place.cluster, leader)) as connection:

        def fetched(offset: int) -> raw.Fetched:
            body = raw.fetch_body("rotten", offset)
            return raw.fetched(connection.ask(raw.FETCH, raw.FETCH_VERSION, body))

        for _ in range(3):
            assert fetched(0).error == ErrorCode.KAFKA_STORAGE_ERROR
        assert fetched(59).error == raw.NONE
        assert b"59" in fetched(59).records
    said = place.lines.only("ERROR", "rotten-0")
    assert str(oldest) in said
