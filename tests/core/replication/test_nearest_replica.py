"""A leader sends consumers to a replica in their own rack (KIP-392)."""

import pytest
from tests.core.harness import CONTROLLER, TP, Bench, ids

from tidelog.core.config import BrokerConfig, ReplicaSelector
from tidelog.core.messages import CONSUMER, FetchRequest, FetchResponse, UpdateMetadataRequest
from tidelog.core.types import (
    NO_EPOCH,
    NO_LEADER,
    BrokerEndpoint,
    BrokerEpoch,
    BrokerId,
)

RACKS = {0: "az1", 1: "az2", 2: "az2", 3: "az3"}
AWARE = BrokerConfig(replica_selector=ReplicaSelector.RACK_AWARE)


def leading(generation: str = "epoch", config: BrokerConfig = AWARE) -> Bench:
    """Broker 0 leads, with three records. 1 has fetched two of them, 2 all, 3 nothing; 2 is not in sync."""
    bench = Bench(generation=generation, config=config, replicas=(0, 1, 2, 3))
    endpoints = {BrokerId(b): BrokerEndpoint("host", b, rack) for b, rack in RACKS.items()}
    live = dict.fromkeys(ids(RACKS), BrokerEpoch(1))
    bench.hear(
        UpdateMetadataRequest(**bench.header(), live_brokers=live, endpoints=endpoints, partitions=()),
        CONTROLLER,
    )
    bench.lead(0, isr=(0, 1, 3))
    for value in "abc":
        bench.produce(value, acks=1)
    bench.fetch(2, 3, wait_ms=0)
    bench.fetch(1, 2, wait_ms=0)
    return bench


def asked(bench: Bench, rack: str, offset: int = 0, wait_ms: int = 500) -> FetchResponse:
    token = object()
    bench.hear(FetchRequest(TP, CONSUMER, offset, NO_EPOCH, wait_ms, rack=rack), token)
    return bench.fetched(token)


@pytest.mark.parametrize(
    ("rack", "offset", "named"),
    [
        ("az2", 0, 2),  # of two it is the one that is further, in sync or not
        ("az2", 3, 2),
        ("az1", 0, NO_LEADER),  # the leader itself is there
        ("az3", 0, NO_LEADER),  # has not fetched yet
        ("az9", 0, NO_LEADER),  # nobody is there
        ("", 0, NO_LEADER),  # the consumer does not say where it is
    ],
)
def test_the_replica_that_a_consumer_is_sent_to(rack: str, offset: int, named: int) -> None:
    """It gets the name without records and without waiting, or is answered by the leader."""
    answer = asked(leading(), rack, offset, wait_ms=500 if named != NO_LEADER else 0)
    assert answer.preferred == named
    if named != NO_LEADER:
        assert not answer.batches
        assert (answer.high_watermark, answer.log_start_offset) == (0, 0)


def test_kafka_4_names_only_replicas_in_sync() -> None:
    """Broker 2 is further than 1, but could stay behind for long."""
    bench = leading("elr")
    assert asked(bench, "az2").preferred == 1
    assert asked(bench, "az2", offset=3, wait_ms=0).preferred == NO_LEADER


@pytest.mark.parametrize(
    ("generation", "config"), [("epoch", BrokerConfig()), ("kip101", AWARE), ("hw", AWARE)]
)
def test_nobody_is_sent_away_by_default(generation: str, config: BrokerConfig) -> None:
    """Nor where followers do not answer consumers."""
    assert asked(leading(generation, config), "az2", wait_ms=0).preferred == NO_LEADER
