"""The lab without a server: static files, and Python in a worker of the browser that answers the same."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.cli.calling import call, refused
from tests.web.browsing import Opened
from tests.web.firefox import Firefox, firefox
from tests.web.site_server import served_site

from tidelog.core.generations import GENERATIONS
from tidelog.lab.play import run
from tidelog.scenario import catalogue
from tidelog.scenario.links import catalogue_fragment
from tidelog.scenario.scenario import parse
from tidelog.web.bundle import modules
from tidelog.web.play.exploring import explore
from tidelog.web.play.questions import ask

pytestmark = pytest.mark.slow

FEW = ("hw-loss", "kip-966-last-replica-standing", "isolate-leader-zone-acks-all")

ASK = "async (question) => JSON.stringify(await lab.ask(question))"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served_site(tmp_path_factory.mktemp("site")) as url:
        yield url


@pytest.fixture(scope="module")
def alive(browser: Any, site: str) -> Iterator[Opened]:
    """One page for all tests that need Python: loading it takes seconds."""
    opened = Opened(browser, site)
    asked: list[str] = []
    opened.page.on("request", lambda request: asked.append(request.url))
    opened.go()
    opened.until("lab.python.phase === 'ready'", PATIENCE_SECONDS)
    yield opened
    assert [url for url in asked if not url.startswith((site, "data:", f"blob:{site[:16]}"))] == []
    opened.close()


def same_as_here(page: Any, name: str, generation: str) -> bool:
    """Whether the browser gives the same JSON; a play that is too long is refused by both."""
    asked = {"ask": "play", "text": catalogue.text(name), "generation": generation}
    *_, here = ask(json.dumps(asked))
    return bool(json.loads(page.evaluate(ASK, asked)) == json.loads(here))


@pytest.mark.parametrize("name", FEW)
def test_python_in_the_browser_answers_as_here(alive: Opened, name: str) -> None:
    """The same text under the same rules gives the same JSON in the browser and in this process."""
    assert [generation for generation in GENERATIONS if not same_as_here(alive.page, name, generation)] == []


@pytest.mark.long
def test_the_whole_catalogue_is_the_same_in_the_browser(alive: Opened) -> None:
    """Every scenario under every generation."""
    different = [
        f"{name} under {generation}"
        for name in catalogue.names()
        for generation in GENERATIONS
        if not same_as_here(alive.page, name, generation)
    ]
    assert different == []


def same_in_firefox(page: Firefox, name: str, generation: str) -> bool:
    asked = {"ask": "play", "text": catalogue.text(name), "generation": generation}
    *_, here = ask(json.dumps(asked))
    return bool(
        json.loads(page.ask(f"({ASK})(arguments[0]).then(done, (error) => done(String(error)));", asked))
        == json.loads(here)
    )


@pytest.mark.long
def test_firefox_plays_the_whole_catalogue_alike(site: str, tmp_path: Path) -> None:
    """A link shows its step before Python is there; then every scenario gives the same JSON as here."""
    with firefox(tmp_path) as page:
        page.go(site + "#/s/hw-loss?g=hw&step=18")
        page.until("return window.lab?.stage?.step === 18")
        page.until("return lab.python.phase === 'ready'")
        different = [
            f"{name} under {generation}"
            for name in catalogue.names()
            for generation in GENERATIONS
            if not same_in_firefox(page, name, generation)
        ]
    assert different == []


def test_the_first_picture_needs_no_python(browser: Any, site: str) -> None:
    """Where Python cannot be loaded, recorded stories play and compare, and a change says what is missing."""
    opened = Opened(browser, site)
    opened.page.route("**/python/*", lambda route: route.abort())
    page = opened.go("#/s/hw-loss?g=hw&vs=epoch&step=18")
    assert page.locator(".pane").count() == 2
    assert page.evaluate("lab.stage.partsAt") == 18
    opened.until("lab.python.phase === 'failed'")
    assert page.locator(".simulator").inner_text() == "No simulator"
    page.locator("g.broker").first.click()
    page.get_by_text("Crash it").click()
    page.wait_for_selector(".toast.bad")
    assert "The simulator could not be loaded" in page.locator(".toast").inner_text()
    assert page.evaluate("[lab.stage.name, lab.stage.step]") == ["hw-loss", 18]
    opened.complaints = [found for found in opened.complaints if "ERR_FAILED" not in found]
    opened.close()


def test_a_story_is_changed_and_shared_without_a_server(alive: Opened) -> None:
    """A link by name opens its step; a fork plays on; the link to the fork holds it whole."""
    page = alive.page
    share = "import('lab/links.js').then(({ shareLink }) => shareLink(lab.stage))"
    page.evaluate("(link) => lab.open(link)", catalogue_fragment("hw-loss", "hw", 19))
    assert page.evaluate(share) == alive.address + "#/s/hw-loss?g=hw&step=19"
    page.locator("g.broker").nth(0).click()
    page.get_by_text("Wake it up").click()
    page.wait_for_selector(".banner.yours")
    alive.until("lab.stage.step === 20")
    link = page.evaluate(share)
    assert link.startswith(alive.address + "#/p/")
    text = page.evaluate("lab.stage.fileText()")
    lost = page.evaluate("lab.stage.recording.verdict.lost.map((found) => found.value)")
    assert [finding["value"] for finding in run(parse(text)).verdict.lost] == lost
    page.evaluate("(link) => lab.open(link)", link[len(alive.address) :])
    assert page.evaluate("[lab.stage.generation, lab.stage.step]") == ["hw", 20]
    assert page.evaluate("lab.stage.fileText()") == text


def test_other_rules_and_a_bad_text_are_answered(alive: Opened) -> None:
    """Rules that were not recorded are played; a text that is wrong says where."""
    page = alive.page
    page.evaluate("lab.open('#/s/acks-1-loss?g=hw&vs=majority&step=3')")
    assert page.locator(".pane").count() == 2
    page.keyboard.press("f")
    page.fill(".command input", "wait lader 1")
    page.keyboard.press("Enter")
    page.wait_for_selector(".toast.bad")
    assert "did you mean leader?" in page.locator(".toast").inner_text()


def test_a_search_in_the_browser_finds_what_it_finds_here(alive: Opened) -> None:
    """It shows how far it is, shrinks, and ends with the text that it ends with here; the story opens."""
    asked = {"generation": "hw", "schedules": 200, "seed": 70}
    *_, here = explore(asked)
    page = alive.page
    page.evaluate("lab.open('#/explore')")
    page.select_option("select[name=generation]", "hw")
    for name in ("schedules", "seed"):
        page.fill(f"input[name={name}]", str(asked[name]))
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_selector(".explore-found h2")
    assert page.locator(".explore-text").inner_text() == here["found"]["text"]
    assert (
        f"Shrunk from {here['found']['steps_as_found']} steps" in page.locator(".explore-found").inner_text()
    )
    page.get_by_role("link", name="Watch it").click()
    page.wait_for_selector(".stage .scene .broker")
    assert page.evaluate("lab.stage.recording.broken[0].invariant") == here["found"]["invariant"]


def test_a_search_in_the_browser_can_be_stopped(alive: Opened) -> None:
    """A search that would take an hour ends at a click, and the simulator answers the next question."""
    page = alive.page
    page.evaluate("lab.open('#/explore')")
    page.select_option("select[name=generation]", "epoch")
    page.fill("input[name=schedules]", "100000")
    page.get_by_role("button", name="Search", exact=True).click()
    alive.until(r"/^[1-9]\d* of 100000/.test(document.querySelector('.explore-said').textContent)")
    page.get_by_role("button", name="Stop").click()
    page.wait_for_selector(".explore-found .banner")
    assert "Stopped after" in page.locator(".explore-said").inner_text()
    assert same_as_here(page, "acks-1-loss", "majority")


def test_the_browser_gets_what_it_needs_only() -> None:
    """The zip holds the simulator, and neither brokers nor servers."""
    found = modules()
    assert {"tidelog.web.play.questions", "tidelog.lab.world.world", "tidelog.core.generations.elr"} <= found
    assert not [
        name for name in found if name.startswith(("tidelog.broker", "tidelog.cluster", "tidelog.cli"))
    ]


def test_without_npm_the_build_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No npm and nothing fetched before: one line, exit code 2."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refused(call("lab", "--site", tmp_path / "site")).startswith("npm not found: install Node.js")
    assert refused(call("lab", "hw-loss", "--site", tmp_path)).startswith("--site takes the whole catalogue")
