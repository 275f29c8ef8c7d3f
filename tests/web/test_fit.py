"""The page in windows of usual sizes: the picture is in view, and what belongs together is seen together."""

from typing import Any

import pytest
from tests.web.browsing import Opened

pytestmark = pytest.mark.slow

LOWEST = """
() => {
  const bar = document.querySelector(".transport").getBoundingClientRect().top;
  const ends = [...document.querySelectorAll(".frame")].map((frame) => frame.getBoundingClientRect().bottom);
  return { ends: ends.map((end) => Math.round(end - bar)), wide: document.documentElement.scrollWidth };
}
"""


@pytest.mark.parametrize(
    ("size", "fragment"),
    [
        ((1280, 800), "#/s/hw-loss?g=hw&step=18"),
        ((1440, 900), "#/s/hw-loss?g=hw&vs=epoch&step=18"),
        ((820, 1100), "#/s/isolate-leader-zone-acks-all?g=hw&vs=epoch&step=11"),
        ((390, 844), "#/s/hw-loss?g=hw&step=18"),
        ((390, 844), "#/s/hw-loss?g=hw&vs=epoch&step=18"),
    ],
)
def test_pictures_are_in_the_window(browser: Any, address: str, size: tuple[int, int], fragment: str) -> None:
    """No picture ends below the bar of time. In one column the head of the page may be scrolled away, and
    then narration and pictures are seen together. Nothing is wider than the window."""
    opened = Opened(browser, address, size=size)
    page = opened.go(fragment)
    if size[0] < 1080:
        page.evaluate("scrollTo(0, document.querySelector('.narrated').offsetTop)")
    found = page.evaluate(LOWEST)
    assert max(found["ends"]) <= 0
    assert found["wide"] <= size[0]
    opened.close()


def test_a_mistake_in_the_text_is_shown_in_the_dialog(opened: Opened) -> None:
    """The line number is that of the text as it is seen, title and all; the line is selected."""
    page = opened.go("#/s/hw-loss?g=hw")
    page.keyboard.press("e")
    area = page.locator("dialog textarea")
    text = area.input_value().replace("crash 1\n", "crsh 1\n", 1)
    line = text.split("\n").index("crsh 1") + 1
    area.fill(text)
    page.get_by_role("button", name="Play it").click()
    page.wait_for_selector("dialog .why:not(:empty)")
    assert page.locator("dialog .why").inner_text().startswith(f"line {line}, column 1: expected a command")
    assert area.evaluate("area => area.value.slice(area.selectionStart, area.selectionEnd)") == "crsh 1"
    assert page.locator(".toast").count() == 0


def test_the_legend_has_the_colours_of_the_cells(opened: Opened) -> None:
    """Under hw records carry no epoch, and cells are grey; in the legend, too."""
    colours = """() => [".cell.committed .box", ".legend .cell-committed"].map((selector, index) =>
      getComputedStyle(document.querySelector(selector))[index ? "backgroundColor" : "fill"])"""
    page = opened.go("#/s/hw-loss?g=hw&step=7")
    grey = page.evaluate(colours)
    assert grey[0] == grey[1]
    page.evaluate("lab.open('#/s/hw-loss?g=epoch&step=7')")
    blue = page.evaluate(colours)
    assert blue[0] == blue[1] != grey[0]


def test_narration_fades_on_a_phone_where_there_is_more_of_it(browser: Any, address: str) -> None:
    """Scrolled to its end it is whole; the next step begins at its beginning."""
    opened = Opened(browser, address, size=(390, 640))
    page = opened.go("#/s/hw-loss?g=hw&step=18")
    at_end = "document.querySelector('.narrated').classList.contains('at-end')"
    assert not page.evaluate(at_end)
    page.evaluate("document.querySelector('.narrated').scrollTo(0, 10000)")
    opened.until(at_end)
    page.keyboard.press("ArrowRight")
    opened.until("lab.stage.step === 19")
    assert page.evaluate("document.querySelector('.narrated').scrollTop") == 0
    opened.close()
