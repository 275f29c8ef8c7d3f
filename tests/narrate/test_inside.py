"""What brokers, keeper and clients know is shown when it changes, and by default only if it matters."""

from __future__ import annotations

import re

from tests.lab.stories import known

from tidelog.narrate.inside import facts, inside_lines
from tidelog.narrate.phrasebook import ENGLISH, Phrase, phrasebook
from tidelog.narrate.transcript import print_transcript
from tidelog.scenario.snapshot import Snapshot


def after(name: str, step: str, generation: str = "epoch") -> tuple[Snapshot, Snapshot]:
    """The state before and after the first step that begins with these words."""
    played = known(name, generation).played
    at = next(n for n, one in enumerate(played) if str(one.step or "").startswith(step))
    return played[at - 1].after, played[at].after


def lines(name: str, step: str, generation: str = "epoch", *, detail: bool = True) -> list[str]:
    before, now = after(name, step, generation)
    return inside_lines(now, before, detail=detail)


def test_a_leader_learns_of_its_followers_log_end_one_fetch_later() -> None:
    """After the append both have three records, and the leader knows of two; the next fetch tells it."""
    _, now = after("watermark-rounds", "send p c")
    leader, follower = now.partitions[0].replicas
    assert (follower.leo, leader.remote[0].leo) == (3, 2)
    assert [(r.kind, r.sender, r.offset) for r in leader.parked] == [("produce", "p", 3)]
    _, now = after("watermark-rounds", "deliver fetch")
    leader = now.partitions[0].replicas[0]
    assert leader.remote[0].leo == 3
    assert [(r.kind, r.sender, r.offset) for r in leader.parked] == [("fetch", "1", 3)]


def test_a_live_broker_s_checkpoint_is_behind_its_memory() -> None:
    assert "high watermark of broker 0: 3 in memory, 2 on disk" in lines("hw-loss", "deliver fetch", "hw")


def test_a_broker_that_names_the_wrong_leader_is_told_by_default() -> None:
    """The controller elected broker 1 and cannot tell it: broker 1 goes on naming the dead one."""
    told = "broker 1 tells clients what is no longer true: 0 leads, epoch 0, ISR [1,2,0]"
    assert told in print_transcript(known("cut-broker-controller", "epoch"))


def test_two_controllers_are_both_named() -> None:
    _, now = after("isolate-controller-zone", "wait controller 0")
    assert (now.controller, now.other_controllers) == (0, (2,))
    assert [(b.broker, b.controls) for b in now.brokers] == [(0, 2), (1, None), (2, 1)]


def test_a_cut_shows_which_member_is_off_and_where_sessions_are() -> None:
    assert lines("isolate-leader-zone", "isolate az1", detail=False) == [
        "keeper: keeper-0 is cut off, keeper-1 leads, keeper-2 follows; "
        "sessions 0 nowhere, 1 at keeper-1, 2 at keeper-2"
    ]
    assert lines("isolate-leader-zone", "heal", detail=False) == []


def test_a_quiet_step_has_nothing_to_tell() -> None:
    """Times that merely pass are no news."""
    before, now = after("watermark-rounds", "wait holds")
    assert inside_lines(now, before, detail=True) == []


def test_every_phrase_is_used_and_said_in_both_languages() -> None:
    """Over the catalogue's telling scenarios; what never comes up there is named."""
    used: set[str] = set()

    def collect(phrase: Phrase) -> None:
        used.add(phrase.key)
        for value in phrase.fields.values():
            if isinstance(value, Phrase):
                collect(value)

    chinese = phrasebook("zh")
    for name in ("hw-loss", "isolate-leader-zone", "cut-broker-controller", "watermark-rounds"):
        for played in known(name, "epoch").played:
            for fact in facts(played.after):
                collect(fact.phrase)
                assert not re.search(r"[{}]", chinese.say(fact.phrase))
    rare = {"inside.member_stopped", "inside.keeper_alone", "inside.nothing", "inside.unobserved"}
    assert {key for key in used if key.startswith("inside.")} | rare == set(ENGLISH.words["inside"])
