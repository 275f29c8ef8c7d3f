"""The three clients that run in this process: confluent-kafka (librdkafka), kafka-python, aiokafka."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, ClassVar

from kafka.coordinator.assignors.cooperative_sticky import (  # type: ignore[import-untyped]
    CooperativeStickyAssignor,
)
from tests.clients.drivers.admin import Admin, AioKafkaAdmin, ConfluentAdmin, KafkaPythonAdmin
from tests.clients.drivers.aio_kafka import AioKafka
from tests.clients.drivers.base import Driver, Outgoing, Refused
from tests.clients.drivers.confluent import Confluent
from tests.clients.drivers.kafka_python import KafkaPython
from tests.clients.matrix.client import Client, Member
from tests.groups.members import AioKafkaMember, ConfluentMember, KafkaPythonMember, eventually


class PythonClient(Client):
    quick = True
    driver: ClassVar[type[Driver]]
    admin: ClassVar[type[Admin]]
    joining: ClassVar[type[Any]]

    @classmethod
    def version(cls) -> str:
        return version(cls.name)

    def produce(self, topic: str, values: Sequence[str], *, idempotent: bool) -> list[int] | None:
        records = [Outgoing(value.encode()) for value in values]
        offsets = self.driver(self.bootstrap_servers).produce(topic, records, idempotent=idempotent)
        return [-1 if offset is None else offset for offset in offsets]

    def consume(self, topic: str, count: int) -> list[str]:
        read = self.driver(self.bootstrap_servers).read(topic, 0, count)
        return [(record.value or b"").decode() for record in read]

    def member(self, group: str, topic: str, *, cooperative: bool, instance: str | None) -> Member:
        settings = self.cooperative() if cooperative else {}
        if instance is not None:
            settings["group_instance_id"] = instance
        joined: Member = self.joining(self.bootstrap_servers, group, topic, **settings)
        return joined

    def cooperative(self) -> dict[str, Any]:
        raise NotImplementedError

    def administer(self, topic: str) -> int:
        admin = self.admin(self.bootstrap_servers)
        admin.create(topic, 2, 3)
        found: list[int] = []

        def described() -> bool:
            try:
                found[:] = list(admin.describe(topic))
            except Refused:
                return False  # the broker that was asked has not heard of it yet
            return bool(found)

        eventually(described)
        admin.delete(topic)
        return len(found)


class ConfluentKafka(PythonClient):
    name = "confluent-kafka"
    driver, admin, joining = Confluent, ConfluentAdmin, ConfluentMember

    def cooperative(self) -> dict[str, Any]:
        return {"partition_assignment_strategy": "cooperative-sticky"}


class KafkaPythonClient(PythonClient):
    name = "kafka-python"
    driver, admin, joining = KafkaPython, KafkaPythonAdmin, KafkaPythonMember

    def cooperative(self) -> dict[str, Any]:
        return {"partition_assignment_strategy": [CooperativeStickyAssignor]}


class AioKafkaClient(PythonClient):
    name = "aiokafka"
    lacks: ClassVar[dict[str, str]] = {
        "cooperative": "it has eager assignors only",
    }
    driver, admin, joining = AioKafka, AioKafkaAdmin, AioKafkaMember
