"""What a campaign comes to: limits that are held against what was seen, and the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from fuzz.campaign import Plan, Tally
from fuzz.frames import Fate
from fuzz.line import End
from fuzz.neighbour import Account
from fuzz.watch import Kind, Watch

MEMORY_MARGIN_BYTES: Final = 96 << 20
"""After the attack a broker may hold so much more than after the warm-up, besides its cache of recent
batches, which has a limit of its own. The largest requests leave that: they become hundreds of thousands of
small objects, and Python returns a megabyte to the system only when nothing in it is used any more. A
million frames left 63 MB at most, which varies with the requests that come together."""
BLOCKS_CREEP: Final = 100_000
"""So many more blocks of memory may be in use in the last quarter of a long campaign than in the second: some
10 MB. Offsets that groups committed, which are kept for a week, need some of it."""
DESCRIPTORS_MARGIN: Final = 20
"""Files of logs that are there now and were not then."""
_LOOP_HELD: Final = "tidelog_loop_held_seconds_max"
_LOOP_WORKED: Final = "tidelog_loop_worked_seconds_max"
_SHOWN: Final = 12
_MB: Final = 1 << 20


@dataclass(slots=True)
class Result:
    seed: int
    tally: Tally
    attacks: dict[str, int]
    account: Account
    watch: Watch

    def as_json(self) -> dict[str, Any]:
        tally, account = self.tally, self.account
        return {
            "seed": self.seed,
            "frames": tally.sent,
            "seconds": round(tally.seconds, 1),
            "connections": tally.connections,
            "cpu_seconds": round(tally.cpu_seconds, 1),
            "ends": {end.value: count for end, count in tally.ends.items()},
            "how": dict(tally.how),
            "versions": len(tally.versions),
            "attacks": self.attacks,
            "neighbour": {name: getattr(account, name) for name in account.__slots__},
            "brokers": [each.as_json() for each in self.watch.vitals],
            "closed_with_a_line": self.watch.log.passed_over,
            "excused": [{"kind": each.kind.name, "text": each.text} for each in self.watch.excused],
            "troubles": [{"kind": each.kind.name, "text": each.text} for each in self.watch.troubles],
        }


def judge(plan: Plan, account: Account, watch: Watch) -> None:
    """Hold the limits against what was seen, and note what exceeds them."""
    for traceback in watch.log.tracebacks:
        watch.trouble(
            Kind.TRACEBACK, next((line for line in traceback if "failed on" in line), traceback[-1])
        )
    if not watch.all_alive:
        watch.trouble(Kind.DIED, "a broker did not live to the end")
    _judge_neighbour(plan, account, watch)
    for each in watch.vitals:
        if each.grown_bytes > MEMORY_MARGIN_BYTES:
            grown = f"{each.rss_warm / _MB:.0f} MB after the warm-up, {each.rss_end / _MB:.0f} MB at the end"
            cached = f"{each.tails_end / _MB:.0f} MB of it recent batches"
            watch.trouble(Kind.MEMORY, f"broker {each.broker}: {grown}, {cached}")
        if (each.crept_blocks or 0) > BLOCKS_CREEP:
            crept = f"{each.crept_blocks:,} more blocks in use in the last quarter than in the second"
            watch.trouble(Kind.MEMORY, f"broker {each.broker}: {crept}")
        if each.descriptors_end > each.descriptors_warm + DESCRIPTORS_MARGIN:
            grown = f"{each.descriptors_warm} after the warm-up, {each.descriptors_end} at the end"
            watch.trouble(Kind.DESCRIPTORS, f"broker {each.broker}: {grown}")


def _judge_neighbour(plan: Plan, account: Account, watch: Watch) -> None:
    if not account.held:
        what = f"{account.missing} missing, {account.failed} failed" if account.done else "it did not finish"
        watch.trouble(Kind.NEIGHBOUR, ", ".join((what, *account.faults)))
    for failure in account.probe_failures:
        watch.trouble(Kind.NEIGHBOUR, f"a probe was turned away: {failure}")
    for began, seconds in account.stalls:
        text = f"{seconds:.1f} s for an acknowledgement"
        watch.late(Kind.STALL, text, began, seconds, plan.stall_seconds_max)
    for began, seconds in account.late_probes:
        text = f"{seconds:.1f} s for an answer to ApiVersions"
        watch.late(Kind.STALL, text, began, seconds, plan.probe_seconds_max)


# ---------------------------------------------------------------- for people


def lines(result: Result) -> Iterator[str]:
    tally, account, watch = result.tally, result.account, result.watch
    rate = tally.sent / max(tally.seconds, 0.001)
    apis = len({api for api, _ in tally.versions})
    yield _line("frames", f"{tally.sent:,} in {tally.seconds:,.0f} s ({rate:,.0f}/s) · seed {result.seed}")
    yield _line("", f"{len(tally.versions)} versions of {apis} APIs · {tally.connections:,} connections")
    brokers = sum(each.cpu_seconds for each in watch.vitals)
    yield _line("", f"{tally.cpu_seconds:,.0f} s of CPU for the attacker, {brokers:,.0f} s for the brokers")
    yield _line("", _shares({end.value: tally.ends[end] for end in End}, tally.sent))
    yield _line("", f"{tally.fates[Fate.CLOSE]:,} were no request, {tally.fates[Fate.WAIT]:,} asked to wait")
    yield _line("mutations", _shares(dict(tally.how), tally.sent))
    yield _line(
        "attacks", " · ".join(f"{what} {count:,}" for what, count in result.attacks.items()) or "none"
    )
    there = "all there, in order, nothing else" if account.held else "NOT as it should be"
    yield _line("neighbour", f"{account.acknowledged:,} acknowledged, {account.read:,} read: {there}")
    yield _line("", f"longest wait for an acknowledgement {account.stall_seconds_max:.2f} s")
    most, all_ = (f"{1000 * s:,.0f} ms" for s in (account.probe_seconds_99, account.probe_seconds_max))
    yield _line("ApiVersions", f"{account.probes:,} asked beside it, 99 % answered in {most}, all in {all_}")
    if held := watch.metric(_LOOP_HELD):
        worked = max(watch.metric(_LOOP_WORKED), default=0.0)
        yield _line(
            "loop", f"held for {max(held) * 1000:,.0f} ms at most, {worked * 1000:,.0f} ms of it work"
        )
    for each in watch.vitals:
        memory = " → ".join(f"{b / _MB:.0f}" for b in (each.rss_start, each.rss_warm, each.rss_end))
        files = f"{each.descriptors_warm} → {each.descriptors_end} (at most {each.descriptors_peak})"
        yield _line(
            f"broker {each.broker}",
            f"{memory} MB (at most {each.rss_peak / _MB:.0f}) · descriptors {files}",
        )
        cached = " → ".join(f"{b / _MB:.0f}" for b in (each.tails_warm, each.tails_end))
        crept = each.crept_blocks
        more = "" if crept is None else f" · blocks in use {crept:+,} from the second quarter to the last"
        yield _line("", f"recent batches {cached} MB{more}")
    yield _line(
        "log", f"{len(watch.log.tracebacks)} tracebacks · {watch.log.passed_over:,} connections closed"
    )
    yield from _troubles(watch)


def _troubles(watch: Watch) -> Iterator[str]:
    for number, trouble in enumerate(watch.excused[:_SHOWN]):
        yield _line("" if number else "starved", f"{trouble.kind.value}: {trouble.text}")
    if not watch.troubles:
        yield _line("verdict", "Nothing broke.")
        return
    yield _line("verdict", f"{len(watch.troubles)} times something was wrong:")
    for trouble in watch.troubles[:_SHOWN]:
        yield _line("", f"{trouble.kind.value}: {trouble.text}")
    if len(watch.troubles) > _SHOWN:
        yield _line("", f"and {len(watch.troubles) - _SHOWN} more, see result.json")


def _shares(counts: dict[str, int], total: int) -> str:
    shown = {what: count for what, count in counts.items() if count}
    return " · ".join(f"{what} {100 * count / max(total, 1):.1f} %" for what, count in shown.items())


def _line(label: str, text: str) -> str:
    return f"{label:<12}{text}"
