"""The page with recordings in one file that works without a server, from a disk or any web space.

The same modules as everywhere: each becomes a ``data:`` URL in the import map, which is why they import each
other by bare names (``lab/scene.js``). Recordings are deflated and put into a script element of data. What
needs the simulator, forks and edits, says there what to run instead.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from tidelog.lab.compare import Comparison
from tidelog.scenario import catalogue
from tidelog.scenario.scenario import Scenario
from tidelog.web.catalogue import shelf, static, words
from tidelog.web.play.recording import record

GENERATIONS = ("hw", "epoch")
"""What is recorded of each scenario, unless more is asked for: the rules that lose records, and today's."""

_IMPORT_MAP = re.compile(r"<script type=\"importmap\">.*?</script>", re.DOTALL)
_STYLE = re.compile(r"<link rel=\"stylesheet\"[^>]*>")
_PRELOAD = re.compile(r"\s*<link rel=\"modulepreload\"[^>]*>")
_PLAIN_IN_URL = " !$&'()*+,-./:;=>?@[]^_`{|}~"
_ENTRY = '<script type="module" src="/static/main.js"></script>'
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:; "
    "connect-src data:; base-uri 'none'; form-action 'none'"
)


def page(scenarios: Sequence[Scenario], generations: Sequence[str] = GENERATIONS) -> str:
    """The whole page as HTML, with these scenarios under these generations. Raises ``PlayTooLong``."""
    html = (static() / "index.html").read_text("utf-8")
    style = (static() / "style.css").read_text("utf-8")
    data = base64.b64encode(_deflated(_contents(scenarios, generations))).decode()
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    html = _PRELOAD.sub("", html)
    html = _STYLE.sub(lambda found: f"{policy}\n<style>\n{style}</style>", html)
    html = _IMPORT_MAP.sub(lambda found: _import_map(), html)
    entry = f'<script type="application/octet-stream" id="recordings">{data}</script>\n'
    return html.replace(_ENTRY, entry + '<script type="module">import "lab/main.js";</script>')


def whole_catalogue() -> list[Scenario]:
    return [catalogue.load(name) for name in catalogue.names()]


def _import_map() -> str:
    """Every module of the page, and the JSON files as modules that export what they hold."""
    modules = {}
    for file in sorted(static().iterdir(), key=lambda found: found.name):
        if file.name.endswith(".js"):
            modules[f"lab/{file.name}"] = _data_url(file.read_text("utf-8"))
    return f'<script type="importmap">{json.dumps({"imports": modules})}</script>'


def _data_url(script: str) -> str:
    """Most of a script is put as it is: base64 would make all of it longer by a third."""
    return "data:text/javascript;charset=utf-8," + quote(script, safe=_PLAIN_IN_URL)


def _contents(scenarios: Sequence[Scenario], generations: Sequence[str]) -> dict[str, Any]:
    plays, parts = {}, {}
    for scenario in scenarios:
        runs = []
        for generation in generations:
            run, recording = record(scenario.under(generation))
            runs.append(run)
            plays[f"{scenario.name}/{generation}"] = recording
        parts[scenario.name] = Comparison(list(generations), runs).parts_at
    return {
        "shelf": _shelf_of(scenarios),
        "generations": list(generations),
        "plays": plays,
        "parts": parts,
        "words": words(),
    }


def _shelf_of(scenarios: Sequence[Scenario]) -> dict[str, Any]:
    """The catalogue without what is not in the file; a scenario of one's own has a group of its own."""
    wanted = {scenario.name: scenario for scenario in scenarios}
    whole = shelf()
    groups = []
    for group in whole["groups"]:
        cards = [card for card in group["scenarios"] if wanted.pop(card["name"], None) is not None]
        if cards:
            groups.append({"title": group["title"], "scenarios": cards})
    if wanted:
        cards = [
            {"name": s.name, "title": s.title, "lead": "", "source": s.source, "expect": {}}
            for s in wanted.values()
        ]
        groups.append({"title": "More", "scenarios": cards})
    return {**whole, "groups": groups}


def _deflated(contents: dict[str, Any]) -> bytes:
    text = json.dumps(contents, ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode(), level=9, wbits=-15)
