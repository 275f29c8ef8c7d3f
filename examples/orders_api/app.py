"""Takes orders over HTTP. An order that is answered with 201 is in Kafka; one that is not gets 503."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel


class Order(BaseModel):
    customer: str
    product: str


def create_app(config: dict[str, Any], topic: str) -> FastAPI:
    app = FastAPI()
    producer = Producer({**config, "acks": "all", "message.timeout.ms": 2000})

    def send(order: Order) -> None:
        """Until Kafka has answered. Raises KafkaException."""
        answers: list[KafkaError | None] = []

        def told(error: KafkaError | None, message: Message) -> None:
            answers.append(error)

        producer.produce(topic, json.dumps(order.model_dump()), on_delivery=told)
        while not answers:
            producer.poll(0.05)
        if answers[0] is not None:
            raise KafkaException(answers[0])

    @app.post("/orders", status_code=201)
    async def take(order: Order) -> dict[str, str]:
        try:
            await asyncio.to_thread(send, order)
        except KafkaException as error:
            raise HTTPException(503, f"the order was not taken, try again: {error}") from None
        return {"status": "taken"}

    return app
