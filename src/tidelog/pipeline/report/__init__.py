"""The report: one HTML file that needs nothing but a browser.

No script, no font, no picture from elsewhere; readable on a phone, on paper, in the dark. It holds itself in
English and in Chinese; a switch of the style sheet shows one of them. ``html.py`` makes markup and escapes
everything else; ``scale.py`` writes numbers and axes; ``charts.py`` is the frame of every chart,
``series.py``, ``lanes.py`` and ``offsets.py`` what is drawn in it; ``findings.py`` reads the verdict and
``words.py`` puts it in a sentence; ``speaker.py`` says words by key and makes links within the page;
``sections.py``, ``found.py`` and ``facts.py`` are the parts of the page, ``style.css`` how it looks, with the
colours and fonts of the lab.

It is pure: the same verdict and timeline give the same bytes. Its size has a bound, because theirs has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from tidelog._version import __version__
from tidelog.evidence.folder import Manifest
from tidelog.narrate.phrasebook import LANGUAGES, phrasebook
from tidelog.pipeline.report import facts, found, sections
from tidelog.pipeline.report.html import Children, Markup, el, input_, page
from tidelog.pipeline.report.speaker import HTML_LANGUAGES, Links, Speaker
from tidelog.pipeline.report.timeline import Timeline
from tidelog.pipeline.report.words import headline

__all__ = ["in_languages", "render", "style"]

_NAMES = {"en": "English", "zh": "中文"}


def style() -> str:
    """Colours and fonts as on the lab's page, which has them in a file of its own, and the report's own."""
    tokens = files("tidelog.web").joinpath("static", "tokens.css").read_text("utf-8")
    return tokens + files(__package__).joinpath("style.css").read_text("utf-8")


def render(
    verdict: Mapping[str, Any], timeline: Timeline, manifest: Manifest, evidence: str = "EVIDENCE"
) -> str:
    """`verdict` is the content of `verdict.json`; `evidence` the folder as the reader would type it."""
    english = Speaker(phrasebook("en"))
    title = english.say("report.page_title", headline=headline(verdict, manifest).text)
    return in_languages(title, lambda speaker: _in_language(verdict, timeline, manifest, evidence, speaker))


def in_languages(title: str, draw: Callable[[Speaker], Sequence[Children]]) -> str:
    """A page that holds itself once for each language, and a switch."""
    speakers = [Speaker(phrasebook(name)) for name in LANGUAGES]
    return page(
        title,
        style(),
        [
            input_(type="radio", name="language", id=name, checked="checked" if name == "en" else None)
            for name in LANGUAGES
        ],
        _bar(),
        [
            el(
                "div",
                *draw(each),
                class_=f"page {each.book.language}",
                lang=HTML_LANGUAGES[each.book.language],
            )
            for each in speakers
        ],
    )


def _bar() -> Markup:
    """The switch: labels of the inputs before it, which a style sheet can ask what is chosen."""
    labels = [el("label", _NAMES[name], for_=name, lang=HTML_LANGUAGES[name]) for name in LANGUAGES]
    brand = el("span", el("span", class_="mark-t", aria_hidden="true"), "tidelog", class_="brand")
    return el("div", brand, el("span", labels, class_="languages"), id="bar")


def _in_language(
    verdict: Mapping[str, Any], timeline: Timeline, manifest: Manifest, evidence: str, speaker: Speaker
) -> list[Markup]:
    charts = sections.timeline_charts(timeline, manifest, speaker)
    links = Links(speaker, timeline, manifest.load_started_us, drawn=bool(charts))
    parts: dict[str, Children] = {
        "report.broke": found.broken_section(verdict, links),
        "report.notices": found.notices_section(verdict, links),
        "report.happened": sections.timeline_section(charts, links),
        "report.logs": sections.offsets_section(timeline, speaker),
        "report.unjudged": facts.unjudged_section(verdict, speaker),
        "report.configuration": facts.configuration_section(manifest, speaker),
        "report.again": facts.again_section(timeline, manifest, evidence, speaker),
        "report.further": facts.further_section(evidence, speaker),
    }
    there = {key: part for key, part in parts.items() if part}
    places = {key: speaker.anchor(key.removeprefix("report.")) for key in there}
    contents = [el("li", el("a", speaker.say(key), href=f"#{place}")) for key, place in places.items()]
    return [
        sections.verdict_section(verdict, timeline, manifest, speaker),
        el("nav", el("b", speaker.say("report.contents")), el("ol", contents), class_="contents"),
        el(
            "main",
            [el("section", el("h2", speaker.say(key)), part, id=places[key]) for key, part in there.items()],
        ),
        el("footer", f"tidelog {__version__} · ", speaker.say("report.evidence_in"), el("code", evidence)),
    ]
