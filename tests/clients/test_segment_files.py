"""What a broker leaves on disk, read and verified by Apache Kafka's own tool on every replica.

The cluster is a fresh one, stopped cleanly before its files are read: the tool does not expect an index that
a broker is still appending to.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from bench.jars import kafka_jars
from bench.processes import eventually
from confluent_kafka import Producer
from tests.against import Against
from tests.clients.conftest import Cluster, Topics, start
from tests.clients.drivers.base import CODECS
from tests.clients.drivers.confluent import quiet
from tests.clients.segment_files import checkpoint, complaints, dump_log_segments, files_of, parse_dump

pytestmark = pytest.mark.slow

RECORDS_PER_CODEC = 400
RECORDS = RECORDS_PER_CODEC * len(CODECS)


@pytest.fixture(scope="module")
def replicas(against: Against, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folder of one partition on each broker: several segments, every codec, idempotent producers."""
    if against.servers:
        pytest.skip("the files of a cluster that runs elsewhere cannot be read")
    kafka_jars()  # before a cluster is started for nothing
    with start(against, tmp_path_factory.mktemp("cluster") / "data") as system:
        cluster = Cluster(system.bootstrap_servers, [node.data_dir for node in system.nodes.values()])
        topic = Topics(cluster).new(segment_bytes=1_048_576)
        for codec in CODECS:
            write(cluster, topic, codec)
        folders = [folder / f"{topic}-0" for folder in cluster.data_dirs]
        eventually(lambda: len(set(map(weight, folders))) == 1, "all replicas hold the same")
    return folders


def write(cluster: Cluster, topic: str, codec: str) -> None:
    """Records that do not compress well, in small batches: enough for several segments and index entries."""
    producer = Producer(
        {
            **quiet(cluster.bootstrap_servers),
            "compression.type": codec,
            "enable.idempotence": True,
            "batch.num.messages": 5,
        }
    )
    for number in range(RECORDS_PER_CODEC):
        producer.produce(topic, os.urandom(2_000), b"%d" % number)
    assert producer.flush(60) == 0


def weight(partition: Path) -> int:
    return sum(path.stat().st_size for path in files_of(partition, ".log"))


def all_files(replicas: list[Path], *suffixes: str) -> list[Path]:
    return [path for folder in replicas for suffix in suffixes for path in files_of(folder, suffix)]


@pytest.fixture(scope="module")
def dumped(replicas: list[Path]) -> str:
    return dump_log_segments(all_files(replicas, ".log"), "--deep-iteration")


def test_every_batch_and_record(replicas: list[Path], dumped: str) -> None:
    """Every batch has a right checksum and every record its place, without a gap, on every replica."""
    assert not complaints(dumped)
    dumps = parse_dump(dumped)
    assert set(dumps) == set(replicas)
    for dump in dumps.values():
        assert all(batch.is_valid for batch in dump.batches)
        assert dump.record_offsets == tuple(range(RECORDS))
        assert dump == dumps[replicas[0]]
    assert all(len(files_of(folder, ".log")) >= 3 for folder in replicas)


def test_replicas_are_equal_to_the_byte(replicas: list[Path]) -> None:
    """Followers store what the leader stored: the same bytes, in whichever segments."""
    contents = [b"".join(path.read_bytes() for path in files_of(folder, ".log")) for folder in replicas]
    assert len(set(contents)) == 1


def test_indexes(replicas: list[Path]) -> None:
    """Each segment has its indexes; they are sane and lead to the batches and times they promise."""
    for folder in replicas:
        segments = [path.stem for path in files_of(folder, ".log")]
        for suffix in (".index", ".timeindex"):
            indexes = files_of(folder, suffix)
            assert [path.stem for path in indexes] == segments
            assert all(path.stat().st_size for path in indexes[:-1])
    indexes = all_files(replicas, ".index", ".timeindex")
    sanity = dump_log_segments(indexes, "--index-sanity-check")
    assert sanity.count("passed sanity check") == len(indexes), sanity
    assert complaints(dump_log_segments(indexes, "--verify-index-only")) == []


def test_producer_snapshots(replicas: list[Path]) -> None:
    """What is known about idempotent producers is kept beside the segments in a form that Kafka reads."""
    newest = [files_of(folder, ".snapshot")[-1] for folder in replicas]
    assert {path.stem for path in newest} == {f"{RECORDS:020}"}
    said = dump_log_segments(newest)
    assert said.count("producerId:") == len(CODECS) * len(replicas), said


def test_epochs(replicas: list[Path], dumped: str) -> None:
    """The first epoch starts at the first record, and all batches carry it. Stopping may add others."""
    for folder in replicas:
        epochs = [(int(epoch), int(first)) for epoch, first in checkpoint(folder / "leader-epoch-checkpoint")]
        assert epochs[0] == (0, 0)
        assert all(first == RECORDS for _, first in epochs[1:])
    for dump in parse_dump(dumped).values():
        assert {batch.leader_epoch for batch in dump.batches} == {0}


def test_checkpoints(replicas: list[Path]) -> None:
    """After a clean stop everything is flushed, and the high watermark is within the log."""
    for folder in replicas:
        partition = folder.name.rpartition("-")[::2]

        def noted(name: str, folder: Path = folder, partition: tuple[str, ...] = partition) -> int:
            entries = checkpoint(folder.parent / name)
            return next(int(offset) for *where, offset in entries if tuple(where) == partition)

        assert noted("recovery-point-offset-checkpoint") == RECORDS
        assert 0 <= noted("replication-offset-checkpoint") <= RECORDS


def test_damage_is_seen(replicas: list[Path], tmp_path: Path) -> None:
    """The tool is not blind: a flipped bit in a batch and an index that leads astray are both reported."""
    folder = Path(shutil.copytree(replicas[0], tmp_path / replicas[0].name))
    index, segment = files_of(folder, ".index")[0], files_of(folder, ".log")[1]
    for path, position in ((index, 3), (segment, segment.stat().st_size // 2)):
        data = bytearray(path.read_bytes())
        data[position] ^= 1
        path.write_bytes(data)
    said = dump_log_segments([index, segment])
    assert complaints(said)
    assert [batch.is_valid for batch in parse_dump(said)[folder].batches].count(False) == 1
