"""Members of a group, each a real consumer of some library, behind the few methods that a test needs.

Nothing happens by itself, or may do so: a test polls all its members in turn, as their programs would.
"""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from aiokafka import ConsumerRebalanceListener as AIOKafkaListener
from bench.processes import PATIENCE_SECONDS
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import ConsumerRebalanceListener, KafkaConsumer  # type: ignore[import-untyped]

SESSION_MS = 45_000
"""No test waits for its end, and on a machine with much else to do it must not come by itself."""


class Member(ABC):
    """In a group from its making on; ``records`` collects the values it has polled."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.rebalances = 0
        """How often it received an assignment."""
        self.revoked: set[int] = set()
        """What it ever had to give up."""

    @abstractmethod
    def poll(self) -> None: ...

    @abstractmethod
    def partitions(self) -> set[int]:
        """What it is assigned at the moment."""

    @abstractmethod
    def commit(self) -> None:
        """Write down how far it has polled since it was last assigned something, if it has."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group in good order."""


class ConfluentMember(Member):
    name = "confluent"

    def __init__(self, servers: str, group: str, topic: str, **settings: Any) -> None:
        super().__init__()
        self.consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 200,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self.consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.rebalances += 1

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked |= {each.partition for each in partitions}

    def poll(self) -> None:
        for message in self.consumer.consume(100, 0.05):
            if message.error() is None:
                self.records.append(message.value() or b"")

    def partitions(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def commit(self) -> None:
        eventually(self._committed)

    def _committed(self) -> bool:
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._NO_OFFSET:
                return True
            if error.args[0].retriable() or error.args[0].code() == KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                return False  # the client itself gives up after a second or two
            raise
        return True

    def close(self) -> None:
        self.consumer.close()


class _Listener(ConsumerRebalanceListener, AIOKafkaListener):  # type: ignore[misc]
    """Of kafka-python and of aiokafka: each insists on a class of its own."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._member.rebalances += 1

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._member.revoked |= {each.partition for each in revoked}


class KafkaPythonMember(Member):
    name = "kafka-python"

    def __init__(self, servers: str, group: str, topic: str, **settings: Any) -> None:
        super().__init__()
        self._consumer = KafkaConsumer(
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=200,
            **settings,
        )
        # Elected before it has asked for the topic, it shares out nothing, and may not notice later.
        self._consumer.partitions_for_topic(topic)
        self._consumer.subscribe([topic], listener=_Listener(self))

    def poll(self) -> None:
        for records in self._consumer.poll(timeout_ms=50).values():
            self.records += [record.value for record in records]

    def partitions(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class AioKafkaMember(Member):
    """Its event loop runs in a thread of its own: heartbeats are tasks of it."""

    name = "aiokafka"

    def __init__(self, servers: str, group: str, topic: str, **settings: Any) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._consumer = self._run(self._start(servers, group, topic, **settings))
        self._polling: Future[Any] | None = None

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_SECONDS)

    async def _start(self, servers: str, group: str, topic: str, **settings: Any) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=200,
            **settings,
        )
        consumer.subscribe([topic], listener=_Listener(self))
        await consumer.start()
        return consumer

    def poll(self) -> None:
        """Without waiting for a rebalance, which needs the other members to be polled."""
        if self._polling is None:
            polling = self._consumer.getmany(timeout_ms=50)
            self._polling = asyncio.run_coroutine_threadsafe(polling, self._loop)
        with suppress(TimeoutError):
            polled = self._polling.result(0.1)
            self._polling = None
            for records in polled.values():
                self.records += [record.value for record in records]

    def partitions(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._run(self._consumer.commit())

    def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
        self._run(self._consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def eventually(check: Callable[[], bool], poll: Sequence[Member] = ()) -> None:
    """Poll the members until it is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not check():
        assert time.monotonic() < deadline, "it does not come about"
        for member in poll:
            member.poll()
        if not poll:
            time.sleep(0.02)


def share_evenly(members: Sequence[Member], partitions: int) -> bool:
    """Whether every partition has one owner, and the members have about equal shares."""
    owned = [member.partitions() for member in members]
    counts = [len(each) for each in owned]
    return (
        sum(counts) == partitions
        and len(set().union(*owned)) == partitions
        and max(counts) - min(counts) <= 1
    )
