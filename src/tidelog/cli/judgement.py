"""Verdicts of runs: their sentences and their exit codes."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from tidelog.cli.errors import ExitCode
from tidelog.cli.show import palette
from tidelog.cli.show.lines import wrap
from tidelog.scenario.run import Run
from tidelog.scenario.scenario import VERDICT_KINDS, Expectation
from tidelog.scenario.violations import Grade


def is_violated(run: Run) -> bool:
    """Was a promise broken? A broken structural invariant alone breaks none: no client got a wrong answer
    yet. An unrecovered cluster breaks none either: many scenarios end during an outage."""
    return not run.verdict.held or any(broken.grade is Grade.DATA for broken in run.broken)


def exit_code(run: Run) -> ExitCode:
    """A run in which a wait timed out against expectation did not show what it was made to show."""
    return ExitCode.VIOLATED if is_violated(run) or run.misjudged_waits() else ExitCode.HELD


def headline(run: Run, *, short: bool = False) -> str:
    generation = run.scenario.setup.generation
    waits = run.misjudged_waits()
    if short:
        return f"{generation}: {'VIOLATED' if is_violated(run) else 'FAILED' if waits else 'HELD'}"
    if not is_violated(run) and waits:
        count = "a wait" if len(waits) == 1 else f"{len(waits)} waits"
        return f"FAILED under {generation}: {count} did not end as the scenario expects"
    if not is_violated(run):
        return f"HELD under {generation}: every promise was kept"
    kinds = [kind for kind, findings in run.verdict.as_json().items() if findings]
    return f"VIOLATED under {generation}: {', '.join(kinds) if kinds else 'an invariant is broken'}"


def style_of(run: Run) -> str:
    return palette.BAD if is_violated(run) or run.misjudged_waits() else palette.GOOD


def findings(run: Run) -> list[tuple[str, str]]:
    """Every anomaly as (kind, sentence)."""
    return [
        (kind, _sentence(kind, finding)) for kind, found in run.verdict.as_json().items() for finding in found
    ]


def _sentence(kind: str, finding: dict[str, Any]) -> str:
    value = finding["value"]
    if kind == "lost":
        where = f" at offset {finding['offset']}" if finding["offset"] >= 0 else ""
        return (
            f"{value}, acknowledged to {finding['producer']} (acks={finding['acks']}){where}, "
            "is not in the committed log"
        )
    if kind == "duplicated":
        return (
            f"{value} is in the log {len(finding['offsets'])} times, at offsets {_list(finding['offsets'])}"
        )
    if kind == "diverged":
        held = [f"broker {broker} has {_named(held)}" for broker, held in finding["replicas"].items()]
        return f"at offset {finding['offset']} {', '.join(held)}"
    if kind == "rewritten":
        return (
            f"{finding['consumer']} read {value} at offset {finding['offset']}, "
            f"which holds {_named(finding['now'])} now"
        )
    if kind == "reordered":
        return f"{value} is before {finding['sent_after']}, which was sent earlier"
    return f"{value} is at offset {finding['offset']}, but no producer sent it or its send was refused"


def _named(value: str | None) -> str:
    return "a control record" if value is None else value


def _list(items: list[Any]) -> str:
    return ", ".join(map(str, items))


def judgement_lines(screen: Console, run: Run, width: int, *, short: bool = False) -> list[Text]:
    """The verdict below its headline. ``short`` leaves out the messages of broken invariants."""
    lines: list[Text] = []
    for kind, sentence in findings(run):
        lines += wrap(screen, Text(sentence, palette.BAD), width, marker=f"{kind:<11}")
    acknowledged = sum(1 for r in run.ledger if r.outcome is not None and r.outcome.value == "ok")
    lines += wrap(screen, f"{len(run.ledger)} sent, {acknowledged} acknowledged", width, marker="records    ")
    for broken, at in zip(run.broken, run.broken_at, strict=True):
        when = f"step {at}" if at < len(run.played) else "at the end"
        style = palette.BAD if broken.grade is Grade.DATA else palette.WARNING
        body = Text(f"{broken.name}, {when}", style)
        if not short:
            body = Text.assemble(body, ": ", broken.message)
        lines += wrap(screen, body, width, marker=_BROKEN[broken.grade])
    return lines + _expected(screen, run, width)


_BROKEN = {
    Grade.DATA: "broken     ",
    Grade.STRUCTURE: "weakened   ",
    Grade.LIVENESS: "unfinished ",
}
"""A guarantee about records; a rule whose violation can lead to loss; not (yet) recovered."""


def _expected(screen: Console, run: Run, width: int) -> list[Text]:
    expectation = run.scenario.expectation(run.scenario.setup.generation)
    surprises = run.surprises()
    if expectation is None and not surprises:
        return wrap(
            screen, Text("The scenario has no expectation for this generation.", palette.FAINT), width
        )
    if expectation is not None and not surprises:
        return wrap(screen, f"As the scenario expects: {outcome(expectation)}.", width)
    lines = wrap(screen, Text("NOT as the scenario expects:", palette.BAD), width)
    for surprise in surprises:
        lines += wrap(screen, surprise, width, marker="  ")
    return lines


def outcome(expectation: Expectation) -> str:
    """An expectation in a few words: ``held``, ``lost c``."""
    words = []
    for kind in VERDICT_KINDS:
        if kind in expectation.facts:
            at = "at " if kind == "diverged" else ""
            words.append(f"{kind} {at}{expectation.facts[kind].replace(',', ' ')}")
    return ", ".join(words) or "held"
