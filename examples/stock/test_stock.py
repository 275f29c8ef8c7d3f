"""No movement is missing, and none is booked twice, whatever dies in the middle."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from app import Stock, StockKeeper
from confluent_kafka import KafkaError, Message, Producer

ClientConfig = Callable[[str], dict[str, Any]]
PATIENCE_SECONDS = 120


class DiskFull(OSError):
    pass


class Breaking(Stock):
    """A stock whose disk fails at one movement, once."""

    def __init__(self, database: str, at: int) -> None:
        super().__init__(database)
        self.left = at

    def book(self, message: Message) -> None:
        self.left -= 1
        if self.left == 0:
            raise DiskFull
        super().book(message)


@pytest.fixture
def deliver(kafka_client_config: ClientConfig, kafka_topic: str) -> Iterator[Callable[..., None]]:
    producer = Producer({**kafka_client_config("confluent-kafka"), "acks": "all"})

    def told(error: KafkaError | None, message: Message) -> None:
        assert error is None

    def send(movements: int, product: str = "screw") -> None:
        for _ in range(movements):
            producer.produce(kafka_topic, json.dumps({"product": product, "pieces": 1}), on_delivery=told)
        assert producer.flush(PATIENCE_SECONDS) == 0

    yield send
    producer.flush(0)


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "stock.db")


@pytest.fixture
def start(
    kafka_client_config: ClientConfig, kafka_topic: str, kafka_group: str
) -> Callable[[Stock], StockKeeper]:
    """Stands for a new process of the application."""
    config = kafka_client_config("confluent-kafka")
    return lambda stock: StockKeeper(config, kafka_topic, kafka_group, stock)


def until(condition: Callable[[], bool]) -> Callable[[], bool]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    return lambda: condition() or time.monotonic() > deadline


def test_the_leader_dies(
    kafka_faults: Any,
    kafka_topic: str,
    deliver: Callable[..., None],
    start: Callable[[Stock], StockKeeper],
    database: str,
) -> None:
    deliver(100)

    def keep() -> None:
        with closing(Stock(database)) as stock:
            start(stock).run(until(lambda: stock.pieces("screw") >= 200))

    keeping = threading.Thread(target=keep)
    with closing(Stock(database)) as watched:
        keeping.start()
        booked_some = until(lambda: watched.pieces("screw") > 0)
        while not booked_some():
            time.sleep(0.01)
        with kafka_faults.kill(kafka_faults.leader_of(kafka_topic)):
            deliver(100)
            keeping.join()
        assert watched.pieces("screw") == 200


def test_the_keeper_itself_dies(
    deliver: Callable[..., None], start: Callable[[Stock], StockKeeper], database: str
) -> None:
    """Its disk fails at the 30th movement. The next process goes on with that one."""
    deliver(100)
    with closing(Breaking(database, at=30)) as stock, pytest.raises(DiskFull):
        start(stock).run(until(lambda: False))
    with closing(Stock(database)) as stock:
        assert stock.pieces("screw") == 29
    deliver(1, "the last")
    with closing(Stock(database)) as stock:
        start(stock).run(until(lambda: stock.pieces("the last") > 0))
        assert stock.pieces("screw") == 100
