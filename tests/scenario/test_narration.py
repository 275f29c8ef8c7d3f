"""Narration is true: every passage of the catalogue in every run of its generations, or it is not shown."""

import re

import pytest
from tests.lab.stories import TWO, known, play

from tidelog.core.generations import GENERATIONS
from tidelog.faults.step import Claim
from tidelog.scenario import catalogue
from tidelog.scenario.claims import CLAIMS, is_true
from tidelog.scenario.run import Run


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("name", catalogue.names())
def test_what_a_passage_claims_happens(name: str, generation: str) -> None:
    """No passage is false under a generation that it belongs to."""
    assert false_claims(known(name, generation)) == []


def false_claims(run: Run) -> list[str]:
    generation = run.scenario.setup.generation
    return [
        f"step {number}, {claim}: {passage.text}"
        for number, step in enumerate(run.scenario.steps, start=1)
        for passage in step.narration
        if passage.belongs_to(generation)
        for claim in passage.claims
        if not is_true(claim, run.chapter(number))
    ]


PROMISES = {
    "error": re.compile(r"\b[A-Z]+_[A-Z_]+ \(\d+\)|\berror \d+"),
    "truncates": re.compile(r"\btruncates?\b(?! only)"),
    "epoch": re.compile(r"\bin epoch \d|: epoch \d"),
    "election": re.compile(r"\bclean election\b|\blast known leader\b"),
}
"""Words that promise something which can be checked, by the claim that checks it."""

NOT_OF_MAJORITY = re.compile(r"\bISR\b|\bin sync\b|\bunclean election that follows")
"""A majority has no list of replicas that are in sync."""
SHIFTED = re.compile(r"\b(?:offsets?|ends? at|ended at offset|watermarks? (?:stays at|to|is|are still)) \d")
"""Offsets are others under ``majority``: control records take some."""


@pytest.mark.parametrize("name", catalogue.names())
def test_what_a_passage_promises_is_claimed(name: str) -> None:
    """A text that names an error code, a truncation or the number of a new epoch has a claim about it."""
    passages = [passage for step in catalogue.load(name).steps for passage in step.narration]
    unclaimed = [
        (kind, passage.text)
        for passage in passages
        for kind, words in PROMISES.items()
        if words.search(passage.text) and kind not in {claim.name for claim in passage.claims}
    ]
    assert unclaimed == []


@pytest.mark.parametrize("name", catalogue.names())
def test_a_passage_is_not_told_where_it_cannot_be_true(name: str) -> None:
    """Nothing of an ISR under majority, and no offset that is told of it and of others."""
    passages = [passage for step in catalogue.load(name).steps for passage in step.narration]
    assert [p.text for p in passages if p.belongs_to("majority") and NOT_OF_MAJORITY.search(p.text)] == []
    shared = [p for p in passages if p.belongs_to("majority") and p.belongs_to("epoch")]
    assert [p.text for p in shared if SHIFTED.search(p.text)] == []


STEPS = """
    produce p a
    wait knows 1 a

    # [truncates=0] Never.
    # [hw] Only under the rules of 0.10.
    # [epoch isr=0 drops!=1 down=1] The controller takes broker 1 out.
    crash 1
    wait isr 0

    # Everywhere.
    produce p b
    restart 1
"""


def test_a_passage_is_shown_where_it_is_true() -> None:
    """Of the run's generation, and with all its claims true in the steps up to the next comment."""
    told = {g: play(TWO, STEPS, g).narration(3) for g in ("hw", "kip101", "epoch")}
    assert told == {
        "hw": ["Only under the rules of 0.10."],
        "kip101": [],
        "epoch": ["The controller takes broker 1 out."],
    }
    assert play(TWO, STEPS, "hw").narration(5) == ["Everywhere."]
    assert play(TWO, STEPS, "hw").narration(4) == play(TWO, STEPS, "hw").narration(0) == []


TRUE = {
    "leader=1",
    "leader=none",
    "election=unclean",
    "epoch=1",
    "isr=0",
    "drops=1",
    "controller=0",
    "truncates=0",
    "error=7",
    "acked=a",
    "failed=b",
    "reads=a",
    "leads=0",
    "down=1",
    "leo=0:2",
    "hw=0:1",
    "log=0:a,b",
}
FALSE = {
    "leader=7",
    "election=eligible",
    "epoch=9",
    "isr=2",
    "drops=0",
    "controller=7",
    "truncates=1",
    "error=75",
    "acked=z",
    "failed=a",
    "reads=z",
    "leads=2",
    "down=2",
    "leo=1:9",
    "hw=1:9",
    "log=1:a,z",
}


def test_every_kind_of_claim_can_be_true_and_false() -> None:
    """A claim that is always true would let any narration pass."""
    runs = [
        known(name, generation)
        for name in ("cut-follower-leader", "unclean-election", "isolate-leader-zone", "crash-during-sync",
                     "isolate-controller-zone")
        for generation in ("hw", "epoch")
    ]  # fmt: skip
    true: set[str] = set()
    false: set[str] = set()
    for name, words in ((word.partition("=")[0], word) for word in TRUE | FALSE):
        claim = Claim(name, words.partition("=")[2])
        (true if any(is_true(claim, run.played) for run in runs) else false).add(words)
        denied = Claim(name, claim.value, denied=True)
        assert all(is_true(denied, run.played) is not is_true(claim, run.played) for run in runs)
    assert true == TRUE
    assert false == FALSE
    assert {word.partition("=")[0] for word in TRUE} == set(CLAIMS)
