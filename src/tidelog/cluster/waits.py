"""Waits for what tests are flaky without: members assigned, offsets committed, leaders moved.

Each returns as soon as it is so. If it is not so in time, the error says what was waited for and what was
seen last.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tidelog.cluster.errors import ClusterError
from tidelog.kafka_client import groups
from tidelog.kafka_client.blocking import Client, ClientError, parse_servers
from tidelog.wire.messages.metadata import MetadataResponse

WAIT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.02
_STABLE: Final = "Stable"


def wait_until(is_so: Callable[[], str], what: str, timeout_s: float) -> None:
    """Until `is_so` returns an empty text; it returns what it sees instead. Raises `ClusterError`."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            seen = is_so()
        except ClientError as error:
            seen = str(error)
        if not seen:
            return
        if time.monotonic() > deadline:
            raise ClusterError(f"after {timeout_s:g} s not yet {what}: {seen}")
        time.sleep(_POLL_SECONDS)


class Waits:
    """Waits on a cluster, whose servers may change: those that can be asked now."""

    def __init__(self, servers: Callable[[], str]) -> None:
        self._servers = servers

    def wait_assigned(self, group: str, members: int = 1, *, timeout_s: float = WAIT_SECONDS) -> None:
        """Until a group has this number of members, and each has its assignment."""

        def seen() -> str:
            found = groups.described(self._servers(), group)
            if found is None:
                return "no coordinator answers"
            assigned = sum(bool(member.member_assignment) for member in found.members)
            if found.group_state == _STABLE and assigned == len(found.members) == members:
                return ""
            return f"state {found.group_state}, {len(found.members)} members, {assigned} with an assignment"

        wait_until(seen, f"{members} assigned members of group {group}", timeout_s)

    def wait_committed(
        self,
        group: str,
        offset: int,
        topic: str | None = None,
        partition: int | None = None,
        *,
        timeout_s: float = WAIT_SECONDS,
    ) -> None:
        """Until a group has committed at least this offset: in this partition; in all together, if none is
        named."""

        def seen() -> str:
            found = groups.committed(self._servers(), group)
            if found is None:
                return "no coordinator answers"
            mine = {
                (name, number): committed
                for (name, number), committed in found.items()
                if topic in (None, name) and partition in (None, number)
            }
            if mine and sum(mine.values()) >= offset:
                return ""
            texts = (f"{name}-{number} at {committed}" for (name, number), committed in sorted(mine.items()))
            return ", ".join(texts) or "nothing is committed"

        wait_until(seen, f"offset {offset} committed by group {group}", timeout_s)

    def wait_leader_not(
        self, broker: int, topic: str | None = None, *, timeout_s: float = WAIT_SECONDS
    ) -> None:
        """Until every partition, or every one of this topic, is led by another broker. The other brokers are
        asked: one that is cut off believes that it leads."""

        def seen() -> str:
            answer = self._told_by_others(broker, None if topic is None else [topic])
            if answer is None:
                return f"no broker but {broker} answers"
            led = {
                f"{found.name}-{part.partition_index}": part.leader_id
                for found in answer.topics
                for part in found.partitions
            }
            if led and all(leader >= 0 and leader != broker for leader in led.values()):
                return ""
            wrong = [f"{name} by {leader}" for name, leader in led.items() if leader < 0 or leader == broker]
            return f"led: {', '.join(wrong)}" if wrong else "there is no such topic"

        what = f"all partitions{f' of {topic}' if topic else ''} led by another broker than {broker}"
        wait_until(seen, what, timeout_s)

    def _told_by_others(self, broker: int, topics: list[str] | None) -> MetadataResponse | None:
        """Metadata as the first broker knows it that answers and is not this one."""
        for endpoint in parse_servers(self._servers()):
            with suppress(ClientError), Client(*endpoint, groups.TIMEOUT_SECONDS) as client:
                answer = client.metadata(topics)
                if (broker, *endpoint) not in {
                    (each.node_id, each.host, each.port) for each in answer.brokers
                }:
                    return answer
        return None
