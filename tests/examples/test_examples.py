"""The suites under examples/ pass as a reader would run them, and fail when a guard of their application is
taken out: each finds a class of bug that applications are known for."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from bench.jars import java, spark_kafka_jars

EXAMPLES = Path(__file__).parents[2] / "examples"
ON_SPARK = "spark_job"
"""Needs jars that come through Maven."""
QUICK = ("alerts", "stock")


class Guard(NamedTuple):
    example: str
    bug: str
    line: str
    without: str
    found_by: str


GUARDS = (
    Guard(
        "stock",
        "commits before it processes",
        "                self.stock.book(message)\n                self._commit(message)\n",
        "                self._commit(message)\n                self.stock.book(message)\n",
        "test_the_keeper_itself_dies",
    ),
    Guard(
        "payments",
        "takes no notice of delivery errors",
        ", on_delivery=partial(self._told, payment)",
        "",
        "test_below_min_isr_nothing_is_forgotten",
    ),
    Guard(
        "payments",
        "asks for the leader's word only",
        '"acks": "all"',
        '"acks": "1"',
        "test_a_confirmed_payment_survives_its_leader",
    ),
    Guard(
        "alerts",
        "does not commit when partitions are taken away",
        "        async with self._handling:\n            await self._commit()\n",
        "        pass\n",
        "test_an_instance_joins",
    ),
    Guard(
        "spark_job",
        "skips what Kafka has deleted",
        '"failOnDataLoss", "true"',
        '"failOnDataLoss", "false"',
        "test_records_that_expire_before_they_are_copied_stop_it",
    ),
    Guard(
        "orders_api",
        "answers before Kafka has",
        "        while not answers:\n            producer.poll(0.05)\n        if answers[0]",
        "        if answers and answers[0]",
        "test_an_order_is_taken_or_refused",
    ),
    Guard(
        "orders_api",
        "promises what the leader alone has",
        '"acks": "all"',
        '"acks": "1"',
        "test_a_taken_order_survives_its_leader",
    ),
)


def suite(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    if folder.name == ON_SPARK:
        environment |= {
            "SPARK_KAFKA_JARS": ",".join(map(str, spark_kafka_jars())),
            "JAVA_HOME": str(Path(java()).parents[1]),
        }
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=500
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path.parent.name, marks=() if path.parent.name in QUICK else pytest.mark.long)
        for path in sorted(EXAMPLES.glob("*/app.py"))
    ],
)
def test_the_suite_of_an_example_passes(example: str) -> None:
    ended = suite(EXAMPLES / example)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.long
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: re.sub(r"\W+", "-", guard.bug))
def test_an_example_finds_its_bug(guard: Guard, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLES / guard.example, tmp_path / guard.example))
    source = (folder / "app.py").read_text("utf-8")
    assert source.count(guard.line) == 1
    (folder / "app.py").write_text(source.replace(guard.line, guard.without), "utf-8")
    ended = suite(folder, "-k", guard.found_by)
    assert ended.returncode == 1, ended.stdout
    assert re.search(rf"^FAILED .*{guard.found_by}", ended.stdout, re.MULTILINE)
    assert re.search(r"^E +(assert|AssertionError|Failed: DID NOT RAISE)", ended.stdout, re.MULTILINE)
