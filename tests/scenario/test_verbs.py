"""Commands that an administrator or a client gives past the usual ways, and waits that fail."""

import pytest
from tests.lab.stories import THREE, TWO, after, happenings, play, state, values

from tidelog.core.generations import GENERATIONS
from tidelog.narrate.clients import remark_words
from tidelog.narrate.run import client_lines
from tidelog.scenario.clients.events import RecordRead


@pytest.mark.parametrize("generation", GENERATIONS)
def test_delete_controller_makes_a_new_election(generation: str) -> None:
    """The controller's node goes; a broker is elected with the next controller epoch; the leader stays."""
    run = play(THREE, "produce p a\ndelete /controller\nproduce p b\nwait converged", generation)
    deleted = after(run, "delete /controller")
    assert deleted.after.controller is not None
    assert deleted.after.controller_epoch == run.played[0].after.controller_epoch + 1
    assert any("becomes controller" in line for line in happenings(deleted))
    assert state(run)[0] == 0
    assert run.surprises() == []


def test_without_a_majority_of_the_keeper_nothing_is_deleted() -> None:
    """No broker and no administrator can write to the keeper then."""
    run = play(THREE, "keeper-stop 0\nkeeper-stop 1\ndelete /controller")
    assert remark_words(run.played[-1].remarks) == "the keeper has no /controller to delete"
    assert run.final.controller == 2


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_record_can_be_sent_to_a_broker_that_does_not_lead(generation: str) -> None:
    """It refuses with NOT_LEADER_OR_FOLLOWER and writes nothing; the leader takes what is aimed at it."""
    run = play(THREE, "produce p a\nproduce p->1 x\nproduce p->0 b\nwait knows 1 b", generation)
    assert client_lines(after(run, "produce p->1 x")) == ["p is told: x failed, NOT_LEADER_OR_FOLLOWER (6)"]
    assert client_lines(after(run, "produce p->0 b")) == [
        f"p is told: b ok at offset {len(values(run, 0).split()) - 1}"
    ]
    assert "x" not in values(run, 1)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_client_that_names_a_topic_writes_and_reads_there(generation: str) -> None:
    """Also when the topic's leader dies; clients that name none stay with the first topic."""
    head = TWO + "topic u replicas=1,2,0\nproducer q topic=u retries=9\nconsumer c topic=u\nconsumer d\n"
    run = play(
        head.replace("    ", ""),
        "produce p a\nproduce q x\nadvance 2s\nread c\nread d\ncrash 1\nproduce q y\nread c",
        generation,
    )
    read = [event for played in run.played for _, event in played.events if isinstance(event, RecordRead)]
    assert [(each.consumer, each.value) for each in read] == [("c", "x"), ("d", "a"), ("c", "y")]
    assert {(sent.value, sent.tp.topic) for sent in run.ledger} == {("a", "t"), ("x", "u"), ("y", "u")}
    assert run.verdict.held


def test_a_wait_that_times_out_is_a_surprise_unless_it_is_expected() -> None:
    """And so is one that was expected to time out and comes true, with or without an expect line."""
    run = play(THREE, "wait leader 1 within 1s\nwait leader 0 within 1s times-out epoch\nwait leader 0")
    assert run.surprises() == [
        "step 1, wait leader 1 within 1s: timed out",
        "step 2, wait leader 0 within 1s: expected to time out, but came true",
    ]
    expected = "wait leader 1 within 1s times-out all\nwait leader 2 within 1s times-out hw,epoch"
    assert play(THREE, expected, "epoch").surprises() == []
    assert len(play(THREE, expected, "kip101").surprises()) == 1
