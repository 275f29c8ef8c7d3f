"""What every story is put together from: phrases of narrate, of which those with an unknown part are left
out."""

from __future__ import annotations

from functools import lru_cache

from tidelog.narrate.phrasebook import ENGLISH


@lru_cache(maxsize=65_536)
def spelled(key: str, *fields: tuple[str, object]) -> str:
    """A phrase; nothing if one of its fields is not known."""
    if any(value is None for _, value in fields):
        return ""
    return ENGLISH.templates[key].format_map(dict(fields))


def told(key: str, **fields: object) -> str:
    return spelled(key, *fields.items())


def moment(began_us: int, us: int | None) -> str | None:
    """A time in words, in seconds after the beginning of the load."""
    return None if us is None else f"{(us - began_us) / 1e6:.3f} s"


def because(why: str | None) -> str:
    """A reason in parentheses; nothing if it is not known."""
    return told("cause.because", why=why)
