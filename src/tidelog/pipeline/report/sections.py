"""The parts of the page about the trial as a whole: the verdict at its top, the timeline, the logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidelog.evidence.folder import Manifest
from tidelog.narrate.numbers import moment, number
from tidelog.pipeline.report import series
from tidelog.pipeline.report.findings import Totals, totals
from tidelog.pipeline.report.found import cut
from tidelog.pipeline.report.html import Markup, el, join, numbers
from tidelog.pipeline.report.lanes import fault_bands, fault_lanes, partition_lanes
from tidelog.pipeline.report.offsets import offset_chart, replica_table
from tidelog.pipeline.report.speaker import Links, Speaker
from tidelog.pipeline.report.timeline import OFFSETS_MAX, Timeline
from tidelog.pipeline.report.words import HELD, UNSAID, VIOLATED, headline, load_ms, settings_words

Verdict = Mapping[str, Any]

_WORDS: Final = {HELD: "report.held", VIOLATED: "report.violated", UNSAID: "report.unsaid"}
_STAGES: Final = {
    "sim": "report.audit_of_sim",
    "cluster": "report.audit_of_cluster",
    "foreign": "report.audit_of_foreign",
}


# ---------------------------------------------------------------- the verdict


def verdict_section(verdict: Verdict, timeline: Timeline, manifest: Manifest, speaker: Speaker) -> Markup:
    said = headline(verdict, manifest, speaker.book)
    stage = speaker.say(_STAGES.get(manifest.stage, "report.audit_of_other"), stage=cut(manifest.stage))
    settings = settings_words(manifest, speaker.book)
    return join(
        el(
            "header",
            el("p", stage, class_="eyebrow"),
            el(
                "div",
                el("p", speaker.say(_WORDS[said.state]), class_="word"),
                el("h1", said.text),
                el("p", said.more),
                class_=f"verdict {said.state}",
            ),
            el("ul", [el("li", cut(word)) for word in settings], class_="settings"),
        ),
        _numbers(totals(verdict), timeline, manifest, speaker),
    )


def _numbers(counts: Totals, timeline: Timeline, manifest: Manifest, speaker: Speaker) -> Markup:
    say = speaker.say
    windows = [
        (window.to_ms - window.from_ms, f"{story.topic}-{story.partition}")
        for story in timeline.partitions
        for window in story.unavailable
    ]
    facts: list[tuple[str, str, str]] = [
        (
            say("report.acknowledged"),
            number(counts.promised),
            say("report.of_sends", count=counts.sends),
        ),
        (say("report.unknown"), number(counts.unknown), say("report.unknown_more")),
        (say("report.failed"), number(counts.failed), say("report.failed_more")),
        (say("report.read"), number(counts.reads), say("report.read_more")),
    ]
    if counts.faults:
        done = sum(counts.faults.values())
        lasted = say("report.faults_more", duration=moment(load_ms(manifest)))
        facts.append((say("report.faults"), number(done), lasted))
    if windows:
        longest, where = max(windows)
        facts.append(
            (say("report.longest_outage"), moment(longest), say("report.outage_more", partition=cut(where)))
        )
    return numbers((name, value or "–", more) for name, value, more in facts)


# ---------------------------------------------------------------- what happened


def timeline_charts(timeline: Timeline, manifest: Manifest, speaker: Speaker) -> list[Markup]:
    bands = fault_bands(timeline)
    charts = [
        fault_lanes(timeline, manifest.brokers, speaker),
        partition_lanes(timeline, _replication(manifest), speaker),
        series.trouble(timeline, bands, speaker),
        series.throughput(timeline, bands, speaker),
        series.latency(timeline, bands, speaker),
        series.reads(timeline, bands, speaker),
    ]
    return [chart for chart in charts if chart is not None]


def timeline_section(charts: list[Markup], links: Links) -> list[Markup]:
    """The charts, and over them the moments that findings link to."""
    if not charts:
        return []
    speaker, timeline = links.speaker, links.timeline
    notes = [speaker.say("report.from_load")]
    if timeline.load_ms:
        notes.append(speaker.say("report.load_end", at=moment(timeline.load_ms)))
    if fault_bands(timeline):
        notes.append(speaker.say("report.bands"))
    if timeline.faults_left_out:
        notes.append(speaker.say("report.faults_left_out", count=timeline.faults_left_out))
    note = el("p", speaker.sentences(*notes), class_="soft")
    return [note, el("div", charts, links.markers(), class_="charts")]


def _replication(manifest: Manifest) -> dict[str, tuple[int, int]]:
    return {
        str(topic.get("name")): (
            int(topic.get("replication_factor") or 0),
            int((topic.get("configs") or {}).get("min.insync.replicas", 1)),
        )
        for topic in manifest.topics
    }


def offsets_section(timeline: Timeline, speaker: Speaker) -> list[Markup | None]:
    bands = fault_bands(timeline)
    stories = timeline.partitions
    charts = [offset_chart(story, timeline.span_ms, bands, speaker) for story in stories[:OFFSETS_MAX]]
    drawn = [chart for chart in charts if chart is not None]
    table = replica_table(stories, speaker)
    if not drawn and table is None:
        return []
    left_out = timeline.partitions_left_out + len(stories) - len(drawn)
    note = speaker.sentences(
        speaker.say("report.logs_note"), speaker.say("report.not_drawn", count=left_out) if left_out else ""
    )
    ends = join(el("h3", speaker.say("report.replica_ends")), table) if table is not None else None
    return [el("p", note, class_="soft") if drawn else None, *drawn, ends]
