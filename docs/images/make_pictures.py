"""Draw the pictures of the documentation from the page itself.

Run from the root of the tree: ``.venv/bin/python -m docs.images.make_pictures``. The machine needs a browser,
and a font with Chinese characters, or there will be boxes instead.
"""

from pathlib import Path

from tests.web.browsing import Opened, lab_server, launched

IMAGES = Path(__file__).resolve().parent
DESK, SMALL, PHONE = (1440, 900), (1280, 800), (390, 844)

PICTURES = (
    ("lab-catalogue", "", DESK, "light"),
    ("lab-hw-loss-truncation", "#/s/hw-loss?g=hw&step=18", DESK, "light"),
    ("lab-hw-loss-end", "#/s/hw-loss?g=hw&step=24", DESK, "light"),
    ("lab-two-leaders", "#/s/isolate-leader-zone?g=epoch&step=9", SMALL, "light"),
    ("lab-compare", "#/s/hw-loss?g=hw&vs=epoch&step=21", DESK, "dark"),
    ("lab-space-time", "#/s/hw-loss?g=hw&step=7&view=time", DESK, "light"),
    ("lab-decided", "#/s/hw-loss?g=hw&vs=epoch&step=18", DESK, "light"),
    ("lab-chinese", "#/s/hw-loss?g=hw&step=21", DESK, "light"),
    ("lab-phone", "#/s/hw-loss?g=hw&step=21", PHONE, "light"),
)
BEFORE = {"lab-decided": "lab.stage.futures.run()"}
"""What is done on the page before its picture is taken."""


def main() -> None:
    with lab_server() as address, launched() as browser:
        for name, asked, size, theme in PICTURES:
            locale = "zh-CN" if name.endswith("chinese") else "en-US"
            opened = Opened(browser, address, size=size, color_scheme=theme, locale=locale)
            page = opened.go(asked)
            if name in BEFORE:
                page.evaluate(BEFORE[name])
            page.wait_for_timeout(300)  # fonts and layout settle; a picture is looked at, not asserted on
            page.screenshot(path=IMAGES / f"{name}.png")
            opened.close()
            print(f"{name}.png  {(IMAGES / f'{name}.png').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
