"""``tidelog audit --follow``: what goes wrong, told while it does."""

from __future__ import annotations

import json
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

from rich.text import Text

from tidelog.cli.errors import ExitCode, Refusal
from tidelog.cli.show import palette
from tidelog.cli.show.output import console, counted, write_text

_FOLDER = Path("audit") / "live"


@dataclass(slots=True, frozen=True)
class Wanted:
    """What was asked for on the command line."""

    folder: Path | None
    bootstrap_servers: str | None
    topic: str | None
    from_beginning: bool
    checkpoint: Path | None
    seconds: float | None
    master: str | None
    remote: str | None
    ui: bool
    as_json: bool


def follow(wanted: Wanted) -> int:
    """Until there is nothing left to follow, Ctrl-C, or the seconds are over."""
    _check(wanted)
    from tidelog.pipeline.errors import PipelineError

    try:
        if wanted.checkpoint is not None or wanted.folder is not None:
            return _follow(wanted, wanted.checkpoint or (wanted.folder or Path()) / _FOLDER)
        with tempfile.TemporaryDirectory(prefix="tidelog-follow-") as unkept:
            return _follow(wanted, Path(unkept))
    except PipelineError as error:
        raise Refusal(str(error)) from None
    except KeyboardInterrupt:
        raise Refusal("interrupted before anything was followed") from None


def _check(wanted: Wanted) -> None:
    live = wanted.bootstrap_servers is not None or wanted.topic is not None
    if live == (wanted.folder is not None):
        raise Refusal("--follow needs the folder of a trial, or --bootstrap-servers and --topic")
    if live and (wanted.bootstrap_servers is None or wanted.topic is None):
        raise Refusal("a live topic needs both --bootstrap-servers and --topic")
    if wanted.from_beginning and not live:
        raise Refusal("--from-beginning is for live topics: evidence is always read as a whole")
    if wanted.remote is not None:
        raise Refusal("--follow runs Spark itself, here or at a --master: leave out --remote")


def _follow(wanted: Wanted, folder: Path) -> int:
    from tidelog.pipeline.live.following import Follower
    from tidelog.pipeline.live.targets import Target, TopicTarget, TrialTarget
    from tidelog.pipeline.spark.session import open_session

    # Asked before Spark is started: that takes longer than the answer.
    target: Target
    if wanted.folder is not None:
        target, name = TrialTarget(wanted.folder), str(wanted.folder)
    else:
        servers, topic = wanted.bootstrap_servers or "", wanted.topic or ""
        target, name = TopicTarget(servers, topic, from_beginning=wanted.from_beginning), topic
    teller = _Teller(as_json=wanted.as_json)
    teller.note("starting Spark")
    spark: Any = open_session(
        master=wanted.master,
        ui=wanted.ui,
        app="tidelog audit --follow",
        quick=True,
        say=teller.note,
    )
    with _interruptible() as enough:
        follower = Follower(spark, target, folder, teller.tell)
        before = follower.found_before
        teller.note(f"following {name}" + (f", {counted(before, 'finding')} so far" if before else ""))
        followed = follower.follow(seconds=wanted.seconds, enough=enough)
    total = followed.found_before + followed.found
    kept = wanted.folder is not None or wanted.checkpoint is not None
    teller.end(
        f"{'read to the end' if followed.ended else 'ended early'}: {followed.sightings:,} sightings, "
        + (counted(followed.found, "finding") if followed.found else "nothing found")
        + (f", {total} in all" if followed.found_before else "")
        + (f"; see {folder / 'findings'}" if total and kept else "")
    )
    return ExitCode.VIOLATED if total else ExitCode.HELD


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM end in order."""
    enough = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        enough.set()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if threading.current_thread() is threading.main_thread():
        for number in before:
            signal.signal(number, handle)
    try:
        yield enough
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


class _Teller:
    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._screen = console()
        self._aside = console(stderr=True)

    def note(self, words: str) -> None:
        if not self._as_json:
            self._aside.print(Text(words, palette.FAINT), soft_wrap=True)

    def tell(self, finding: dict[str, Any]) -> None:
        if self._as_json:
            write_text(json.dumps(finding, ensure_ascii=False) + "\n")
        else:
            self._screen.print(_line(finding), soft_wrap=True)

    def end(self, words: str) -> None:
        if not self._as_json:
            self._aside.print(Text(words), soft_wrap=True)


def _line(finding: dict[str, Any]) -> Text:
    """When, where, what."""
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
