"""The data folder of a real Apache Kafka, read as it lies on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.apache_kafka import ApacheKafka
from confluent_kafka import Producer
from tests.pipeline.segment_specimens import expected, rows

from tidelog.pipeline.sources.finding import find_segments

pytestmark = [pytest.mark.long, pytest.mark.slow]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EACH = 50


def test_what_kafka_wrote_is_read(tmp_path: Path) -> None:
    """All its codecs, headers, transactions with their markers; the broker is known by its own file."""
    settings = {"auto.create.topics.enable": "true", "num.partitions": "1"}
    with ApacheKafka(tmp_path, brokers=1, settings=settings) as kafka:
        common = {"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
        for codec in CODECS:
            producer = Producer({**common, "compression.type": codec})
            for n in range(EACH):
                producer.produce("t", f"{codec}-{n} …", b"k", headers={"h": b"1"})
            assert producer.flush(60) == 0
        changing = Producer({**common, "transactional.id": "x"})
        changing.init_transactions(60)
        for end in (changing.commit_transaction, changing.abort_transaction):
            changing.begin_transaction()
            changing.produce("t", b"in a transaction")
            assert changing.flush(60) == 0
            end(60)
        del producer, changing, end  # they would go on looking for a broker
    found = {segment.topic: segment for segment in find_segments(tmp_path)}
    segment = found["t"]
    read = rows(segment)
    assert (segment.broker, segment.partition) == (1, 0)
    assert read == expected(Path(segment.path).read_bytes(), segment)
    assert [row["problem"] for row in read] == [None] * len(read)
    assert [row["offset"] for row in read] == list(range(len(CODECS) * EACH + 4))
    sent = [f"{codec}-{n}" for codec in CODECS for n in range(EACH)]
    assert [row["value_id"] for row in read[: len(sent)]] == sent
    assert [row["compression"] for row in read[::EACH][: len(CODECS)]] == list(CODECS)
    assert [(row["transactional"], row["control"]) for row in read[-4:]] == [(True, False), (True, True)] * 2
