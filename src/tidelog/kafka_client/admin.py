"""An admin client for topics of a cluster, tidelog or Apache Kafka.

Each request goes to the broker that can answer it: leaders know offsets, the controller makes changes. If
that broker has changed, the client fetches metadata again and asks the new one. `Refused` carries the error
of the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tidelog.core.topic_ids import from_wire
from tidelog.core.types import NO_TOPIC_ID, TopicId
from tidelog.kafka_client.blocking import Client, ClientError, Unreachable, error_name
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tidelog.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

DEFAULT = -1
"""Use the cluster's default number of partitions or replicas."""

_LATEST, _EARLIEST = -1, -2
_CONSUMER, _DEBUGGER = -1, -2
_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_DYNAMIC_TOPIC_CONFIG = 1
_TIMEOUT_MS = 15_000
_PATIENCE_SECONDS = 15.0
_POLL_SECONDS = 0.05


class Refused(ClientError):
    """The cluster refused a request."""

    def __init__(self, what: str, code: int, message: str | None) -> None:
        name = error_name(code)
        super().__init__(f"{what}: {message.rstrip('.')} ({name})" if message else f"{what}: {name}")
        self.code = code


@dataclass(slots=True)
class PartitionView:
    """A partition in the metadata. Offsets are None if its leader did not answer."""

    number: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]
    start_offset: int | None = None
    high_watermark: int | None = None
    log_end_offset: int | None = None
    elr: list[int] | None = None
    """Eligible leader replicas (KIP-966); None where brokers cannot describe them, empty where they do not
    track them."""
    last_known_elr: list[int] | None = None
    adding: list[int] = field(default_factory=list)
    """Of the replicas, those that a reassignment adds."""
    removing: list[int] = field(default_factory=list)

    @property
    def state(self) -> str:
        """ok, under-replicated or leaderless."""
        if self.leader < 0:
            return "leaderless"
        return "ok" if set(self.replicas) <= set(self.isr) else "under-replicated"


@dataclass(slots=True)
class TopicView:
    name: str
    internal: bool
    partitions: list[PartitionView]
    settings: dict[str, str] = field(default_factory=dict)
    """The topic's own settings, without defaults."""
    topic_id: TopicId = NO_TOPIC_ID
    """Empty where brokers have none (Metadata before version 10)."""


class Admin:
    def __init__(self, bootstrap_servers: str) -> None:
        """Connects to the first server that answers. Raises `ClientError`."""
        self._open = ExitStack()
        self._clients: dict[int, Client] = {}
        self._first = self._open.enter_context(Client.to(bootstrap_servers))
        self._metadata: MetadataResponse | None = None

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------ reading

    def metadata(self, topics: Sequence[str] | None = None) -> MetadataResponse:
        self._metadata = self._first.metadata(topics)
        return self._metadata

    def topics(self, names: Sequence[str] | None = None) -> list[TopicView]:
        """These topics, or all, by name. Raises `Refused` if a topic does not exist."""
        answer = self.metadata(names)
        for topic in answer.topics:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                raise Refused(f"topic {topic.name}", topic.error_code, what_it_means(topic.error_code))
        return [_topic_view(topic) for topic in sorted(answer.topics, key=lambda topic: topic.name or "")]

    def add_eligible(self, topics: Sequence[TopicView]) -> None:
        """Ask for the eligible leader replicas. On a connection of its own, because brokers before Kafka 3.7
        close it."""
        known = {(topic.name, part.number): part for topic in topics for part in topic.partitions}
        at = (self._metadata or self.metadata([])).brokers[:1]
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic.name) for topic in topics])
        with suppress(ClientError):
            for broker in at if topics else ():
                with Client(broker.host, broker.port) as client:
                    while True:
                        answer = client.ask(Api.DESCRIBE_TOPIC_PARTITIONS, request)
                        for topic in answer.topics:
                            for part in topic.partitions:
                                view = known.get((topic.name, part.partition_index))
                                if view is not None:
                                    view.elr, view.last_known_elr = (
                                        part.eligible_leader_replicas,
                                        part.last_known_elr,
                                    )
                        if answer.next_cursor is None:
                            break
                        request.cursor = answer.next_cursor

    def add_moves(self, topics: Sequence[TopicView]) -> None:
        """Ask the controller which replicas are being added or removed."""
        known = {(topic.name, part.number): part for topic in topics for part in topic.partitions}
        answer = self._controller().ask(
            Api.LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest(topics=None)
        )
        for topic in answer.topics:
            for moving in topic.partitions:
                view = known.get((topic.name, moving.partition_index))
                if view is not None:
                    view.adding, view.removing = moving.adding_replicas, moving.removing_replicas

    def add_offsets(self, topics: Sequence[TopicView]) -> None:
        """Ask the leaders for start offset, high watermark and end offset of each partition."""
        for attribute, replica, timestamp in (
            ("start_offset", _CONSUMER, _EARLIEST),
            ("high_watermark", _CONSUMER, _LATEST),
            # The replica id of a tool: a consumer would only see offsets up to the high watermark.
            ("log_end_offset", _DEBUGGER, _LATEST),
        ):
            for leader in sorted({part.leader for topic in topics for part in topic.partitions} - {-1}):
                led = [
                    (topic.name, part)
                    for topic in topics
                    for part in topic.partitions
                    if part.leader == leader
                ]
                with suppress(ClientError):  # offsets of an unreachable leader stay unknown
                    self._fill(attribute, led, self._list_offsets(leader, led, replica, timestamp))

    @staticmethod
    def _fill(
        attribute: str, led: list[tuple[str, PartitionView]], found: dict[tuple[str, int], int]
    ) -> None:
        for topic, part in led:
            setattr(part, attribute, found.get((topic, part.number)))

    def _list_offsets(
        self, leader: int, led: list[tuple[str, PartitionView]], replica: int, timestamp: int
    ) -> dict[tuple[str, int], int]:
        asked: dict[str, list[ListOffsetsPartition]] = {}
        for topic, part in led:
            question = ListOffsetsPartition(partition_index=part.number, timestamp=timestamp)
            asked.setdefault(topic, []).append(question)
        request = ListOffsetsRequest(
            replica_id=replica,
            topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in asked.items()],
        )
        answer = self._client(leader).ask(Api.LIST_OFFSETS, request)
        return {
            (topic.name, part.partition_index): part.offset
            for topic in answer.topics
            for part in topic.partitions
            if not part.error_code and part.offset >= 0
        }

    def add_settings(self, topics: Sequence[TopicView]) -> None:
        """Ask for the topics' own settings."""
        if not topics:
            return
        resources = [
            DescribeConfigsResource(resource_type=_TOPIC, resource_name=topic.name, configuration_keys=None)
            for topic in topics
        ]
        answer = self._first.ask(Api.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=resources))
        own = {
            result.resource_name: {
                entry.name: entry.value or ""
                for entry in result.configs
                if entry.config_source == _DYNAMIC_TOPIC_CONFIG
            }
            for result in answer.results
        }
        for topic in topics:
            topic.settings = own.get(topic.name, {})

    # ------------------------------------------------------------ changing

    def create(
        self,
        name: str,
        *,
        partitions: int = DEFAULT,
        replicas: int = DEFAULT,
        assignment: Sequence[Sequence[int]] = (),
        settings: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """`assignment`: the brokers of each partition, the one that is to lead first; then the two counts
        stay out."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=[
                CreatableReplicaAssignment(partition_index=number, broker_ids=list(brokers))
                for number, brokers in enumerate(assignment)
            ],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (settings or {}).items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=validate_only)
        self._change(Api.CREATE_TOPICS, request, lambda answer: answer.topics[0], f"topic {name}")

    def delete(self, name: str) -> None:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=_TIMEOUT_MS
        )
        self._change(Api.DELETE_TOPICS, request, lambda answer: answer.responses[0], f"topic {name}")

    def add_partitions(self, name: str, count: int) -> None:
        """Add partitions to a topic until it has `count`."""
        topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=False)
        self._change(Api.CREATE_PARTITIONS, request, lambda answer: answer.results[0], f"topic {name}")

    def reassign(self, name: str, moves: Mapping[int, Sequence[int] | None]) -> None:
        """Move partitions to these brokers, the one that is to lead first; None cancels a move. Returns when
        the moves have begun. Raises `Refused` for the first that is refused."""
        parts = [
            ReassignablePartition(partition_index=number, replicas=None if brokers is None else list(brokers))
            for number, brokers in moves.items()
        ]
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=name, partitions=parts)], timeout_ms=_TIMEOUT_MS
        )
        self._change(Api.ALTER_PARTITION_REASSIGNMENTS, request, _first_refusal, f"topic {name}")

    def wait_until_moved(
        self, name: str, moves: Mapping[int, Sequence[int] | None], seconds: float = _PATIENCE_SECONDS
    ) -> bool:
        """Wait until no partition of a topic moves any more, and the metadata show where these are: a broker
        that is asked for them may hear of it later than the controller. False on time-out."""

        def rests() -> bool:
            (topic,) = topics = self.topics([name])
            self.add_moves(topics)
            return not any(
                part.adding or part.removing or part.replicas != list(moves.get(part.number) or part.replicas)
                for part in topic.partitions
            )

        return _eventually(rests, seconds)

    def alter(self, name: str, given: Mapping[str, str], removed: Sequence[str] = ()) -> None:
        """Set or remove a topic's own settings."""
        request = _alteration(_TOPIC, name, given, removed)
        self._change(
            Api.INCREMENTAL_ALTER_CONFIGS, request, lambda answer: answer.responses[0], f"topic {name}"
        )

    def alter_broker(self, broker: int, given: Mapping[str, str], removed: Sequence[str] = ()) -> None:
        """Set or remove settings that a broker takes while it runs. It is asked itself, as Kafka wants it."""
        request = _alteration(_BROKER, str(broker), given, removed)
        (result,) = self._client(broker).ask(Api.INCREMENTAL_ALTER_CONFIGS, request).responses
        if result.error_code != ErrorCode.NONE:
            raise Refused(f"broker {broker}", result.error_code, result.error_message)

    def wait_for_leaders(self, name: str, count: int = 1) -> bool:
        """Wait until the metadata shows at least this many partitions, each with a leader. False on
        time-out."""

        def led() -> bool:
            answer = self.metadata([name])
            parts = answer.topics[0].partitions if answer.topics else []
            return len(parts) >= count and all(part.leader_id >= 0 and not part.error_code for part in parts)

        return _eventually(led)

    def wait_until_gone(self, name: str) -> bool:
        """Wait until the broker no longer lists a topic. False on time-out."""
        return _eventually(lambda: all(topic.name != name for topic in self.metadata(None).topics))

    def _change(self, api: Api, request: Any, result_of: Callable[[Any], Any], what: str) -> None:
        """Send a change to the controller; if the controller has changed, to the new one."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            result = result_of(self._controller().ask(api, request))
            if result.error_code == ErrorCode.NONE:
                return
            if result.error_code != ErrorCode.NOT_CONTROLLER or time.monotonic() > deadline:
                message = getattr(result, "error_message", None) or what_it_means(result.error_code)
                raise Refused(what, result.error_code, message)
            time.sleep(_POLL_SECONDS)

    # ------------------------------------------------------------ connections

    def _controller(self) -> Client:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (controller := self.metadata([]).controller_id) < 0:
            if time.monotonic() > deadline:
                raise ClientError(f"the cluster at {self._first.endpoint} has no controller")
            time.sleep(_POLL_SECONDS)
        return self._client(controller)

    def _client(self, broker: int) -> Client:
        if broker in self._clients:
            return self._clients[broker]
        answer = self._metadata or self.metadata([])
        for each in answer.brokers:
            if each.node_id == broker:
                client = self._open.enter_context(Client(each.host, each.port))
                self._clients[broker] = client
                return client
        raise Unreachable(f"broker {broker} is not alive")


def _alteration(
    kind: int, name: str, given: Mapping[str, str], removed: Sequence[str]
) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(name=key, config_operation=_SET, value=value) for key, value in given.items()]
    configs += [AlterableConfig(name=key, config_operation=_DELETE, value=None) for key in removed]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def _first_refusal(answer: Any) -> Any:
    """The answer for the first partition that was refused; the answer itself if none was."""
    if answer.error_code != ErrorCode.NONE:
        return answer
    parts = [part for topic in answer.responses for part in topic.partitions]
    return next((part for part in parts if part.error_code != ErrorCode.NONE), answer)


def _topic_view(topic: MetadataResponseTopic) -> TopicView:
    parts = [
        PartitionView(
            part.partition_index,
            part.leader_id,
            part.leader_epoch,
            part.replica_nodes,
            part.isr_nodes,
            part.offline_replicas,
        )
        for part in sorted(topic.partitions, key=lambda part: part.partition_index)
    ]
    return TopicView(topic.name or "", topic.is_internal, parts, topic_id=from_wire(topic.topic_id))


def what_it_means(code: int) -> str | None:
    """The meaning of an error about a topic, where the error's name is unclear."""
    return {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic does not exist",
        ErrorCode.TOPIC_ALREADY_EXISTS: "the topic already exists",
        ErrorCode.INVALID_TOPIC_EXCEPTION: "this is not a valid topic name",
        ErrorCode.TOPIC_DELETION_DISABLED: "the brokers do not allow deletion, see delete.topic.enable",
    }.get(ErrorCode(code) if code in ErrorCode.__members__.values() else ErrorCode.NONE)


def _eventually(check: Callable[[], bool], seconds: float = _PATIENCE_SECONDS) -> bool:
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
