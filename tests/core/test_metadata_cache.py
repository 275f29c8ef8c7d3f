"""The metadata of partitions that a broker returns to clients."""

from tidelog.core.messages import PartitionAssignment, UpdateMetadataRequest
from tidelog.core.metadata_cache import MetadataCache
from tidelog.core.types import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicPartition,
)

TP = TopicPartition("t", 0)
ZERO, ONE = BrokerId(0), BrokerId(1)


def _told(*live: BrokerId) -> MetadataCache:
    cache = MetadataCache()
    assignment = PartitionAssignment(
        tp=TP,
        replicas=(ZERO, ONE),
        state=PartitionState(ZERO, LeaderEpoch(4), (ZERO, ONE), ControllerEpoch(1)),
    )
    cache.update(
        UpdateMetadataRequest(
            controller=ONE,
            controller_epoch=ControllerEpoch(1),
            broker_epoch=BrokerEpoch(7),
            request_id=1,
            live_brokers=dict.fromkeys(live, BrokerEpoch(1)),
            endpoints={},
            partitions=(assignment,),
        )
    )
    return cache


def test_a_leader_that_is_not_alive_is_none() -> None:
    """As in Kafka: the client must ask again. Epoch and ISR are unchanged."""
    state = _told(ONE).states()[TP]
    assert (state.leader, state.leader_epoch, state.isr) == (NO_LEADER, 4, (ZERO, ONE))


def test_a_leader_that_lives_is_named() -> None:
    assert _told(ZERO, ONE).states()[TP].leader == ZERO
