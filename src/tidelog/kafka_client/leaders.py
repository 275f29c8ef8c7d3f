"""Connections to the leaders of one topic, which survive fail-overs: for commands that run for a while.

Any broker that answers is asked for metadata: first the servers that were given, then every broker that was
seen. A connection that fails is dropped by `forget`, and the leader is looked up again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from tidelog.kafka_client.admin import Refused, what_it_means
from tidelog.kafka_client.blocking import Client, ClientError, Unreachable
from tidelog.wire.errors import ErrorCode

TIMEOUT_SECONDS = 10.0

OnWait = Callable[[str], None]
"""Gets what a command waits for."""


class Leaders:
    def __init__(self, servers: str, topic: str) -> None:
        """Raises `Refused` if the topic does not exist, `ClientError` if no server answers."""
        self._servers = servers
        self._topic = topic
        self._addresses: dict[int, tuple[str, int]] = {}
        self._leaders: dict[int, int] = {}
        self._clients: dict[int, Client] = {}
        self.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            client.close()

    @property
    def partitions(self) -> list[int]:
        return sorted(self._leaders)

    def leader_id(self, partition: int) -> int:
        """-1 if there is none now."""
        return self._leaders.get(partition, -1)

    def client(self, broker: int) -> Client:
        """A connection to a broker. Raises `Unreachable`."""
        if broker not in self._clients:
            if broker not in self._addresses:
                raise Unreachable(f"broker {broker} is not alive")
            self._clients[broker] = Client(*self._addresses[broker], TIMEOUT_SECONDS)
        return self._clients[broker]

    def forget(self, broker: int) -> None:
        """Drop a connection that failed."""
        if broker in self._clients:
            self._clients.pop(broker).close()

    def refresh(self) -> None:
        """Look up the leaders again."""
        with self._any() as client:
            answer = client.metadata([self._topic])
        found = next((topic for topic in answer.topics if topic.name == self._topic), None)
        if found is None or found.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error_code
            raise Refused(f"topic {self._topic}", code, what_it_means(code))
        self._addresses |= {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._leaders = {part.partition_index: part.leader_id for part in found.partitions}

    def look_again(self, on_wait: OnWait) -> None:
        """The same where leaders may be away for a while: `on_wait` gets what is wrong."""
        try:
            self.refresh()
        except Refused:
            raise
        except ClientError as error:
            on_wait(str(error))

    def _any(self) -> Client:
        with suppress(ClientError):
            return Client.to(self._servers, TIMEOUT_SECONDS)
        for address in self._addresses.values():
            with suppress(ClientError):
                return Client(*address, TIMEOUT_SECONDS)
        return Client.to(self._servers, TIMEOUT_SECONDS)  # raises what is wrong
