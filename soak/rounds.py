"""One trial after the other, each in processes of its own, so that nothing adds up that the cluster did not.

A round is `tidelog trial` with every fault, and its audit. Of its evidence two small files are kept that say
what was tried and what was found; all of it only if a promise was broken, and of a few rounds only. So a soak
of any length needs little more room than one round.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.processes import spawn

from soak.processes import Brokers, of_session
from tidelog.evidence.folder import MANIFEST, EvidenceError, EvidenceFolder
from tidelog.trials.summary import TrialSummary, summarize

TIDELOG: Final = str(Path(sys.executable).with_name("tidelog"))
TRACEBACK: Final = "Traceback (most recent call last)"
KEPT_WHOLE_MAX: Final = 3
BYTES_PER_SEND: Final = 2_500
"""Three replicas, the ledger, three reads of it and the audit's own files; measured, and rounded up."""
_LOOK_EVERY_SECONDS: Final = 1.0
_LAST_WORDS: Final = 3
_GONE_SECONDS: Final = 15.0
"""Java and its helpers notice only after a moment that there is nothing left to do."""


@dataclass(slots=True, frozen=True)
class Plan:
    seconds: float
    """Of load, in all."""
    round_seconds: float
    seed: int
    rate: float
    every: float
    """One fault in so many seconds, on average."""
    audit: bool = True
    more: tuple[str, ...] = ()
    """Words for `tidelog trial`."""

    def lengths(self) -> list[float]:
        """How long the load of each round lasts: equal parts, none longer than allowed."""
        count = max(-(-self.seconds // self.round_seconds), 1)
        return [self.seconds / count] * int(count)

    @property
    def room_bytes(self) -> int:
        return int(max(self.lengths()) * self.rate * BYTES_PER_SEND)


@dataclass(slots=True)
class Round:
    """What became of one trial."""

    number: int
    seed: int
    code: int = 2
    """The exit code: 0 held, 1 violated, 2 it cannot be said."""
    seconds: float = 0.0
    sent: int = 0
    ok: int = 0
    failed: int = 0
    unknown: int = 0
    lost: int = 0
    duplicated: int = 0
    """Of idempotent producers."""
    repeated: int = 0
    """Of producers that are not."""
    faults: dict[str, int] = field(default_factory=dict)
    outages: int = 0
    outage_seconds_max: float = 0.0
    broken: dict[str, int] = field(default_factory=dict)
    """Violations that the audit found, by anomaly."""
    audited: bool = False
    brokers: int = 0
    """Processes that were started."""
    bytes_max: int = 0
    """The most that a broker held."""
    oldest_seconds: float = 0.0
    oldest_bytes_first: int = 0
    oldest_bytes_last: int = 0
    evidence_bytes: int = 0
    tracebacks: int = 0
    left: int = 0
    """Processes that did not end with their trial."""
    notes: list[str] = field(default_factory=list)
    evidence: str = ""
    """Where all of it is, if it was kept."""

    @property
    def held(self) -> bool:
        return self.code == 0 and not (self.left or self.tracebacks)


class Rounds:
    def __init__(self, plan: Plan, folder: Path, said: Callable[[str], None]) -> None:
        self._plan = plan
        self._folder = folder
        self._said = said
        self._interrupted = False
        self._running: subprocess.Popen[bytes] | None = None
        self.rounds: list[Round] = []

    def interrupt(self) -> None:
        """The running trial ends early, and is judged; no other is begun. A signal handler may call this."""
        self._interrupted = True
        if self._running is not None and self._running.poll() is None:
            self._running.send_signal(signal.SIGINT)

    def run(self) -> None:
        lengths = self._plan.lengths()
        for number, seconds in enumerate(lengths, 1):
            if self._interrupted:
                return
            self._said(f"round {number} of {len(lengths)}: {seconds:g} s of load, seed {self._seed(number)}")
            found = self._round(number, seconds)
            self.rounds.append(found)
            self._said(f"  {sum(found.faults.values())} faults, {found.ok:,} acknowledged, {found.lost} lost")

    def _seed(self, number: int) -> int:
        return self._plan.seed + number - 1

    def _round(self, number: int, seconds: float) -> Round:
        found = Round(number, self._seed(number))
        evidence = self._folder / f"round-{number}"
        brokers = Brokers(evidence)
        told = self._trial(evidence, found.seed, seconds, brokers, found)
        _count_up(found, evidence, told)
        found.brokers, found.bytes_max = brokers.count, brokers.bytes_max
        found.oldest_seconds, found.oldest_bytes_first, found.oldest_bytes_last = brokers.oldest()
        whole = sum(bool(earlier.evidence) for earlier in self.rounds)
        if found.held or whole >= KEPT_WHOLE_MAX:
            _keep_little(evidence)
        else:
            found.evidence = str(evidence)
        return found

    def _trial(
        self, evidence: Path, seed: int, seconds: float, brokers: Brokers, found: Round
    ) -> dict[str, Any]:
        """Run it to its end; what it printed."""
        plan = self._plan
        words = [
            *(TIDELOG, "trial", "--json", "--acks", "all", "--faults", "all"),
            *("--seconds", f"{seconds:g}", "--rate", f"{plan.rate:g}", "--every", f"{plan.every:g}"),
            *("--seed", str(seed), "--evidence", str(evidence)),
            *(() if plan.audit else ("--no-audit",)),
            *plan.more,
        ]
        out, err = evidence.with_suffix(".out"), evidence.with_suffix(".log")
        # Into files: a pipe that nobody empties would stop it.
        with out.open("w") as printed, err.open("w") as said:
            process = spawn(words, stdout=printed, stderr=said, when_orphaned="TERM")
            self._running = process
            while process.poll() is None:
                brokers.look(time.monotonic())
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_EVERY_SECONDS)
        found.code = process.returncode if process.returncode in (0, 1) else 2
        found.left = len(_left_by(process.pid, brokers))
        try:
            told: dict[str, Any] = json.loads(out.read_text("utf-8"))
        except ValueError:
            found.notes += err.read_text("utf-8", "replace").splitlines()[-_LAST_WORDS:]
            return {}
        found.notes += told.get("notes", [])
        return told


# ---------------------------------------------------------------- what a round left


def _left_by(trial: int, brokers: Brokers) -> set[int]:
    """Processes that are still there a while after their trial."""
    deadline = time.monotonic() + _GONE_SECONDS
    while left := {*of_session(trial), *brokers.left()}:
        if time.monotonic() > deadline:
            break
        time.sleep(_LOOK_EVERY_SECONDS / 10)
    return left


def _count_up(found: Round, evidence: Path, told: dict[str, Any]) -> None:
    """From the evidence, which says more than a trial prints; what the audit found from what was printed."""
    found.evidence_bytes = sum(path.stat().st_size for path in evidence.rglob("*") if path.is_file())
    found.tracebacks = sum(
        path.read_text("utf-8", "replace").count(TRACEBACK) for path in (evidence / "logs").glob("*.log")
    )
    found.audited = "counts" in told
    found.broken = {
        anomaly: count["violation"]
        for anomaly, count in told.get("counts", {}).items()
        if count.get("violation")
    }
    try:
        folder = EvidenceFolder.claim(evidence)
    except EvidenceError as error:
        found.notes.append(str(error))
        return
    try:
        _take(found, summarize(folder))
    finally:
        folder.release()


def _take(found: Round, closing: TrialSummary) -> None:
    found.seconds = closing.seconds
    found.sent, found.ok = closing.sent, closing.ok
    found.failed, found.unknown = closing.failed, closing.unknown
    found.lost, found.duplicated, found.repeated = closing.lost, closing.duplicated, closing.repeated
    found.faults = closing.faults
    found.outages = len(closing.unavailable)
    found.outage_seconds_max = max((w.duration_ms for w in closing.unavailable), default=0) / 1000


def _keep_little(evidence: Path) -> None:
    """Only what was tried and what was found."""
    kept = {evidence / MANIFEST, evidence / "audit" / "verdict.json"}
    for path in sorted(evidence.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path not in kept:
            path.unlink()


def require_room(folder: Path, plan: Plan) -> str | None:
    """Why there is not enough room for a round, if there is not."""
    free = shutil.disk_usage(folder).free
    if free >= plan.room_bytes:
        return None
    wanted, has = (f"{number / 1e9:.1f} GB" for number in (plan.room_bytes, free))
    return f"a round needs about {wanted}, {folder} has {has}: give a smaller --rate or --round-minutes"
