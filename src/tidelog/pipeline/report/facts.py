"""The end of the page: what could not be checked, the configuration, the commands for more.

Rules of the file: a value is shown in words. An empty list, a missing value and ``-1`` for acks=all are how
JSON says it, not how a reader does.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidelog.evidence.folder import Manifest
from tidelog.evidence.tables import TABLES
from tidelog.narrate.numbers import moment
from tidelog.pipeline.report.again import command_words
from tidelog.pipeline.report.found import cut, short_cell
from tidelog.pipeline.report.html import Cell, Child, Markup, el, join, table
from tidelog.pipeline.report.lanes import fault_words
from tidelog.pipeline.report.speaker import Speaker
from tidelog.pipeline.report.timeline import FaultSpan, Timeline
from tidelog.scenario.links import LINKED_MAX, lab_link

_SCHEDULE_MAX: Final = 200
_SCHEDULE_OPEN: Final = 12
_FACTS_MAX: Final = 80
_UNJUDGED_MAX: Final = 50


def unjudged_section(verdict: Mapping[str, Any], speaker: Speaker) -> list[Markup]:
    said = verdict.get("not_judged") or verdict.get("unjudged") or ()
    if not said:
        return [el("p", speaker.say("report.all_judged"))]
    told = ((speaker.told([each]), each) for each in said[:_UNJUDGED_MAX])
    return [el("ul", [el("li", cut(each if words is None else words)) for words, each in told])]


# ---------------------------------------------------------------- configuration


def configuration_section(manifest: Manifest, speaker: Speaker) -> list[Markup]:
    say = speaker.say
    facts: dict[str, object] = {
        say("report.stage"): manifest.stage,
        say("report.state"): manifest.state,
        say("report.generation"): manifest.generation,
    }
    for topic in manifest.topics:
        size = {
            "count": int(topic.get("partitions") or 0),
            "replicas": int(topic.get("replication_factor") or 0),
        }
        facts[say("report.topic", topic=str(topic.get("name")))] = say("report.topic_size", **size)
        for name, value in (topic.get("configs") or {}).items():
            facts[f"{topic.get('name')}: {name}"] = value
    for name, value in (manifest.settings.get("workload") or {}).items():
        shown = _acks(value) if name == "acks" else value
        facts[say("report.load_setting", name=str(name))] = shown
    for name, value in manifest.versions.items():
        facts[say("report.version", name=str(name))] = value
    rows = [
        (cut(name), Cell(cut(plain(value, speaker)), "text"))
        for name, value in list(facts.items())[:_FACTS_MAX]
    ]
    return [table((), rows)]


def _acks(value: object) -> object:
    return ["all" if ack == -1 else ack for ack in value] if isinstance(value, list | tuple) else value


def plain(value: object, speaker: Speaker) -> str:
    """A value of the configuration in words."""
    if value is None or value == "":
        return speaker.say("report.default")
    if isinstance(value, bool):
        return speaker.say("report.yes" if value else "report.no")
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        items = [f"{name}={plain(each, speaker)}" for name, each in value.items()]
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        items = [plain(each, speaker) for each in value]
    else:
        return str(value)
    return speaker.listed(items) or speaker.say("report.none")


# ---------------------------------------------------------------- once more


def again_section(
    timeline: Timeline, manifest: Manifest, evidence: str, speaker: Speaker
) -> list[Markup | None]:
    scenario = manifest.settings.get("text")
    if manifest.stage == "sim" and scenario:
        return [
            el("p", speaker.say("report.again_sim")),
            el("pre", "tidelog replay FILE"),
            _lab_link(str(scenario), manifest.generation, speaker),
            el("pre", str(scenario)[:20_000]),
        ]
    foreign = manifest.stage == "foreign"
    return [
        el("p", speaker.say("report.again_foreign" if foreign else "report.again_cluster")),
        el("pre", shlex.join(command_words(manifest, evidence))),
        _schedule(timeline, speaker),
    ]


def _lab_link(scenario: str, generation: str, speaker: Speaker) -> Markup | None:
    if len(scenario) > LINKED_MAX:
        return None
    link = el("a", speaker.say("report.again_lab"), href=lab_link(scenario, generation))
    return el("p", link, " ", el("span", speaker.say("report.again_lab_more"), class_="soft"))


def _lasted(fault: FaultSpan, speaker: Speaker) -> str:
    if fault.from_ms is None:
        return ""
    return speaker.say("report.not_healed") if fault.to_ms is None else moment(fault.to_ms - fault.from_ms)


def _failed(fault: FaultSpan, speaker: Speaker) -> str:
    return fault.error or (speaker.say("report.never_done") if fault.from_ms is None else "")


def _schedule(timeline: Timeline, speaker: Speaker) -> Markup | None:
    if not timeline.faults:
        return None
    shown = timeline.faults[:_SCHEDULE_MAX]
    any_failed = any(_failed(fault, speaker) for fault in shown)
    rows = [
        (
            Cell(fault.number, "n"),
            short_cell(fault_words(fault)),
            Cell("" if fault.from_ms is None else moment(fault.from_ms), "n"),
            Cell(_lasted(fault, speaker), "n"),
            *([Cell(cut(_failed(fault, speaker)), "text")] if any_failed else []),
        )
        for fault in shown
    ]
    at, lasted = speaker.say("report.at"), speaker.say("report.lasted")
    heads: list[Child | Cell] = [Cell("", "n"), speaker.say("report.fault"), Cell(at, "n"), Cell(lasted, "n")]
    more = len(timeline.faults) - len(shown) + timeline.faults_left_out
    count = len(timeline.faults) + timeline.faults_left_out
    return el(
        "details",
        el("summary", speaker.say("report.schedule", count=count)),
        table([*heads, ""] if any_failed else heads, rows),
        el("p", speaker.say("report.more_in_file", count=more)) if more else None,
        id=speaker.anchor("schedule"),
        open_="open" if len(shown) <= _SCHEDULE_OPEN else None,
    )


def further_section(evidence: str, speaker: Speaker) -> list[Markup]:
    code = (
        "from tidelog.pipeline.spark.session import open_session\n"
        "spark = open_session()\n"
        f"folder = {evidence!r}\n"
        'found = spark.read.parquet(f"{folder}/audit/anomalies")\n'
        'found.groupBy("anomaly", "severity", "rule").count().show(truncate=False)\n'
        'spark.read.parquet(f"{folder}/ledger").where("outcome = \'unknown\'").show()'
    )
    tables = speaker.listed([each.name for each in TABLES])
    return [el("p", speaker.say("report.further_note", tables=tables)), el("pre", join(code))]
