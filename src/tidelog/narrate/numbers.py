"""Numbers in words."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """`1 broker`, `2 brokers`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
