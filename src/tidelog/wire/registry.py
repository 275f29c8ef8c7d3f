"""Which classes are the request and the response of an API, and in which versions.

A module of `wire/messages/` registers its API when it is imported; it is imported when its API is first
asked for, so that a process pays only for what it speaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tidelog.wire.api_keys import Api

NEVER_FLEXIBLE = 1 << 15


@dataclass(frozen=True, slots=True)
class Registration:
    """`flexible_since` is the first version with compact lengths and tagged fields (KIP-482)."""

    api: Api
    request: type[Any]
    response: type[Any]
    versions: tuple[int, int]
    flexible_since: int

    def speaks(self, version: int) -> bool:
        oldest, newest = self.versions
        return oldest <= version <= newest

    def flexible(self, version: int) -> bool:
        return version >= self.flexible_since


_registered: dict[int, Registration] = {}


def register(
    api: Api,
    request: type[Any],
    response: type[Any],
    *,
    versions: tuple[int, int],
    flexible_since: int = NEVER_FLEXIBLE,
) -> None:
    _registered[api] = Registration(api, request, response, versions, flexible_since)


def registration(key: int) -> Registration | None:
    """None if there is no such API here."""
    known = _registered.get(key)
    if known is None and key in Api.__members__.values():
        import_module(f"tidelog.wire.messages.{Api(key).name.lower()}")
        known = _registered[key]
    return known
