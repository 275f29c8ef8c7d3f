"""The examples of the guide run as they are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tidelog import Cluster
from tidelog.pipeline.audit.run import audit

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "ledger.md"


@pytest.mark.slow
def test_the_examples(
    kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL):
        exec(example, names)
    config = kafka_cluster.client_config("confluent-kafka") | {"log_level": 0}
    reading = config | {"group.id": kafka_topic, "auto.offset.reset": "earliest"}
    producer, consumer = names["wrapped"](Producer(config), Consumer(reading), tmp_path / "ledger")
    producer.produce(kafka_topic, "hello")
    assert producer.flush(60) == 0
    consumer.subscribe([kafka_topic])
    assert consumer.poll(60).value() == b"hello"
    names["report"](consumer)
    assert capsys.readouterr().out == ""  # no record has the header
    consumer.close()
    assert audit(tmp_path / "ledger", engine="local", with_report=False).verdict["held"]
