"""What the audit found, by cause, with examples that link to their moment and their partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidelog.narrate.numbers import number
from tidelog.pipeline.audit.findings import NOTICE, VIOLATION
from tidelog.pipeline.report.findings import Cause, Finding, findings
from tidelog.pipeline.report.html import Cell, Markup, el, table
from tidelog.pipeline.report.speaker import Links, Speaker

_EXAMPLES_MAX: Final = 5
_TEXT_MAX: Final = 240
"""Characters of a text from the evidence: one may be as long as a record."""
_SHORT_MAX: Final = 24


def cut(text: object) -> str:
    shown = str(text)
    return shown if len(shown) <= _TEXT_MAX else f"{shown[:_TEXT_MAX]}…"


def short_cell(text: object) -> Cell:
    """A cell of a name: not broken at its hyphens, unless it is long."""
    shown = cut(text)
    return Cell(shown, "one-line" if len(shown) <= _SHORT_MAX else None)


def broken_section(verdict: Mapping[str, Any], links: Links) -> list[Markup]:
    return [_finding(one, links) for one in findings(verdict) if one.severity == VIOLATION]


def notices_section(verdict: Mapping[str, Any], links: Links) -> list[Markup]:
    found = [_finding(one, links) for one in findings(verdict) if one.severity == NOTICE]
    note = el("p", links.speaker.say("report.notices_note"), class_="soft")
    return [note, *found] if found else []


def _finding(finding: Finding, links: Links) -> Markup:
    speaker = links.speaker
    broken = finding.severity == VIOLATION
    tag = el("span", speaker.say("report.promise_broken"), class_="tag") if broken else None
    draw = _cause if broken else _brief_cause
    causes = [draw(cause, links) for cause in finding.causes]
    return el("div", el("h3", finding.said(speaker.book), tag), causes, class_=f"finding {finding.severity}")


def _cause(cause: Cause, links: Links) -> Markup | None:
    if cause.explained and not (cause.rule or cause.words or cause.examples):
        return None
    many = links.speaker.say("report.examples", count=min(len(cause.examples), _EXAMPLES_MAX))
    return el(
        "div",
        el("p", el("b", _counted(cause, links.speaker))),
        _story(cause, links.speaker),
        el("details", el("summary", many), _examples(cause.examples, links), open_="open")
        if cause.examples
        else None,
        class_="cause",
    )


def _brief_cause(cause: Cause, links: Links) -> Markup | None:
    """One line, with the rest behind it: no promise was broken."""
    said = _counted(cause, links.speaker)
    if not (cause.words or cause.examples):
        return el("p", said, class_="soft") if cause.rule else None
    return el("details", el("summary", said), _story(cause, links.speaker), _examples(cause.examples, links))


def _counted(cause: Cause, speaker: Speaker) -> str:
    rule = cut(speaker.book.rule(cause.rule))
    return f"{number(cause.count)} × {rule}" if cause.count else rule


def _story(cause: Cause, speaker: Speaker) -> Markup | None:
    """What happened. An older version's verdict has it in English only."""
    if not cause.words:
        return None if cause.explained else el("p", speaker.say("audit.unexplained"))
    like = speaker.say("report.for_instance") if cause.count > 1 else ""
    said = speaker.told(cause.story) if cause.story else None
    told = el("span", cut(cause.words), lang="en") if said is None else cut(said)
    return el("p", el("span", like, class_="soft"), told)


def _examples(examples: Sequence[Mapping[str, Any]], links: Links) -> Markup:
    rows = [_example(example, links) for example in examples[:_EXAMPLES_MAX]]
    used = [head for head in rows[0] if any(row[head] not in (None, "") for row in rows)] if rows else []
    heads = [links.speaker.say(head) for head in used]
    return table(heads, [[_shown(head, row[head]) for head in used] for row in rows])


def _example(example: Mapping[str, Any], links: Links) -> dict[str, Markup | str | None]:
    """By the words at the heads of the table's columns."""
    acks, partition, broker = (example.get(name) for name in ("acks", "partition", "broker"))
    topic = example.get("topic")
    told = links.speaker.say("report.broker", broker=cut(broker)) if broker is not None else None
    place = None if partition is None else links.partition(topic, partition, cut(f"{topic}-{partition}"))
    return {
        "report.value": _text(example.get("value")),
        "report.at": links.moment(example.get("time_us")),
        "report.partition": place,
        "report.offset": number(example.get("offset")),
        "report.acks": "all" if acks == -1 else _text(acks),
        "report.by": _text(example.get("producer") or example.get("consumer")) or told,
        "report.detail": _detail(example, links.speaker),
    }


def _detail(example: Mapping[str, Any], speaker: Speaker) -> str | None:
    said = speaker.told([example["said"]]) if "said" in example else None
    return _text(said or example.get("detail"))


def _text(value: object) -> str | None:
    return None if value is None else cut(value)


def _shown(head: str, value: Markup | str | None) -> Cell:
    if head == "report.value":
        return short_cell(value or "")
    style = {"report.detail": "text", "report.at": "one-line", "report.partition": "one-line"}.get(head)
    return Cell(value or "", style)
