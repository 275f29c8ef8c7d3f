"""The parts of the page, from the verdict at its top to the commands at its end."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidelog.evidence.folder import Manifest
from tidelog.evidence.tables import TABLES
from tidelog.narrate.numbers import counted, moment, number
from tidelog.narrate.phrasebook import words
from tidelog.pipeline.audit.findings import NOTICE, VIOLATION
from tidelog.pipeline.report import series
from tidelog.pipeline.report.again import command_words
from tidelog.pipeline.report.findings import Cause, Finding, Totals, findings, totals
from tidelog.pipeline.report.html import Cell, Markup, el, join, numbers, table
from tidelog.pipeline.report.lanes import fault_bands, fault_lanes, fault_words, partition_lanes
from tidelog.pipeline.report.offsets import offset_chart, replica_table
from tidelog.pipeline.report.timeline import OFFSETS_MAX, FaultSpan, Timeline
from tidelog.pipeline.report.words import HELD, UNSAID, VIOLATED, headline, load_ms, settings_words

Verdict = Mapping[str, Any]

_EXAMPLES_MAX: Final = 5
_TEXT_MAX: Final = 240
"""Characters of a text from the evidence: one may be as long as a record."""
_SCHEDULE_MAX: Final = 200
_WORDS: Final = {HELD: "✓ Held", VIOLATED: "✗ Violated", UNSAID: "? Cannot be said"}


def cut(text: object) -> str:
    shown = str(text)
    return shown if len(shown) <= _TEXT_MAX else f"{shown[:_TEXT_MAX]}…"


# ---------------------------------------------------------------- the verdict


def verdict_section(verdict: Verdict, timeline: Timeline, manifest: Manifest) -> Markup:
    said = headline(verdict, manifest)
    return join(
        el(
            "header",
            el("p", f"tidelog · audit of a {_STAGES.get(manifest.stage, manifest.stage)}", class_="eyebrow"),
            el(
                "div",
                el("p", _WORDS[said.state], class_="word"),
                el("h1", said.text),
                el("p", said.more),
                class_=f"verdict {said.state}",
            ),
            el("ul", [el("li", cut(word)) for word in settings_words(manifest)], class_="settings"),
        ),
        _numbers(totals(verdict), timeline, manifest),
    )


_STAGES: Final = {
    "sim": "simulated trial",
    "cluster": "trial on real processes",
    "foreign": "load on an existing Kafka cluster",
}


def _numbers(counts: Totals, timeline: Timeline, manifest: Manifest) -> Markup:
    windows = [
        (window.to_ms - window.from_ms, f"{story.topic}-{story.partition}")
        for story in timeline.partitions
        for window in story.unavailable
    ]
    facts: list[tuple[str, str, str]] = [
        ("acknowledged", number(counts.promised), f"of {counted(counts.sends, 'send')}"),
        ("unknown", number(counts.unknown), "perhaps written"),
        ("failed", number(counts.failed), "certainly not written"),
        ("read", number(counts.reads), "by all consumers"),
    ]
    if timeline.faults:
        done = sum(fault.from_ms is not None for fault in timeline.faults) + timeline.faults_left_out
        facts.append(("faults", number(done), f"in {moment(load_ms(manifest))}"))
    if windows:
        longest, where = max(windows)
        facts.append(("longest outage", moment(longest), f"of {cut(where)}"))
    return numbers((name, value or "–", more) for name, value, more in facts)


# ---------------------------------------------------------------- what was found


def findings_section(verdict: Verdict) -> Markup:
    found = findings(verdict)
    broken = [finding for finding in found if finding.severity == VIOLATION]
    notices = [finding for finding in found if finding.severity == NOTICE]
    parts: list[Markup] = []
    if broken:
        parts += [el("h2", "What broke, and why"), *map(_finding, broken)]
    if notices:
        parts += [
            el("h2", "Worth knowing"),
            el("p", "No promise was broken by these.", class_="soft"),
            *map(_finding, notices),
        ]
    return join(parts)


def _finding(finding: Finding) -> Markup:
    broken = finding.severity == VIOLATION
    title = el("h3", finding.words, el("span", "promise broken", class_="tag") if broken else None)
    causes = map(_cause if broken else _brief_cause, finding.causes)
    return el("div", title, causes, class_=f"finding {finding.severity}")


def _cause(cause: Cause) -> Markup | None:
    if cause.explained and not (cause.rule or cause.words or cause.examples):
        return None
    examples = el("summary", counted(min(len(cause.examples), _EXAMPLES_MAX), "example"))
    return el(
        "div",
        el("p", el("b", _counted(cause))),
        _story(cause),
        el("details", examples, _examples(cause.examples)) if cause.examples else None,
        class_="cause",
    )


def _brief_cause(cause: Cause) -> Markup | None:
    """One line, with the rest behind it: no promise was broken."""
    if not (cause.words or cause.examples):
        return el("p", _counted(cause), class_="soft") if cause.rule else None
    return el("details", el("summary", _counted(cause)), _story(cause), _examples(cause.examples))


def _counted(cause: Cause) -> str:
    return f"{number(cause.count)} × {cut(cause.rule)}" if cause.count else cut(cause.rule)


def _story(cause: Cause) -> Markup | None:
    text = cause.words or ("" if cause.explained else words("audit.unexplained"))
    like = "For instance: " if cause.count > 1 and cause.words else ""
    return el("p", el("span", like, class_="soft"), cut(text)) if text else None


def _examples(examples: Sequence[dict[str, Any]]) -> Markup:
    rows = [_example(example) for example in examples[:_EXAMPLES_MAX]]
    used = [head for head in rows[0] if any(row[head] not in (None, "") for row in rows)] if rows else []
    return table(used, [[_shown(head, row[head]) for head in used] for row in rows])


def _example(example: Mapping[str, Any]) -> dict[str, object]:
    """By the heads of the table's columns."""
    acks, partition, broker = (example.get(name) for name in ("acks", "partition", "broker"))
    return {
        "value": example.get("value"),
        "partition": None if partition is None else f"{example.get('topic')}-{partition}",
        "offset": number(example.get("offset")),
        "acks": "all" if acks == -1 else acks,
        "by": example.get("producer")
        or example.get("consumer")
        or (None if broker is None else f"broker {broker}"),
        "detail": example.get("detail"),
    }


def _shown(head: str, value: object) -> Cell:
    return Cell(cut("" if value is None else value), "text" if head == "detail" else None)


# ---------------------------------------------------------------- what happened


def timeline_section(verdict: Verdict, timeline: Timeline, manifest: Manifest) -> Markup:
    bands = fault_bands(timeline)
    charts = [
        fault_lanes(timeline, manifest.brokers),
        partition_lanes(timeline, _replication(manifest)),
        series.trouble(timeline, bands),
        series.throughput(timeline, bands),
        series.latency(timeline, bands),
        series.reads(timeline, bands),
    ]
    drawn = [chart for chart in charts if chart is not None]
    if not drawn:
        return Markup()
    note = "Time runs from the beginning of the load." + (" Grey bands are faults." if bands else "")
    if timeline.faults_left_out:
        note += f" {counted(timeline.faults_left_out, 'later fault')} are left out of the pictures."
    return join(el("h2", "What happened"), el("p", note, class_="soft"), drawn)


def _replication(manifest: Manifest) -> dict[str, tuple[int, int]]:
    return {
        str(topic.get("name")): (
            int(topic.get("replication_factor") or 0),
            int((topic.get("configs") or {}).get("min.insync.replicas", 1)),
        )
        for topic in manifest.topics
    }


def offsets_section(timeline: Timeline) -> Markup:
    bands = fault_bands(timeline)
    charts = [offset_chart(story, timeline.span_ms, bands) for story in timeline.partitions[:OFFSETS_MAX]]
    drawn = [chart for chart in charts if chart is not None]
    table = replica_table(timeline.partitions)
    if not drawn and table is None:
        return Markup()
    left_out = timeline.partitions_left_out + len(timeline.partitions) - len(drawn)
    note = (
        "The high watermark is how far a leader had committed; a log end is recorded when a broker begins to "
        "lead or truncates."
    )
    if drawn and left_out:
        note += f" {counted(left_out, 'partition')} not drawn."
    return join(
        el("h2", "Logs and replicas"),
        el("p", note, class_="soft") if drawn else None,
        drawn,
        join(el("h3", "Where every replica ended"), table) if table is not None else None,
    )


# ---------------------------------------------------------------- the rest


def unjudged_section(verdict: Verdict) -> Markup:
    said = [cut(text) for text in verdict.get("unjudged", ())]
    if not said:
        return join(el("h2", "What could not be judged"), el("p", "Nothing: all evidence is there."))
    return join(el("h2", "What could not be judged"), el("ul", [el("li", text) for text in said[:50]]))


def configuration_section(manifest: Manifest) -> Markup:
    facts: dict[str, Any] = {
        "stage": manifest.stage,
        "state": manifest.state,
        "generation": manifest.generation or "–",
    }
    for topic in manifest.topics:
        partitions = counted(int(topic.get("partitions") or 0), "partition")
        facts[f"topic {topic.get('name')}"] = f"{partitions}, {topic.get('replication_factor')} replicas"
        facts |= {
            f"{topic.get('name')}: {name}": value for name, value in (topic.get("configs") or {}).items()
        }
    for name, value in (manifest.settings.get("workload") or {}).items():
        facts[f"load: {name}"] = (
            value if isinstance(value, str | int | float) else json.dumps(value, default=str)
        )
    facts |= {f"version: {name}": value for name, value in manifest.versions.items()}
    rows = [(cut(name), Cell(cut(value), "text")) for name, value in list(facts.items())[:80]]
    return join(el("h2", "Configuration"), table((), rows))


def again_section(timeline: Timeline, manifest: Manifest, evidence: str) -> Markup:
    parts: list[Markup | None] = [el("h2", "Do it again")]
    scenario = manifest.settings.get("text")
    if manifest.stage == "sim" and scenario:
        parts += [
            el(
                "p",
                "The scenario that was played; save it, and replay it with ",
                el("code", "tidelog replay FILE"),
                ".",
            ),
            el("pre", str(scenario)[:20_000]),
        ]
        return join(parts)
    if manifest.stage == "foreign":
        parts.append(el("p", "The load on your Kafka, once more:"))
    else:
        parts.append(el("p", "The same faults at the same moments, under the same load:"))
    parts.append(el("pre", shlex.join(command_words(manifest, evidence))))
    parts.append(_schedule(timeline))
    return join(parts)


def _lasted(fault: FaultSpan) -> str:
    return "" if fault.to_ms is None or fault.from_ms is None else moment(fault.to_ms - fault.from_ms)


def _schedule(timeline: Timeline) -> Markup | None:
    if not timeline.faults:
        return None
    shown = timeline.faults[:_SCHEDULE_MAX]
    rows = [
        (
            Cell(fault.number, "n"),
            cut(fault_words(fault)),
            Cell("" if fault.from_ms is None else moment(fault.from_ms), "n"),
            Cell(_lasted(fault), "n"),
            Cell(cut(fault.error or ("never done" if fault.from_ms is None else "")), "text"),
        )
        for fault in shown
    ]
    heads = (Cell("", "n"), "fault", Cell("at", "n"), Cell("for", "n"), "")
    more = len(timeline.faults) - len(shown) + timeline.faults_left_out
    return el(
        "details",
        el("summary", f"The schedule: {counted(len(timeline.faults) + timeline.faults_left_out, 'fault')}"),
        table(heads, rows),
        el("p", f"{number(more)} more in trial.json.") if more else None,
        open_="open" if len(shown) <= 12 else None,
    )


def further_section(evidence: str) -> Markup:
    code = (
        "from tidelog.pipeline.spark.session import open_session\n"
        "spark = open_session()\n"
        f"folder = {evidence!r}\n"
        'found = spark.read.parquet(f"{folder}/audit/anomalies")\n'
        'found.groupBy("anomaly", "severity", "rule").count().show(truncate=False)\n'
        'spark.read.parquet(f"{folder}/ledger").where("outcome = \'unknown\'").show()'
    )
    names = join(*_commas([el("code", table.name) for table in TABLES]))
    return join(
        el("h2", "Look further"),
        el(
            "p",
            "Everything this page says is in Parquet tables: ",
            names,
            ", and what the audit found in ",
            el("code", "audit/anomalies"),
            ".",
        ),
        el("pre", code),
    )


def _commas(items: Sequence[Markup]) -> list[Markup | str]:
    spread: list[Markup | str] = []
    for item in items:
        spread += [", ", item] if spread else [item]
    return spread
