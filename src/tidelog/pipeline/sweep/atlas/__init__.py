"""The atlas: one HTML file that needs nothing but a browser.

No font, no picture, no script from elsewhere; readable on a phone, on paper, in the dark, and by those who do
not tell red from green. The little script inside (``page.js``) only chooses among numbers that stand in the
page: without it the maps, the answers and the coverage are still there. ``table.py`` puts counts where a map
wants them, ``maps.py`` draws, ``choosing.py`` recommends settings, ``coverage.py`` says what was reached,
``stories.py`` shows the schedules, ``sections.py`` the rest.

It is pure: the same counts give the same bytes. How it looks is the report's style and a little more.
"""

from __future__ import annotations

from importlib.resources import files

from tidelog._version import __version__
from tidelog.pipeline.report import style
from tidelog.pipeline.report.html import Markup, el, page
from tidelog.pipeline.sweep.atlas import choosing, coverage, maps, sections, stories
from tidelog.pipeline.sweep.atlas.table import AtlasTable
from tidelog.pipeline.sweep.campaign import Atlas

__all__ = ["render"]


def render(atlas: Atlas) -> str:
    table = AtlasTable(atlas)
    ours = files(__package__)
    return page(
        f"{atlas.trials:,} trials · tidelog atlas",
        style() + ours.joinpath("style.css").read_text("utf-8"),
        sections.head_section(table),
        el(
            "main",
            choosing.section(table),
            maps.section(table),
            stories.section(table),
            sections.questions_section(table),
            coverage.section(table),
            sections.left_out_section(table),
            sections.again_section(table),
        ),
        el("footer", f"tidelog {__version__} · made {atlas.made or 'today'} by ", el("code", atlas.command)),
        el("script", choosing.data(table), type="application/json", id="cells"),
        el("script", Markup(ours.joinpath("page.js").read_text("utf-8"))),
    )
