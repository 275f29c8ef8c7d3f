"""Questions to all brokers of a cluster that can be asked now: who leads, who is in sync."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.observe import metadata
from tidelog.wire.messages.metadata import MetadataResponse

ANSWER_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.02
_ABSENT_SECONDS: Final = 5.0
"""For so long all brokers must say that there is no such topic: a new one is not known at once."""

Address = tuple[str, int]
InSync = int | Collection[int]
"""How many replicas are to be in sync, or which."""


class Answers:
    """Each question is asked again until the answers agree. Raises `ClusterError` with what was answered if
    they do not in time."""

    def __init__(self, reachable: Callable[[], Mapping[int, Address]], brokers: Collection[int]) -> None:
        """`reachable`: the brokers that can be asked now; `brokers`: all that there should be."""
        self._asked = reachable
        self._all = brokers

    async def controller(self, *, timeout_s: float = ANSWER_SECONDS) -> int:
        """The broker that all brokers which can be asked hold to be the controller."""
        return await self._agreed(
            lambda known: known.controller_id, [], "the controller", timeout_s, lambda known: ""
        )

    async def leader_of(self, topic: str, partition: int = 0, *, timeout_s: float = ANSWER_SECONDS) -> int:
        """The broker that all brokers which can be asked hold to be the leader of a partition."""

        def leader(known: MetadataResponse) -> int:
            parts = (part for found in known.topics for part in found.partitions)
            return next((part.leader_id for part in parts if part.partition_index == partition), -1)

        def absent(known: MetadataResponse) -> str:
            numbers = [part.partition_index for found in known.topics for part in found.partitions]
            if partition in numbers:
                return ""
            return f"topic {topic} has no partition {partition}" if numbers else f"there is no topic {topic}"

        return await self._agreed(leader, [topic], f"the leader of {topic}-{partition}", timeout_s, absent)

    async def isr(
        self, topic: str, partition: int = 0, *, timeout_s: float = ANSWER_SECONDS
    ) -> frozenset[int]:
        """The brokers that the leader of a partition holds to be in sync."""
        leader = await self.leader_of(topic, partition, timeout_s=timeout_s)
        answer = (await self._ask([topic])).get(leader)
        parts = answer.topics[0].partitions if answer is not None and answer.topics else []
        for part in parts:
            if part.partition_index == partition:
                return frozenset(part.isr_nodes)
        raise ClusterError(f"broker {leader}, which leads {topic}-{partition}, does not answer")

    async def wait_isr(self, topic: str, wanted: InSync, *, timeout_s: float = ANSWER_SECONDS) -> None:
        """Until all brokers that answer know this many replicas, or these brokers, to be in sync for each
        partition of a topic."""
        saw: dict[int, list[frozenset[int]]] = {}
        try:
            async with asyncio.timeout(timeout_s):
                while not saw or not all(are_in_sync(each, wanted) for each in saw.values()):
                    saw = {number: in_sync(each) for number, each in (await self._ask([topic])).items()}
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            said = {number: {str(sorted(isr)) for isr in each} for number, each in saw.items()}
            raise ClusterError(
                f"after {timeout_s:g} s not yet {described_isr(topic, wanted)}: {_words(said)}"
            ) from None

    async def wait_in_sync(self, *, timeout_s: float = ANSWER_SECONDS) -> None:
        """Until every broker runs and knows all replicas of all topics to be in sync."""
        seen = "no answer"
        try:
            async with asyncio.timeout(timeout_s):
                while seen := _why_not_in_sync(await self._ask(None), self._all):
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise ClusterError(f"after {timeout_s:g} s not all replicas are in sync: {seen}") from None

    async def _agreed(
        self,
        question: Callable[[MetadataResponse], int],
        topics: list[str],
        what: str,
        timeout_s: float,
        absent: Callable[[MetadataResponse], str],
    ) -> int:
        """An answer that names a broker which can be asked and that all of them give. `absent` says what
        there is not, by an answer; it is said when all have said so for a while."""
        said: dict[int, set[int]] = {}
        absent_since = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    answers = await self._ask(topics)
                    said = {number: {question(each)} if each else set() for number, each in answers.items()}
                    named = set().union(*said.values())
                    if all(said.values()) and len(named) == 1 and named <= said.keys():
                        return named.pop()
                    missing = {absent(each) if each else "" for each in answers.values()}
                    if "" in missing or not missing:
                        absent_since = time.monotonic()
                    elif time.monotonic() > absent_since + _ABSENT_SECONDS:
                        raise ClusterError(missing.pop())
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise ClusterError(
                f"after {timeout_s:g} s brokers do not agree on {what}: {_words(said)}"
            ) from None

    async def _ask(self, topics: list[str] | None) -> dict[int, MetadataResponse | None]:
        asked = self._asked()
        answers = await asyncio.gather(*(asyncio.to_thread(metadata, at, topics) for at in asked.values()))
        return dict(zip(asked, answers, strict=True))


def _why_not_in_sync(answers: Mapping[int, MetadataResponse | None], brokers: Collection[int]) -> str:
    """One reason; empty if there is none."""
    topics: set[str | None] = {topic.name for each in answers.values() if each for topic in each.topics}
    for broker in brokers:
        answer = answers.get(broker)
        if answer is None:
            return f"broker {broker} does not answer"
        known = {each.node_id for each in answer.brokers}
        if not known.issuperset(brokers) or answer.controller_id not in known:
            return f"broker {broker} knows brokers {sorted(known)} and controller {answer.controller_id}"
        if unknown := topics - {topic.name for topic in answer.topics}:  # it has just started
            return f"broker {broker} does not know topic {unknown.pop()}"
        for topic in answer.topics:
            for part in topic.partitions:
                if part.leader_id < 0 or set(part.isr_nodes) != set(part.replica_nodes):
                    return (
                        f"broker {broker} says {topic.name}-{part.partition_index} has leader "
                        f"{part.leader_id}, replicas {part.replica_nodes}, in sync {sorted(part.isr_nodes)}"
                    )
    return ""


def in_sync(known: MetadataResponse | None) -> list[frozenset[int]]:
    """The in-sync replicas of each partition in an answer."""
    topics = known.topics if known is not None else []
    return [frozenset(part.isr_nodes) for topic in topics for part in topic.partitions]


def are_in_sync(partitions: list[frozenset[int]], wanted: InSync) -> bool:
    if isinstance(wanted, int):
        return bool(partitions) and all(len(isr) == wanted for isr in partitions)
    return bool(partitions) and all(isr == frozenset(wanted) for isr in partitions)


def described_isr(topic: str, wanted: InSync) -> str:
    who = f"{wanted} replicas" if isinstance(wanted, int) else f"brokers {sorted(wanted)}"
    return f"{who} in sync for every partition of {topic}"


def _words(answers: Mapping[int, set[int]] | Mapping[int, set[str]]) -> str:
    said = (
        f"broker {number} says {', '.join(map(str, sorted(each))) or 'nothing'}"
        for number, each in answers.items()
    )
    return "; ".join(said) or "no broker can be asked"
