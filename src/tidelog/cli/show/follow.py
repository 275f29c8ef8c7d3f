"""What `audit --follow` prints: findings on stdout, how it goes on stderr."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from rich.text import Text

from tidelog.cli.show import palette
from tidelog.cli.show.output import console, write_text


class FollowOutput:
    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._screen = console()
        self._aside = console(stderr=True)

    def note(self, words: str) -> None:
        if not self._as_json:
            self._aside.print(Text(words, palette.FAINT), soft_wrap=True)

    def report(self, finding: dict[str, Any]) -> None:
        if self._as_json:
            write_text(json.dumps(finding, ensure_ascii=False) + "\n")
        else:
            self._screen.print(_line(finding), soft_wrap=True)

    def end(self, words: str) -> None:
        if not self._as_json:
            self._aside.print(Text(words), soft_wrap=True)


def _line(finding: dict[str, Any]) -> Text:
    """Time, place, anomaly."""
    at = datetime.fromtimestamp(finding["time_us"] / 1e6).strftime("%H:%M:%S.%f")[:-3]
    first, last = finding["offset"], finding["last_offset"]
    offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
    style = palette.BAD if finding["severity"] == "violation" else palette.WARNING
    return Text.assemble(
        (f"{at}  ", palette.FAINT),
        f"{finding['topic']}-{finding['partition']} {offsets}  ",
        (finding["anomaly"], style),
        f": {finding['detail']}" + (f" ({finding['count']:,} records)" if finding["count"] > 1 else ""),
    )
