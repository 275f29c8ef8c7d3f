"""Sends payments to Kafka, and knows of each whether Kafka has it."""

from __future__ import annotations

from functools import partial
from typing import Any

from confluent_kafka import KafkaError, Message, Producer


class Payments:
    def __init__(self, config: dict[str, Any], topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                **config,
                "acks": "all",
                "message.timeout.ms": 2000,
            }
        )
        self.confirmed: list[str] = []
        """Kafka has them."""
        self.outbox: list[str] = []
        """Kafka refused them or did not answer in time: they are sent again."""

    def pay(self, payment: str) -> None:
        self._producer.produce(self._topic, payment, on_delivery=partial(self._told, payment))

    def settle(self) -> None:
        """Wait until Kafka has answered for every payment; send those again that it has not got."""
        again, self.outbox = self.outbox, []
        for payment in again:
            self.pay(payment)
        self._producer.flush()

    def _told(self, payment: str, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.outbox.append(payment)
            return
        self.confirmed.append(payment)
