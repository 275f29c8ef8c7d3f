"""One file per Kafka API, and ``SERVED``, the table of them.

A handler is a function ``handle(node, request)``. It answers at once or leaves an object with the core that
answers later; it never waits. One that goes through what the client has counted is a generator, and yields
after each: how many there are is not ours to choose (``slices.py``). Its file opens with its behaviour and
with what it does not do.

``@serves`` enters a handler in the table, in all versions that the schema of its API describes. Every module
of this folder is imported here: a new API is a schema in ``wire/messages/`` and a file here, and there is no
list to add it to.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag, auto
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tidelog.broker.connection import Request
from tidelog.storage.background import StepsAndJobs
from tidelog.wire.api import Api
from tidelog.wire.api_keys import schema_of
from tidelog.wire.messages.api_versions import ApiVersion

if TYPE_CHECKING:
    from tidelog.broker.node import Node

Handler = Callable[["Node", Request], StepsAndJobs[None] | None]
AnyHandler = TypeVar("AnyHandler", bound=Handler)


class Listener(Flag):
    """Where a request comes in. What followers ask, such as Fetch, comes in as from clients."""

    CLIENTS = auto()
    """It is listed in ApiVersions, and waits until the broker knows its cluster."""
    BETWEEN_BROKERS = auto()
    """On the connection for a controller's commands. It is served at once: nothing may delay those."""


class Served(NamedTuple):
    api: Api
    handle: Handler
    listener: Listener
    listed_since: int
    newest: int

    def listed(self) -> ApiVersion:
        """Its entry in ApiVersions."""
        return ApiVersion(api_key=self.api, min_version=self.listed_since, max_version=self.newest)


_entered: dict[int, Served] = {}


def serves(
    api: Api, *, listener: Listener = Listener.CLIENTS, listed_since: int | None = None
) -> Callable[[AnyHandler], AnyHandler]:
    """This function is the handler of that API. ``listed_since``: ApiVersions names older versions, too."""
    versions = schema_of(api).versions
    since = versions[0] if listed_since is None else listed_since

    def enter(handle: AnyHandler) -> AnyHandler:
        if api in _entered:
            raise ValueError(f"{api.name} has two handlers")
        _entered[api] = Served(api, handle, listener, since, versions[-1])
        return handle

    return enter


def offered() -> list[ApiVersion]:
    """What clients are told that they may ask."""
    return [served.listed() for served in SERVED.values() if Listener.CLIENTS in served.listener]


for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

SERVED = dict(sorted(_entered.items()))
"""By key, which is the order of ApiVersions."""
