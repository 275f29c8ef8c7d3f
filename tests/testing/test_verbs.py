"""The verbs of `kafka_faults`: each really does what it says, to requests, topics and groups."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from bench.processes import PATIENCE_SECONDS
from confluent_kafka import Consumer, KafkaError, Producer

from tidelog import Cluster
from tidelog.cluster.errors import ClusterError
from tidelog.errors import Refusal
from tidelog.kafka_client import groups
from tidelog.kafka_client.admin import Admin
from tidelog.testing.faults import Faults
from tidelog.testing.plugin import unique

pytestmark = [pytest.mark.slow, pytest.mark.kafka(settings={"min.insync.replicas": 2})]
QUIET = {"log_level": 0}


@pytest.fixture
def kafka(kafka_cluster: Cluster) -> Cluster:
    return kafka_cluster


@pytest.fixture
def faults(kafka_faults: Faults) -> Faults:
    return kafka_faults


@pytest.fixture
def topic(kafka_topic: str) -> str:
    return kafka_topic


def sent(kafka: Cluster, topic: str, *values: str, **settings: Any) -> list[str]:
    """What became of each send: an empty text, or the name of its error."""
    outcomes: list[str] = []
    producer = Producer(kafka.client_config("confluent-kafka") | QUIET | settings)
    for value in values:
        producer.produce(
            topic,
            value,
            on_delivery=lambda error, _: outcomes.append("" if error is None else error.name()),
        )
        assert producer.flush(PATIENCE_SECONDS) == 0
    return outcomes


def ends(kafka: Cluster, topic: str) -> tuple[int, int]:
    """The start and the end of partition 0."""
    with Admin(kafka.bootstrap_servers) as admin:
        views = admin.topics([topic])
        admin.add_offsets(views)
    part = views[0].partitions[0]
    assert part.start_offset is not None
    assert part.high_watermark is not None
    return part.start_offset, part.high_watermark


class Member:
    """A member of a group that polls in a thread of its own."""

    def __init__(self, kafka: Cluster, group: str, topic: str, name: str = "m", **settings: Any) -> None:
        self.values: list[str] = []
        self.lost: list[int] = []
        self._stop = threading.Event()
        config: dict[str, Any] = {"group.id": group, "auto.offset.reset": "earliest", "client.id": name}
        config |= {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 200}
        self._consumer = Consumer(kafka.client_config("confluent-kafka") | QUIET | config | settings)
        self._consumer.subscribe([topic], on_lost=lambda _, parts: self.lost.append(len(parts)))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.values.append((message.value() or b"").decode())
        self._consumer.close()

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)


def until(is_so: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


# ---------------------------------------------------------------- requests that fail


ONCE = {"retries": 0, "enable.idempotence": False}


def test_a_produce_that_fails_was_not_done(kafka: Cluster, faults: Faults, topic: str) -> None:
    with faults.fail_next(api="Produce", error="NOT_ENOUGH_REPLICAS", times=2, topic=topic) as failing:
        assert sent(kafka, topic, "a", "b", "c", **ONCE) == ["NOT_ENOUGH_REPLICAS"] * 2 + [""]
        failing.wait_used()
    assert ends(kafka, topic) == (0, 1)


def test_a_produce_that_fails_after_the_append_was_done(kafka: Cluster, faults: Faults, topic: str) -> None:
    with faults.fail_next("Produce", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", times=2, after_append=True):
        assert sent(kafka, topic, "a", "b", "c", **ONCE) == ["NOT_ENOUGH_REPLICAS_AFTER_APPEND"] * 2 + [""]
    assert ends(kafka, topic) == (0, 3)


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_retry_after_a_done_append_duplicates_unless_idempotent(
    kafka: Cluster, faults: Faults, topic: str, idempotent: bool
) -> None:
    """The classic: the client does not know, sends again, and the record is there twice."""
    with faults.fail_next("Produce", "REQUEST_TIMED_OUT", after_append=True, topic=topic) as failing:
        outcomes = sent(kafka, topic, "a", **{"enable.idempotence": idempotent, "retry.backoff.ms": 10})
        failing.wait_used()
    assert outcomes == [""]
    assert ends(kafka, topic) == (0, 1 if idempotent else 2)


@pytest.mark.parametrize("after", [False, True])
def test_a_connection_that_breaks(kafka: Cluster, faults: Faults, topic: str, after: bool) -> None:
    with faults.fail_next("Produce", "DISCONNECT", after_append=after, topic=topic) as failing:
        (outcome,) = sent(kafka, topic, "a", **ONCE)
        failing.wait_used()
    assert outcome == "_TRANSPORT"
    until(lambda: ends(kafka, topic) == (0, int(after)), "the append was done, or not")


def test_without_a_rule_the_handlers_are_those_that_ship(kafka: Cluster, faults: Faults, topic: str) -> None:
    """A rule whose times are used up, or that is healed, changes nothing any more."""
    failing = faults.fail_next("Produce", "INVALID_RECORD", times=1, topic=topic)
    assert sent(kafka, topic, "a", "b", **ONCE) == ["INVALID_RECORD", ""]
    failing.heal()
    with faults.fail_next("Produce", "INVALID_RECORD", times=5):
        pass
    assert sent(kafka, topic, "c", **ONCE) == [""]


def test_a_rule_reaches_a_broker_that_is_restarted(kafka: Cluster, faults: Faults, topic: str) -> None:
    with faults.kill(kafka.leader_of(topic)):
        failing = faults.fail_next("Produce", "INVALID_RECORD", times=1, topic=topic)
    with failing:
        kafka.elect_preferred()
        assert sent(kafka, topic, "a", **ONCE) == ["INVALID_RECORD"]


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Fetch", "UNKNOWN_LEADER_EPOCH"),
        ("Metadata", "LEADER_NOT_AVAILABLE"),
        ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
    ],
)
def test_reads_fail_and_are_repeated(
    kafka: Cluster, faults: Faults, topic: str, api: str, error: str
) -> None:
    sent(kafka, topic, "a")
    # A member that found no topic looks again after five minutes, unless something else makes it look.
    soon: dict[str, Any] = {"topic.metadata.refresh.interval.ms": 1_000}
    with (
        faults.fail_next(api, error, times=2) as failing,
        Member(kafka, unique("g"), topic, **soon) as member,
    ):
        failing.wait_used()
        until(lambda: member.values == ["a"], "the record is read after the errors")


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup", "Heartbeat", "FindCoordinator"])
def test_requests_of_groups_fail_and_are_repeated(
    kafka: Cluster, faults: Faults, topic: str, api: str
) -> None:
    sent(kafka, topic, "a")
    error = "COORDINATOR_NOT_AVAILABLE"
    with faults.fail_next(api, error, times=2) as failing, Member(kafka, unique("g"), topic) as member:
        failing.wait_used()
        until(lambda: member.values == ["a"], "the record is read after the errors")


def test_a_commit_that_fails_was_not_done(kafka: Cluster, faults: Faults, topic: str) -> None:
    sent(kafka, topic, "a")
    group = unique("g")
    consumer = Consumer(
        kafka.client_config("confluent-kafka")
        | QUIET
        | {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    until(lambda: consumer.poll(0.1), "a message")
    with faults.fail_next("OffsetCommit", "GROUP_AUTHORIZATION_FAILED"):
        with pytest.raises(Exception, match="GROUP_AUTHORIZATION_FAILED"):
            consumer.commit(asynchronous=False)
        assert not groups.committed(kafka.bootstrap_servers, group)
    with faults.fail_next("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", after_append=True):
        with pytest.raises(Exception, match="GROUP_AUTHORIZATION_FAILED"):
            consumer.commit(asynchronous=False)
        kafka.wait_committed(group, 1, topic)
    consumer.close()


def test_held_requests_are_carried_out_when_they_are_released(
    kafka: Cluster, faults: Faults, topic: str
) -> None:
    producer = Producer(kafka.client_config("confluent-kafka") | QUIET)
    outcomes: list[KafkaError | None] = []
    with faults.hold("Produce", topic=topic) as held:
        producer.produce(topic, "a", on_delivery=lambda error, _: outcomes.append(error))
        assert producer.flush(0.5) == 1
        assert ends(kafka, topic) == (0, 0)
        held.release()
        assert producer.flush(PATIENCE_SECONDS) == 0
    assert outcomes == [None]
    assert ends(kafka, topic) == (0, 1)


def test_what_cannot_fail_is_refused_in_one_line(faults: Faults) -> None:
    with pytest.raises(Refusal, match="unknown API 'Prodce': did you mean Produce"):
        faults.fail_next("Prodce")
    with pytest.raises(Refusal, match="unknown error 'NOT_ENOUGH': did you mean NOT_ENOUGH_REPLICAS"):
        faults.fail_next("Produce", "NOT_ENOUGH")
    with pytest.raises(Refusal, match="times=0: give at least 1"):
        faults.fail_next(times=0)


# ---------------------------------------------------------------- brokers, links and disks


def led_by(kafka: Cluster, leader: int, *others: int, **config: Any) -> str:
    """A new topic whose replicas are on these brokers."""
    return kafka.topic(unique("topic"), replicas=[[leader, *others]], config=config)


def seconds_of_a_send(kafka: Cluster, topic: str) -> float:
    began = time.monotonic()
    assert sent(kafka, topic, "slow") == [""]
    return time.monotonic() - began


def test_power_loss_takes_what_a_kill_leaves(kafka: Cluster, faults: Faults) -> None:
    """The producer sends until the broker leads again, so what is there afterwards is known."""
    topic = led_by(kafka, 2, **{"min.insync.replicas": 1})
    assert sent(kafka, topic, "a") == [""]
    with faults.kill(kafka.leader_of(topic)):
        pass
    assert sent(kafka, topic, "b") == [""]
    assert ends(kafka, topic) == (0, 2)
    with faults.power_loss(2):
        pass
    assert sent(kafka, topic, "c") == [""]
    assert ends(kafka, topic)[1] < 3


@pytest.mark.parametrize("verb", ["pause", "isolate", "isolate zone"])
def test_a_leader_that_others_do_not_hear_is_replaced(kafka: Cluster, faults: Faults, verb: str) -> None:
    topic = led_by(kafka, 1, 2, 3)
    with faults.pause(1) if verb == "pause" else faults.isolate("az1" if verb == "isolate zone" else 1):
        kafka.wait_leader_not(1, topic)
        servers = kafka.supervisor.broker(2)
        assert sent(kafka, topic, "a", **{"bootstrap.servers": f"{servers.host}:{servers.port}"}) == [""]
    assert ends(kafka, topic) == (0, 1)


def test_slow_links_and_disks_delay_what_waits_for_them(kafka: Cluster, faults: Faults) -> None:
    topic = led_by(kafka, 1, 2, 3)
    with faults.delay(1, [2, 3], 300):
        assert seconds_of_a_send(kafka, topic) >= 0.3
    synced = led_by(kafka, 2, **{"min.insync.replicas": 1, "tidelog.flush": "always"})
    with faults.slow_fsync(2, 300):
        assert seconds_of_a_send(kafka, synced) >= 0.3


def test_a_full_disk_takes_no_records(kafka: Cluster, faults: Faults) -> None:
    """A record that is larger than the room that is left; a smaller one fits, as on any full disk."""
    topic = led_by(kafka, 3, **{"min.insync.replicas": 1})
    with faults.disk_full(3):
        (outcome,) = sent(kafka, topic, "x" * 900_000, **ONCE, **{"message.timeout.ms": 2_000})
        assert outcome != ""
    assert sent(kafka, topic, "b") == [""]
    assert ends(kafka, topic) == (0, 1)


# ---------------------------------------------------------------- topics


def test_below_min_isr_acks_all_is_refused(kafka: Cluster, faults: Faults, topic: str) -> None:
    with faults.below_min_isr(topic):
        assert sent(kafka, topic, "a", **ONCE) == ["NOT_ENOUGH_REPLICAS"]
        assert sent(kafka, topic, "b", acks=1, **ONCE) == [""]
    assert sent(kafka, topic, "c", **ONCE) == [""]
    lax = kafka.topic(unique("lax"), config={"min.insync.replicas": 1})
    with pytest.raises(ClusterError, match=r"min.insync.replicas=1: below that no leader is left"):
        faults.below_min_isr(lax)


def test_an_unclean_election_loses_what_was_acknowledged(kafka: Cluster, faults: Faults, topic: str) -> None:
    assert sent(kafka, topic, "kept") == [""]
    with faults.unclean_election(topic) as election:
        assert sent(kafka, topic, "lost", "lost too") == ["", ""]
        election.happen()
        assert ends(kafka, topic)[1] == 1
    assert ends(kafka, topic) == (0, 1)


def test_retention_really_expires(kafka: Cluster, faults: Faults, topic: str) -> None:
    sent(kafka, topic, "a", "b")
    with faults.expire_retention(topic):
        assert ends(kafka, topic) == (2, 2)
    sent(kafka, topic, "c")
    time.sleep(0.5)  # more than one look for what is too old
    assert ends(kafka, topic) == (2, 3)


def test_a_topic_is_recreated_empty(kafka: Cluster, faults: Faults) -> None:
    topic = kafka.topic(unique("topic"), partitions=2, config={"retention.ms": 3_600_000})
    sent(kafka, topic, "a", "b", "c")
    faults.recreate(topic)
    assert ends(kafka, topic) == (0, 0)
    with Admin(kafka.bootstrap_servers) as admin:
        views = admin.topics([topic])
        admin.add_settings(views)
    assert len(views[0].partitions) == 2
    assert views[0].settings == {"retention.ms": "3600000"}


# ---------------------------------------------------------------- groups


def test_the_coordinator_moves_and_the_group_goes_on(kafka: Cluster, faults: Faults, topic: str) -> None:
    group = unique("g")
    with Member(kafka, group, topic) as member:
        kafka.wait_assigned(group)
        before = groups.coordinator(kafka.bootstrap_servers, group)
        faults.move_coordinator(group)
        after = groups.coordinator(kafka.bootstrap_servers, group)
        assert before is not None
        assert after is not None
        assert before[0] != after[0]
        sent(kafka, topic, "a")
        until(lambda: member.values == ["a"], "the member goes on")


def test_an_expired_session_costs_the_member_its_partitions(kafka: Cluster, faults: Faults) -> None:
    topic, group = kafka.topic(unique("topic"), partitions=2), unique("g")
    with Member(kafka, group, topic, "first") as first, Member(kafka, group, topic, "second"):
        kafka.wait_assigned(group, members=2)
        with pytest.raises(ClusterError, match="name one member instead of 'third'; it has"):
            faults.expire_session(group, "third")
        faults.expire_session(group, "first")
        until(lambda: first.lost, "the member learns that it has lost its partitions")
        kafka.wait_assigned(group, members=2)  # it joins again


# ---------------------------------------------------------------- waits


def test_waits_say_what_they_saw(kafka: Cluster, faults: Faults) -> None:
    """And end in time."""
    topic, group = led_by(kafka, 1, 2, 3), unique("g")
    with pytest.raises(ClusterError, match=r"after 0.1 s not yet 2 assigned members of group .*: state"):
        kafka.wait_assigned(group, members=2, timeout_s=0.1)
    with pytest.raises(ClusterError, match=r"after 0.1 s not yet offset 5 committed .*: nothing is"):
        kafka.wait_committed(group, 5, timeout_s=0.1)
    with pytest.raises(
        ClusterError, match=r"after 0.1 s not yet brokers \[1\] in sync .*: broker 1 says \[1, 2, 3\]"
    ):
        kafka.wait_isr(topic, {1}, timeout_s=0.1)
    with (
        faults.fail_next("Produce", times=3, topic=topic) as failing,
        pytest.raises(ClusterError, match=r"after 0.1 s not yet used: .*: 3 to go"),
    ):
        failing.wait_used(timeout_s=0.1)
    leader = kafka.leader_of(topic)
    with (
        faults.kill(3),
        pytest.raises(
            ClusterError, match=r"after 0.1 s not all replicas are in sync: broker 3 does not answer"
        ),
    ):
        kafka.wait_in_sync(timeout_s=0.1)
    with pytest.raises(ClusterError, match=rf"led: {topic}-0 by {leader}"):
        kafka.wait_leader_not(leader, topic, timeout_s=0.1)
    with leader.kill():
        kafka.wait_leader_not(leader)
