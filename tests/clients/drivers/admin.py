"""The administrative side of each client behind one interface: what all three of them can do.

What only one of them can do is tested with that client directly.
"""

from __future__ import annotations

import asyncio
import warnings
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from aiokafka import TopicPartition as AioTopicPartition  # type: ignore[import-untyped]
from aiokafka.admin import (  # type: ignore[import-untyped]
    AIOKafkaAdminClient,
    NewPartitions,
    NewTopic,
    RecordsToDelete,
)
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource  # type: ignore[import-untyped]
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from aiokafka.errors import KafkaError as AioKafkaError  # type: ignore[import-untyped]
from bench.processes import PATIENCE_SECONDS
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions as ConfluentNewPartitions
from confluent_kafka.cimpl import NewTopic as ConfluentNewTopic
from tests.clients.drivers import confluent
from tests.clients.drivers.base import Refused

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.admin  # type: ignore[import-untyped]
    from kafka.errors import KafkaError  # type: ignore[import-untyped]


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Partition:
    leader: int
    replicas: tuple[int, ...]
    isr: frozenset[int]


class Admin(ABC):
    """Errors are raised as `Refused` with Kafka's code."""

    name: str

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    @abstractmethod
    def create(
        self,
        topic: str,
        partitions: int,
        replicas: int,
        config: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> None: ...

    @abstractmethod
    def create_assigned(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        """With the replicas of each partition given, the preferred leader first."""

    @abstractmethod
    def delete(self, topic: str) -> None: ...

    @abstractmethod
    def add_partitions(self, topic: str, total: int) -> None: ...

    @abstractmethod
    def topics(self) -> set[str]: ...

    @abstractmethod
    def describe(self, topic: str) -> dict[int, Partition]: ...

    @abstractmethod
    def brokers(self) -> set[tuple[int, str, int]]:
        """Id, host and port of each."""

    @abstractmethod
    def controller(self) -> int: ...

    @abstractmethod
    def config(self, topic: str) -> dict[str, str | None]: ...

    @abstractmethod
    def set_config(self, topic: str, key: str, value: str) -> None: ...

    @abstractmethod
    def delete_records(self, topic: str, before: int, partition: int = 0) -> int:
        """Returns the new beginning."""


# ---------------------------------------------------------------- confluent-kafka


class ConfluentAdmin(Admin):
    name = "confluent"

    @contextmanager
    def _admin(self) -> Iterator[AdminClient]:
        try:
            yield AdminClient(confluent.quiet(self.bootstrap_servers))
        except KafkaException as error:
            raise confluent.refusal(error) from None

    def create(
        self,
        topic: str,
        partitions: int,
        replicas: int,
        config: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        self._create(ConfluentNewTopic(topic, partitions, replicas, config=dict(config or {})), validate_only)

    def create_assigned(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        replicas = [list(each) for each in assignment]
        self._create(ConfluentNewTopic(topic, len(replicas), replica_assignment=replicas), False)

    def _create(self, topic: Any, validate_only: bool) -> None:
        with self._admin() as admin:
            made = admin.create_topics([topic], validate_only=validate_only)
            made[topic.topic].result(PATIENCE_SECONDS)

    def delete(self, topic: str) -> None:
        with self._admin() as admin:
            admin.delete_topics([topic])[topic].result(PATIENCE_SECONDS)

    def add_partitions(self, topic: str, total: int) -> None:
        with self._admin() as admin:
            admin.create_partitions([ConfluentNewPartitions(topic, total)])[topic].result(PATIENCE_SECONDS)

    def topics(self) -> set[str]:
        with self._admin() as admin:
            return set(admin.list_topics(timeout=PATIENCE_SECONDS).topics)

    def describe(self, topic: str) -> dict[int, Partition]:
        with self._admin() as admin:
            found = admin.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic]
        if found.error:
            raise confluent.refusal(found.error)
        return {
            each.id: Partition(each.leader, tuple(each.replicas), frozenset(each.isrs))
            for each in found.partitions.values()
        }

    def brokers(self) -> set[tuple[int, str, int]]:
        with self._admin() as admin:
            found = admin.list_topics(timeout=PATIENCE_SECONDS).brokers
        return {(each.id, str(each.host), each.port) for each in found.values()}

    def controller(self) -> int:
        with self._admin() as admin:
            return int(admin.list_topics(timeout=PATIENCE_SECONDS).controller_id)

    def config(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        with self._admin() as admin:
            found = admin.describe_configs([resource])[resource].result(PATIENCE_SECONDS)
        return {name: entry.value for name, entry in found.items()}

    def set_config(self, topic: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        with self._admin() as admin:
            admin.incremental_alter_configs([resource])[resource].result(PATIENCE_SECONDS)

    def delete_records(self, topic: str, before: int, partition: int = 0) -> int:
        where = TopicPartition(topic, partition, before)
        with self._admin() as admin:
            return int(admin.delete_records([where])[where].result(PATIENCE_SECONDS).low_watermark)


# ---------------------------------------------------------------- kafka-python


class KafkaPythonAdmin(Admin):
    name = "kafka-python"

    @contextmanager
    def connected(self) -> Iterator[kafka.admin.KafkaAdminClient]:
        admin = kafka.admin.KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            yield admin
        except KafkaError as error:
            raise Refused(int(error.errno), repr(error)) from None
        finally:
            admin.close()

    def create(
        self,
        topic: str,
        partitions: int,
        replicas: int,
        config: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": replicas, "configs": dict(config or {})}
        with self.connected() as admin:
            admin.create_topics({topic: wanted}, validate_only=validate_only)

    def create_assigned(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        with self.connected() as admin:
            admin.create_topics({topic: {"assignments": dict(enumerate(map(list, assignment)))}})

    def delete(self, topic: str) -> None:
        with self.connected() as admin:
            admin.delete_topics([topic])

    def add_partitions(self, topic: str, total: int) -> None:
        with self.connected() as admin:
            admin.create_partitions({topic: total})

    def topics(self) -> set[str]:
        with self.connected() as admin:
            return set(admin.list_topics())

    def describe(self, topic: str) -> dict[int, Partition]:
        with self.connected() as admin:
            found = admin.describe_topics([topic])[0]
        _raise_for(found["error_code"], topic)
        return {
            each["partition_index"]: Partition(
                each["leader_id"], tuple(each["replica_nodes"]), frozenset(each["isr_nodes"])
            )
            for each in found["partitions"]
        }

    def brokers(self) -> set[tuple[int, str, int]]:
        with self.connected() as admin:
            found = admin.describe_cluster()["brokers"]
        return {(each["broker_id"], each["host"], each["port"]) for each in found}

    def controller(self) -> int:
        with self.connected() as admin:
            return int(admin.describe_cluster()["controller_id"])

    def config(self, topic: str) -> dict[str, str | None]:
        resource = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.TOPIC, topic)
        with self.connected() as admin:
            found = admin.describe_configs([resource], config_filter="all")
        return {key: entry["value"] for key, entry in found["topic"][topic].items()}

    def set_config(self, topic: str, key: str, value: str) -> None:
        resource = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.TOPIC, topic, {key: value})
        with self.connected() as admin:
            result = admin.alter_configs([resource], raise_on_unknown=False)["topic"][topic]
        if result != "OK":  # it gives the error as text: "[Error 40] InvalidConfigError: …"
            raise Refused(int(result.partition("]")[0].removeprefix("[Error ")), result)

    def delete_records(self, topic: str, before: int, partition: int = 0) -> int:
        where = kafka.TopicPartition(topic, partition)
        with self.connected() as admin:
            return int(admin.delete_records({where: before})[where]["low_watermark"])


# ---------------------------------------------------------------- aiokafka


class AioKafkaAdmin(Admin):
    name = "aiokafka"

    def _run(self, act: Callable[[AIOKafkaAdminClient], Awaitable[Answer]]) -> Answer:
        async def run() -> Answer:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
            await admin.start()
            try:
                return await act(admin)
            except AioKafkaError as error:
                raise Refused(int(error.errno), repr(error)) from None
            finally:
                await admin.close()

        return asyncio.run(run())

    def create(
        self,
        topic: str,
        partitions: int,
        replicas: int,
        config: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        wanted = NewTopic(topic, partitions, replicas, topic_configs=dict(config or {}))
        answer = self._run(lambda admin: admin.create_topics([wanted], validate_only=validate_only))
        _raise_for(answer.topic_errors[0][1], topic)

    def create_assigned(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        wanted = NewTopic(topic, -1, -1, replica_assignments=dict(enumerate(map(list, assignment))))
        answer = self._run(lambda admin: admin.create_topics([wanted]))
        _raise_for(answer.topic_errors[0][1], topic)

    def delete(self, topic: str) -> None:
        answer = self._run(lambda admin: admin.delete_topics([topic]))
        _raise_for(answer.topic_error_codes[0][1], topic)

    def add_partitions(self, topic: str, total: int) -> None:
        self._run(lambda admin: admin.create_partitions({topic: NewPartitions(total)}))

    def topics(self) -> set[str]:
        return set(self._run(lambda admin: admin.list_topics()))

    def describe(self, topic: str) -> dict[int, Partition]:
        found = self._run(lambda admin: admin.describe_topics([topic]))[0]
        _raise_for(found["error_code"], topic)
        return {
            each["partition"]: Partition(each["leader"], tuple(each["replicas"]), frozenset(each["isr"]))
            for each in found["partitions"]
        }

    def brokers(self) -> set[tuple[int, str, int]]:
        found = self._run(lambda admin: admin.describe_cluster())["brokers"]
        return {(each["node_id"], each["host"], each["port"]) for each in found}

    def controller(self) -> int:
        return int(self._run(lambda admin: admin.describe_cluster())["controller_id"])

    def config(self, topic: str) -> dict[str, str | None]:
        resource = AioConfigResource(AioConfigResourceType.TOPIC, topic)
        (answer,) = self._run(lambda admin: admin.describe_configs([resource]))
        code, _, _, _, entries = answer.resources[0]
        _raise_for(code, topic)
        return {entry[0]: entry[1] for entry in entries}

    def set_config(self, topic: str, key: str, value: str) -> None:
        resource = AioConfigResource(AioConfigResourceType.TOPIC, topic, {key: value})
        (answer,) = self._run(lambda admin: admin.alter_configs([resource]))
        _raise_for(answer.resources[0][0], topic)

    def delete_records(self, topic: str, before: int, partition: int = 0) -> int:
        where = AioTopicPartition(topic, partition)
        wanted = {where: RecordsToDelete(before_offset=before)}
        return int(self._run(lambda admin: admin.delete_records(wanted))[where])


def _raise_for(code: int, topic: str) -> None:
    if code:
        raise Refused(code, topic)
