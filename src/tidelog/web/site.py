"""The lab as a folder of files for any web server that can do nothing but serve files.

The same page as everywhere, recordings for the first picture, and Python, which the page loads when that is
drawn. Addresses are relative: the folder may be put anywhere. Nothing is asked of another host.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tidelog.web.catalogue import static
from tidelog.web.export import (
    GENERATIONS,
    contents,
    deflated,
    policy_element,
    python_element,
    whole_catalogue,
)
from tidelog.web.policy import content_security_policy
from tidelog.web.pyodide import NOTICE

_STYLE = '<link rel="stylesheet"'
_ENTRY = '<script type="module" src='
RECORDINGS = "recordings.bin"


def write_site(folder: Path, python: Mapping[str, bytes]) -> int:
    """Write the files, over older ones, and return how many bytes they have. Raises ``OSError``."""
    made = {
        "index.html": _index(python).encode(),
        RECORDINGS: deflated(contents(whole_catalogue(), GENERATIONS)),
    }
    for file in static().iterdir():
        if file.name.endswith((".js", ".css")):
            made[f"static/{file.name}"] = file.read_bytes()
    for name, content in python.items():
        made[_address(name)] = content
    made["python/NOTICE.txt"] = NOTICE.encode()
    for name, content in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return sum(map(len, made.values()))


def _index(python: Mapping[str, bytes]) -> str:
    html = (static() / "index.html").read_text("utf-8")
    policy = policy_element(content_security_policy(html, python=True))
    files = {name: (_address(name), len(content)) for name, content in python.items()}
    recordings = f'<script type="application/octet-stream" id="recordings" data-src="{RECORDINGS}"></script>'
    html = html.replace(_STYLE, f"{policy}\n{_STYLE}", 1)
    return html.replace(_ENTRY, f"{recordings}\n{python_element(files)}\n{_ENTRY}", 1)


def _address(name: str) -> str:
    return f"python/{name}.bin"
