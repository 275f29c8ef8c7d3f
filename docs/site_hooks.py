"""What the site has beyond the files of `docs/`: MkDocs calls the `on_…` functions, as mkdocs.yml says.

Pages outside of `docs/` that belong to the documentation become pages of the site (`PROJECT`). Links are
written for a reader of the files; here they are made to fit the site. A link to a source file, which the site
does not have, becomes its text. Where a page says ``<!-- lab: NAME -->`` (or NAME GENERATION),
the story of that name is played, and is there as a picture that can be stepped through; a picture below that
line is for readers of the file only. Below it is a link into the whole lab, with Python in the browser, where
that can be built (npm).

MkDocs is no dependency of the tests that import this: it is loaded when it calls.
"""

from __future__ import annotations

import posixpath
import re
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROJECT = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "examples/README.md": "project/examples.md",
}
"""Files of the repository, and the pages that they become."""
ALSO = {"README.md": "index.md", "README.zh-CN.md": "zh/index.md"}
"""Files of the repository that have a counterpart among the pages."""

PLAYGROUND = "playground"
"""Where the site has the whole lab."""
_OPEN = {
    "en": "Change it, search from it, compare all five generations: open it in the playground",
    "zh": "改写它、从这里搜索、对比全部五代规则：在 playground 里打开",
}

_LAB = re.compile(r"<!-- lab: ([\w-]+)(?: (hw|epoch))? -->\n(?:\n!\[[^\]]*\]\([^)]*\)\n)?")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """The pages from outside, and the stories that pages show."""
    make = import_module("mkdocs.structure.files").File.generated
    for source, target in PROJECT.items():
        files.append(make(config, target, content=(ROOT / source).read_text("utf-8")))
    for name in stories():
        files.append(make(config, f"lab/{name}.html", content=story(name)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    return fitted(markdown, page.file.src_uri, playground=has_playground())


def on_post_build(config: Any) -> None:
    """The whole lab, beside the pages."""
    from tidelog.web.pyodide import python_files
    from tidelog.web.site import write_site

    if has_playground():
        write_site(Path(config["site_dir"]) / PLAYGROUND, python_files())


@cache
def has_playground() -> bool:
    """Whether Python for browsers can be had. Without it, the stories in the pages are recordings only."""
    from tidelog.web.pyodide import NoPyodide, fetched

    try:
        fetched()
    except NoPyodide as reason:
        print(f"the pages have no playground: {reason}", file=sys.stderr)
        return False
    return True


def stories() -> list[str]:
    """The scenarios that pages show."""
    texts = [path.read_text("utf-8") for path in ROOT.glob("docs/**/*.md")]
    return sorted({name for text in texts for name, _ in _LAB.findall(text)})


@cache
def story(name: str) -> str:
    """One scenario of the catalogue as a page of its own."""
    from tidelog.scenario import catalogue
    from tidelog.web.export import page

    return page([catalogue.load(name)])


def fitted(markdown: str, uri: str, *, playground: bool = False) -> str:
    """The text of a page with links and stories as they are on the site."""
    pieces = _FENCE.split(markdown)
    return "".join(piece if piece.startswith("```") else _fitted(piece, uri, playground) for piece in pieces)


def _fitted(text: str, uri: str, playground: bool) -> str:
    text = text.replace("-->\n|", "-->\n\n|")  # a table needs an empty line above it here
    text = _LAB.sub(lambda found: _frame(found[1], found[2] or "hw", uri, playground), text)
    return _LINK.sub(lambda found: _link(found[1], found[2], uri), text)


def _frame(name: str, generation: str, uri: str, playground: bool) -> str:
    address = posixpath.relpath(f"lab/{name}.html", posixpath.dirname(uri) or ".")
    story = f"#/s/{name}?g={generation}"
    frame = f'<iframe class="lab" src="{address}{story}" title="{name}" loading="lazy"></iframe>\n'
    if not playground:
        return frame
    words = _OPEN["zh" if uri.startswith("zh/") else "en"]
    whole = posixpath.relpath(f"{PLAYGROUND}/index.html", posixpath.dirname(uri) or ".")
    return f'{frame}<p class="playground"><a href="{whole}{story}">{words} →</a></p>\n'


def _link(text: str, target: str, uri: str) -> str:
    if re.match(r"[a-z]+:|#", target):
        return f"[{text}]({target})"
    path, _, anchor = target.partition("#")
    at = posixpath.dirname(source_of(uri))
    place = site_place(posixpath.normpath(posixpath.join(at, path)))
    if place is None:
        return text
    address = posixpath.relpath(place, posixpath.dirname(uri) or ".")
    return f"[{text}]({address}{'#' * bool(anchor)}{anchor})"


def source_of(uri: str) -> str:
    """The file of the repository that a page is made of."""
    outside = {target: source for source, target in PROJECT.items()}
    return outside.get(uri, f"docs/{uri}")


def site_place(path: str) -> str | None:
    """Where the site has a file of the repository; None if it does not."""
    if found := PROJECT.get(path) or ALSO.get(path):
        return found
    return path.removeprefix("docs/") if path.startswith("docs/") else None
