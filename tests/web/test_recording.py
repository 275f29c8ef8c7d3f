"""What is recorded of a play: the same play, and enough to stand at any of its moments."""

import json
from typing import Any

import pytest

from tidelog.lab.play import run
from tidelog.narrate.transcript import print_transcript
from tidelog.scenario import catalogue
from tidelog.scenario.scenario import parse
from tidelog.web.play.playing import CannotPlay, play
from tidelog.web.play.recording import record
from tidelog.web.play.watched_world import BEATS_PER_STEP_MAX

HEAD = "scenario x\ncluster brokers=3\ntopic t replicas=0,1,2\nproducer p acks=all\n"


def scenes(recording: dict[str, Any]) -> list[dict[str, Any]]:
    """Each moment in full, put together from its changes as the page does it."""
    found: list[dict[str, Any]] = []
    for step in recording["steps"]:
        found.append({**(found[-1] if found else {}), **step["changed"]})
    return found


@pytest.mark.parametrize("name", ["hw-loss", "isolate-leader-zone", "kafka-7415-empty-epoch"])
@pytest.mark.parametrize("generation", ["hw", "epoch"])
def test_looking_on_changes_nothing(name: str, generation: str) -> None:
    """A play that is recorded is, message by message, the play that is not."""
    scenario = catalogue.load(name).under(generation)
    watched, _ = record(scenario)
    assert print_transcript(watched) == print_transcript(run(scenario))


def test_every_moment_is_what_the_run_saw() -> None:
    """The scene after each step holds the logs, marks, leaders and promises of the run's own snapshot."""
    watched, recording = record(catalogue.load("isolate-leader-zone"))
    for scene, played in zip(scenes(recording), watched.played, strict=True):
        partition = played.after.partitions[0]
        assert scene["part/0"] == {
            "leader": partition.leader,
            "epoch": partition.leader_epoch,
            "isr": list(partition.isr),
            "elr": list(partition.elr),
            "lastKnown": list(partition.last_known_elr),
            "phase": partition.phase,
            "phases": {str(broker): phase for broker, phase in partition.replica_phases},
        }
        for replica in partition.replicas:
            log = scene[f"log/0/{replica.broker}"]
            assert (log["leo"], log["hw"], log["role"]) == (replica.leo, replica.hw, replica.role)
            assert log["records"] == [[epoch, value] for _, epoch, value in replica.records]
            inside = scene[f"inside/0/{replica.broker}"]
            assert inside["checkpoint"] == replica.checkpoint
            assert inside["remote"] == [[follower.broker, follower.leo] for follower in replica.remote]
            assert len(scene[f"caught/0/{replica.broker}"]) == len(replica.remote)


def test_beats_lead_to_the_end_of_their_step() -> None:
    """What the beats of a step change adds up to what the whole step changed in the logs."""
    _, recording = record(catalogue.load("hw-loss").under("hw"))
    before: dict[str, Any] = {}
    for step, after in zip(recording["steps"], scenes(recording), strict=True):
        beats = step.get("beats", [])
        scene = dict(before)
        for beat in beats:
            scene.update(beat.get("changed", {}))
        if beats and len(beats) < BEATS_PER_STEP_MAX:
            logs = [key for key in after if key.startswith("log/")]
            assert {key: scene[key]["records"] for key in logs} == {
                key: after[key]["records"] for key in logs
            }
        before = after


def test_a_record_is_lost_at_the_step_that_loses_it() -> None:
    """In hw-loss c is lost when a broker without it is elected; behind a cut, when the other side elects."""
    _, loss = record(catalogue.load("hw-loss").under("hw"))
    assert loss["lost_at"] == {"c": 21}
    assert loss["steps"][21]["command"] == "wait leader 1 times-out majority"
    _, cut = record(catalogue.load("isolate-leader-zone"))
    assert {cut["steps"][at]["command"] for at in cut["lost_at"].values()} == {"wait leader 1"}
    _, kept = record(catalogue.load("hw-loss").under("epoch"))
    assert kept["lost_at"] == {}


def test_the_same_text_gives_the_same_recording() -> None:
    """Recordings are deterministic, so a link shows everybody the same."""
    text = catalogue.text("kip-279-fast-failover")
    first, second = (json.dumps(play(text, "kip101", "epoch")) for _ in range(2))
    assert first == second


def test_two_generations_part_where_the_command_line_says() -> None:
    """The page marks the first difference as ``scenario compare`` does."""
    from tidelog.lab.compare import Comparison

    text = catalogue.text("hw-loss")
    answer = play(text, "hw", "epoch")
    assert answer["parts_at"] == Comparison.of(parse(text), ["hw", "epoch"]).parts_at == 18


@pytest.mark.parametrize(
    ("text", "generation", "says"),
    [
        ("nonsense", None, "line 1, column 1: expected"),
        (HEAD + "wait lader 1\n", None, "line 5, column 6: expected a condition"),
        (HEAD, "raft", "unknown generation 'raft': choose one of hw, kip101, epoch, elr, majority"),
        (HEAD + "tick\n" * 1_001, None, "1001 steps are too many"),
        ("x" * 200_001, None, "longer than 200,000 characters"),
        (HEAD + "advance 60m\n" * 9, None, "the play was stopped: it takes more than"),
    ],
)
def test_what_cannot_be_played_is_said_in_one_line(text: str, generation: str | None, says: str) -> None:
    """Whatever is wrong with a text or a request is one line that names it."""
    with pytest.raises(CannotPlay) as refused:
        play(text, generation, None)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
