"""The cluster as a test suite uses it from Python: one line to start it, every fault, and back to whole."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from bench.processes import PATIENCE_SECONDS
from confluent_kafka import Consumer, Producer
from tests.clients.drivers import kafka_python

from tidelog import AsyncCluster, Cluster, ClusterSpec
from tidelog.cluster.active_fault import ActiveFault
from tidelog.cluster.errors import ClusterError
from tidelog.errors import Refusal
from tidelog.kafka_client.admin import Admin

pytestmark = pytest.mark.slow
QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(brokers=3, settings={"min.insync.replicas": 2}) as running:
        running.topic("shared", partitions=3)
        yield running


@pytest.fixture
def kafka(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    assert shared.heal() == []
    shared.wait_in_sync()


def send(kafka: Cluster, topic: str, values: list[str]) -> None:
    """Send values; returns when all are acknowledged."""
    failed: list[object] = []
    producer = Producer(kafka.client_config("confluent-kafka") | QUIET)
    for value in values:
        producer.produce(
            topic, value, on_delivery=lambda error, _: failed.append(error) if error is not None else None
        )
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert not failed


def read(kafka: Cluster, topic: str, group: str, count: int) -> list[str]:
    """So many values, as a member of a group."""
    settings = {"group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(kafka.client_config("confluent-kafka") | settings | QUIET)
    consumer.subscribe([topic])
    values: list[str] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(values) < count:
        assert time.monotonic() < deadline, f"{len(values)} of {count} values"
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append((message.value() or b"").decode())
    consumer.close()
    return sorted(values, key=int)


def test_the_obvious_fail_over_test_passes() -> None:
    """Produce, kill the leader, produce, subscribe with a group that did not exist, read everything."""
    with Cluster(brokers=3, generation="epoch", settings={"min.insync.replicas": 2}) as kafka:
        kafka.topic("orders", partitions=3)
        send(kafka, "orders", [str(number) for number in range(30)])
        leader = kafka.leader_of("orders", 0)
        leader.kill()
        assert not leader.running
        send(kafka, "orders", [str(number) for number in range(30, 60)])
        assert read(kafka, "orders", "billing", 60) == [str(number) for number in range(60)]
        folder = kafka.data_dir
        assert folder.parent == Path(tempfile.gettempdir())
    assert not folder.exists()


def test_a_new_cluster_has_the_topic_of_offsets(kafka: Cluster) -> None:
    """Fully replicated, before any group asks for it."""
    with Admin(kafka.bootstrap_servers) as admin:
        (topic,) = admin.topics(["__consumer_offsets"])
    assert [sorted(part.replicas) for part in topic.partitions] == [[1, 2, 3]] * 3
    assert all(part.state == "ok" for part in topic.partitions)


FAULTS: dict[str, Callable[[Cluster], ActiveFault]] = {
    "kill": lambda kafka: kafka.leader_of("shared").kill(),
    "kill the controller": lambda kafka: kafka.controller.kill(),
    "kill two": lambda kafka: kafka.kill(1, 2),
    "power": lambda kafka: kafka.leader_of("shared").power_loss(),
    "pause": lambda kafka: kafka.controller.pause(),
    "stop": lambda kafka: kafka.broker("2").stop(),
    "cut": lambda kafka: kafka.cut(1, 2),
    "cut from many": lambda kafka: kafka.cut(1, [2, 3, "keeper"], one_way=True),
    "isolate a zone": lambda kafka: kafka.isolate("az1"),
    "isolate a broker": lambda kafka: kafka.broker(3).isolate(),
    "delay": lambda kafka: kafka.delay(1, [2, 3], 30),
    "hold": lambda kafka: kafka.hold_replication(2, 1),
    "full disk": lambda kafka: kafka.broker(1).disk_full(),
    "slow disk": lambda kafka: kafka.broker(1).slow_fsync(50),
    "clock": lambda kafka: kafka.broker(2).wrong_clock(-30_000),
    "keeper": lambda kafka: kafka.stop_keeper(),
    "member of the keeper": lambda kafka: kafka.inject("keeper", "keeper-2"),
    "below min ISR": lambda kafka: kafka.inject("below_min_isr", 2, 3),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_healed_at_the_end_of_its_block(kafka: Cluster, name: str) -> None:
    with FAULTS[name](kafka) as fault:
        assert fault.active
        assert kafka.faults.active() == [fault]
    assert not fault.active
    assert fault.ended_us is not None
    assert fault.ended_us >= fault.began_us
    assert sorted(kafka.pids) == [1, 2, 3]
    send(kafka, "shared", ["1"])
    fault.heal()  # a second time


def test_a_fault_inside_another_waits_for_the_cluster_only_at_the_end(kafka: Cluster) -> None:
    """While a broker is dead not all replicas can be in sync, so the end of the inner fault does not wait."""
    with kafka.kill(1):
        with kafka.cut(2, 3):
            pass
        assert sorted(kafka.pids) == [2, 3]
    assert sorted(kafka.pids) == [1, 2, 3]


def test_a_broker_that_was_started_by_hand_is_left_alone_by_its_fault(kafka: Cluster) -> None:
    with kafka.broker(2).kill():
        kafka.broker(2).start()
    assert kafka.broker(2).running


def test_the_leader_is_another_one_after_its_death(kafka: Cluster) -> None:
    first = kafka.leader_of("shared", 1)
    with first.kill():
        assert kafka.leader_of("shared", 1) != first
        kafka.wait_isr("shared", 2)
    kafka.wait_isr("shared", 3)


def test_a_client_of_its_own_can_be_cut_off(kafka: Cluster) -> None:
    """It finds no other way to the brokers than its own."""
    producer = Producer(kafka.client_config("confluent-kafka", client="app") | QUIET)
    outcomes: list[object] = []
    producer.produce("shared", "1", on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(PATIENCE_SECONDS) == 0
    with kafka.cut("app", [1, 2, 3]):
        producer.produce("shared", "2", on_delivery=lambda error, _: outcomes.append(error))
        assert producer.flush(0.5) == 1
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert outcomes == [None, None]


def test_each_library_gets_its_configuration(kafka: Cluster) -> None:
    """Three clients, one topic."""
    topic = kafka.topic("libraries")
    send(kafka, topic, ["0"])
    with kafka_python.KafkaProducer(**kafka.client_config("kafka-python")) as producer:
        producer.send(topic, b"1").get(PATIENCE_SECONDS)

    async def send_and_read() -> list[bytes]:
        config = kafka.client_config("aiokafka")
        async with AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait(topic, b"2")
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **config) as consumer:
            return [(await consumer.getone()).value for _ in range(3)]

    assert asyncio.run(send_and_read()) == [b"0", b"1", b"2"]
    consumer = kafka_python.KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **kafka.client_config("kafka-python")
    )
    found = [next(consumer).value for _ in range(3)]
    consumer.close()
    assert found == [b"0", b"1", b"2"]
    with pytest.raises(Refusal, match="unknown client library 'pykafka': did you mean"):
        kafka.client_config("pykafka")


# ---------------------------------------------------------------- what is given


def test_texts_and_paths_numbers_and_texts_are_taken_alike(tmp_path: Path) -> None:
    settings = {"min.insync.replicas": 1, "auto.create.topics.enable": False, "num.partitions": "2"}
    with Cluster(brokers="1", data_dir=str(tmp_path / "data"), settings=settings) as kafka:
        kafka.topic("a", partitions=2, replicas=1, config={"retention.ms": 1000, "preallocate": False})
        assert (tmp_path / "data" / "broker-1" / "a-0").is_dir()
        written = (tmp_path / "data" / "broker-1.properties").read_text()
        assert "auto.create.topics.enable=false" in written
    assert (tmp_path / "data").is_dir()


def test_a_temporary_directory_is_kept_if_asked_for() -> None:
    with Cluster(brokers=1, keep=True) as kafka:
        folder = kafka.data_dir
    assert (folder / "broker-1").is_dir()
    with Cluster(brokers=1):
        pass  # does not take it for a leftover
    assert folder.is_dir()
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def test_what_a_killed_process_left_is_removed_by_the_next() -> None:
    """Only what is old and unused."""
    old, young = (Path(tempfile.gettempdir(), f"tidelog-run-test{os.getpid()}{name}") for name in "ab")
    for folder in (old, young):
        (folder / "broker-1").mkdir(parents=True)
        (folder / "cluster.lock").touch()
    os.utime(old / "cluster.lock", (0, 0))
    with Cluster(brokers=1):
        assert not old.exists()
        assert young.exists()
    os.utime(young / "cluster.lock", (0, 0))
    with Cluster(brokers=1):
        assert not young.exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"brokers": 0}, "a cluster of 0 brokers: give at least 1"),
        ({"brokers": "many"}, "brokers=many: give a number"),
        ({"broker": 3}, "unknown setting of a cluster 'broker': did you mean brokers"),
        ({"generation": "epochs"}, "epochs"),
        ({"network": "wifi"}, "unknown network 'wifi': choose one of direct, relays, netns"),
        ({"settings": {"min.insync.replica": 2}}, "did you mean min.insync.replicas"),
        ({"settings": {"min.insync.replicas": [2]}}, r"min.insync.replicas=\[2\]: give a text, a number"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal, match=said) as caught:
        Cluster(**given)
    assert "\n" not in str(caught.value)


def test_a_spec_and_single_settings_do_not_mix() -> None:
    with pytest.raises(ClusterError, match="give either a ClusterSpec or brokers"):
        Cluster(ClusterSpec(), brokers=3)


def test_what_cannot_be_done_is_said_in_one_line(kafka: Cluster) -> None:
    with pytest.raises(ClusterError, match="there is no broker 7: the cluster has 3"):
        kafka.broker(7)
    with pytest.raises(ClusterError, match="there is no broker 7: the cluster has 3"):
        kafka.kill(7)
    with pytest.raises(ClusterError, match="there is no broker 7: the cluster has 3"):
        kafka.cut(1, 7)
    with pytest.raises(
        ClusterError, match=r"cut 1>stranger: there is no stranger; give a broker, keeper, or a client"
    ):
        kafka.cut(1, "stranger")
    with pytest.raises(ClusterError, match="there is no zone az9: choose one of az1, az2, az3"):
        kafka.isolate("az9")
    with pytest.raises(Refusal, match="unknown fault 'kil': did you mean kill"):
        kafka.inject("kil", 1)
    with pytest.raises(ClusterError, match="delay 1>2: expected targets like 1, 300ms"):
        kafka.inject("delay", "1>2")
    for kind, target, said in (
        ("cut", "2", "cut 2: expected links like 1>2"),
        ("cut", "1>9", "there is no broker 9: the cluster has 3"),
        ("zone", "az9", "zone az9: expected a zone: az1, az2, az3"),
        ("kill", "az1", "kill az1: expected brokers like 1"),
    ):
        with pytest.raises(ClusterError, match=said):
            kafka.inject(kind, target)
    with pytest.raises(ClusterError, match="broker 'one': give its number, such as 1"):
        kafka.kill("one")  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match="broker None: give its number, such as 1"):
        kafka.pause(None)  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match=r"power_loss: name a broker, such as power_loss\(1\)"):
        kafka.power_loss()
    for wrong in (-5, "soon"):
        with pytest.raises(ClusterError, match=f"{wrong!r}: give milliseconds as a number, such as 300"):
            kafka.delay(1, 2, wrong)  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match="there is no topic nowhere"):
        kafka.leader_of("nowhere")
    with pytest.raises(ClusterError, match="topic shared has no partition 7"):
        kafka.leader_of("shared", 7)
    with kafka.kill(2), pytest.raises(ClusterError, match="pause 2: broker 2 is not running"):
        kafka.pause(2)
    with pytest.raises(ClusterError, match=r"topic shared: .*already exists"):
        kafka.topic("shared")
    for seconds in (0.1, 1.0, 10.0, PATIENCE_SECONDS):  # until a broker has answered by then
        with pytest.raises(ClusterError, match=f"after {seconds:g} s not yet 9 replicas in sync") as refused:
            kafka.wait_isr("shared", 9, timeout_s=seconds)
        if "no broker can be asked" not in str(refused.value):
            break
    assert re.search(r" of shared: broker [123] says \[1, 2, 3\]", str(refused.value))


def test_a_cluster_that_does_not_run_says_so() -> None:
    cluster = Cluster(brokers=1)
    with pytest.raises(ClusterError, match="the cluster is not running"):
        cluster.wait_in_sync()


def test_a_producer_gives_up_a_leader_that_does_not_answer(kafka: Cluster) -> None:
    """Its connection stays while it is paused: librdkafka would wait for a minute."""
    topic = kafka.topic("paused")
    producer = Producer(kafka.client_config("confluent-kafka") | QUIET)
    producer.produce(topic, "before")
    assert producer.flush(PATIENCE_SECONDS) == 0
    with kafka.leader_of(topic).pause():
        producer.produce(topic, "meanwhile")
        assert producer.flush(45) == 0


# ---------------------------------------------------------------- asyncio


def test_the_twin_for_asyncio() -> None:
    async def play() -> list[bytes]:
        async with AsyncCluster(brokers=3, settings={"min.insync.replicas": 2}) as kafka:
            await kafka.topic("orders")
            config = kafka.client_config("aiokafka")
            async with AIOKafkaProducer(acks="all", **config) as producer:
                await producer.send_and_wait("orders", b"1")
                leader = await kafka.leader_of("orders")
                async with kafka.kill(leader) as fault:
                    assert fault.active
                    assert await kafka.leader_of("orders") != leader
                    await producer.send_and_wait("orders", b"2")
                assert not fault.active
                await kafka.pause(await kafka.controller())
                assert await kafka.heal() == []
                await kafka.wait_in_sync()
            async with AIOKafkaConsumer(
                "orders", group_id="g", auto_offset_reset="earliest", **config
            ) as consumer:
                return [(await consumer.getone()).value for _ in range(2)]

    assert asyncio.run(play()) == [b"1", b"2"]
