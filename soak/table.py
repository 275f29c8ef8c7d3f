"""What all rounds come to, in one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from soak.rounds import Round

_KILLS: Final = ("kill", "power")
"""Faults that end a broker with SIGKILL."""
_MB: Final = 1 << 20
_GB: Final = 10**9


def lines(rounds: Sequence[Round]) -> Iterator[str]:
    if not rounds:
        yield _line("soak", "no round was begun")
        return
    yield from _totals(rounds)
    yield ""
    yield from _rows(rounds)
    for each in rounds:
        for note in each.notes:
            yield f"round {each.number}: {note}"
        if each.evidence:
            yield f"round {each.number}: evidence in {each.evidence}"


def _totals(rounds: Sequence[Round]) -> Iterator[str]:
    faults = Counter[str]()
    for each in rounds:
        faults.update(each.faults)
    kills = sum(faults[kind] for kind in _KILLS)
    minutes = sum(each.seconds for each in rounds) / 60
    seeds = f"seed {rounds[0].seed}" if len(rounds) == 1 else f"seeds {rounds[0].seed} to {rounds[-1].seed}"
    yield _line("soak", f"rounds {len(rounds)} · {minutes:,.1f} min of load · {seeds}")
    yield _line("faults", " · ".join(f"{kind} {count}" for kind, count in faults.most_common()) or "none")
    yield _line("", f"{faults.total()} in all; {kills} times a broker was killed")
    sent, ok, failed, unknown = (
        sum(getattr(each, name) for each in rounds) for name in ("sent", "ok", "failed", "unknown")
    )
    yield _line("sends", f"{sent:,} · {ok:,} acknowledged · {failed:,} failed · {unknown:,} unknown")
    yield _line("lost", f"{sum(each.lost for each in rounds):,} acknowledged records")
    idempotent, other = (sum(getattr(each, name) for each in rounds) for name in ("duplicated", "repeated"))
    yield _line("duplicated", f"{idempotent:,} of idempotent producers · {other:,} of others, which may")
    audited = sum(each.audited for each in rounds)
    broken = Counter[str]()
    for each in rounds:
        broken.update(each.broken)
    found = " · ".join(f"{name} {count:,}" for name, count in broken.most_common()) or "no violation"
    yield _line("audit", f"{audited} of {len(rounds)} rounds: {found}")
    longest = max(each.outage_seconds_max for each in rounds)
    yield _line(
        "outages", f"{sum(each.outages for each in rounds):,} over a second, the longest {longest:.1f} s"
    )
    yield from _resources(rounds)
    yield _line("verdict", _verdict(rounds))


def _resources(rounds: Sequence[Round]) -> Iterator[str]:
    oldest = max(rounds, key=lambda each: each.oldest_seconds)
    first, last = oldest.oldest_bytes_first / _MB, oldest.oldest_bytes_last / _MB
    started = sum(each.brokers for each in rounds)
    most = max(each.bytes_max for each in rounds) / _MB
    yield _line("memory", f"{started} broker processes, none above {most:.0f} MB")
    yield _line("", f"the oldest lived {oldest.oldest_seconds:.0f} s: {first:.0f} → {last:.0f} MB")
    yield _line("disk", f"{max(each.evidence_bytes for each in rounds) / _GB:.2f} GB for one round at most")
    left, tracebacks = (sum(getattr(each, name) for each in rounds) for name in ("left", "tracebacks"))
    yield _line("left", f"{left} processes · {tracebacks} tracebacks in the brokers' logs")


def _verdict(rounds: Sequence[Round]) -> str:
    if any(each.code == 1 for each in rounds):
        return "A promise was broken."
    if any(each.code for each in rounds):
        return "Not every round could be judged."
    if not all(each.held for each in rounds):
        return "Every promise held, but not everything was in order."
    return "Every promise held."


def _rows(rounds: Sequence[Round]) -> Iterator[str]:
    head = ("round", "seed", "min", "faults", "kills", "acknowledged", "lost", "dup.", "outage s", "MB")
    yield " ".join(f"{word:>12}" for word in head)
    for each in rounds:
        cells = (
            *(each.number, each.seed, f"{each.seconds / 60:.1f}", sum(each.faults.values())),
            *(sum(each.faults.get(kind, 0) for kind in _KILLS), f"{each.ok:,}", each.lost, each.duplicated),
            *(f"{each.outage_seconds_max:.1f}", f"{each.bytes_max / _MB:.0f}"),
        )
        yield " ".join(f"{cell!s:>12}" for cell in cells)


def _line(label: str, text: str) -> str:
    return f"{label:<12}{text}"
