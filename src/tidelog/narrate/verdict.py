"""The verdict of a run in words."""

from __future__ import annotations

from typing import Any

from tidelog.narrate.phrasebook import words
from tidelog.scenario.run import Run
from tidelog.scenario.scenario import VERDICT_KINDS, Expectation
from tidelog.scenario.violations import Grade


def is_violated(run: Run) -> bool:
    """Was a promise broken? A broken structural invariant alone breaks none: no client got a wrong answer
    yet. An unrecovered cluster breaks none either: many scenarios end during an outage."""
    return not run.verdict.held or any(broken.grade is Grade.DATA for broken in run.broken)


def is_bad(run: Run) -> bool:
    """Violated, or a wait timed out against expectation: the run did not show what it was made to show."""
    return is_violated(run) or bool(run.misjudged_waits())


def headline(run: Run, *, short: bool = False) -> str:
    generation, violated, waits = run.scenario.setup.generation, is_violated(run), run.misjudged_waits()
    if short:
        result = "violated" if violated else "failed" if waits else "held"
        return f"{generation}: {words(f'verdict.{result}')}"
    if not violated and waits:
        key = "verdict.wait_under" if len(waits) == 1 else "verdict.waits_under"
        return words(key, generation=generation, count=len(waits))
    if not violated:
        return words("verdict.held_under", generation=generation)
    kinds = [kind for kind, findings in run.verdict.as_json().items() if findings]
    what = ", ".join(kinds) or words("verdict.invariant")
    return words("verdict.violated_under", generation=generation, what=what)


def findings(run: Run) -> list[tuple[str, str]]:
    """Every anomaly as (kind, sentence)."""
    return [
        (kind, _sentence(kind, finding)) for kind, found in run.verdict.as_json().items() for finding in found
    ]


def _sentence(kind: str, finding: dict[str, Any]) -> str:
    shown = dict(finding)
    if kind == "lost" and finding["offset"] >= 0:
        kind = "lost_at"
    if kind == "duplicated":
        shown |= {"times": len(finding["offsets"]), "offsets": ", ".join(map(str, finding["offsets"]))}
    if kind == "diverged":
        held = finding["replicas"].items()
        shown["replicas"] = ", ".join(words("verdict.has", broker=b, value=_named(v)) for b, v in held)
    if kind == "rewritten":
        shown["now"] = _named(finding["now"])
    return words(f"verdict.{kind}", **shown)


def _named(value: str | None) -> str:
    return words("verdict.control_record") if value is None else value


def outcome(expectation: Expectation) -> str:
    """An expectation in a few words: ``held``, ``lost c``."""
    words = []
    for kind in VERDICT_KINDS:
        if kind in expectation.facts:
            at = "at " if kind == "diverged" else ""
            words.append(f"{kind} {at}{expectation.facts[kind].replace(',', ' ')}")
    return ", ".join(words) or "held"
