"""A test under many schedules of faults: they are drawn, written, repeated and shrunk."""

from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.testing.plugged import plugged, run

from tidelog.errors import Refusal
from tidelog.faults import TRIAL_FAULTS
from tidelog.pipeline.audit.run import audit
from tidelog.testing import schedules

ZONES = {1: "az1", 2: "az2", 3: "az3"}
ALL = schedules.kinds(None)


def drawn(seed: int, seconds: float = 2.0) -> schedules.Schedule:
    return schedules.draw(seed, ALL, ZONES, seconds, 2_000)


def test_a_seed_names_a_schedule() -> None:
    """Always the same one, and one line says all of it."""
    for seed in range(200):
        schedule = drawn(seed)
        assert schedule == drawn(seed)
        assert schedules.parsed(schedules.written(schedule)) == schedule
        assert all(0 <= fault.at_ms <= 2_000 for fault in schedule)
    used = {fault.kind for seed in range(200) for fault in drawn(seed)}
    assert used == {name for name, fault in TRIAL_FAULTS.items() if fault.by_default}


def test_the_published_ones_stay() -> None:
    """Seeds are printed by failures, and repeated later."""
    assert [schedules.written(drawn(seed)) for seed in (1, 2, 3)] == [
        "kill 1 @500+3564",
        "clock 1 -3600000ms @500+2115",
        "power 1 @500+3114",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kill 1", "schedule 'kill 1': expected a fault like 'kill 1 @750[+]2300'"),
        ("kil 1 @1+2", "unknown fault 'kil': did you mean kill"),
        (" ; ", "an empty schedule: give faults like"),
    ],
)
def test_what_is_no_schedule_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        schedules.parsed(text)


def test_shrinking_finds_the_one_fault_that_matters() -> None:
    """Whatever else was drawn, and as short as it may be."""
    dice = random.Random(1)
    for seed in range(50):
        schedule = drawn(seed, 10.0)
        if not schedule:
            continue
        culprit = dice.choice(schedule)
        runs: list[schedules.Schedule] = []

        def fails(candidate: schedules.Schedule, culprit=culprit, runs=runs) -> bool:
            runs.append(candidate)
            return any(
                (fault.kind, fault.targets) == (culprit.kind, culprit.targets) and fault.duration_ms >= 300
                for fault in candidate
            )

        if not fails(schedule):
            continue
        (left,) = schedules.shrink(schedule, fails, lambda: True)
        assert (left.kind, left.targets) == (culprit.kind, culprit.targets)
        assert 300 <= left.duration_ms < 600 or left.duration_ms == culprit.duration_ms
        assert len(runs) < 60


def test_shrinking_ends_when_the_time_is_over() -> None:
    schedule = drawn(1, 10.0)
    assert schedules.shrink(schedule, lambda _: True, lambda: False) == schedule


# ---------------------------------------------------------------- in runs of pytest

BODY = """
import time
import pytest
from confluent_kafka import Producer

RUNS = []

def send(config, topic, seconds):
    producer = Producer(config | {"log_level": 0})
    deadline = time.monotonic() + seconds
    number = 0
    while time.monotonic() < deadline:
        producer.produce(topic, str(number))
        number += 1
        producer.poll(0.01)
    assert producer.flush(60) == 0
"""


@pytest.mark.slow
def test_a_sound_test_holds_under_all_schedules(pytester: pytest.Pytester) -> None:
    """Each run has a topic of its own, the cluster is shared and whole again each time."""
    result = run(
        pytester,
        BODY
        + """
@pytest.mark.kafka(settings={"min.insync.replicas": 2})
@pytest.mark.kafka_schedules(n=3, seed=7, seconds=0.5)
def test_it(kafka_cluster, kafka_topic, kafka_ledger, kafka_client_config, kafka_faults):
    producer = kafka_ledger.wrap(Producer(kafka_client_config("confluent-kafka") | {"log_level": 0}))
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        producer.produce(kafka_topic, str(time.monotonic()))
        producer.poll(0.01)
    assert producer.flush(60) == 0
    kafka_faults.heal()
    kafka_cluster.wait_in_sync(timeout_s=0.5)
    kafka_ledger.assert_nothing_lost()
    RUNS.append((kafka_topic, id(kafka_cluster)))

@pytest.mark.kafka(settings={"min.insync.replicas": 2})
def test_there_were_three(kafka_cluster):
    topics, clusters = zip(*RUNS)
    assert len(set(topics)) == 3
    assert set(clusters) == {id(kafka_cluster)}
    assert len(kafka_cluster.faults.history) >= 1
""",
        "-v",
    )
    result.assert_outcomes(passed=2)


@pytest.mark.slow
def test_a_failure_is_shrunk_and_repeated_by_the_line_that_it_prints(pytester: pytest.Pytester) -> None:
    """A test that cannot bear a dead broker fails for that, and for nothing else that happened."""
    source = (
        BODY
        + """
@pytest.mark.kafka_schedules(n=20, seed=3, seconds=0.5, faults=("kill", "delay", "slow"), shrink_seconds=60)
def test_it(kafka_cluster, kafka_topic):
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        assert len(kafka_cluster.pids) == 3, "a broker is dead"
        time.sleep(0.01)
"""
    )
    result = run(pytester, source, "--kafka-evidence=kept")
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert re.search(r"failed under schedule \d+ of 20 \(seed=\d+, \d faults?\)", text)
    found = re.search(r'--kafka-schedule="(kill (\d) @\d+\+\d+)"', text)
    assert found is not None, text
    assert f'@pytest.mark.kafka_schedules(replay="{found[1]}")' in text
    assert re.search(rf"faults:\n +\+0.\d+ s kill {found[2]}(, healed .*| \(active\))\n", text)
    line = re.escape(found[1])
    assert re.search(rf'again: pytest "test_\w+\.py::test_it" --kafka-schedule="{line}"\n', text)
    again = run(pytester, source, f"--kafka-schedule={found[1]}")
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["*a broker is dead*"])


@pytest.mark.slow
def test_the_line_that_repeats_a_failure_asks_for_the_same_cluster(pytester: pytest.Pytester) -> None:
    """Whatever else the marker names; from the folder in which pytest was started. Each line is run."""
    pytester.makeini("[pytest]")
    pytester.mkdir("suite").joinpath("test_one.py").write_text(
        """
import pytest

@pytest.mark.kafka(settings={"num.partitions": 2})
@pytest.mark.parametrize("name", ["a", "$b"])
def test_it(kafka_cluster, name):
    assert kafka_cluster.status.generation == "epoch"
    assert len(kafka_cluster.pids) == 3
"""
    )
    pytester.chdir()
    os.chdir("suite")
    command = [sys.executable, "-m", "pytest", *plugged(), "-p", "no:cacheprovider"]
    options = ["--kafka-brokers=1", "--kafka-generation=hw,epoch"]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    again = re.findall(r"^again: pytest (.*)", ended.stdout, re.MULTILINE)
    assert len(again) == 4, ended.stdout
    for line in again:
        repeated = subprocess.run([*command, *shlex.split(line)], capture_output=True, text=True, check=False)
        assert "1 failed" in repeated.stdout, (line, repeated.stdout)
        assert f"again: pytest {line}\n" in repeated.stdout


@pytest.mark.slow
def test_a_failed_assertion_shows_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    """Not the lines of the ledger."""
    result = run(
        pytester,
        BODY
        + """
def test_it(kafka_ledger):
    kafka_ledger.assert_exactly_once(["a"])
""",
        "--kafka-brokers=1",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">       kafka_ledger.assert_exactly_once(*",
            "E  *AssertionError: in the result, and never sent: 1 value:*",
        ]
    )
    result.stdout.no_fnmatch_line("*def _none(*")


@pytest.mark.slow
def test_a_test_that_nothing_disturbed_has_shown_nothing(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
import pytest

@pytest.mark.kafka_schedules(n=2)
def test_it(kafka_topic):
    pass
""",
        "--kafka-brokers=1",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["no fault was done: the body took * s, the first fault comes after 0.5 s.*"])


@pytest.mark.slow
def test_a_fault_that_cannot_be_done_is_named(pytester: pytest.Pytester) -> None:
    """A line from another cluster; and a method that no fixture reaches, which would run undisturbed."""
    result = run(
        pytester,
        """
import time
import unittest
import pytest

@pytest.mark.kafka_schedules(replay="kill 9 @10+20")
def test_it(kafka_topic):
    time.sleep(0.5)

@pytest.mark.kafka_schedules(replay="kill 1 @10+20; cut 1>8 @10+20")
def test_half(kafka_topic):
    time.sleep(0.5)

@pytest.mark.kafka_schedules(replay="zone az9 @10+20")
def test_zone(kafka_topic):
    time.sleep(0.5)

class TestUnit(unittest.TestCase):
    @pytest.mark.kafka_schedules
    def test_it(self):
        pass
""",
        "--kafka-brokers=1",
    )
    result.assert_outcomes(failed=3, errors=1)
    result.stdout.fnmatch_lines_random(
        [
            "no fault was done: there is no broker 9: the cluster has 1",
            "no fault was done: there is no broker 8: the cluster has 1",
            "no fault was done: zone az9: expected a zone: az1",
            "*kafka_schedules: the test uses no fixture such as kafka_topic",
        ]
    )


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("n=0", "n and seconds must be larger than 0"),
        ("m=1", "unknown argument 'm': *"),
        ("faults=['kil']", "unknown fault 'kil': did you mean kill?"),
        ("3", "give names, such as kafka_schedules(n=20)"),
        ("n='x'", "n='x': give a whole number"),
        ("seconds='1'", "seconds='1': give a number"),
        ("faults='kill'", "faults='kill': give a list of texts"),
        ("replay=3", "replay=3: give a text"),
        ("replay='kill 1'", "schedule 'kill 1': expected a fault like 'kill 1 @750+2300'"),
    ],
)
@pytest.mark.slow
def test_wrong_markers_are_refused_in_one_line(pytester: pytest.Pytester, marker: str, said: str) -> None:
    source = f"import pytest\n@pytest.mark.kafka_schedules({marker})\ndef test_it(kafka_topic): pass\n"
    result = run(pytester, source, "--strict-markers")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*pytest.mark.kafka_schedules: {said}"])


# ---------------------------------------------------------------- what a failure says


@pytest.mark.slow
def test_a_failure_says_what_happened_and_keeps_the_evidence(pytester: pytest.Pytester) -> None:
    """Faults with times, who led when, and a folder that can be audited."""
    result = run(
        pytester,
        """
from confluent_kafka import Producer

def test_it(kafka_topic, kafka_faults, kafka_ledger, kafka_client_config):
    producer = kafka_ledger.wrap(Producer(kafka_client_config("confluent-kafka") | {"log_level": 0}))
    with kafka_faults.kill(kafka_faults.leader_of(kafka_topic)):
        producer.produce(kafka_topic, "a")
        assert producer.flush(60) == 0
    assert False, "on purpose"

def test_without_a_ledger(kafka_cluster):
    assert False, "on purpose"
""",
        "--kafka-evidence=kept",
        "--kafka-generation=elr",
    )
    result.assert_outcomes(failed=2)
    text = result.stdout.str()
    assert "cluster: 3 brokers, generation elr" in text
    killed = re.search(r"\n +\+\d+\.\d+ s kill (\d), healed \+\d+\.\d+ s\n", text)
    assert killed is not None, text
    led = re.findall(r"\n +([+-]\d+\.\d+) s test_it-\w+-0: broker (\d), epoch (\d)", text)
    assert [(broker == killed[1], epoch) for _, broker, epoch in led[:2]] == [(True, "0"), (False, "1")]
    assert 'test_it" --kafka-generation=elr' in text
    kept = Path(pytester.path, "kept")
    (with_ledger,) = kept.glob("*test_it")
    (without,) = kept.glob("*test_without_a_ledger")
    assert sorted(path.name for path in (without / "logs").iterdir()) == [
        f"broker-{n}.log" for n in (1, 2, 3)
    ]
    verdict = audit(with_ledger, engine="local", with_report=False).verdict
    assert verdict["held"]
    assert verdict["totals"]["sends"]["ok"] == 1
