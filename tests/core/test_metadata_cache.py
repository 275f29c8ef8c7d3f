"""The metadata of partitions that a broker returns to clients."""

from tidelog.core.messages import PartitionAssignment, UpdateMetadataRequest
from tidelog.core.metadata_cache import MetadataCache
from tidelog.core.types import NO_LEADER, BrokerId, PartitionState, TopicPartition

TP = TopicPartition("t", 0)
ZERO, ONE = BrokerId(0), BrokerId(1)


def _told(*live: BrokerId) -> MetadataCache:
    cache = MetadataCache()
    assignment = PartitionAssignment(TP, (ZERO, ONE), PartitionState(ZERO, 4, (ZERO, ONE), 1))
    cache.update(UpdateMetadataRequest(ONE, 1, 7, 1, dict.fromkeys(live, 1), {}, (assignment,)))
    return cache


def test_a_leader_that_is_not_alive_is_none() -> None:
    """As in Kafka: the client must ask again. Epoch and ISR are unchanged."""
    state = _told(ONE).states()[TP]
    assert (state.leader, state.leader_epoch, state.isr) == (NO_LEADER, 4, (ZERO, ONE))


def test_a_leader_that_lives_is_named() -> None:
    assert _told(ZERO, ONE).states()[TP].leader == ZERO
