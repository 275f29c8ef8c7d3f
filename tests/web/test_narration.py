"""The page tells what happens in this play: after a change, and under rules that the author left out."""

import re
from typing import Any

import pytest
from tests.web.browsing import Opened

from tidelog.lab.play import run
from tidelog.scenario import catalogue

GENERATIONS = ("hw", "kip101", "epoch", "elr", "majority")
DISAPPEARS = "disappears from every replica"


def test_a_title_belongs_to_generations_that_end_alike() -> None:
    """Either all generations that a title is true of lose a record, or none does: no title of a loss is shown
    where every promise is held."""
    for name in catalogue.names():
        scenario = catalogue.load(name)
        titled = [scenario.under(generation) for generation in GENERATIONS]
        ends = {g.setup.generation: bool(run(g).verdict.lost) for g in titled if g.title_holds}
        assert len(set(ends.values())) == 1, f"{name}: {ends}"


def shown(page: Any) -> str:
    return page.inner_text("h1") + " " + " ".join(page.locator(".narration").all_inner_texts())


@pytest.mark.slow
def test_under_other_rules_the_title_is_what_happens_there(opened: Opened) -> None:
    page = opened.go("#/s/hw-loss?g=hw")
    assert DISAPPEARS in page.inner_text("h1")
    page.evaluate("lab.open('#/s/hw-loss?g=epoch')")
    assert page.inner_text("h1") == "Under epoch every promise is held"
    page.evaluate("lab.open('#/s/hw-loss?g=epoch&vs=hw')")
    assert page.inner_text("h1").endswith(f"{DISAPPEARS} (hw)")
    # The author of kafka-14140 says nothing about hw: each step is narrated from its events.
    page.evaluate("lab.open('#/s/kafka-14140-rebooted-replica?g=hw&step=2')")
    assert page.locator(".narration:not(.computed)").count() == 0
    assert page.locator(".narration.computed").count() == 1


@pytest.mark.slow
def test_after_a_fork_nothing_of_the_former_story_is_shown_that_it_made_untrue(opened: Opened) -> None:
    """The narration before the change stays; from it on each step is narrated from its events."""
    page = opened.go("#/s/hw-loss?g=hw&step=15")
    page.evaluate("lab.stage.act(['resume 0'])")
    opened.until("lab.stage.draft.name === 'hw-loss-mine'")
    page.evaluate("lab.stage.jump(7)")
    assert "That fetch reaches the leader" in shown(page)
    for step in range(16, page.evaluate("lab.stage.last") + 1):
        page.evaluate(f"lab.stage.jump({step})")
        assert "From here on the story is changed." in shown(page)
        assert "c is gone there" not in shown(page)
        assert page.locator(".narration.computed").count() == 1
    assert DISAPPEARS not in page.content()
    assert page.inner_text("h1") == "Under hw every promise is held"
    assert page.locator(".verdict.good").count() == 1


@pytest.mark.slow
def test_an_edited_text_keeps_only_what_its_editor_wrote(opened: Opened) -> None:
    page = opened.go("#/s/hw-loss?g=hw")
    page.keyboard.press("e")
    text = page.input_value("dialog textarea")
    assert text.count("\n# ") > 10
    changed = text.replace("az1 acks=all", "az1 acks=1").replace(
        "# c is sent.", "# My words.\nadvance 1s\n# c is sent."
    )
    page.fill("dialog textarea", changed)
    page.click("dialog .button.primary")
    opened.until("!document.querySelector('dialog')")
    kept = [
        line
        for line in page.evaluate("lab.stage.text").splitlines()
        if line.startswith(("#", "title", "expect"))
    ]
    assert kept == ["# From here on the story is changed.", "# My words."]


@pytest.mark.slow
def test_a_time_out_is_expected_only_under_rules_that_are_shown(browser: Any, address: str) -> None:
    """`wait leader 1 times-out majority` says so beside majority, not beside hw and epoch."""
    opened = Opened(browser, address)
    now = "document.querySelector('.deeds .now span').textContent"
    page = opened.go("#/s/hw-loss?g=hw&vs=epoch&step=21")
    assert page.evaluate(now) == "Time passes until the keeper has broker 1 as the leader."
    page.evaluate("lab.open('#/s/hw-loss?g=hw&vs=majority&step=21')")
    assert page.evaluate(now).endswith("as the leader (expected to time out under majority).")
    opened.close()


@pytest.mark.slow
def test_chinese_has_no_space_beside_its_own_punctuation(browser: Any, address: str) -> None:
    """A template leaves a space for a field; a field that ends with a bracket of full width needs none."""
    opened = Opened(browser, address, locale="zh-CN")
    page = opened.go("#/s/hw-loss?g=hw&step=21")
    said = page.locator(".happened").inner_text()
    assert "由 OnlinePartition（在线）变为 OfflinePartition（离线）" in said
    assert not re.search(r"[，。；：、（）] | [，。；：、（）]", said)
    opened.close()


SILENT = """
async () => {
  const { accountOf } = await import("lab/account.js");
  const play = lab.stage.plays[0];
  const shown = (scene) => JSON.stringify(Object.entries(scene)
    .filter(([key]) => key.startsWith("log/")).map(([key, log]) => [key, log.leo, log.hw]));
  return play.recording.steps.map((_, at) => at).filter((at) => at > 0
    && accountOf(play, at) === "Nothing changes that a log or a client would show."
    && shown(play.scene(at - 1)) !== shown(play.scene(at)));
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hw-loss", "kip-279-fast-failover", "isolate-leader-zone", "isr-lag-rules"])
def test_nothing_changes_is_said_only_where_nothing_changes(opened: Opened, name: str) -> None:
    """A follower that copies records is no event; the account of a step says so all the same."""
    page = opened.go("#/")
    for generation in GENERATIONS:
        page.evaluate(f"lab.open('#/s/{name}?g={generation}')")
        assert page.evaluate(SILENT) == [], generation


@pytest.mark.slow
def test_of_a_broker_that_dies_the_disk_is_told_from_the_memory(opened: Opened) -> None:
    """Its high watermark did not fall: what is shown from now on is what it had written down."""
    page = opened.go("#/s/hw-loss?g=hw&step=7")
    page.evaluate("lab.stage.act(['crash 0'])")
    opened.until("lab.stage.step === 8")
    assert "The high watermark on the disk of broker 0 is 2; in its memory it was 3." in shown(page)


@pytest.mark.slow
def test_a_fork_tells_what_a_follower_copies(opened: Opened) -> None:
    page = opened.go("#/s/hw-loss?g=hw&step=19")
    page.locator("g.broker").nth(0).click()
    page.get_by_text("Wake it up").click()
    page.wait_for_selector(".banner.yours")
    opened.until("lab.stage.step === 20")
    assert "Broker 1 copies c." in shown(page)
