"""What the brokers of a cluster say when they are asked: through Kafka's Metadata, and by their metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from tidelog.cluster.errors import ClusterError
from tidelog.core.types import TopicPartition
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.metadata import MetadataResponse

ANSWER_SECONDS: Final = 60.0
_METRICS_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02
_SOON_SECONDS: Final = 0.005
"""Between questions at the start of a cluster, which takes some hundredths of a second."""
_COORDINATOR_SECONDS: Final = 10.0
_ANY_GROUP: Final = "any"
_ABSENT_SECONDS: Final = 5.0
"""For so long all brokers must say that there is no such topic: a new one is not known at once."""

Address = tuple[str, int]
Reachable = Callable[[], Mapping[int, Address]]
"""The brokers that can be asked now."""
InSync = int | Collection[int]
"""How many replicas are to be in sync, or which."""


def metadata(at: Address, topics: Sequence[str] | None) -> MetadataResponse | None:
    """What one broker knows; None if it does not answer."""
    try:
        with Client(*at) as client:
            return client.metadata(topics)
    except ClientError:
        return None


def known_brokers(at: Address) -> set[int]:
    """The brokers that one of them knows of; none while it knows no controller, or does not answer."""
    answer = metadata(at, [])
    known = {each.node_id for each in answer.brokers} if answer is not None else set()
    return known if answer is not None and answer.controller_id in known else set()


def recovery_points(host: str, metrics_port: int) -> dict[TopicPartition, int]:
    """How far each log of a broker is synced, as it says itself; empty where it does not answer."""
    from urllib.request import urlopen  # here, because most clusters never need them

    from prometheus_client.parser import text_string_to_metric_families

    try:
        with urlopen(f"http://{host}:{metrics_port}/metrics", timeout=_METRICS_SECONDS) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    return {
        TopicPartition(sample.labels["topic"], int(sample.labels["partition"])): int(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "tidelog_partition_recovery_point"
    }


# ---------------------------------------------------------------- what all brokers say


async def agreed_controller(reachable: Reachable, timeout_s: float) -> int:
    """The broker that all which can be asked hold to be the controller. Raises `ClusterError`."""
    return await _agreed(
        reachable, lambda known: known.controller_id, [], "the controller", timeout_s, lambda known: ""
    )


async def agreed_leader(reachable: Reachable, topic: str, partition: int, timeout_s: float) -> int:
    """The broker that all which can be asked hold to be the leader. Raises `ClusterError`."""

    def leader(known: MetadataResponse) -> int:
        parts = (part for found in known.topics for part in found.partitions)
        return next((part.leader_id for part in parts if part.partition_index == partition), -1)

    def absent(known: MetadataResponse) -> str:
        numbers = [part.partition_index for found in known.topics for part in found.partitions]
        if partition in numbers:
            return ""
        return f"topic {topic} has no partition {partition}" if numbers else f"there is no topic {topic}"

    what = f"the leader of {topic}-{partition}"
    return await _agreed(reachable, leader, [topic], what, timeout_s, absent)


async def _agreed(  # noqa: PLR0917
    reachable: Reachable,
    question: Callable[[MetadataResponse], int],
    topics: list[str],
    what: str,
    timeout_s: float,
    absent: Callable[[MetadataResponse], str],
) -> int:
    """An answer that names a broker which can be asked and that all of them give. `absent` says what there is
    not, by an answer; it is said when all have said so for a while."""
    said: dict[int, set[int]] = {}
    absent_since = time.monotonic()
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                answers = await _ask(reachable, topics)
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
        raise ClusterError(f"after {timeout_s:g} s brokers do not agree on {what}: {_words(said)}") from None


async def wait_isr(reachable: Reachable, topic: str, wanted: InSync, timeout_s: float) -> None:
    """Until all brokers that answer know this many replicas, or these brokers, to be in sync for every
    partition of a topic. Raises `ClusterError`."""
    saw: dict[int, list[frozenset[int]]] = {}
    try:
        async with asyncio.timeout(timeout_s):
            while not saw or not all(are_in_sync(each, wanted) for each in saw.values()):
                answers = await _ask(reachable, [topic])
                saw = {number: in_sync(each) for number, each in answers.items()}
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        said = {number: {str(sorted(isr)) for isr in each} for number, each in saw.items()}
        raise ClusterError(
            f"after {timeout_s:g} s not yet {described_isr(topic, wanted)}: {_words(said)}"
        ) from None


async def isr(reachable: Reachable, topic: str, partition: int, timeout_s: float) -> frozenset[int]:
    """The brokers that the leader of a partition holds to be in sync. Raises `ClusterError`."""
    leader = await agreed_leader(reachable, topic, partition, timeout_s)
    answers = await _ask(reachable, [topic])
    answer = answers.get(leader)
    parts = answer.topics[0].partitions if answer is not None and answer.topics else []
    for part in parts:
        if part.partition_index == partition:
            return frozenset(part.isr_nodes)
    raise ClusterError(f"broker {leader}, which leads {topic}-{partition}, does not answer")


async def wait_in_sync(reachable: Reachable, brokers: Collection[int], timeout_s: float) -> None:
    """Until all these brokers can be asked and know all replicas of every partition to be in sync. Raises
    `ClusterError`."""
    seen = ""
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                answers = await _ask(reachable, None)
                seen = _why_not_in_sync(answers, brokers)
                if not seen:
                    return
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise ClusterError(
            f"after {timeout_s:g} s not all replicas are in sync: {seen or 'no answer'}"
        ) from None


def _why_not_in_sync(answers: Mapping[int, MetadataResponse | None], brokers: Collection[int]) -> str:
    """One reason; empty if there is none."""
    for broker in brokers:
        answer = answers.get(broker)
        if answer is None:
            return f"broker {broker} does not answer"
        known = {each.node_id for each in answer.brokers}
        if not known.issuperset(brokers) or answer.controller_id not in known:
            return f"broker {broker} knows brokers {sorted(known)} and controller {answer.controller_id}"
        for topic in answer.topics:
            for part in topic.partitions:
                if part.leader_id < 0 or set(part.isr_nodes) != set(part.replica_nodes):
                    return (
                        f"broker {broker} says {topic.name}-{part.partition_index} has leader "
                        f"{part.leader_id}, replicas {part.replica_nodes}, in sync {sorted(part.isr_nodes)}"
                    )
    return ""


async def create_offsets_topic(brokers: Mapping[int, Address]) -> None:
    """Ask for a coordinator until there is one, and every broker knows it. Raises `ClusterError`."""
    await asyncio.gather(*(asyncio.to_thread(_find_coordinator, at) for at in brokers.values()))


def _find_coordinator(at: Address) -> None:
    deadline = time.monotonic() + _COORDINATOR_SECONDS
    request = FindCoordinatorRequest(key=_ANY_GROUP, coordinator_keys=[_ANY_GROUP])
    try:
        with Client(*at) as client:
            while True:
                answer = client.ask(Api.FIND_COORDINATOR, request)
                found = [each.error_code for each in answer.coordinators] or [answer.error_code]
                if not any(found):
                    return
                if time.monotonic() > deadline:
                    raise ClusterError(f"groups have no coordinator: {ErrorCode(found[0]).name}")
                time.sleep(_SOON_SECONDS)
    except ClientError as error:
        raise ClusterError(str(error)) from None


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


async def _ask(reachable: Reachable, topics: list[str] | None) -> dict[int, MetadataResponse | None]:
    asked = reachable()
    answers = await asyncio.gather(*(asyncio.to_thread(metadata, at, topics) for at in asked.values()))
    return dict(zip(asked, answers, strict=True))


def _words(answers: Mapping[int, set[int]] | Mapping[int, set[str]]) -> str:
    said = (
        f"broker {number} says {', '.join(map(str, sorted(each))) or 'nothing'}"
        for number, each in answers.items()
    )
    return "; ".join(said) or "no broker can be asked"
