"""What a failed test says about its cluster: faults with their times, who led when, how to repeat it."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidelog.cluster.cluster import Cluster
from tidelog.evidence.journals.event_files import CorruptEvidence, event_files, read_events
from tidelog.narrate.numbers import counted
from tidelog.testing.running import EVENTS, RunningCluster

_FLUSHED_SECONDS: Final = 0.4
"""Brokers write their events to the file four times a second."""
_LED: Final = "became_leader"
_SHOWN_MAX: Final = 20


def failure_text(running: RunningCluster, again: str, began_us: int, topics: list[str], kept: Path) -> str:
    """`again`: the command that repeats it. `topics`: those of the test; none: all that had a new leader
    meanwhile. `kept`: where evidence goes."""
    cluster, choice = running.cluster, running.choice
    if not isinstance(cluster, Cluster):
        return f"cluster: {cluster.bootstrap_servers}, which runs already"
    time.sleep(_FLUSHED_SECONDS)
    lines = [f"cluster: {counted(choice.brokers, 'broker')}, generation {choice.generation}"]
    lines += [f"  {name}={value}" for name, value in choice.arguments().get("settings", {}).items()]
    lines += ["faults:", *(_faults(cluster, began_us) or ["  none"])]
    lines += ["who led:", *(list(_leaders(running.folder / EVENTS, began_us, topics)) or ["  no change"])]
    deaths = [(at, how) for at, how in running.deaths if at >= began_us]
    lines += [f"{_since(at, began_us)} {how}, which no test asked for" for at, how in deaths]
    lines.append(f"again: {again}")
    lines.append(f"evidence: {kept}")
    return "\n".join(lines)


def _since(at_us: int, began_us: int) -> str:
    return f"  {(at_us - began_us) / 1e6:+8.3f} s"


def _faults(cluster: Cluster, began_us: int) -> list[str]:
    done = [fault for fault in cluster.faults.history if fault.began_us >= began_us]
    return [
        f"{_since(fault.began_us, began_us)} {' '.join((fault.kind, *fault.targets))}"
        + (" (active)" if fault.ended_us is None else f", healed {_since(fault.ended_us, began_us).strip()}")
        for fault in done[-_SHOWN_MAX:]
    ]


def _leaders(events: Path, began_us: int, topics: list[str]) -> Iterator[str]:
    rows = []
    for file in event_files(events):
        with suppress(CorruptEvidence):
            rows += [row for row in read_events(file.path) if row["event"] == _LED]
    rows.sort(key=lambda row: (row["topic"], row["partition"], row["time_ms"]))
    began_ms = began_us // 1000
    for row in rows:
        mine = row["topic"] in topics if topics else row["time_ms"] >= began_ms
        if mine and not row["topic"].startswith("__"):
            at, place = _since(row["time_ms"] * 1000, began_us), f"{row['topic']}-{row['partition']}"
            yield f"{at} {place}: broker {row['broker']}, epoch {row['leader_epoch']}"


def keep_evidence(running: RunningCluster, kept: Path, ledger: Path | None) -> None:
    """What brokers did and logged, and the ledger if there is one: then the folder can be audited."""
    kept.mkdir(parents=True, exist_ok=True)
    if ledger is not None:
        shutil.copytree(ledger, kept, dirs_exist_ok=True)
    if running.choice.servers:
        return
    target = kept / "journal" / "events" if ledger is not None else kept / EVENTS
    shutil.copytree(running.folder / EVENTS, target, dirs_exist_ok=True)
    (kept / "logs").mkdir(exist_ok=True)
    for log in running.folder.glob("broker-*.log"):
        shutil.copy(log, kept / "logs")


def folder_for(root: Path, nodeid: str) -> Path:
    """A new folder for the evidence of a test."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", nodeid).strip("-")[-100:]
    folder, number = root / name, 1
    while folder.exists():
        number += 1
        folder = root / f"{name}-{number}"
    return folder
