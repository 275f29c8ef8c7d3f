"""One file per Kafka API, and ``SERVED``, the table of them.

A handler is a function ``handle(node, request)``. It answers at once, or passes the core an object that
answers later; it never blocks. A handler that loops over a client's list is a generator and yields after each
element, because the client chooses the length (``slices.py``). The file's docstring describes the behaviour
and what is not done.

``@serves`` adds a handler to the table, for all versions in the schema of its API. Every module of this
folder is imported here, so a new API needs only a schema in ``wire/messages/`` and a file here.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag, auto
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tidelog.broker.connection import ClientConnection, Request
from tidelog.storage.background import StepsAndJobs
from tidelog.wire.api import Api
from tidelog.wire.api_keys import schema_of
from tidelog.wire.messages.api_versions import ApiVersion

if TYPE_CHECKING:
    from tidelog.broker.node import Node

Handler = Callable[["Node", Request], StepsAndJobs[None] | None]
Shortcut = Callable[["Node", ClientConnection, bytearray, float], bool]
AnyHandler = TypeVar("AnyHandler", bound=Handler)


class Listener(Flag):
    """Who sends a request. Requests of followers, such as Fetch, are served like those of clients."""

    CLIENTS = auto()
    """Listed in ApiVersions; waits until the broker knows its cluster."""
    BETWEEN_BROKERS = auto()
    """Only from the controller. Served at once: nothing may delay these requests."""


class Served(NamedTuple):
    api: Api
    handle: Handler
    listener: Listener
    listed_since: int
    newest: int
    shortcut: Shortcut | None

    def listed(self) -> ApiVersion:
        """Its entry in ApiVersions."""
        return ApiVersion(api_key=self.api, min_version=self.listed_since, max_version=self.newest)


_entered: dict[int, Served] = {}


def serves(
    api: Api,
    *,
    listener: Listener = Listener.CLIENTS,
    listed_since: int | None = None,
    shortcut: Shortcut | None = None,
) -> Callable[[AnyHandler], AnyHandler]:
    """Register the handler of an API. ``listed_since``: ApiVersions also lists older versions. ``shortcut``
    is offered each frame before it is decoded, and says whether it has handled it: it does exactly what the
    handler would, for the most common requests, at less cost."""
    versions = schema_of(api).versions
    since = versions[0] if listed_since is None else listed_since

    def enter(handle: AnyHandler) -> AnyHandler:
        if api in _entered:
            raise ValueError(f"{api.name} has two handlers")
        _entered[api] = Served(api, handle, listener, since, versions[-1], shortcut)
        return handle

    return enter


def offered() -> list[ApiVersion]:
    """The entries of ApiVersions for clients."""
    return [served.listed() for served in SERVED.values() if Listener.CLIENTS in served.listener]


for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

SERVED = dict(sorted(_entered.items()))
"""Sorted by key, which is the order in ApiVersions."""
