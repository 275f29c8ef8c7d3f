"""A scenario's cluster up to its first step: settings and topics of its head, and the start of brokers.

As in the lab, the broker that is to be controller starts first, the others when it is; then the topics are
created, and every broker knows them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tidelog.cluster.errors import TrialError
from tidelog.cluster.network.networks import LOOPBACK
from tidelog.cluster.network.relays.switchboard import Switchboard
from tidelog.core.assignments import TopicNode
from tidelog.core.config import BrokerConfig
from tidelog.core.keeper_paths import config_path, partition_path, partitions_path, state_path, topic_path
from tidelog.core.keeper_port import Create, Multi, Operation, Write
from tidelog.core.types import (
    FIRST_EPOCH,
    BrokerId,
    ControllerEpoch,
    PartitionState,
    TopicConfig,
    TopicPartition,
)
from tidelog.faults.places import KEEPER
from tidelog.kafka_client.aio import ask
from tidelog.keeper.client import connect
from tidelog.keeper.embedded.server import EmbeddedKeeper
from tidelog.process_stage.clock import Pace
from tidelog.process_stage.observation import Observation
from tidelog.process_stage.processes import Processes
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.setup import Setup, TopicSetup
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

CHECKPOINTS_MORE_OFTEN = 0.7
"""Scenarios let one interval pass so that brokers write checkpoints. In the lab that is exact. Here the write
takes time, so brokers do it a little earlier."""
FETCHES_WAIT_LONGER = 2
"""A scenario acts between two messages of a follower, which takes no time in the lab. Here it must finish
while the follower's fetch waits at its leader."""
BROKERS_MAX = 9
ELIGIBLE = "eligible_leader_replicas"
"""The one guard that is a setting of real brokers, as it is one of Kafka."""
NEVER_MS = 600_000
"""Longer intervals mean: not during this scenario. They are not scaled."""

_TOPIC, _SET = 2, 0


def require_playable(scenario: Scenario) -> None:
    """Raise ``TrialError`` for what only the simulator can do."""
    if scenario.setup.brokers > BROKERS_MAX:
        raise TrialError(
            f"{scenario.name} has {scenario.setup.brokers} brokers, and at most {BROKERS_MAX} are started as "
            "real processes: play it with --stage sim"
        )
    guards = ",".join(guard for guard in scenario.setup.without if guard != ELIGIBLE)
    if guards:
        raise TrialError(
            f"{scenario.name} switches guards off (without={guards}), which no real broker can do: "
            "play it with --stage sim"
        )


def fetch_wait_ms(setup: Setup, pace: Pace) -> int:
    """How long a leader lets a follower's fetch wait."""
    return pace.ms(setup.config.replica_fetch_wait_max_ms * FETCHES_WAIT_LONGER)


def broker_settings(setup: Setup, pace: Pace) -> dict[str, str]:
    """Settings that all brokers of a scenario share."""
    config = setup.config
    checkpoints = config.high_watermark_checkpoint_interval_ms
    if checkpoints < NEVER_MS:
        checkpoints = pace.ms(checkpoints * CHECKPOINTS_MORE_OFTEN)
    session = pace.ms(setup.session_timeout_ms)
    return {
        "tidelog.generation": setup.generation,
        "tidelog.flush": "always" if setup.sync_each_append else "roll",
        "eligible.leader.replicas.version": "0" if ELIGIBLE in setup.without else "1",
        "unclean.leader.election.interval.ms": str(pace.ms(config.unclean_leader_election_interval_ms)),
        "tidelog.isr.rule": config.isr_rule.value,
        "tidelog.isr.notification.interval.ms": str(pace.ms(config.isr_notification_interval_ms)),
        "zookeeper.session.timeout.ms": str(session),
        "zookeeper.connection.timeout.ms": "60000",
        "replica.lag.time.max.ms": str(pace.ms(config.replica_lag_time_max_ms)),
        "replica.lag.max.messages": str(config.replica_lag_max_messages),
        "replica.fetch.wait.max.ms": str(fetch_wait_ms(setup, pace)),
        "replica.fetch.backoff.ms": str(pace.ms(config.replica_fetch_backoff_ms)),
        "replica.high.watermark.checkpoint.interval.ms": str(checkpoints),
        "controlled.shutdown.max.retries": str(config.controlled_shutdown_max_retries),
        "controlled.shutdown.retry.backoff.ms": str(pace.ms(config.controlled_shutdown_retry_backoff_ms)),
        "controller.socket.timeout.ms": str(pace.ms(config.controller_socket_timeout_ms)),
        "auto.create.topics.enable": "false",
        "auto.leader.rebalance.enable": "false",
        "log.flush.offset.checkpoint.interval.ms": str(BrokerConfig().high_watermark_checkpoint_interval_ms),
    }


# ---------------------------------------------------------------- topics


def topic_settings(config: TopicConfig) -> dict[str, str]:
    return {
        "min.insync.replicas": str(config.min_insync_replicas),
        "unclean.leader.election.enable": str(config.unclean_leader_election).lower(),
    }


def creation(topic: TopicSetup) -> CreateTopicsRequest:
    """The request that creates a topic with these replicas."""
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(topic.replicas))
    configs = [CreatableTopicConfig(name=k, value=v) for k, v in topic_settings(topic.config).items()]
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[assignment],
                configs=configs,
            )
        ]
    )


def creation_with_a_past(topic: TopicSetup, isr: tuple[int, ...]) -> Multi:
    """The writes to the keeper that create a topic whose ISR already has an order."""
    tp = TopicPartition(topic.name, 0)
    state = PartitionState(
        BrokerId(topic.replicas[0]), FIRST_EPOCH, tuple(map(BrokerId, isr)), ControllerEpoch(1)
    )
    writes: list[Write] = [
        Create(config_path(topic.name), topic_settings(topic.config)),
        Create(topic_path(topic.name), TopicNode({0: tuple(map(BrokerId, topic.replicas))})),
        Create(partitions_path(topic.name)),
        Create(partition_path(tp)),
        Create(state_path(tp), state),
    ]
    return Multi(tuple(writes))


def alteration(topic: str, settings: dict[str, str]) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(name=k, config_operation=_SET, value=v) for k, v in settings.items()]
    resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=topic, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


# ---------------------------------------------------------------- the start

BOOT_SECONDS_MAX = 60.0
ANSWER_SECONDS_MAX = 10.0
POLL_SECONDS = 0.01
SHORTEST_SESSION_MS = 100


async def start_keeper(switchboard: Switchboard) -> EmbeddedKeeper:
    """Keeps its tree in memory: scenarios do not restart the keeper. Its sessions may be short, as the
    scenario's are scaled down."""
    keeper = EmbeddedKeeper(None, host=LOOPBACK, session_timeout_min_ms=SHORTEST_SESSION_MS)
    await keeper.start()
    switchboard.place(KEEPER, LOOPBACK, keeper.port)
    return keeper


async def start_brokers(
    setup: Setup, observation: Observation, start: Callable[[int], Awaitable[None]]
) -> None:
    """``start`` starts one broker and returns when it serves."""
    first = setup.controller
    await start(first)
    await eventually(lambda: _is_controller(observation, first), f"broker {first} does not become controller")
    await asyncio.gather(*(start(broker) for broker in range(setup.brokers) if broker != first))


async def _is_controller(observation: Observation, broker: int) -> bool:
    view = await observation.view(broker)
    return view is not None and view.acts_as_controller


async def create_topics(
    setup: Setup, processes: Processes, observation: Observation, keeper: EmbeddedKeeper
) -> None:
    for topic in setup.topics:
        if topic.isr is None:
            await _create(setup, topic, processes)
        else:
            await _create_with_a_past(topic, topic.isr, keeper)
    for topic in setup.topics:
        await eventually(
            lambda topic=topic: _is_known(setup, topic, observation),  # type: ignore[misc]
            f"the brokers do not take up topic {topic.name}",
        )


async def _create(setup: Setup, topic: TopicSetup, processes: Processes) -> None:
    at = processes.brokers[setup.controller].at
    assert at is not None
    try:
        answer = await ask((at.host, at.port), Api.CREATE_TOPICS, 4, creation(topic), ANSWER_SECONDS_MAX)
    except OSError as error:
        raise TrialError(f"topic {topic.name} cannot be created: {error}") from None
    code = answer.topics[0].error_code
    if code != ErrorCode.NONE:
        raise TrialError(f"topic {topic.name} cannot be created: {ErrorCode(code).name}")


async def _create_with_a_past(topic: TopicSetup, isr: tuple[int, ...], keeper: EmbeddedKeeper) -> None:
    if not await administer(keeper, creation_with_a_past(topic, isr)):
        raise TrialError(f"topic {topic.name} cannot be created: the keeper refuses it")


async def administer(keeper: EmbeddedKeeper, operation: Operation) -> bool:
    """A write by an administrator's tool, in a session of its own. False if the keeper refuses it."""
    connection = connect(f"embedded://{LOOPBACK}:{keeper.port}")
    connection.start(lambda notice: None)
    try:
        result = await connection.request(operation)
    finally:
        await connection.close()
    return result.ok


async def _is_known(setup: Setup, topic: TopicSetup, observation: Observation) -> bool:
    """Every replica has its role, and every broker's metadata names the leader."""
    tp = TopicPartition(topic.name, 0)
    state = observation.partition_state(tp)
    if state is None:
        return False
    views = await observation.views(beliefs=True)
    for broker, view in views.items():
        known = view.believes.get(tp) if view is not None else None
        if known is None or (known.leader, known.leader_epoch) != (state.leader, state.leader_epoch):
            return False
        if broker in topic.replicas:
            replica = view.replicas.get(tp) if view is not None else None
            if replica is None or replica.leader != state.leader:
                return False
    return True


async def eventually(check: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    """Wait until it holds. Raises ``TrialError`` if that takes too long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + BOOT_SECONDS_MAX
    while not await check():
        if loop.time() > deadline:
            raise TrialError(f"{otherwise} within {BOOT_SECONDS_MAX:g} s")
        await asyncio.sleep(POLL_SECONDS)
