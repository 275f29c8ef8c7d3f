"""Every scenario of the catalogue ends as it says, and a few are followed step by step.

What ``expect`` lines can say is in the scenario files. Here is what they cannot say: states in the middle,
what clients were answered and what brokers believed, as the documents behind the scenarios describe them.
"""

import re
import runpy
from pathlib import Path

import pytest
from tests.lab.stories import Stage, after, happenings, known, log, marks, partition, replica, state, values

from tidelog.core.generations import GENERATIONS
from tidelog.core.messages import ControlResponse, UpdateMetadataRequest
from tidelog.core.types import BrokerId, ControllerEpoch
from tidelog.faults.places import Channel
from tidelog.narrate.clients import remark_words
from tidelog.narrate.run import client_lines
from tidelog.scenario import catalogue
from tidelog.scenario.clients.events import Outcome
from tidelog.scenario.run import Played
from tidelog.wire.errors import ErrorCode

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
ISR_GENERATIONS = ("hw", "kip101", "epoch")


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("name", catalogue.names())
def test_every_scenario_ends_as_it_says(name: str, generation: str) -> None:
    """Verdict and end state are those of the ``expect`` line, under every generation."""
    run = known(name, generation)
    assert run.surprises() == []
    assert len(run.played) == len(run.scenario.steps) + 1, "the play stopped early"


def test_the_guide_has_the_whole_catalogue() -> None:
    """The table in `questions.md` is the one that `make_table.py` makes: all scenarios, all generations."""
    lines = runpy.run_path(str(GUIDE / "make_table.py"))["lines"]()
    assert "\n\n" + "\n".join(lines) + "\n\n" in (GUIDE / "questions.md").read_text("utf-8")


def test_the_catalogue_names_every_file_once() -> None:
    """The order in catalogue.txt is complete: nothing is left for the last group."""
    names = catalogue.names()
    assert len(names) == len(set(names))
    assert [group.title for group in catalogue.groups() if group.title == catalogue.REST] == []


def told(run_or_step, command: str) -> list[str]:
    return client_lines(after(run_or_step, command))


def said(played: Played) -> str:
    """What a step remarks, in words."""
    return remark_words(played.remarks)


# ---------------------------------------------------------------- watermark-rounds


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_watermark_rounds(generation: str) -> None:
    """LEO and HW of leader and follower after each move, and the moment of the acknowledgement."""
    run = known("watermark-rounds", generation)

    def leader_and_follower(command: str) -> tuple[tuple[int, int], tuple[int, int]]:
        played = after(run, command)
        return marks(played, 0), marks(played, 1)

    assert leader_and_follower("wait knows 1 b") == ((2, 2), (2, 2))
    # The leader appends c; the parked fetch (round 1) carries it over, with the watermark 2.
    assert leader_and_follower("send p c") == ((3, 2), (3, 2))
    assert told(run, "send p c") == []
    # Round 2 asks for offset 3: remote LEO 3, watermark 3, and the acknowledgement leaves now.
    assert leader_and_follower("deliver fetch 1->0") == ((3, 3), (3, 2))
    assert told(run, "deliver fetch 1->0") == ["p is told: c ok at offset 2"]
    # Its answer tells the follower.
    assert leader_and_follower("wait knows 1 c") == ((3, 3), (3, 3))


# ---------------------------------------------------------------- cut-follower-leader


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_cut_follower_leader(generation: str) -> None:
    """Two copies of b on 0 and 2, none on 1; who can work when; ISR [2,0] in the end of the cut."""
    run = known("cut-follower-leader", generation)
    assert told(run, "produce p2 x") == ["p2 is told: x failed, delivery timed out"]
    assert said(after(run, "read c2")) == "c2 reads nothing: no reachable leader"
    twice = after(run, "produce p3 b")
    assert client_lines(twice) == ["p3 is told: b failed, REQUEST_TIMED_OUT (7)"]
    assert [values(twice, broker) for broker in (0, 1, 2)] == ["a b b", "a", "a b b"]
    assert state(twice) == (0, 0, [1, 2, 0])
    assert twice.after.controller == 2
    smaller = after(run, "wait isr 2,0")
    assert state(smaller) == (0, 0, [2, 0])
    # 2.7 leaves the watermark where it is until the next append.
    assert marks(smaller, 0) == (3, 1 if generation == "epoch" else 3)
    assert told(run, "produce p3 c") == ["p3 is told: c ok at offset 3"]
    assert said(after(run, "read c3")) == "c3 reads a@0 b@1 b@2 c@3"
    assert [values(run, broker) for broker in (0, 1, 2)] == ["a b b c"] * 3
    sent = {record.value: (record.outcome, record.attempts) for record in run.ledger}
    assert sent == {
        "a": (Outcome.OK, 1),
        "x": (Outcome.FAILED, 0),
        "b": (Outcome.UNKNOWN, 2),
        "c": (Outcome.OK, 1),
    }


def test_cut_follower_leader_under_majority() -> None:
    """Two of three are a majority: b is acknowledged at once and stored once."""
    run = known("cut-follower-leader", "majority")
    assert told(run, "produce p3 b") == ["p3 is told: b ok at offset 2"]
    assert run.verdict.held


# ---------------------------------------------------------------- cut-broker-controller


@pytest.mark.parametrize(
    ("generation", "refusal"),
    [
        ("hw", "NOT_LEADER_OR_FOLLOWER (6)"),
        ("kip101", "NOT_LEADER_OR_FOLLOWER (6)"),
        # A consumer that knows epochs names the one of its metadata, and broker 1 has never heard of it.
        ("epoch", "UNKNOWN_LEADER_EPOCH (75)"),
    ],
)
def test_cut_broker_controller(generation: str, refusal: str) -> None:
    """Unavailable both ways: whom each client is sent to and what it hears there."""
    run = known("cut-broker-controller", generation)
    assert told(run, "produce p2 b") == ["p2 is told: b ok at offset 1"]
    assert told(run, "produce p3 c") == ["p3 is told: c ok at offset 2"]
    assert said(after(run, "read c3")) == "c3 reads a@0 b@1 c@2"

    elected = after(run, "advance 1s")
    assert state(elected) == (1, 1, [1, 2])
    assert replica(elected, 1).role == "follower"
    assert replica(elected, 1).believes == {"leader": 0, "leader_epoch": 0, "isr": (1, 2, 0)}
    assert replica(elected, 2).believes == {"leader": 1, "leader_epoch": 1, "isr": (1, 2)}

    assert told(run, "produce p3 d") == ["p3 is told: d failed, NOT_LEADER_OR_FOLLOWER (6)"]
    assert said(after(run, "read c3", nth=2)) == f"c3 reads nothing: {refusal}"
    assert told(run, "produce p2 e") == ["p2 is told: e failed, delivery timed out"]
    assert said(after(run, "read c2")) == "c2 reads nothing: no reachable leader"

    assert replica(after(run, "wait leads 1"), 1).role == "leader"
    assert told(run, "produce p2 f") == ["p2 is told: f ok at offset 3"]
    assert told(run, "produce p3 g") == ["p3 is told: g ok at offset 4"]
    assert [values(run, broker) for broker in (0, 1, 2)] == ["a b c f g"] * 3


# ---------------------------------------------------------------- isolate-follower-zone


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_isolate_follower_zone(generation: str) -> None:
    """az1 keeps its old metadata and is stuck; the others go on with ISR [1,2] under the same leader."""
    run = known("isolate-follower-zone", generation)
    assert told(run, "produce p1 x") == ["p1 is told: x failed, delivery timed out"]
    assert said(after(run, "read c1")) == "c1 reads nothing: no reachable leader"
    cut = after(run, "wait isr 1,2")
    assert state(cut) == (1, 1, [1, 2])
    assert replica(cut, 0).believes == {"leader": 1, "leader_epoch": 0, "isr": (1, 0, 2)}
    assert told(run, "produce p2 b") == ["p2 is told: b ok at offset 1"]
    assert said(after(run, "read c3")) == "c3 reads a@0 b@1"
    assert state(run) == (1, 1, [1, 2, 0])
    assert [values(run, broker) for broker in (0, 1, 2)] == ["a b"] * 3


# ---------------------------------------------------------------- isolate-leader-zone


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_isolate_leader_zone(generation: str) -> None:
    """Two leaders at once: what each believes, what its clients read, whose records survive."""
    run = known("isolate-leader-zone", generation)
    doubled = after(run, "produce p2 f g")
    assert [replica(doubled, broker).role for broker in (0, 1, 2)] == ["leader", "leader", "follower"]
    assert replica(doubled, 0).believes == {"leader": 0, "leader_epoch": 0, "isr": (0, 1, 2)}
    assert replica(doubled, 1).believes == {"leader": 1, "leader_epoch": 1, "isr": (1, 2)}
    assert [values(doubled, broker) for broker in (0, 1)] == ["a b c d e", "a b f g"]
    assert (marks(doubled, 0), marks(doubled, 1)) == ((5, 2), (4, 4))
    assert said(after(run, "read c1")) == "c1 reads a@0 b@1"
    assert said(after(run, "read c2")) == "c2 reads a@0 b@1 f@2 g@3"
    assert state(after(run, "wait isr 1,2,0")) == (1, 1, [1, 2, 0])
    assert [values(run, broker) for broker in (0, 1, 2)] == ["a b f g"] * 3


UNTIL_THE_LAG = {"hw": "cccc ddd", "kip101": "cccc d"}
"""What the cut-off leader of older rules takes before it waits for the keeper."""


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_isolate_leader_zone_acks_all(generation: str) -> None:
    """Each record four times, at offsets 2 to 13 of broker 0; all overwritten, none acknowledged."""
    expected = UNTIL_THE_LAG.get(generation, "cccc dddd eeee").replace(" ", "")
    run = known("isolate-leader-zone-acks-all", generation)
    cut = after(run, "wait answered", nth=3)
    copies = [(offset, value) for offset, _, value in log(cut, 0) if offset >= 2]
    assert copies == list(enumerate(expected, start=2))
    assert marks(cut, 0) == (2 + len(expected), 2)
    failed = {r.value: (r.outcome, r.attempts) for r in run.ledger if r.outcome is not Outcome.OK}
    assert failed == dict.fromkeys("cde", (Outcome.UNKNOWN, 4))
    assert [values(run, broker) for broker in (0, 1, 2)] == ["a b f g"] * 3
    assert run.verdict.held


@pytest.mark.parametrize("generation", GENERATIONS)
def test_isolate_leader_zone_idempotent(generation: str) -> None:
    """The same four attempts of an idempotent producer leave one copy each."""
    run = known("isolate-leader-zone-idempotent", generation)
    cut = after(run, "wait answered", nth=3)
    expected = "a b c d" if generation in UNTIL_THE_LAG else "a b c d e"
    assert values(cut, 0).replace("· ", "") == expected
    assert {r.value: r.attempts for r in run.ledger if r.outcome is not Outcome.OK} == dict.fromkeys("cde", 4)


# ---------------------------------------------------------------- isolate-controller-zone


def test_isolate_controller_zone() -> None:
    """Both believe that they are the controller; the old one is refused by brokers that know the new one, and
    resigns when it can reach the keeper again."""
    stage = Stage(catalogue.load("isolate-controller-zone"))
    stage.play_until("wait isr 0,1")
    old, new = stage.core(2).controller, stage.core(0).controller
    assert (old.active, new.active) == (True, True)
    assert (old.epoch, new.epoch) == (1, 2)
    assert (stage.after.controller, stage.after.controller_epoch) == (0, 2)
    assert [stage.core(broker).known_controller for broker in (0, 1, 2)] == [0, 0, 2]
    assert state(stage) == (0, 1, [0, 1])

    bystander = stage.core(1)
    stale = UpdateMetadataRequest(
        controller=BrokerId(2),
        controller_epoch=ControllerEpoch(old.epoch),
        broker_epoch=bystander.ctx.broker_epoch,
        request_id=1,
        live_brokers={},
        endpoints={},
        partitions=(),
    )
    bystander.receive(("the old one", 7), stale, stage.world.now)
    refusal = stage.world.network.take(Channel("client-reply", 1, "the old one"))
    assert refusal == (7, ControlResponse(request_id=1, error=ErrorCode.STALE_CONTROLLER_EPOCH))
    bystander.effects.clear()

    stage.play_until("wait isr 0,1,2")
    assert (old.active, new.active) == (False, True)
    assert state(stage) == (0, 1, [0, 1, 2])


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_isolate_controller_zone_as_clients_see_it(generation: str) -> None:
    """Clients in az3 are stuck, az1 goes on; after the healing az3 works again."""
    run = known("isolate-controller-zone", generation)
    assert told(run, "produce p3 x") == ["p3 is told: x failed, delivery timed out"]
    assert said(after(run, "read c3")) == "c3 reads nothing: no reachable leader"
    assert told(run, "produce p1 b") == ["p1 is told: b ok at offset 1"]
    assert said(after(run, "read c1")) == "c1 reads a@0 b@1"
    healed = happenings(after(run, "heal"))
    assert healed[0] == "2 stops being controller: its keeper session expired"
    assert told(run, "produce p3 c") == ["p3 is told: c ok at offset 2"]


# ---------------------------------------------------------------- isolate-leader-and-controller


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_isolate_leader_and_controller(generation: str) -> None:
    """Both are doubled, and it costs two epochs: the first has no leader. Before 2.0 it costs one."""
    run = known("isolate-leader-and-controller", generation)
    elected = after(run, "wait leader 2")
    assert state(elected) == (2, 2 if generation == "epoch" else 1, [2, 1])
    assert elected.after.controller_epoch == 2
    assert [replica(elected, broker).role for broker in (0, 2)] == ["leader", "leader"]
    assert replica(elected, 0).believes == {"leader": 0, "leader_epoch": 0, "isr": (0, 2, 1)}
    assert [values(run, broker) for broker in (0, 1, 2)] == ["a b f g"] * 3


# ---------------------------------------------------------------- what the promises are worth


@pytest.mark.parametrize("generation", ["hw", "epoch"])
def test_hw_loss_is_about_what_was_acknowledged(generation: str) -> None:
    """c was acknowledged with acks=all: under 0.10 it is on no replica in the end, under epochs on all."""
    run = known("hw-loss", generation)
    assert told(run, "deliver fetch 1->0") == ["p is told: c ok at offset 2"]
    expected = "a b" if generation == "hw" else "a b c"
    assert [values(run, broker) for broker in (0, 1)] == [expected] * 2
    assert state(run) == (1, 1, [1, 0])


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_min_insync_errors(generation: str) -> None:
    """Error 19 with nothing appended, so the send certainly failed; error 20 with the record in the log, so
    nobody can say."""
    before = known("min-insync-before", generation)
    refused = after(before, "produce p b")
    assert client_lines(refused) == ["p is told: b failed, NOT_ENOUGH_REPLICAS (19)"]
    assert values(refused, 0) == "a"
    assert [record.outcome for record in before.ledger if record.value == "b"] == [Outcome.FAILED]
    run = known("min-insync-after", generation)
    assert "p is told: b failed, NOT_ENOUGH_REPLICAS_AFTER_APPEND (20)" in told(run, "wait answered")
    assert values(run, 0) == "a b"
    assert [record.outcome for record in run.ledger if record.value == "b"] == [Outcome.UNKNOWN]


def test_kip_966_loses_what_two_disks_held() -> None:
    """Broker 0 leads without b, although brokers 1 and 2 hold it; then both truncate it."""
    run = known("kip-966-last-replica-standing", "epoch")
    back = after(run, "advance 2s")
    assert partition(back).leader == 0
    assert [values(back, broker) for broker in (0, 1, 2)] == ["a", "a b", "a b"]
    assert [values(run, broker) for broker in (0, 1, 2)] == ["a"] * 3


def test_the_reference_says_what_is_expected() -> None:
    """Written by docs/reference/make_scenarios.py; run it after a change of an ``expect`` line."""
    reference = GUIDE.parent / "reference"
    made = runpy.run_path(str(reference / "make_scenarios.py"))["page"]()
    assert made == (reference / "scenarios.md").read_text("utf-8")


def test_the_reference_has_every_scenario() -> None:
    """In the order of the catalogue, and counted."""
    page = (GUIDE.parent / "reference" / "scenarios.md").read_text("utf-8")
    assert re.findall(r"^### (\S+)$", page, re.MULTILINE) == catalogue.names()
    assert f"{len(catalogue.names())} scenarios" in page
