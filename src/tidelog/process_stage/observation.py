"""What the stage can observe of its cluster, from outside only.

The keeper's tree (leaders and ISRs), each broker's state page (roles, watermarks, followers, waiting
requests, the controller's machines), its Metadata response, and the files in its folder. A paused broker does
not answer: its last answer counts. Of a broker that is down only the files remain. A broker that runs and has
never answered shows as such.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tidelog.broker.translation.clients import as_memory, state_of
from tidelog.core.assignments import TopicNode
from tidelog.core.inside import NO_PHASES, ParkedRequest, Phases, RemoteReplica
from tidelog.core.keeper_paths import CONTROLLER, CONTROLLER_EPOCH, broker_path, state_path, topic_path
from tidelog.core.types import NO_EPOCH, BrokerId, Millis, PartitionState, TopicPartition
from tidelog.kafka_client.aio import ask, get_page
from tidelog.keeper.embedded.server import EmbeddedKeeper
from tidelog.process_stage.processes import Processes
from tidelog.process_stage.topology import Topology
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.producer import Producer
from tidelog.scenario.setup import Setup, TopicSetup
from tidelog.scenario.snapshot import (
    BrokerState,
    PartitionSnapshot,
    Record,
    ReplicaState,
    Snapshot,
    client_state,
    partition_snapshot,
)
from tidelog.storage.checkpoints import HIGH_WATERMARKS, LEADER_EPOCHS, read_epochs, read_offsets
from tidelog.storage.errors import StorageRefused
from tidelog.wire.api import Api
from tidelog.wire.batch import CorruptBatch, RecordBatch
from tidelog.wire.messages.metadata import MetadataRequest

ANSWER_SECONDS_MAX = 2.0
NO_ROLE = "-"
READ_TRIES = 20
READ_PAUSE_SECONDS = 0.01

STATE = "/state"
ScenarioTime = Callable[[int], Millis]
"""The scenario's time a number of real milliseconds from now."""


@dataclass(slots=True, frozen=True)
class ObservedReplica:
    """One replica in its broker's state page."""

    role: str
    leader: int
    leader_epoch: int
    log_end_offset: int
    high_watermark: int
    recovery_point: int
    remote: tuple[RemoteReplica, ...]
    parked: tuple[ParkedRequest, ...]

    @property
    def leads(self) -> bool:
        return self.role == "leader"


@dataclass(slots=True)
class BrokerView:
    """One broker when it answered."""

    controls: int | None = None
    """The epoch in which it takes itself for the controller."""
    replicas: dict[TopicPartition, ObservedReplica] = field(default_factory=dict)
    machines: dict[TopicPartition, Phases] = field(default_factory=dict)
    believes: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    """Its Metadata response, if that was requested too."""

    @property
    def acts_as_controller(self) -> bool:
        return self.controls is not None


class Observation:
    def __init__(
        self,
        setup: Setup,
        processes: Processes,
        keeper: EmbeddedKeeper,
        topology: Topology,
        scenario_time: ScenarioTime,
    ) -> None:
        self._setup = setup
        self._processes = processes
        self._keeper = keeper
        self._topology = topology
        self._scenario_time = scenario_time
        self._last: dict[int, BrokerView] = {}

    # ------------------------------------------------------------ the keeper

    def partition_state(self, tp: TopicPartition) -> PartitionState | None:
        node = self._keeper.node(state_path(tp))
        return None if node is None else replace(node.value, version=node.stat.version)

    def topic_node(self, topic: str) -> TopicNode | None:
        node = self._keeper.node(topic_path(topic))
        return None if node is None else node.value

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
                get_page((host, metrics_port), STATE, ANSWER_SECONDS_MAX),
                _metadata((host, port)) if beliefs else _nothing(),
            )
        except OSError:
            return self._last.get(broker)
        view = _read_page(json.loads(page), self._scenario_time)
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

    async def take(
        self,
        at_ms: Millis,
        views: dict[int, BrokerView | None],
        clients: Mapping[str, Producer | Consumer],
    ) -> Snapshot:
        """``views``: the newest answers of the brokers."""
        epoch = self._keeper.node(CONTROLLER_EPOCH)
        partitions = [
            await self._partition(views, TopicPartition(topic.name, 0), topic) for topic in self._setup.topics
        ]
        live = tuple(broker for broker in range(self._setup.brokers) if self.is_registered(broker))
        return Snapshot(
            at_ms,
            self.controller(),
            0 if epoch is None or epoch.value is None else int(epoch.value),
            live,
            tuple(partitions),
            tuple(self._broker(broker, view, registered=broker in live) for broker, view in views.items()),
            self._topology.keeper_members(),
            tuple(client_state(*named) for named in clients.items()),
        )

    def _broker(self, broker: int, view: BrokerView | None, *, registered: bool) -> BrokerState:
        process = self._process_state(broker)
        return BrokerState(
            broker,
            process,
            registered,
            view.controls if view is not None else None,
            self._topology.keeper_member_of(broker) if process != "down" else None,
            observed=process == "down" or view is not None,
        )

    async def _partition(
        self, views: dict[int, BrokerView | None], tp: TopicPartition, topic: TopicSetup
    ) -> PartitionSnapshot:
        placed = self.topic_node(topic.name)
        assigned = topic.hosts if placed is None else placed.partitions[0]
        replicas = [
            await self._replica(views[broker], tp, broker)
            if broker in assigned
            else self._absent(views[broker], tp, broker)
            for broker in topic.hosts
        ]
        controller = self.controller()
        view = views.get(controller) if controller is not None else None
        phases = view.machines.get(tp, NO_PHASES) if view is not None else NO_PHASES
        return partition_snapshot(tp, self.partition_state(tp), tuple(replicas), phases)

    def _absent(self, view: BrokerView | None, tp: TopicPartition, broker: int) -> ReplicaState:
        """A broker that has no replica now."""
        return ReplicaState(
            broker, self._process_state(broker), NO_ROLE, 0, 0, (), (), _believes(view, tp), 0
        )

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
        checkpoint = self._checkpointed(broker, tp)
        return ReplicaState(
            broker,
            self._process_state(broker),
            NO_ROLE if replica is None else replica.role,
            len(records),
            checkpoint if replica is None else replica.high_watermark,
            records,
            self._epochs(broker, tp),
            _believes(view, tp),
            checkpoint,
            () if replica is None else replica.remote,
            () if replica is None else replica.parked,
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


async def _metadata(address: tuple[str, int]) -> Any:
    question = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    return await ask(address, Api.METADATA, 9, question, ANSWER_SECONDS_MAX)


async def _nothing() -> None:
    return None


def _read_page(page: Any, scenario_time: ScenarioTime) -> BrokerView:
    view = BrokerView(page["controls"])
    for one in page["partitions"]:
        view.replicas[TopicPartition(one["topic"], one["partition"])] = ObservedReplica(
            one["role"],
            one["leader"],
            one["leader_epoch"],
            one["log_end_offset"],
            one["high_watermark"],
            one["recovery_point"],
            tuple(_remote(follower, scenario_time) for follower in one["remote"]),
            tuple(
                ParkedRequest(
                    waiting["kind"], waiting["sender"], waiting["offset"], scenario_time(waiting["ms_left"])
                )
                for waiting in one["parked"]
            ),
        )
    for one in page["machines"]:
        found = one["phase"], tuple((broker, phase) for broker, phase in one["replicas"])
        view.machines[TopicPartition(one["topic"], one["partition"])] = found
    return view


def _remote(follower: dict[str, Any], scenario_time: ScenarioTime) -> RemoteReplica:
    ago = follower["caught_up_ms_ago"]
    caught_up = None if ago is None else scenario_time(-ago)
    return RemoteReplica(follower["broker"], follower["log_end_offset"], caught_up)


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


def _believes(view: BrokerView | None, tp: TopicPartition) -> dict[str, Any] | None:
    state = view.believes.get(tp) if view is not None else None
    if state is None:
        return None
    return {"leader": state.leader, "leader_epoch": state.leader_epoch, "isr": state.isr}
