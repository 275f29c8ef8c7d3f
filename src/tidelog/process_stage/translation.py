"""What a scenario's head means for real brokers: their settings, their topics; and what they cannot do."""

from __future__ import annotations

from tidelog.cluster.errors import TrialError
from tidelog.core.config import BrokerConfig
from tidelog.core.keeper_paths import config_path, partition_path, partitions_path, state_path, topic_path
from tidelog.core.keeper_port import Create, Multi, Write
from tidelog.core.types import BrokerId, PartitionState, TopicConfig, TopicPartition
from tidelog.process_stage.pace import Pace
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.setup import Setup, TopicSetup
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
"""Scenarios let one interval pass to have watermarks written down. In the lab that is exact; here the write
itself takes time, so that it is done a little earlier."""
FETCHES_WAIT_LONGER = 2
"""Between two messages of a follower a scenario acts, and in the lab that takes no time. Here it must be done
while the follower's fetch waits at its leader."""
BROKERS_MAX = 9
NEVER_MS = 600_000
"""Intervals from here on mean: not during this scenario. They are not scaled."""

_TOPIC, _SET = 2, 0


def require_playable(scenario: Scenario) -> None:
    """Raise ``TrialError`` for what only the simulator can do."""
    if scenario.setup.brokers > BROKERS_MAX:
        raise TrialError(
            f"{scenario.name} has {scenario.setup.brokers} brokers, and at most {BROKERS_MAX} are started as "
            "real processes: play it with --stage sim"
        )
    if scenario.setup.without:
        guards = ",".join(scenario.setup.without)
        raise TrialError(
            f"{scenario.name} switches guards off (without={guards}), which no real broker can do: "
            "play it with --stage sim"
        )


def fetch_wait_ms(setup: Setup, pace: Pace) -> int:
    """How long a leader lets a follower's fetch wait."""
    return pace.ms(setup.config.replica_fetch_wait_max_ms * FETCHES_WAIT_LONGER)


def broker_settings(setup: Setup, pace: Pace) -> dict[str, str]:
    """What all brokers of a scenario have in common."""
    config = setup.config
    checkpoints = config.high_watermark_checkpoint_interval_ms
    if checkpoints < NEVER_MS:
        checkpoints = pace.ms(checkpoints * CHECKPOINTS_MORE_OFTEN)
    session = pace.ms(setup.session_timeout_ms)
    return {
        "tidelog.generation": setup.generation,
        "tidelog.flush": "always" if setup.sync_each_append else "roll",
        "tidelog.isr.rule": config.isr_rule.value,
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
    """Ask the controller for a topic with these replicas."""
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
    """A topic whose ISR has an order already: written to the keeper, as a tool of an administrator would."""
    tp = TopicPartition(topic.name, 0)
    state = PartitionState(BrokerId(topic.replicas[0]), 0, tuple(map(BrokerId, isr)), 1)
    writes: list[Write] = [
        Create(config_path(topic.name), topic_settings(topic.config)),
        Create(topic_path(topic.name), {0: tuple(map(BrokerId, topic.replicas))}),
        Create(partitions_path(topic.name)),
        Create(partition_path(tp)),
        Create(state_path(tp), state),
    ]
    return Multi(tuple(writes))


def alteration(topic: str, settings: dict[str, str]) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(name=k, config_operation=_SET, value=v) for k, v in settings.items()]
    resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=topic, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
