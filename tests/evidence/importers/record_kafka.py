"""Make the recorded log folders of real Apache Kafka clusters again: `tests/recordings/kafka-VERSION.tar.xz`.

    PYTHONPATH=src:. python -m tests.evidence.importers.record_kafka 2.7.1 4.3.1

One story on both releases. Three brokers hold `orders` (two partitions, min.insync.replicas=2), `payments` (a
transaction is left open) and `accounts`, which allows unclean elections:

1. `accounts` gets 40 records on all brokers. Brokers 3 and 2 are killed, broker 1 acknowledges 20 more alone.
2. Broker 1 is killed, 2 and 3 come back. One of them is elected uncleanly and takes 10 other records.
   *crashed*: the folders of this moment. Broker 1 is down, the others run.
3. Broker 1 comes back and truncates its log; all get more records.
   *settled*: the folders of this moment. All brokers run and are in sync.

The archive holds `crashed/broker-N`, `settled/broker-N` and `logs/broker-N`. Index files are cut to what is
used of them: Kafka allocates 10 MB for each.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.apache_kafka import ApacheKafka
from bench.apache_kafka_zookeeper import OldApacheKafka
from bench.jars import KAFKA_VERSION, OLD_KAFKA_VERSION
from bench.processes import eventually
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

RECORDINGS = Path(__file__).parents[2] / "recordings"
SETTINGS = {
    "replica.lag.time.max.ms": "2000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
LAYOUT = {"orders": [[1, 2, 3], [2, 3, 1]], "payments": [[2, 3, 1]], "accounts": [[1, 2, 3]]}
_INDEX_ENTRY = {".index": 8, ".timeindex": 12}

Cluster = ApacheKafka | OldApacheKafka


def record(version: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="record-kafka-") as scratch:
        folder, made = Path(scratch, "cluster"), Path(scratch, "made")
        cluster: Cluster
        if version == OLD_KAFKA_VERSION:
            cluster = OldApacheKafka(folder, 3, SETTINGS)
        else:
            cluster = ApacheKafka(folder, 3, SETTINGS, own_controller=True)
        with cluster:
            play(cluster, lambda name: keep(cluster, made / name))
            keep_logs(cluster, made / "logs")
        with tarfile.open(target, "w:xz", preset=9) as archive:
            for path in sorted(made.iterdir()):
                archive.add(path, path.name)
    print(f"{target}: {target.stat().st_size:,} bytes")


# ---------------------------------------------------------------- the story


def play(cluster: Cluster, keep_as: Callable[[str], None]) -> None:
    say = partial(print, "…", flush=True)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    create_topics(cluster, admin)
    everyone_in_sync(admin)
    say("orders, payments, accounts")
    for partition in (0, 1):
        send(cluster, "orders", partition, [f"order-{partition}-{n}" for n in range(120)])
    pay(cluster)
    send(cluster, "accounts", 0, [f"account-{n}" for n in range(40)])
    say("brokers 3 and 2 are killed")
    for number in (3, 2):
        cluster.kill_broker(number)
        eventually(partial(has_left, admin, "accounts", number), f"{number} leaves the ISR")
    send(cluster, "accounts", 0, [f"account-{n}" for n in range(40, 60)])
    say("broker 1 is killed")
    cluster.kill_broker(1)
    for number in (2, 3):
        cluster.start_broker(number)
    eventually(lambda: leader_of(admin, "accounts") in (2, 3), "an unclean election")
    eventually(lambda: set(in_sync(admin, "accounts")) == {2, 3}, "both are in sync")
    send(cluster, "accounts", 0, [f"other-{n}" for n in range(10)])
    keep_as("crashed")
    say("broker 1 comes back")
    cluster.start_broker(1)
    everyone_in_sync(admin)
    send(cluster, "accounts", 0, [f"later-{n}" for n in range(10)])
    for partition in (0, 1):
        send(cluster, "orders", partition, [f"order-{partition}-{n}" for n in range(120, 150)])
    ends = ("orders 0 150", "orders 1 150", "accounts 0 60")
    for node in cluster.nodes.values():
        eventually(partial(checkpointed, node.data_dir, ends), f"broker {node.id} wrote its checkpoint")
    keep_as("settled")


def checkpointed(data: Path, ends: Sequence[str]) -> bool:
    return set(ends) <= set((data / "replication-offset-checkpoint").read_text().splitlines())


def create_topics(cluster: Cluster, admin: AdminClient) -> None:
    small = {"segment.bytes" if isinstance(cluster, OldApacheKafka) else "internal.segment.bytes": "4096"}
    configs = {
        "orders": {"min.insync.replicas": "2", **small},
        "payments": {"min.insync.replicas": "2"},
        "accounts": {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
    }
    topics = [
        NewTopic(name, replica_assignment=layout, num_partitions=len(layout), config=configs[name])
        for name, layout in LAYOUT.items()
    ]
    eventually(lambda: len(admin.list_topics(timeout=10).brokers) == 3, "three brokers")
    for future in admin.create_topics(topics).values():
        future.result(60)


def send(cluster: Cluster, topic: str, partition: int, values: Sequence[str]) -> None:
    """In batches of ten, so that a log has several."""
    for codec, start in zip(("none", "zstd", "lz4") * len(values), range(0, len(values), 10), strict=False):
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 200,
                "log_level": 0,
            }
        )
        for value in values[start : start + 10]:
            producer.produce(topic, f"{value} {'.' * 40}", key=value.rpartition("-")[2], partition=partition)
        left = producer.flush(60)
        assert not left, f"{left} records of {topic} were not sent"


def pay(cluster: Cluster) -> None:
    """Committed, aborted, left open, and committed behind that."""
    for name, ending in (("a", "commit"), ("b", "abort"), ("hanging", None), ("c", "commit")):
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "transactional.id": f"payments-{name}",
                "transaction.timeout.ms": 900_000,
            }
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        for number in range(5):
            producer.produce("payments", f"payment-{name}-{number}", partition=0)
        producer.flush(60)
        if ending == "commit":
            producer.commit_transaction(60)
        elif ending == "abort":
            producer.abort_transaction(60)


def in_sync(admin: AdminClient, topic: str, partition: int = 0) -> list[int]:
    found = described(admin, topic)
    return list(found.partitions[partition].isrs) if found and partition in found.partitions else []


def leader_of(admin: AdminClient, topic: str) -> int:
    found = described(admin, topic)
    return int(found.partitions[0].leader) if found and found.partitions else -1


def described(admin: AdminClient, topic: str) -> Any:
    try:
        return admin.list_topics(topic, timeout=5).topics.get(topic)
    except Exception:  # no broker answers for a moment
        return None


def everyone_in_sync(admin: AdminClient) -> None:
    for topic, layout in LAYOUT.items():
        for partition in range(len(layout)):
            eventually(partial(all_in_sync, admin, topic, partition), f"{topic}-{partition} is in sync")


def has_left(admin: AdminClient, topic: str, broker: int) -> bool:
    return broker not in in_sync(admin, topic)


def all_in_sync(admin: AdminClient, topic: str, partition: int) -> bool:
    return len(in_sync(admin, topic, partition)) == 3


# ---------------------------------------------------------------- what is kept


def keep(cluster: Cluster, target: Path) -> None:
    for number, node in cluster.nodes.items():
        shutil.copytree(node.data_dir, target / f"broker-{number}")
    if isinstance(cluster, ApacheKafka):
        shutil.copytree(cluster.controller_directory / "data", target / "controller")
    for path in target.rglob("*"):
        trim(path)


def trim(path: Path) -> None:
    """Cut off what Kafka allocated and did not use yet."""
    entry = _INDEX_ENTRY.get(path.suffix, 1)
    if path.suffix not in (*_INDEX_ENTRY, ".log"):
        return
    used = -(-len(path.read_bytes().rstrip(b"\0")) // entry) * entry
    if entry > 1 or path.parent.name.startswith("__cluster_metadata"):
        os.truncate(path, used)


def keep_logs(cluster: Cluster, target: Path) -> None:
    for number, node in cluster.nodes.items():
        folder = target / f"broker-{number}"
        folder.mkdir(parents=True)
        if isinstance(cluster, OldApacheKafka):
            for path in cluster.log_files(number):
                shutil.copy(path, folder)
        else:
            shutil.copy(node.directory / "log.txt", folder / "server.log")
    if isinstance(cluster, ApacheKafka):
        (target / "controller").mkdir()
        shutil.copy(cluster.controller_directory / "log.txt", target / "controller" / "controller.log")


def main() -> None:
    for version in sys.argv[1:] or (OLD_KAFKA_VERSION, KAFKA_VERSION):
        record(version, RECORDINGS / f"kafka-{version}.tar.xz")


if __name__ == "__main__":
    main()
