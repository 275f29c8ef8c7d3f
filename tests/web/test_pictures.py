"""The pictures of the documentation, made from the page itself: ``TIDELOG_PICTURES=1 pytest tests/web``.

The machine needs a font with Chinese characters, or there will be boxes instead.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.web.conftest import Opened

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
BYTES_MAX = 200_000
DESK, PHONE = (1440, 900), (390, 844)

PICTURES = [
    ("lab-catalogue", "", DESK, "light"),
    ("lab-hw-loss-truncation", "#/s/hw-loss?g=hw&step=17", DESK, "light"),
    ("lab-hw-loss-end", "#/s/hw-loss?g=hw&step=23", DESK, "light"),
    ("lab-two-leaders", "#/s/isolate-leader-zone?g=epoch&step=9", DESK, "light"),
    ("lab-compare", "#/s/hw-loss?g=hw&vs=epoch&step=20", DESK, "dark"),
    ("lab-chinese", "#/s/hw-loss?g=hw&step=20", DESK, "light"),
    ("lab-phone", "#/s/hw-loss?g=hw&step=20", PHONE, "light"),
]


@pytest.mark.skipif(os.environ.get("TIDELOG_PICTURES") != "1", reason="set TIDELOG_PICTURES=1 to make them")
@pytest.mark.parametrize("picture", PICTURES, ids=[name for name, *_ in PICTURES])
def test_a_picture(browser: Any, address: str, picture: tuple[str, str, tuple[int, int], str]) -> None:
    """Each picture is small enough to keep."""
    name, asked, size, theme = picture
    locale = "zh-CN" if name.endswith("chinese") else "en-US"
    opened = Opened(browser, address, size=size, color_scheme=theme, locale=locale)
    page = opened.go(asked)
    page.wait_for_timeout(300)  # fonts and layout settle; a picture is looked at, not asserted on
    page.screenshot(path=IMAGES / f"{name}.png")
    opened.close()
    assert (IMAGES / f"{name}.png").stat().st_size < BYTES_MAX


def test_the_documentation_shows_pictures_that_exist() -> None:
    """Every picture is made by this test, and every picture made is shown somewhere."""
    pages = "".join(path.read_text("utf-8") for path in IMAGES.parent.rglob("*.md"))
    for name, *_ in PICTURES:
        assert (IMAGES / f"{name}.png").exists(), name
        assert f"images/{name}.png" in pages, name
