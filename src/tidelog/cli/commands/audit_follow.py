"""``tidelog audit --follow``: report findings as they happen."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tidelog.cli.errors import ExitCode
from tidelog.cli.show.follow import FollowOutput
from tidelog.errors import Refusal
from tidelog.narrate.numbers import counted

_FOLDER = Path("audit") / "live"


@dataclass(slots=True, frozen=True)
class FollowOptions:
    """Options of the command line."""

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


def follow(options: FollowOptions) -> int:
    """Follow until the trial ends, Ctrl-C, or the time limit."""
    _check(options)

    try:
        if options.checkpoint is not None or options.folder is not None:
            return _follow(options, options.checkpoint or (options.folder or Path()) / _FOLDER)
        with tempfile.TemporaryDirectory(prefix="tidelog-follow-") as temporary:
            return _follow(options, Path(temporary))
    except KeyboardInterrupt:
        raise Refusal("interrupted before following began") from None


def _check(options: FollowOptions) -> None:
    live = options.bootstrap_servers is not None or options.topic is not None
    if live == (options.folder is not None):
        raise Refusal("--follow needs the folder of a trial, or --bootstrap-servers and --topic")
    if live and (options.bootstrap_servers is None or options.topic is None):
        raise Refusal("a live topic needs both --bootstrap-servers and --topic")
    if options.from_beginning and not live:
        raise Refusal("--from-beginning needs --topic: evidence is always read from the beginning")
    if options.remote is not None:
        raise Refusal("--follow cannot use --remote: it runs Spark here or on a --master")


def _follow(options: FollowOptions, folder: Path) -> int:
    from tidelog.pipeline.live.following import Follower
    from tidelog.pipeline.live.targets import Target, TopicTarget, TrialTarget
    from tidelog.pipeline.sources import require_streams
    from tidelog.pipeline.spark.session import open_session

    require_streams()

    # The target checks that it can be read. Do that before Spark starts, which takes seconds.
    target: Target
    if options.folder is not None:
        target, name = TrialTarget(options.folder), str(options.folder)
    else:
        servers, topic = options.bootstrap_servers or "", options.topic or ""
        target, name = TopicTarget(servers, topic, from_beginning=options.from_beginning), topic
    output = FollowOutput(as_json=options.as_json)
    output.note("starting Spark")
    spark: Any = open_session(
        master=options.master,
        ui=options.ui,
        app="tidelog audit --follow",
        quick=True,
        say=output.note,
    )
    with _interruptible() as stop:
        follower = Follower(spark, target, folder, output.report)
        before = follower.found_before
        output.note(f"following {name}" + (f", {counted(before, 'finding')} so far" if before else ""))
        followed = follower.follow(seconds=options.seconds, enough=stop)
    total = followed.found_before + followed.found
    kept = options.folder is not None or options.checkpoint is not None
    output.end(
        f"{'read to the end' if followed.ended else 'ended early'}: {followed.sightings:,} sightings, "
        + (counted(followed.found, "finding") if followed.found else "nothing found")
        + (f", {total} in all" if followed.found_before else "")
        + (f"; see {folder / 'findings'}" if total and kept else "")
    )
    return ExitCode.VIOLATED if total else ExitCode.HELD


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM set the event, so that the follower ends in order."""
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if threading.current_thread() is threading.main_thread():
        for number in before:
            signal.signal(number, handle)
    try:
        yield stop
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
