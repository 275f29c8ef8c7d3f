"""A campaign from its first process to its last line; and what was kept of one, sent again."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import uvloop
from bench.tidelog_up import TidelogUp

from fuzz.campaign import PAGE, PATIENCE_SECONDS, Campaign, Plan
from fuzz.company import NeighbourProcess, Page
from fuzz.evidence import Sent, read_frames
from fuzz.frames import Frame, Frames
from fuzz.line import End, open_line
from fuzz.target import IDLE_SECONDS, SETTINGS, Target
from fuzz.verdict import DESCRIPTORS_MARGIN, Result, judge
from fuzz.watch import ENVIRONMENT, TRACEBACK, Kind, Log, Watch
from tidelog.cluster.directory import BrokerStatus

_SETTLE_SECONDS: Final = 2 * IDLE_SECONDS + 10.0


def attack(plan: Plan, folder: Path, brokers: int, said: Callable[[str], None]) -> Result:
    """Start everything, run the campaign, and leave in `folder` what is worth keeping."""
    log = Log(folder / "brokers.log")
    data = folder / "cluster"
    sent = Sent(folder, plan.seed)
    try:
        with ExitStack() as stack:
            stack.enter_context(TidelogUp(data, brokers, SETTINGS, ENVIRONMENT, on_line=log.heard))
            target = Target(data)
            target.furnish()
            page = stack.enter_context(Page()) if PAGE in plan.attacks else None
            neighbour = stack.enter_context(NeighbourProcess(target))
            neighbour.wait_until_it_works()
            watch = Watch(target.brokers, log, (target.pid, neighbour.pid))
            frames = Frames(plan.seed, target.offered())
            served = None if page is None else page.address()
            campaign = Campaign(plan, target, watch, frames, sent, page=served, said=said)
            uvloop.run(campaign.run())
            said("settling")
            watch.end_silent()
            settle(target, watch)
            account = neighbour.finish()
            watch.read_metrics()
            judge(plan, account, watch)
            if page is not None and any(TRACEBACK in line for line in page.lines):
                watch.trouble(Kind.TRACEBACK, "in the log of tidelog lab")
                (folder / "page.log").write_text("\n".join(page.lines) + "\n", "utf-8")
    finally:
        log.close()
    _keep(folder, log, sent)
    result = Result(plan.seed, campaign.tally, dict(campaign.ground.tally), account, watch)
    (folder / "result.json").write_text(json.dumps(result.as_json(), indent=1) + "\n", "utf-8")
    if not watch.troubles:
        shutil.rmtree(data, ignore_errors=True)
    return result


def settle(target: Target, watch: Watch) -> None:
    """Until what the attack left behind is gone, or must be."""
    target.sweep(everything=True)
    deadline = time.monotonic() + _SETTLE_SECONDS
    while time.monotonic() < deadline and watch.all_alive:
        watch.look()
        if all(
            each.descriptors_end <= each.descriptors_warm + DESCRIPTORS_MARGIN // 2 for each in watch.vitals
        ):
            return
        time.sleep(0.5)


def _keep(folder: Path, log: Log, sent: Sent) -> None:
    """The frames that were sent on connections on which a broker failed, and what it said."""
    for number, traceback in enumerate(log.tracebacks, 1):
        (folder / f"traceback-{number}.txt").write_text("\n".join(traceback) + "\n", "utf-8")
        place = Log.place_of(traceback)
        if place is not None:
            sent.keep(*place, next((line for line in traceback if "failed on" in line), traceback[0]))


# ---------------------------------------------------------------- again


def replay(path: Path, folder: Path, brokers: int, said: Callable[[str], None]) -> int:
    """Send what was kept again: all of it on one connection, then each frame on its own. How many harm."""
    why, frames = read_frames(path)
    said(f"{len(frames)} frames, kept because: {why}")
    log = Log(folder / "brokers.log")
    try:
        with TidelogUp(folder / "cluster", brokers, SETTINGS, ENVIRONMENT, on_line=log.heard):
            target = Target(folder / "cluster")
            target.furnish()
            watch = Watch(target.brokers, log)
            return uvloop.run(_replay(frames, target, watch, said))
    finally:
        log.close()


async def _replay(frames: list[Frame], target: Target, watch: Watch, said: Callable[[str], None]) -> int:
    harmful = 0
    for some in ([frames] if len(frames) > 1 else []) + [[frame] for frame in frames]:
        harm = ""
        for broker in target.brokers:
            harm = harm or await _harm(some, broker, watch)
        what = f"frame {some[0].number}, {some[0].named}" if len(some) == 1 else "all together"
        if harm:
            harmful += 1
            said(f"{what}: {harm}")
        elif len(some) > 1:
            said(f"{what}: nothing")
        if not watch.all_alive:
            break
    said(f"{harmful} did harm")
    return harmful


async def _harm(frames: list[Frame], broker: BrokerStatus, watch: Watch) -> str:
    """What these frames do to a broker."""
    before = len(watch.log.tracebacks)
    line = await open_line(broker.host, broker.port, broker.pid)
    try:
        ended = await line.burst(frames, PATIENCE_SECONDS, PATIENCE_SECONDS)
        # An answer on another connection: whatever the broker had to say is said by now.
        await asyncio.sleep(0.2)
    finally:
        line.close()
    if not watch.all_alive:
        return f"broker {broker.id} ended"
    if len(watch.log.tracebacks) > before:
        return f"broker {broker.id}: {watch.log.tracebacks[-1][-1]}"
    return ended.why if ended.end in (End.HUNG, End.WRONG) else ""
