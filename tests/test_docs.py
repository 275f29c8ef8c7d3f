"""The documentation hangs together: every page can be reached, every link leads somewhere, the site can be
built of it, and the pages that are made from the code are current."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from bench.processes import PATIENCE_SECONDS
from docs.site_hooks import PROJECT, fitted, stories
from tests.web.site_server import needs_pyodide

from tidelog._version import __version__
from tidelog.core.generations import GENERATIONS
from tidelog.scenario import catalogue

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OTHERS = [ROOT / name for name in (*PROJECT, "README.md", "README.zh-CN.md")]
README_LINES_MAX = 120

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text("utf-8"))


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Path and anchor of each link to a file of the repository."""
    for target in _LINK.findall(_CODE.sub("", prose(page))):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield path, anchor


def anchors(page: Path) -> set[str]:
    """Those of its headings, as code hosts and the site make them."""
    found = set()
    for heading in _HEADING.findall(prose(page)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-"))
    return found


def shown(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=shown)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(f"{path}#{anchor}")
    assert broken == []


def test_every_page_can_be_reached() -> None:
    """From the index, or from that of its language; and by the navigation of the site."""
    reached = {DOCS / "index.md"}
    for index in (DOCS / "index.md", DOCS / "zh/index.md"):
        reached |= {(index.parent / path).resolve() for path, _ in links(index)}
    assert [shown(page) for page in PAGES if page not in reached] == []
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    named = re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(named) == sorted([*(str(page.relative_to(DOCS)) for page in PAGES), *PROJECT.values()])


def test_the_readme_is_short_and_has_a_picture_first() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= README_LINES_MAX
    assert any(line.startswith("![") for line in lines[:12])


def test_the_readme_shows_a_test_of_the_guide() -> None:
    """The guide's examples are run (tests/testing/test_guide.py)."""
    [example] = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    assert example in (DOCS / "guide/testing.md").read_text("utf-8")


@pytest.mark.parametrize("name", ["cluster", "testing"])
def test_the_python_of_a_chinese_page_is_that_of_the_guide(name: str) -> None:
    """The guide's is run; comments may differ."""
    examples = [
        re.findall(r"^```python\n(.*?)^```", (DOCS / folder / f"{name}.md").read_text("utf-8"), re.M | re.S)
        for folder in ("zh", "guide")
    ]
    chinese, english = (re.sub(r"  # .*", "", "".join(found)) for found in examples)
    assert len(examples[0]) == 2
    assert [line for line in chinese.splitlines() if line not in english.splitlines()] == []


@pytest.mark.parametrize("page", [ROOT / "README.zh-CN.md", *sorted(DOCS.glob("zh/*.md"))], ids=shown)
def test_chinese_has_spaces_around_latin_words_and_the_words_of_its_readers(page: str | Path) -> None:
    text = prose(Path(page))
    close = r"[\u4e00-\u9fff][0-9A-Za-z`]|[0-9A-Za-z`][\u4e00-\u9fff]"
    assert re.findall(close, text) == []
    assert re.findall("死|冻|人人", text) == []


@pytest.mark.parametrize("name", ["api", "commands"])
def test_a_page_made_from_the_code_is_current(name: str) -> None:
    made = runpy.run_path(str(DOCS / f"reference/make_{name}.py"))["page"]()
    assert (DOCS / f"reference/{name}.md").read_text("utf-8") == made, "run: make reference"


def test_the_page_of_generations_has_all_of_them() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "reference/generations.md").read_text("utf-8"), re.M)
    assert rows == list(GENERATIONS)


def test_a_page_is_made_to_fit_the_site() -> None:
    """Links to pages stay links, in any folder; those to sources become text; code is left alone."""
    text = "[a](lab.md#x) [b](../../CONTRIBUTING.md) [c](../../tests/t.py)\n```\n[d](../../tests/t.py)\n```\n"
    assert fitted(text, "guide/page.md") == (
        "[a](lab.md#x) [b](../project/contributing.md) c\n```\n[d](../../tests/t.py)\n```\n"
    )
    assert fitted("[a](docs/index.md)", "project/contributing.md") == "[a](../index.md)"
    framed = fitted("<!-- lab: hw-loss -->\n\n![x](../images/x.png)\n\nMore.\n", "guide/page.md")
    assert 'src="../lab/hw-loss.html#/s/hw-loss?g=hw"' in framed
    assert "images" not in framed
    assert "More." in framed
    assert "playground" not in framed
    linked = fitted("<!-- lab: hw-loss -->\n", "zh/page.md", playground=True)
    assert '<a href="../playground/index.html#/s/hw-loss?g=hw">改写它' in linked


def test_the_stories_in_the_pages_are_in_the_catalogue() -> None:
    assert len(stories()) >= 3
    assert set(stories()) <= set(catalogue.names())


def test_the_changelog_has_this_version() -> None:
    """Each released version has a section; what is not released is on top."""
    sections = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert sections[0] == "Unreleased"
    released = [section.split(" ")[0] for section in sections[1:] if section[0].isdigit()]
    tags = subprocess.run(["git", "tag"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert {tag.removeprefix("v") for tag in tags.split() if tag.startswith("v")} <= {*released}
    assert not released or released[0] == __version__


def test_the_workflow_runs_what_a_clone_can_run() -> None:
    """No step of it is a check of its own: `.ci/run` and targets of make."""
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    runs = re.findall(r"- run: (.*)$", workflow, re.M)
    assert ".ci/run" in runs
    assert [run for run in runs if run != ".ci/run" and run.removeprefix("make ") not in targets] == []
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_the_hooks_before_a_commit_are_those_of_make_lint() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    lint = (ROOT / "Makefile").read_text("utf-8").partition("\nlint:")[2].partition("\n\n")[0]
    tools = set(re.findall(r"\$\(BIN\)/([\w-]+)", lint))
    assert len(tools) >= 3
    assert set(re.findall(r"entry: \.venv/bin/([\w-]+)", hooks)) == tools
    assert re.findall(r"repo: (.*)", hooks) == ["local"]


class Loads(HTMLParser):
    """What a page makes a browser load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given: dict[str, Any] = dict(attrs)
        if tag != "a" and not (tag == "link" and given.get("rel") in ("canonical", "prev", "next")):
            self.found += [
                given[key] for key in ("src", "href", "srcset", "data", "poster") if given.get(key)
            ]


@pytest.mark.long
def test_the_site_is_built_and_needs_no_other_host(tmp_path: Path) -> None:
    """Nothing in it is loaded from elsewhere, and no page uses what the theme would fetch (Mermaid)."""
    if find_spec("mkdocs") is None:
        pytest.skip("MkDocs is not installed: make docs")
    site = tmp_path / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(build, cwd=ROOT, env=environment, check=True, timeout=PATIENCE_SECONDS)
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        text = page.read_text("utf-8")
        reader = Loads()
        reader.feed(text)
        assert [url for url in reader.found if re.match(r"(https?:)?//", url)] == [], page
        assert 'class="mermaid"' not in text
    for sheet in site.rglob("*.css"):
        loaded = re.findall(r"(?:url\(|@import )['\"]?(https?://[^)'\"]*)", sheet.read_text("utf-8"))
        assert loaded == [], sheet
    assert (site / "search/search_index.json").stat().st_size > 100_000
    assert (site / "lab/hw-loss.html").stat().st_size > 100_000
    needs_pyodide()
    assert (site / "playground/python/tidelog.zip.bin").exists()
    assert 'href="playground/index.html#/s/hw-loss?g=hw"' in (site / "index.html").read_text("utf-8")
