"""The topic of a trial, through an ordinary client's eyes: made, watched, measured. On any Kafka.

A trial creates its own topic, with a unique name, and never writes to another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from tidelog.errors import Refusal
from tidelog.narrate.numbers import counted
from tidelog.trials.load.librdkafka import SILENT, common_settings, error_name

_REQUEST_SECONDS = 10.0
_POLL_SECONDS = 0.1
_FILL_SECONDS = 60.0


class TopicError(Refusal):
    """The cluster does not give us what we need. The message is one line that says why and what to do."""


@dataclass(slots=True, frozen=True)
class PartitionInfo:
    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        return self.leader >= 0 and set(self.isr) == set(self.replicas)


class Topic:
    def __init__(self, admin: AdminClient, name: str, partitions: int, servers: str) -> None:
        self.name = name
        self.partitions = partitions
        self._admin = admin
        self._servers = servers

    @classmethod
    def create(
        cls,
        bootstrap_servers: str,
        name: str,
        *,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
        client: Mapping[str, str],
        seconds: float = 30.0,
    ) -> Self:
        """Raises `TopicError` if there is no such cluster, or if it does not let us."""
        admin = _admin(bootstrap_servers, client)
        found = _reached(admin, bootstrap_servers)
        if 0 < len(found.brokers) < replication_factor:
            raise TopicError(
                f"{counted(replication_factor, 'replica')} on {counted(len(found.brokers), 'broker')}: "
                "give --replication-factor"
            )
        wanted = NewTopic(name, partitions, replication_factor, config=dict(configs))
        try:
            admin.create_topics([wanted], operation_timeout=seconds, request_timeout=seconds)[name].result()
        except KafkaException as refusal:
            raise TopicError(_refused(name, bootstrap_servers, refusal.args[0])) from None
        topic = cls(admin, name, partitions, bootstrap_servers)
        if topic.wait_until_whole(seconds) is not None:
            raise TopicError(
                f"topic {name} was created, but not all its replicas are there after {seconds:g} s"
            )
        return topic

    # ------------------------------------------------------------ watching

    def states(self) -> list[PartitionInfo]:
        """Its partitions, as some broker sees them; none if no broker answers."""
        try:
            metadata = self._admin.list_topics(self.name, timeout=2.0).topics[self.name]
        except (KafkaException, KeyError):
            return []
        return [
            PartitionInfo(number, part.leader, tuple(part.replicas), tuple(part.isrs))
            for number, part in sorted(metadata.partitions.items())
        ]

    def wait_until_whole(
        self,
        seconds: float,
        give_up: Callable[[], bool] = lambda: False,
        waits: Callable[[str], None] = lambda _: None,
    ) -> str | None:
        """Until every partition has a leader and all its replicas in sync. If not: what is wrong. `waits`
        learns it each time it looks."""
        deadline = time.monotonic() + seconds
        while True:
            states = self.states()
            if len(states) == self.partitions and all(state.is_whole for state in states):
                return None
            complaint = self._complaint(states)
            if time.monotonic() > deadline or give_up():
                return complaint
            waits(complaint)
            time.sleep(_POLL_SECONDS)

    def _complaint(self, states: list[PartitionInfo]) -> str:
        for state in states:
            if state.leader < 0:
                return f"partition {state.partition} has no leader"
            if not state.is_whole:
                missing = ", ".join(str(b) for b in state.replicas if b not in state.isr)
                return f"partition {state.partition} has not all replicas in sync: {missing}"
        return (
            "no broker answers" if not states else f"{len(states)} of {self.partitions} partitions are known"
        )

    def ends(self, seconds: float) -> dict[int, int]:
        """The committed end of each partition. Raises `TopicError` if a leader does not say in time."""
        return self._offsets(OffsetSpec.latest(), "end", seconds)  # type: ignore[no-untyped-call]

    def starts(self, seconds: float) -> dict[int, int]:
        """The first offset of each partition. Raises `TopicError` likewise."""
        return self._offsets(OffsetSpec.earliest(), "start", seconds)  # type: ignore[no-untyped-call]

    def _offsets(self, spec: OffsetSpec, what: str, seconds: float) -> dict[int, int]:
        deadline = time.monotonic() + seconds
        asked = {TopicPartition(self.name, part): spec for part in range(self.partitions)}
        while True:
            answers = self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=_REQUEST_SECONDS
            )
            try:
                return {place.partition: answer.result().offset for place, answer in answers.items()}
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise TopicError(
                        f"the {what} of {self.name} is not known: {error.args[0].str()}"
                    ) from None
                time.sleep(_POLL_SECONDS)

    def fill(self, records: int, client: Mapping[str, str]) -> None:
        """So many records in each partition, which no ledger knows. Raises `TopicError`."""
        producer = Producer(common_settings("filler", self._servers) | SILENT | dict(client))
        for number in range(records):
            for partition in range(self.partitions):
                producer.produce(self.name, b"earlier-%d-%d" % (partition, number), partition=partition)
            producer.poll(0)
        if left := producer.flush(_FILL_SECONDS):
            raise TopicError(f"{self.name} did not take {left:,} records within {_FILL_SECONDS:g} s")

    def delete(self) -> str | None:
        """Why it could not be deleted, if it could not."""
        try:
            self._admin.delete_topics([self.name], operation_timeout=10.0)[self.name].result()
        except KafkaException as refusal:
            return str(refusal.args[0].str())
        return None


def _admin(bootstrap_servers: str, client: Mapping[str, str]) -> AdminClient:
    try:
        return AdminClient(common_settings("trial", bootstrap_servers) | SILENT | dict(client))
    except KafkaException as error:
        raise TopicError(f"the client library refuses its settings: {error.args[0].str()}") from None


def _reached(admin: AdminClient, servers: str) -> Any:
    try:
        return admin.list_topics(timeout=_REQUEST_SECONDS)
    except KafkaException as error:
        why = error.args[0].str()
        raise TopicError(f"no Kafka answers at {servers}: {why[:1].lower()}{why[1:]}") from None


def _refused(name: str, servers: str, error: KafkaError) -> str:
    said = error_name(error.code())
    if "AUTHORIZATION" in said:
        return f"{servers} does not let us create topic {name} ({said}): use a principal that may"
    return f"{servers} did not create topic {name}: {error.str().rstrip('.')} ({said})"
