"""Numbers, counts and durations as people read them."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """`1 broker`, `2 brokers`."""
    return f"{count:,} {noun if count == 1 else noun + 's'}"


def number(value: int | float | None) -> str:
    """`12,345`; an empty string for an unknown one."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.1f}"


def short(value: float) -> str:
    """`12k`, `1.5M`: for axes."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def moment(ms: float) -> str:
    """A time after the load began, or a duration: `340 ms`, `12.4 s`, `3 min 20 s`, `2 h 5 min`."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 180_000:
        return f"{ms / 1000:.1f} s".replace(".0 s", " s")
    minutes, seconds = divmod(round(ms / 1000), 60)
    if minutes < 180:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
