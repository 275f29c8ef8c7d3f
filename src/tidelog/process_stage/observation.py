"""What the stage can observe of its cluster, from outside only.

The keeper's tree (leaders and ISRs), each broker's metrics page (roles, watermarks), its Metadata response
and the files in its folder. A paused broker does not answer: its last answer counts. Of a broker that is
down only the files remain.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tidelog.broker.translation.clients import as_memory, state_of
from tidelog.core.keeper_paths import CONTROLLER, CONTROLLER_EPOCH, broker_path, state_path
from tidelog.core.types import NO_EPOCH, NO_LEADER, BrokerId, Millis, PartitionState, TopicPartition
from tidelog.kafka_client.aio import ask, get_page
from tidelog.keeper.embedded.server import EmbeddedKeeper
from tidelog.process_stage.processes import Processes
from tidelog.scenario.setup import Setup
from tidelog.scenario.snapshot import PartitionSnapshot, Record, ReplicaState, Snapshot, partition_snapshot
from tidelog.storage.checkpoints import HIGH_WATERMARKS, LEADER_EPOCHS, read_epochs, read_offsets
from tidelog.storage.errors import StorageRefused
from tidelog.wire.api import Api
from tidelog.wire.batch import CorruptBatch, RecordBatch
from tidelog.wire.messages.metadata import MetadataRequest

ANSWER_SECONDS_MAX = 2.0
READ_TRIES = 20
READ_PAUSE_SECONDS = 0.01

_SAMPLE = re.compile(r'^tidelog_(\w+)(?:\{partition="(\d+)",topic="([^"]*)"\})? ([-+.\deE]+)$', re.MULTILINE)


@dataclass(slots=True)
class ObservedReplica:
    """One replica in its broker's metrics."""

    values: dict[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> int:
        return self.values.get(name, -1)

    @property
    def leads(self) -> bool:
        return self.values.get("is_leader") == 1

    @property
    def leader(self) -> int:
        return self["leader"]

    @property
    def leader_epoch(self) -> int:
        return self["leader_epoch"]

    @property
    def log_end_offset(self) -> int:
        return self["log_end_offset"]

    @property
    def high_watermark(self) -> int:
        return self["high_watermark"]


@dataclass(slots=True)
class BrokerView:
    """One broker when it answered."""

    acts_as_controller: bool = False
    replicas: dict[TopicPartition, ObservedReplica] = field(default_factory=dict)
    isr_shrinks: int = 0
    believes: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    """Its Metadata response, if that was requested too."""


class Observation:
    def __init__(self, setup: Setup, processes: Processes, keeper: EmbeddedKeeper) -> None:
        self._setup = setup
        self._processes = processes
        self._keeper = keeper
        self._last: dict[int, BrokerView] = {}

    # ------------------------------------------------------------ the keeper

    def partition_state(self, tp: TopicPartition) -> PartitionState | None:
        node = self._keeper.node(state_path(tp))
        return None if node is None else replace(node.value, version=node.stat.version)

    def controller(self) -> int | None:
        node = self._keeper.node(CONTROLLER)
        return None if node is None else int(node.value)

    def is_registered(self, broker: int) -> bool:
        return self._keeper.node(broker_path(BrokerId(broker))) is not None

    def session_of(self, broker: int) -> int | None:
        """The keeper session in which a broker is registered."""
        node = self._keeper.node(broker_path(BrokerId(broker)))
        return None if node is None else node.stat.owner

    # ------------------------------------------------------------ answers of brokers

    async def view(self, broker: int, *, beliefs: bool = False) -> BrokerView | None:
        """None if it is down; the last answer if it is paused or does not respond."""
        running = self._processes.brokers[broker]
        if not running.is_up:
            self._last.pop(broker, None)
            return None
        if running.paused or running.at is None:
            return self._last.get(broker)
        host, port, metrics_port = running.at
        try:
            page, metadata = await asyncio.gather(
                get_page((host, metrics_port), "/metrics", ANSWER_SECONDS_MAX),
                _metadata((host, port)) if beliefs else _nothing(),
            )
        except OSError:
            return self._last.get(broker)
        view = _read_page(page)
        if metadata is not None:
            view.believes = {
                TopicPartition(topic.name, part.partition_index): state_of(part)
                for topic in metadata.topics
                for part in topic.partitions
            }
        elif broker in self._last:
            view.believes = self._last[broker].believes
        self._last[broker] = view
        return view

    async def views(self, *, beliefs: bool = False) -> dict[int, BrokerView | None]:
        brokers = range(self._setup.brokers)
        found = await asyncio.gather(*(self.view(broker, beliefs=beliefs) for broker in brokers))
        return dict(zip(brokers, found, strict=True))

    # ------------------------------------------------------------ files

    def log_folder(self, broker: int, tp: TopicPartition) -> Path:
        return self._processes.brokers[broker].folder / f"{tp.topic}-{tp.partition}"

    def records(self, broker: int, tp: TopicPartition) -> tuple[Record, ...]:
        """The records of the whole batches in a replica's segment files."""
        return tuple(_read_records(self.log_folder(broker, tp)))

    # ------------------------------------------------------------ everything

    async def take(self, at_ms: Millis, views: dict[int, BrokerView | None]) -> Snapshot:
        """``views``: the newest answers of the brokers."""
        epoch = self._keeper.node(CONTROLLER_EPOCH)
        partitions = [
            await self._partition(views, TopicPartition(topic.name, 0), topic.replicas)
            for topic in self._setup.topics
        ]
        return Snapshot(
            at_ms,
            self.controller(),
            0 if epoch is None or epoch.value is None else int(epoch.value),
            tuple(broker for broker in range(self._setup.brokers) if self.is_registered(broker)),
            tuple(partitions),
        )

    async def _partition(
        self, views: dict[int, BrokerView | None], tp: TopicPartition, assignment: tuple[int, ...]
    ) -> PartitionSnapshot:
        replicas = [await self._replica(views[broker], tp, broker) for broker in assignment]
        return partition_snapshot(tp, self.partition_state(tp), tuple(replicas))

    async def _replica(self, view: BrokerView | None, tp: TopicPartition, broker: int) -> ReplicaState:
        replica = view.replicas.get(tp) if view is not None else None
        records = self.records(broker, tp)
        for _ in range(READ_TRIES):
            if replica is None or len(records) >= replica.log_end_offset:
                break
            await asyncio.sleep(
                READ_PAUSE_SECONDS
            )  # the broker writes the file after its metrics show the record
            records = self.records(broker, tp)
        state = view.believes.get(tp) if view is not None else None
        believes: dict[str, Any] | None = None
        if state is not None:
            believes = {"leader": state.leader, "leader_epoch": state.leader_epoch, "isr": state.isr}
        checkpoint = self._checkpointed(broker, tp)
        return ReplicaState(
            broker,
            self._process_state(broker),
            _role(replica),
            len(records),
            checkpoint if replica is None else replica.high_watermark,
            records,
            self._epochs(broker, tp),
            believes,
            checkpoint,
        )

    def _process_state(self, broker: int) -> str:
        running = self._processes.brokers[broker]
        return "down" if not running.is_up else "paused" if running.paused else "up"

    def _checkpointed(self, broker: int, tp: TopicPartition) -> int:
        try:
            offsets = read_offsets(self._processes.brokers[broker].folder / HIGH_WATERMARKS)
        except (OSError, StorageRefused):
            return 0
        return offsets.get(tp, 0)

    def _epochs(self, broker: int, tp: TopicPartition) -> tuple[tuple[int, int], ...]:
        try:
            entries = read_epochs(self.log_folder(broker, tp) / LEADER_EPOCHS)
        except (OSError, StorageRefused):
            return ()
        return tuple((entry.epoch, entry.start_offset) for entry in entries)


def _role(replica: ObservedReplica | None) -> str:
    if replica is None or replica.leader == NO_LEADER:
        return "-"
    return "leader" if replica.leads else "follower"


async def _metadata(address: tuple[str, int]) -> Any:
    question = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    return await ask(address, Api.METADATA, 9, question, ANSWER_SECONDS_MAX)


async def _nothing() -> None:
    return None


def _read_page(page: str) -> BrokerView:
    view = BrokerView()
    for name, partition, topic, value in _SAMPLE.findall(page):
        if topic:
            tp = TopicPartition(topic, int(partition))
            replica = view.replicas.setdefault(tp, ObservedReplica())
            replica.values[name.removeprefix("partition_")] = int(float(value))
        elif name == "active_controller":
            view.acts_as_controller = float(value) == 1
        elif name == "isr_shrinks_total":
            view.isr_shrinks = int(float(value))
    return view


def _read_records(folder: Path) -> list[Record]:
    records: list[Record] = []
    for file in sorted(folder.glob("*.log")):
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            continue
        position = 0
        while position < len(data):
            try:
                batch = RecordBatch.parse(data, position)
                found = list(as_memory(batch)) if batch.crc_ok() else []
            except CorruptBatch:
                return records
            if not found:
                return records
            for one in found:
                epoch = None if one.leader_epoch == NO_EPOCH else one.leader_epoch
                records.append((one.base_offset, epoch, one.value))
            position += batch.size
    return records
