"""Reads a topic on from given offsets, through fail-overs: for `tidelog consume`."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from tidelog.kafka_client.admin import Refused
from tidelog.kafka_client.blocking import ClientError, error_name
from tidelog.kafka_client.leaders import Leaders, OnWait
from tidelog.kafka_client.reading import ReadRecord, fetch
from tidelog.wire.errors import RETRIABLE, ErrorCode

_REQUEST_MS: Final = 500


class Following:
    def __init__(self, servers: str, topic: str, positions: dict[int, int], on_wait: OnWait) -> None:
        """`positions`: where each partition that is read goes on. Raises `ClientError`."""
        self.positions = positions
        self.starts: dict[int, int] = {}
        self._topic = topic
        self._on_wait = on_wait
        self._leaders = Leaders(servers, topic)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaders.__exit__(kind, error, trace)

    def poll(self, wanted: list[int]) -> list[ReadRecord]:
        """Some records of these partitions, or none after half a second. A leader that does not answer is
        reported to `on_wait`, and looked up again for the next poll."""
        found: list[ReadRecord] = []
        by_leader: dict[int, list[int]] = {}
        for partition in wanted:
            by_leader.setdefault(self._leaders.leader_id(partition), []).append(partition)
        waits = _REQUEST_MS // max(len(by_leader), 1)
        for leader, partitions in sorted(by_leader.items()):
            try:
                found += self._fetch(leader, partitions, waits)
            except Refused:
                raise
            except ClientError as error:
                self._leaders.forget(leader)
                self._lost(str(error))
        return found

    def _fetch(self, leader: int, partitions: list[int], wait_ms: int) -> list[ReadRecord]:
        if leader < 0:
            raise ClientError(f"{self._topic}-{partitions[0]} has no leader")
        offsets = {partition: self.positions[partition] for partition in partitions}
        records = []
        for part in fetch(self._leaders.client(leader), self._topic, offsets, wait_ms):
            if part.error == ErrorCode.NONE:
                records += part.records
                self.positions[part.partition] = part.next_offset
            elif part.error in RETRIABLE:
                self._lost(f"{self._topic}-{part.partition}: {error_name(part.error)}")
            else:
                raise Refused(
                    f"{self._topic}-{part.partition} at {offsets[part.partition]}", part.error, None
                )
        return records

    def _lost(self, why: str) -> None:
        self._on_wait(why)
        self._leaders.look_again(self._on_wait)
