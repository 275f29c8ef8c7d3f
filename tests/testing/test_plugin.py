"""The plugin for pytest: its fixtures, markers and options, in runs of pytest of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS, is_alive
from tests.testing.plugged import plugged, run

from tidelog import Cluster
from tidelog.kafka_client.admin import Admin

pytestmark = pytest.mark.slow

CLIENTS = """
import pytest
from confluent_kafka import Consumer, Producer

def send(config, topic, *values):
    outcomes = []
    producer = Producer(config | {"log_level": 0})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(60) == 0
    return outcomes

def read(config, topic, group, count):
    consumer = Consumer(config | {"group.id": group, "auto.offset.reset": "earliest", "log_level": 0})
    consumer.subscribe([topic])
    values = []
    while len(values) < count:
        message = consumer.poll(60)
        assert message is not None
        values.append(message.value().decode())
    consumer.close()
    return values
"""


def test_the_fixtures(pytester: pytest.Pytester) -> None:
    """A newcomer's first tests: every fixture does what its name says, and all tests share one cluster."""
    result = run(
        pytester,
        CLIENTS
        + """
PIDS = []

def test_it_sends_and_reads(kafka_client_config, kafka_topic, kafka_group, kafka_cluster):
    config = kafka_client_config("confluent-kafka")
    assert send(config, kafka_topic, "a", "b") == [None, None]
    assert read(config, kafka_topic, kafka_group, 2) == ["a", "b"]
    kafka_cluster.wait_committed(kafka_group, 2)
    PIDS.append(kafka_cluster.pids)

def test_topics_are_its_own(kafka_topic, kafka_topic_factory, kafka_admin, kafka_cluster):
    big = kafka_topic_factory(partitions=4, replicas=2, config={"min.insync.replicas": 2})
    assert kafka_topic != big
    (view,) = kafka_admin.topics([big])
    assert [len(part.replicas) for part in view.partitions] == [2] * 4
    assert all(part.leader > 0 for part in view.partitions)
    assert kafka_topic.startswith("test_topics_are_its_own-")
    assert PIDS == [kafka_cluster.pids]

def test_a_leader_dies(kafka_client_config, kafka_topic, kafka_group, kafka_faults):
    config = kafka_client_config("confluent-kafka")
    send(config, kafka_topic, "a")
    with kafka_faults.kill(kafka_faults.leader_of(kafka_topic)):
        assert send(config, kafka_topic, "b") == [None]
    assert read(config, kafka_topic, kafka_group, 2) == ["a", "b"]

def test_a_fault_that_is_left_behind(kafka_faults, kafka_cluster):
    kafka_faults.kill(kafka_faults.controller)
    assert len(kafka_cluster.pids) == 2

def test_is_healed_before_the_next_test(kafka_cluster, kafka_bootstrap_servers):
    assert len(kafka_cluster.pids) == 3
    assert len(kafka_bootstrap_servers.split(",")) == 3
    kafka_cluster.wait_in_sync(timeout_s=0.5)
""",
    )
    result.assert_outcomes(passed=5)


def test_the_twins_for_asyncio(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
import asyncio

def test_it(kafka_cluster_async, kafka_faults_async, kafka_topic):
    async def play():
        leader = await kafka_faults_async.leader_of(kafka_topic)
        async with kafka_faults_async.kill(leader) as fault:
            assert fault.active
            assert await kafka_cluster_async.leader_of(kafka_topic) != leader
        assert not fault.active
        await kafka_faults_async.pause(await kafka_faults_async.controller())
        await kafka_faults_async.heal()

    asyncio.run(play())
""",
    )
    result.assert_outcomes(passed=1)


def test_markers_choose_the_cluster(pytester: pytest.Pytester) -> None:
    """Tests that ask for the same share it; names stay; `fresh` is for one test."""
    result = run(
        pytester,
        """
import pytest

SEEN = {}

@pytest.mark.kafka(brokers=1, settings={"num.partitions": 5})
def test_one(kafka_cluster):
    SEEN["one"] = kafka_cluster.pids
    assert len(kafka_cluster.pids) == 1
    assert kafka_cluster.spec.settings["num.partitions"] == "5"

@pytest.mark.kafka(brokers=1, settings={"num.partitions": 5})
class TestMore:
    def test_two(self, kafka_cluster):
        assert kafka_cluster.pids == SEEN["one"]

    @pytest.mark.kafka(generation="hw", settings={"num.partitions": 6, "min.insync.replicas": 1})
    def test_three(self, kafka_cluster):
        assert kafka_cluster.status.generation == "hw"
        assert len(kafka_cluster.pids) == 1
        assert kafka_cluster.spec.settings["num.partitions"] == "6"

@pytest.mark.kafka(brokers=1, fresh=True)
def test_four(kafka_cluster):
    SEEN["four"] = kafka_cluster.pids

@pytest.mark.kafka(brokers=1, fresh=True)
def test_five(kafka_cluster):
    assert SEEN["four"] != kafka_cluster.pids
""",
        "-v",
        "--strict-markers",
    )
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["*::test_one PASSED*"])


def test_a_suite_under_several_generations(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def test_it(kafka_cluster):
    print("under", kafka_cluster.status.generation, len(kafka_cluster.pids))

def test_without_kafka():
    pass
""",
        "--kafka-generation=hw,epoch,elr",
        "--kafka-brokers=1",
        "-rP",
    )
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["under hw 1", "under epoch 1", "under elr 1"])


@pytest.fixture(scope="module")
def foreign() -> Iterator[Cluster]:
    with Cluster(brokers=1) as running:
        yield running


def test_a_cluster_that_runs_already(pytester: pytest.Pytester, foreign: Cluster) -> None:
    """The same tests; what needs a cluster of its own is skipped, with a reason."""
    result = run(
        pytester,
        CLIENTS
        + """
def test_it_sends_and_reads(kafka_client_config, kafka_topic, kafka_group, kafka_cluster):
    config = kafka_client_config("confluent-kafka")
    assert send(config, kafka_topic, "a", "b") == [None, None]
    assert read(config, kafka_topic, kafka_group, 2) == ["a", "b"]
    kafka_cluster.wait_committed(kafka_group, 2)
    kafka_cluster.wait_isr(kafka_topic, 1)
    kafka_cluster.wait_in_sync()
    with pytest.raises(Exception, match=r"after 0.1 s not yet 2 replicas in sync .*: in sync \\[\\[1\\]\\]"):
        kafka_cluster.wait_isr(kafka_topic, 2, timeout_s=0.1)

def test_faults(kafka_topic, kafka_faults):
    raise AssertionError

def test_faults_of_the_cluster(kafka_topic, kafka_cluster):
    kafka_cluster.leader_of(kafka_topic).kill()

@pytest.mark.kafka(generation="hw")
def test_old_rules(kafka_cluster):
    raise AssertionError
""",
        f"--kafka-bootstrap-servers={foreign.bootstrap_servers}",
        "-rs",
    )
    result.assert_outcomes(passed=1, skipped=3)
    result.stdout.fnmatch_lines_random(
        [
            "*: a cluster that runs already (--kafka-bootstrap-servers) cannot be harmed",
            "*: leader_of: a cluster that runs already (--kafka-bootstrap-servers) cannot be harmed",
            "*: needs a cluster with generation=hw, not --kafka-bootstrap-servers",
        ]
    )
    with Admin(foreign.bootstrap_servers) as admin:
        assert [topic.name for topic in admin.topics()] == ["__consumer_offsets"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kafka-brokers=0"], "*--kafka-brokers 0: give at least 1"),
        (["--kafka-brokers=many"], "*argument --kafka-brokers: invalid int value: 'many'"),
        (["--kafka-generation=epoc"], "*--kafka-generation: unknown generation 'epoc': did you mean epoch?"),
        (["--kafka-schedule=kill"], "*--kafka-schedule: schedule 'kill': expected a fault like 'kill 1 @*"),
        (["--kafka-evidence=/dev/null/x"], "*--kafka-evidence /dev/null/x: not a directory"),
        (["--kafka-bootstrap-servers=:x"], "*--kafka-bootstrap-servers :x: *"),
        (
            ["--kafka-bootstrap-servers=h:1", "--kafka-generation=hw"],
            "*--kafka-generation: not available with --kafka-bootstrap-servers",
        ),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    pytester: pytest.Pytester, arguments: list[str], said: str
) -> None:
    result = run(pytester, "def test_it(): pass", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_a_cluster_that_does_not_answer_is_one_line(pytester: pytest.Pytester) -> None:
    source = "def test_it(kafka_topic):\n    pass\n"
    result = run(pytester, source, "--kafka-bootstrap-servers=127.0.0.1:1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["no Kafka cluster: 127.0.0.1:1: connection refused*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    assert len(result.outlines) < 20


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("kafka(broker=1)", "*unknown argument of pytest.mark.kafka 'broker': did you mean brokers*"),
        ("kafka(3)", "*pytest.mark.kafka takes names, such as kafka(brokers=1)"),
        ("kafka(brokers=0)", "*no Kafka cluster: a cluster of 0 brokers: give at least 1"),
        ("kafka(generation='ep')", "*no Kafka cluster: *ep*"),
        ("kafka(settings={'num.partition': 1})", "*no Kafka cluster: unknown setting 'num.partition'*"),
        ("kafka(brokers='3')", "pytest.mark.kafka: brokers='3': give a whole number"),
        ("kafka(brokers=None)", "pytest.mark.kafka: brokers=None: give a whole number"),
        ("kafka(settings=3)", "pytest.mark.kafka: settings=3: give a dictionary with texts, numbers, *"),
        ("kafka(settings={'a': None})", "pytest.mark.kafka: settings={'a': None}: give a dictionary *"),
        ("kafka(zones='az1')", "pytest.mark.kafka: zones='az1': give a list of texts"),
    ],
)
def test_wrong_markers_are_refused_in_one_line(pytester: pytest.Pytester, marker: str, said: str) -> None:
    result = run(pytester, f"import pytest\n@pytest.mark.{marker}\ndef test_it(kafka_cluster): pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])
    result.stdout.no_fnmatch_line("During handling *")


def test_a_keeper_whose_package_is_missing_is_one_line(pytester: pytest.Pytester) -> None:
    """As a base installation says it, before a broker ends for it."""
    result = run(
        pytester,
        """
import pytest
from tidelog import extras

extras.missing_modules = lambda extra: ["kazoo"] if extra == "zookeeper" else []

@pytest.mark.kafka(keeper="zookeeper://127.0.0.1:1/x")
def test_it(kafka_cluster):
    pass
""",
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["no Kafka cluster: keeper=zookeeper:* pip install 'tidelog[[]zookeeper]'"])


def test_a_fault_without_the_right_to_it_skips_the_test(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
import resource

def test_it(kafka_faults, monkeypatch):
    def refused(*arguments):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(resource, "prlimit", refused)
    kafka_faults.disk_full(1)
""",
        "-rs",
        "--kafka-brokers=1",
    )
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*full 1: the files of broker 1 cannot be limited: *not permitted*"])


def test_no_free_port_is_said_in_one_line(pytester: pytest.Pytester, foreign: Cluster) -> None:
    port = foreign.brokers[0].port
    result = run(
        pytester,
        f"""
import pytest
from tidelog import Cluster

def test_it():
    Cluster(brokers=1, port={port}).start()
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E *ClusterError: port {port} is in use by *"])


# ---------------------------------------------------------------- processes


def test_every_worker_of_xdist_has_a_cluster_of_its_own(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
import os
import pytest

@pytest.mark.parametrize("number", range(4))
def test_it(number, kafka_cluster, kafka_topic, tmp_path_factory):
    assert len(kafka_cluster.pids) == 2
    shared = tmp_path_factory.getbasetemp().parent
    mine = shared / f"ports-{os.environ['PYTEST_XDIST_WORKER']}"
    mine.write_text(kafka_cluster.bootstrap_servers)
    texts = {path.name: path.read_text().split(",") for path in shared.glob("ports-*")}
    ports = [port for text in texts.values() for port in text]
    assert len(ports) == len(set(ports)) == 2 * len(texts)
""",
        "-n2",
        "--kafka-brokers=2",
    )
    result.assert_outcomes(passed=4)


def test_nothing_is_left_behind_when_pytest_is_killed(tmp_path: Path) -> None:
    """With SIGKILL, in the middle of a test, with a paused broker."""
    said = tmp_path / "pids"
    (tmp_path / "test_it.py").write_text(
        f"""
import os
import time

def test_it(kafka_cluster, kafka_faults):
    kafka_faults.pause(2)
    with open({str(said)!r} + ".tmp", "w") as file:
        file.write(" ".join(map(str, kafka_cluster.pids.values())))
    os.replace({str(said)!r} + ".tmp", {str(said)!r})
    time.sleep(600)
"""
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugged(), "test_it.py"],
        cwd=tmp_path,
    )
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not said.exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        pids = [int(word) for word in said.read_text().split()]
        assert len(pids) == 3
        assert all(map(is_alive, pids))
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline, [pid for pid in pids if is_alive(pid)]
        time.sleep(0.05)


def test_the_plugin_is_light() -> None:
    """A run of pytest that does not use Kafka does not load it, and nothing loads what the audit needs."""
    code = """
import sys
import tidelog.testing.plugin
early = [name for name in ("tidelog.cluster", "tidelog.wire", "asyncio") if name in sys.modules]
import tidelog.testing.running, tidelog.testing.faults, tidelog.testing.async_faults
import tidelog.testing.ledger, tidelog.testing.schedule_runs, tidelog.testing.report
heavy = [name for name in ("pyspark", "pandas", "numpy", "pyarrow", "confluent_kafka") if name in sys.modules]
print(early, heavy)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] []\n"
