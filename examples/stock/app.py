"""Counts stock: every movement that comes from Kafka is booked once in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message


class Stock:
    """The table of products. A movement is known by its place in Kafka: booking it again changes nothing."""

    def __init__(self, database: str) -> None:
        self._database = sqlite3.connect(database)
        self._database.executescript(
            """
            create table if not exists booked (topic, part, place, primary key (topic, part, place));
            create table if not exists stock (product primary key, pieces);
            """
        )

    def book(self, message: Message) -> None:
        movement = json.loads(message.value())
        with self._database:  # one transaction: the movement and that it was booked
            new = self._database.execute(
                "insert or ignore into booked values (?, ?, ?)",
                (message.topic(), message.partition(), message.offset()),
            )
            if new.rowcount:
                self._database.execute(
                    "insert into stock values (?, ?) "
                    "on conflict do update set pieces = pieces + excluded.pieces",
                    (movement["product"], movement["pieces"]),
                )

    def pieces(self, product: str) -> int:
        row = self._database.execute("select pieces from stock where product = ?", (product,)).fetchone()
        return row[0] if row else 0

    def close(self) -> None:
        self._database.close()


class StockKeeper:
    def __init__(self, config: dict[str, Any], topic: str, group: str, stock: Stock) -> None:
        self.stock = stock
        self._consumer = Consumer(
            {
                **config,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([topic])

    def run(self, enough: Callable[[], bool]) -> None:
        try:
            while not enough():
                message = self._consumer.poll(0.1)
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    if error.retriable() or not error.fatal():
                        continue
                    raise KafkaException(error)
                self.stock.book(message)
                self._commit(message)
        finally:
            self._consumer.close()

    def _commit(self, message: Message) -> None:
        try:
            self._consumer.commit(message=message, asynchronous=False)
        except KafkaException as error:
            # The next commit says more than this one, and what is read again is booked once.
            if error.args[0].fatal():
                raise
