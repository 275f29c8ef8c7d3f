"""The faults of `kafka_faults` for asyncio: each can be awaited, or used in an `async with` block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from tidelog.cluster.active_fault import ActiveFault
from tidelog.cluster.async_cluster import AsyncFault
from tidelog.testing.faults import Faults


class AsyncFaults:
    """Every verb of `Faults`: `await faults.pause(1)`, `async with faults.kill(2) as fault: …`."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    async def leader_of(self, topic: str, partition: int = 0) -> int:
        return await asyncio.to_thread(self._faults.leader_of, topic, partition)

    async def controller(self) -> int:
        return await asyncio.to_thread(lambda: self._faults.controller)

    async def heal(self) -> None:
        await asyncio.to_thread(self._faults.heal)

    def __getattr__(self, verb: str) -> Callable[..., AsyncFault[ActiveFault]]:
        if verb.startswith("_"):
            raise AttributeError(verb)
        do = getattr(self._faults, verb)

        def fault(*args: Any, **kwargs: Any) -> AsyncFault[ActiveFault]:
            return AsyncFault(partial(do, *args, **kwargs))

        return fault
