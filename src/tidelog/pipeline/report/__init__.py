"""The report: one HTML file that needs nothing but a browser.

No script, no font, no picture from elsewhere; readable on a phone, on paper, in the dark. ``html.py`` makes
markup and escapes everything else; ``scale.py`` writes numbers and axes; ``charts.py`` is the frame of every
chart, ``series.py``, ``lanes.py`` and ``offsets.py`` what is drawn in it; ``findings.py`` reads the verdict
and ``words.py`` puts it in a sentence; ``sections.py`` are the parts of the page, ``style.css`` how it looks.

It is pure: the same verdict and timeline give the same bytes. Its size has a bound, because theirs has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from tidelog._version import __version__
from tidelog.evidence.folder import Manifest
from tidelog.pipeline.report import sections
from tidelog.pipeline.report.html import el, page
from tidelog.pipeline.report.timeline import Timeline
from tidelog.pipeline.report.words import headline

__all__ = ["render"]


def render(
    verdict: Mapping[str, Any], timeline: Timeline, manifest: Manifest, evidence: str = "EVIDENCE"
) -> str:
    """`verdict` is the content of `verdict.json`; `evidence` the folder as the reader would type it."""
    return page(
        f"{headline(verdict, manifest).text} · tidelog",
        files(__package__).joinpath("style.css").read_text("utf-8"),
        sections.verdict_section(verdict, timeline, manifest),
        el(
            "main",
            sections.findings_section(verdict),
            sections.timeline_section(verdict, timeline, manifest),
            sections.offsets_section(timeline),
            sections.unjudged_section(verdict),
            sections.configuration_section(manifest),
            sections.again_section(timeline, manifest, evidence),
            sections.further_section(evidence),
        ),
        el("footer", f"tidelog {__version__} · evidence in ", el("code", evidence)),
    )
