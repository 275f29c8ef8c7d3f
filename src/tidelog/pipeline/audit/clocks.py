"""Clocks: how far those of brokers are from the clients', and what cannot be judged because of that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.findings import Finding

_FAR: Final = 1 << 61


def apart(context: Context, bounds: Iterable[Mapping[int, tuple[int, int]]]) -> dict[int, int]:
    """Brokers whose clock differs from the clients' by more than the slack that every comparison allows for,
    and by how many us it is ahead at least (or, if negative, behind)."""
    together: dict[int, tuple[int, int]] = {}
    for each in bounds:
        for broker, (least, most) in each.items():
            low, high = together.get(broker, (-_FAR, _FAR))
            together[broker] = (max(low, least), min(high, most))
    if not context.slack_us:
        return {}
    found = {}
    for broker, (least, most) in sorted(together.items()):
        if least > context.slack_us:
            found[broker] = least
        elif most < -context.slack_us:
            found[broker] = most
    return found


def judge_early(
    context: Context, early: list[Finding], count: int, skewed: Mapping[int, int]
) -> tuple[list[Finding], list[tuple[str, str]]]:
    """Reads above the watermark that the clocks allow to judge, and what they do not."""
    if not skewed:
        words = []
        if count > len(early):
            words.append(
                (f"{count - len(early):,} more reads above the high watermark", "only the first are told")
            )
        return early, words
    led = {
        number
        for number, moves in context.moves.items()
        if any(int(broker) in skewed for broker in set(moves.broker.tolist()))
    }
    kept = [finding for finding in early if finding.part not in led]
    far = ", ".join(f"{broker} ({us / 1e6:+.1f} s)" for broker, us in skewed.items())
    why = f"the clocks of brokers are too far from those of the clients: {far}"
    return kept, [(f"reads above the high watermark in {len(led)} partitions", why)]
