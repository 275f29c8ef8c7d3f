"""Kafka's paths in the keeper (ZooKeeper mode), and the type of the value at each.

==================================== =======================================================================
``/brokers/ids/N``                   ``BrokerEndpoint``, ephemeral
``/brokers/epochs/N``                ``int``: the epoch of the broker's last registration (only under ``elr``)
``/brokers/topics/T``                ``TopicNode``: the replicas of each partition
``/brokers/topics/T/partitions/P/…`` ``state``: ``PartitionState``
``/controller``                      ``BrokerId``, ephemeral
``/controller_epoch``                ``int``
``/isr_change_notification/…``       ``tuple[TopicPartition, ...]``, sequential
``/config/topics/T``                 ``dict[str, str]``: the settings that differ from the default
``/config/brokers/N``                ``dict[str, str]``: settings of a running broker; ``<default>``: of all
``/config/changes/config_change_…``  ``str``: "topics/T" or "brokers/N", sequential
``/admin/delete_topics/T``           None: the topic is to be deleted
``/latest_producer_id_block``        ``dict``: "version" 1, "broker", "block_start", "block_end" (inclusive)
==================================== =======================================================================
"""

from __future__ import annotations

from tidelog.core.types import BrokerId, TopicPartition

BROKERS = "/brokers/ids"
BROKER_EPOCHS = "/brokers/epochs"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
ISR_NOTIFICATIONS = "/isr_change_notification"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
EVERY_BROKER = "<default>"
"""In the place of a broker's number, as in Kafka."""
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = f"{CONFIG_CHANGES}/config_change_"
DELETE_TOPICS = "/admin/delete_topics"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CLUSTER = "/cluster"

PERSISTENT = (
    BROKERS,
    TOPICS,
    ISR_NOTIFICATIONS,
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
)
"""Persistent nodes that exist in every cluster."""


def name_of(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def broker_path(broker: BrokerId) -> str:
    return f"{BROKERS}/{broker}"


def broker_epoch_path(broker: BrokerId) -> str:
    return f"{BROKER_EPOCHS}/{broker}"


def broker_of(path: str) -> BrokerId:
    return BrokerId(int(name_of(path)))


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(tp: TopicPartition) -> str:
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}"


def state_path(tp: TopicPartition) -> str:
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}/state"


def partition_of(path: str) -> TopicPartition | None:
    """The partition whose state is at this path; None if no state is."""
    parts = path.split("/")
    if len(parts) == 7 and path.startswith(f"{TOPICS}/") and parts[6] == "state":
        return TopicPartition(parts[3], int(parts[5]))
    return None


def config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(scope: str) -> str:
    """``scope``: a broker's number, or ``EVERY_BROKER``."""
    return f"{BROKER_CONFIGS}/{scope}"


def deletion_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"
