"""The result of an audit as text and as JSON: verdict, findings, causes, and the path of the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tidelog.cli.errors import ExitCode
from tidelog.cli.show import palette
from tidelog.cli.show.lines import wrap
from tidelog.cli.show.output import console, write_json, write_lines
from tidelog.cli.show.trial import faults_line
from tidelog.narrate.numbers import counted
from tidelog.pipeline.audit.findings import VIOLATION
from tidelog.pipeline.report.findings import Cause, Finding, findings, totals
from tidelog.pipeline.report.words import HELD, VIOLATED, headline, load_ms

if TYPE_CHECKING:
    from rich.console import Console

    from tidelog.pipeline.audit.run import Audited

_LABEL = 12
_CAUSES = 4
_UNJUDGED = 5
_WIDTH_MAX = 110
_TOLD = ("unclean election", "hanging transaction")
"""Notices with an example: what one of them says is what an operator looks for."""


def exit_code(audited: Audited) -> ExitCode:
    state = headline(audited.verdict, audited.manifest).state
    return {HELD: ExitCode.HELD, VIOLATED: ExitCode.VIOLATED}.get(state, ExitCode.REFUSED)


def present(audited: Audited, *, notes: list[str] | None = None, as_json: bool = False) -> None:
    if as_json:
        write_json(as_object(audited, notes or []))
    else:
        screen = console()
        write_lines(screen, _lines(screen, audited, notes or []))


def as_object(audited: Audited, notes: list[str]) -> dict[str, Any]:
    found = headline(audited.verdict, audited.manifest)
    return {
        "verdict": found.state,
        "sentence": found.text,
        "seed": audited.manifest.seed,
        "evidence": str(audited.folder),
        "report": None if audited.report is None else str(audited.report),
        **audited.verdict,
        "notes": notes,
    }


def _lines(screen: Console, audited: Audited, notes: list[str]) -> Iterator[Text]:
    page = Page(screen)
    for label, text in _facts(audited):
        yield from page.line(label, text)
    found = headline(audited.verdict, audited.manifest)
    style = {HELD: palette.GOOD, VIOLATED: palette.BAD}.get(found.state, palette.WARNING)
    yield from page.line("verdict", found.text, style)
    yield from page.line("", found.more)
    for finding in findings(audited.verdict):
        broken = finding.severity == VIOLATION
        yield from page.line("broken" if broken else "notice", finding.words, palette.BAD if broken else "")
        for indent, words in _why(finding):
            yield from page.line("", words, indent=indent)
    for note in notes:
        yield from page.line("note", note, palette.WARNING)
    unjudged = audited.verdict.get("unjudged") or []
    for number, text in enumerate(unjudged[:_UNJUDGED]):
        yield from page.line("" if number else "not checked", text)
    if len(unjudged) > _UNJUDGED:
        yield from page.line("", f"and {len(unjudged) - _UNJUDGED} more: see verdict.json")
    # A path stays on one line, so that it can be copied.
    if audited.report is not None:
        yield page.label("report", Text(str(audited.report), palette.STRONG))
    yield page.label("evidence", Text(f"in {audited.folder}"))


class Page:
    """Wrapped lines; the first has a faint label."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen
        self._width = min(screen.width, _WIDTH_MAX) - _LABEL

    def line(self, label: str, text: str, style: str = "", *, indent: int = 0) -> Iterator[Text]:
        for number, part in enumerate(wrap(self._screen, Text(text, style), self._width, indent)):
            yield self.label("" if number else label, part)

    def label(self, label: str, text: Text) -> Text:
        return Text.assemble((label.ljust(_LABEL), palette.FAINT), text)


def _facts(audited: Audited) -> Iterator[tuple[str, str]]:
    manifest, counts = audited.manifest, totals(audited.verdict)
    where = f"generation {manifest.generation}" if manifest.generation else "existing Kafka cluster"
    seed = "" if manifest.seed is None else f" · seed {manifest.seed}"
    if not manifest.keeps_ledger:
        yield from _cluster(audited)
        return
    yield "trial", f"{where} · {load_ms(manifest) / 1000:.1f} s{seed} · {manifest.state}"
    ok = counts.sends - counts.failed - counts.unknown
    yield "sends", f"{counts.sends:,} · {ok:,} ok · {counts.failed:,} failed · {counts.unknown:,} unknown"
    timeline = audited.timeline
    if timeline is not None and timeline.latency_ms:
        yield "latency", " · ".join(f"{name} {ms:,.1f} ms" for name, ms in timeline.latency_ms.items())
    reads = (audited.verdict.get("totals") or {}).get("reads") or {}
    if reads:
        yield "reads", " · ".join(f"{name} {count:,}" for name, count in list(reads.items())[:6])
    if counts.faults is not None:
        yield "faults", faults_line(counts.faults, len(manifest.schedule))


def _cluster(audited: Audited) -> Iterator[tuple[str, str]]:
    """Of log folders that were imported."""
    topics = audited.manifest.topics
    records = (audited.verdict.get("totals") or {}).get("records") or {}
    partitions = sum(int(topic.get("partitions") or 0) for topic in topics)
    name = audited.manifest.settings.get("cluster_id")
    yield (
        "cluster",
        f"{name or 'Kafka'} · {counted(len(topics), 'topic')} · {counted(partitions, 'partition')}",
    )
    yield "records", " · ".join(f"broker {broker} {count:,}" for broker, count in records.items()) or "none"


def _why(finding: Finding) -> Iterator[tuple[int, str]]:
    """The causes, the most frequent first, each with an example."""
    for cause in finding.causes[:_CAUSES]:
        yield 2, f"{cause.count:,} × {cause.rule}" if cause.rule else f"{cause.count:,} with unknown cause"
        if (finding.severity == VIOLATION or finding.anomaly in _TOLD) and cause.words:
            yield 4, f"{_example(cause)}{cause.words}"
    if len(finding.causes) > _CAUSES:
        yield 2, f"and {len(finding.causes) - _CAUSES} more causes"


def _example(cause: Cause) -> str:
    first = cause.examples[0] if cause.examples else {}
    return f"{first['value']}: " if first.get("value") else ""
