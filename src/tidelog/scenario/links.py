"""Links to a play, in the URL's fragment: a scenario of the catalogue by its name, any other as a whole.

A whole play is the scenario's text, the generations and the step. The fragment never leaves the browser, and
nothing is kept anywhere. The page makes and reads the same links (``static/links.js``): JSON, deflated
without a header, in URL-safe base64 without padding.
"""

from __future__ import annotations

import base64
import json
import zlib
from functools import cache
from urllib.parse import quote, urlencode

from tidelog.scenario import catalogue

PREFIX = "#/p/"
LAB_PORT = 8484
"""Where ``tidelog lab`` listens unless asked otherwise."""
LAB = f"http://127.0.0.1:{LAB_PORT}/"
LINKED_MAX = 20_000
"""Characters of a story that a link may hold; browsers take longer ones, people who mail them do not."""


def fragment(text: str, generation: str | None = None, step: int = 0, against: str | None = None) -> str:
    """What to put behind the page's address to open this play at this step."""
    play = {"text": text, "generation": generation, "step": step, "against": against}
    text = json.dumps({key: value for key, value in play.items() if value}, ensure_ascii=False)
    deflated = zlib.compress(text.encode(), level=9, wbits=-15)
    return PREFIX + base64.urlsafe_b64encode(deflated).decode().rstrip("=")


def catalogue_fragment(
    name: str, generation: str | None = None, step: int = 0, against: str | None = None
) -> str:
    """What to put behind the page's address to open a scenario of the catalogue at this step."""
    asked = {"g": generation, "vs": against, "step": step}
    query = urlencode({key: value for key, value in asked.items() if value})
    return f"#/s/{quote(name)}" + (f"?{query}" if query else "")


def lab_link(text: str, generation: str | None = None, step: int = 0) -> str:
    """Where a lab on the reader's machine shows this story: by its name, if the catalogue has the same."""
    name = _names().get(text)
    if name is not None:
        return LAB + catalogue_fragment(name, generation, step)
    return LAB + fragment(text, generation, step)


@cache
def _names() -> dict[str, str]:
    return {catalogue.text(name): name for name in catalogue.names()}
