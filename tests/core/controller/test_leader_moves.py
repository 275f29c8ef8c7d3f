"""Elections that an administrator asks for (KIP-460): preferred ones, and unclean ones if there is no
leader."""

import pytest
from tests.core.administrator import Administrator, replicas

from tidelog.core.messages import ElectionType, ElectLeadersRequest, ElectLeadersResponse
from tidelog.core.topic_messages import CreateTopicRequest, CreateTopicResponse
from tidelog.core.types import TopicPartition
from tidelog.scenario.setup import Setup
from tidelog.wire.errors import ErrorCode

TP = TopicPartition("t", 0)


def elect(admin: Administrator, election: ElectionType, tp: TopicPartition = TP) -> ErrorCode:
    return admin.ask(ElectLeadersRequest(tp=tp, election=election), ElectLeadersResponse).error


def state(admin: Administrator) -> tuple[int, tuple[int, ...]]:
    found = admin.state("t")
    assert found is not None
    return found.leader, found.isr


def offline(generation: str = "epoch") -> Administrator:
    """Broker 1, the last in-sync replica of t, is dead; broker 2, which was behind, is alive."""
    admin = Administrator(Setup(brokers=3, generation=generation))
    admin.ask(CreateTopicRequest(topic="t", assignment={0: replicas(1, 2)}), CreateTopicResponse)
    admin.world.crash(2)
    admin.until(lambda: state(admin)[1] == (1,))
    admin.world.crash(1)
    admin.until(lambda: state(admin)[0] == -1)
    admin.world.start(2)
    admin.world.advance(5_000)
    assert state(admin) == (-1, (1,))
    return admin


@pytest.mark.parametrize("generation", ["hw", "kip101", "epoch"])
def test_an_unclean_election_by_request_ignores_the_topics_setting(generation: str) -> None:
    """unclean.leader.election.enable is false, and yet: for this once, the administrator has decided."""
    admin = offline(generation)
    before = admin.state("t")
    assert before is not None
    assert elect(admin, ElectionType.UNCLEAN) is ErrorCode.NONE
    after = admin.state("t")
    assert after is not None
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2,), before.leader_epoch + 1)
    assert admin.core(2).replicas[TP].leader_epoch == after.leader_epoch


def test_an_unclean_election_prefers_a_clean_one() -> None:
    """If an in-sync replica is back, it leads."""
    admin = offline()
    admin.world.crash(0)
    admin.world.start(1)
    admin.until(lambda: state(admin)[0] != -1)
    assert state(admin)[0] == 1


def test_nobody_is_deposed_by_an_unclean_election() -> None:
    """ELECTION_NOT_NEEDED while there is a live leader, even if it is not the preferred one."""
    admin = Administrator()
    admin.create("t")
    before = admin.state("t")
    assert elect(admin, ElectionType.UNCLEAN) is ErrorCode.ELECTION_NOT_NEEDED
    assert admin.state("t") == before


def test_an_unclean_election_needs_somebody() -> None:
    """ELIGIBLE_LEADERS_NOT_AVAILABLE if no replica at all is alive."""
    admin = offline()
    admin.world.crash(2)
    admin.until(lambda: 2 not in admin.core(0).metadata.live_brokers)
    assert elect(admin, ElectionType.UNCLEAN) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_a_majority_does_not_elect_uncleanly() -> None:
    """Without a majority there is no leader, even on request of an administrator."""
    admin = Administrator(Setup(brokers=4, generation="majority"))
    admin.ask(CreateTopicRequest(topic="t", assignment={0: replicas(1, 2, 3)}), CreateTopicResponse)
    admin.world.crash(1)
    admin.world.crash(2)
    admin.until(lambda: state(admin)[0] == -1)
    assert elect(admin, ElectionType.UNCLEAN) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


@pytest.mark.parametrize("election", ElectionType)
def test_elections_of_partitions_that_do_not_exist(election: ElectionType) -> None:
    """UNKNOWN_TOPIC_OR_PARTITION."""
    admin = Administrator()
    admin.create("t")
    for tp in (TopicPartition("t", 1), TopicPartition("u", 0)):
        assert elect(admin, election, tp) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_preferred_election_is_the_default() -> None:
    """As before there were two kinds."""
    assert ElectLeadersRequest(tp=TP).election is ElectionType.PREFERRED
    assert [(kind.name, kind.value) for kind in ElectionType] == [("PREFERRED", 0), ("UNCLEAN", 1)]
