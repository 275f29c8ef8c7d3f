"""The page with recordings in one file that works without a server, from a disk or any web space.

The same modules as everywhere: each becomes a ``data:`` URL in the import map, which is why they import each
other by bare names (``lab/scene.js``). Recordings are deflated and put into a script element of data, and so,
if wanted, is Python for browsers: then stories can be changed there, too. Without it, what needs the
simulator says what to run instead.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any
from urllib.parse import quote

from tidelog.lab.compare import Comparison
from tidelog.scenario import catalogue
from tidelog.scenario.scenario import Scenario, print_scenario
from tidelog.web.catalogue import shelf, static, words
from tidelog.web.play.recording import record

GENERATIONS = ("hw", "epoch")
"""What is recorded of each scenario, unless more is asked for: the rules that lose records, and today's."""

_IMPORT_MAP = re.compile(r"<script type=\"importmap\">.*?</script>", re.DOTALL)
_STYLE = re.compile(r"(?:\s*<link rel=\"stylesheet\"[^>]*>)+")
_COMMENTS = re.compile(r"^ *//.*\n", re.MULTILINE)
_PRELOAD = re.compile(r"\s*<link rel=\"modulepreload\"[^>]*>")
_PLAIN_IN_URL = " !$&'()*+,-./:;=>?@[]^_`{|}~"
_ENTRY = '<script type="module" src="./static/main.js"></script>'
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:{more}; style-src 'unsafe-inline'; img-src data:; "
    "connect-src data:; worker-src data:; base-uri 'none'; form-action 'none'"
)
_FOR_PYTHON = " blob: 'wasm-unsafe-eval'"
"""What a worker needs to run Python that came as data."""


def page(
    scenarios: Sequence[Scenario],
    generations: Sequence[str] = GENERATIONS,
    python: Mapping[str, bytes] | None = None,
) -> str:
    """The whole page as HTML, with these scenarios under these generations, and the files of a Python for
    browsers (``web.pyodide``), if there are any. Raises ``PlayTooLong``."""
    html = (static() / "index.html").read_text("utf-8")
    style = "".join((static() / name).read_text("utf-8") for name in ("tokens.css", "style.css"))
    data = base64.b64encode(deflated(contents(scenarios, generations))).decode()
    policy = policy_element(_POLICY.format(more=_FOR_PYTHON if python else ""))
    html = _PRELOAD.sub("", html)
    html = _STYLE.sub(lambda found: f"\n{policy}\n<style>\n{style}</style>", html)
    html = _IMPORT_MAP.sub(lambda found: _import_map(), html)
    parts = [f'<script type="application/octet-stream" id="recordings">{data}</script>']
    parts += (
        [python_element({name: (_as_data(content), len(content)) for name, content in python.items()})]
        if python
        else []
    )
    parts += ['<script type="module">import "lab/main.js";</script>']
    return html.replace(_ENTRY, "\n".join(parts))


def policy_element(policy: str) -> str:
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">'


def python_element(files: Mapping[str, tuple[str, int]]) -> str:
    """Where the page finds Python: of each file its address and how many bytes will come from there."""
    listed = {name: {"url": url, "bytes": size} for name, (url, size) in files.items()}
    return f'<script type="application/json" id="python">{json.dumps(listed)}</script>'


def _as_data(content: bytes) -> str:
    return "data:application/octet-stream;base64," + base64.b64encode(content).decode()


def whole_catalogue() -> list[Scenario]:
    return [catalogue.load(name) for name in catalogue.names()]


def _import_map() -> str:
    """Every module of the page. Lines that are comments stay at home."""
    modules = {}
    for file in sorted(static().iterdir(), key=lambda found: found.name):
        if file.name.endswith(".js"):
            modules[f"lab/{file.name}"] = _data_url(_COMMENTS.sub("", file.read_text("utf-8")))
    return f'<script type="importmap">{json.dumps({"imports": modules})}</script>'


def _data_url(script: str) -> str:
    """Most of a script is put as it is: base64 would make all of it longer by a third."""
    return "data:text/javascript;charset=utf-8," + quote(script, safe=_PLAIN_IN_URL)


def contents(scenarios: Sequence[Scenario], generations: Sequence[str]) -> dict[str, Any]:
    """Everything that the page shows without a simulator."""
    plays, parts = {}, {}
    for scenario in scenarios:
        runs = {}
        for generation in generations:
            runs[generation], plays[f"{scenario.name}/{generation}"] = record(scenario.under(generation))
        for pair in combinations(generations, 2):
            compared = Comparison(list(pair), [runs[generation] for generation in pair])
            parts["/".join((scenario.name, *pair))] = compared.parts_at
    return {
        "shelf": _shelf_of(scenarios),
        "generations": list(generations),
        "texts": {scenario.name: print_scenario(scenario) for scenario in scenarios},
        "rules": {scenario.name: scenario.setup.generation for scenario in scenarios},
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


def deflated(found: dict[str, Any]) -> bytes:
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode(), level=9, wbits=-15)
