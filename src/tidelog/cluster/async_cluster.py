"""A `Cluster` for asyncio: the same methods, to be awaited.

    async with AsyncCluster(brokers=3) as kafka:
        await kafka.topic("orders", partitions=3)
        async with kafka.kill(await kafka.leader_of("orders")):
            …

A fault can be awaited, or used in an `async with` block that heals it. The brokers are supervised from a
thread, so a busy event loop does not disturb them, and every call leaves the loop free.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from tidelog.cluster.active_fault import ActiveFault, Side
from tidelog.cluster.answers import ANSWER_SECONDS, InSync
from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.cluster.topics import Replicas
from tidelog.cluster.waits import WAIT_SECONDS

Done = TypeVar("Done", bound=ActiveFault)


class AsyncFault(Generic[Done]):
    """A fault to be done. Nothing happens before it is awaited or entered."""

    def __init__(self, do: Callable[[], Done]) -> None:
        self._do = do
        self._done: Done | None = None

    async def _begin(self) -> Done:
        self._done = await asyncio.to_thread(self._do)
        return self._done

    def __await__(self) -> Generator[Any, None, Done]:
        return self._begin().__await__()

    async def __aenter__(self) -> Done:
        return await self._begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.heal()

    async def heal(self) -> None:
        if self._done is not None:
            await asyncio.to_thread(self._done.heal)


class AsyncCluster:
    def __init__(
        self,
        spec: ClusterSpec | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        **given: Any,
    ) -> None:
        """As for `Cluster`."""
        self.blocking = Cluster(spec, data_dir, **given)
        """The same cluster for code that blocks."""

    @classmethod
    def over(cls, cluster: Cluster) -> Self:
        """The twin of a cluster that runs already."""
        twin = cls.__new__(cls)
        twin.blocking = cluster
        return twin

    async def start(self) -> None:
        await asyncio.to_thread(self.blocking.start)

    async def stop(self) -> None:
        await asyncio.to_thread(self.blocking.stop)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def heal(self) -> list[str]:
        """Undo everything: all links work, all brokers run. What could not be undone, in words."""
        return await asyncio.to_thread(self.blocking.heal)

    # ------------------------------------------------------------ what it is, and what brokers say

    @property
    def bootstrap_servers(self) -> str:
        return self.blocking.bootstrap_servers

    def client_config(self, library: str, client: str = "", zone: str = "") -> dict[str, Any]:
        return self.blocking.client_config(library, client, zone)

    async def topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: Replicas = None,
        config: Mapping[str, Any] | None = None,
    ) -> str:
        """Create a topic; returns its name when every broker that runs knows its leaders."""
        return await asyncio.to_thread(self.blocking.topic, name, partitions, replicas, config)

    async def controller(self, *, timeout_s: float = ANSWER_SECONDS) -> int:
        return await asyncio.to_thread(self.blocking.wait_controller, timeout_s=timeout_s)

    async def leader_of(self, topic: str, partition: int = 0, *, timeout_s: float = ANSWER_SECONDS) -> int:
        return await asyncio.to_thread(self.blocking.leader_of, topic, partition, timeout_s=timeout_s)

    async def isr(
        self, topic: str, partition: int = 0, *, timeout_s: float = ANSWER_SECONDS
    ) -> frozenset[int]:
        return await asyncio.to_thread(self.blocking.isr, topic, partition, timeout_s=timeout_s)

    async def wait_isr(self, topic: str, wanted: InSync, *, timeout_s: float = ANSWER_SECONDS) -> None:
        await asyncio.to_thread(self.blocking.wait_isr, topic, wanted, timeout_s=timeout_s)

    async def wait_in_sync(self, *, timeout_s: float = ANSWER_SECONDS) -> None:
        await asyncio.to_thread(self.blocking.wait_in_sync, timeout_s=timeout_s)

    async def wait_assigned(self, group: str, members: int = 1, *, timeout_s: float = WAIT_SECONDS) -> None:
        await asyncio.to_thread(self.blocking.wait_assigned, group, members, timeout_s=timeout_s)

    async def wait_committed(
        self,
        group: str,
        offset: int,
        topic: str | None = None,
        partition: int | None = None,
        *,
        timeout_s: float = WAIT_SECONDS,
    ) -> None:
        await asyncio.to_thread(
            self.blocking.wait_committed, group, offset, topic, partition, timeout_s=timeout_s
        )

    async def wait_leader_not(
        self, broker: int, topic: str | None = None, *, timeout_s: float = WAIT_SECONDS
    ) -> None:
        await asyncio.to_thread(self.blocking.wait_leader_not, broker, topic, timeout_s=timeout_s)

    # ------------------------------------------------------------ faults

    def inject(self, kind: str, *targets: object) -> AsyncFault[ActiveFault]:
        return AsyncFault(lambda: self.blocking.inject(kind, *targets))

    def kill(self, *brokers: int) -> AsyncFault[ActiveFault]:
        return AsyncFault(lambda: self.blocking.kill(*brokers))

    def power_loss(self, *brokers: int) -> AsyncFault[ActiveFault]:
        return AsyncFault(lambda: self.blocking.power_loss(*brokers))

    def pause(self, number: int) -> AsyncFault[ActiveFault]:
        return AsyncFault(lambda: self.blocking.pause(number))

    def stop_broker(self, number: int) -> AsyncFault[ActiveFault]:
        return AsyncFault(lambda: self.blocking.stop_broker(number))

    def cut(self, a: Side, b: Side, *, one_way: bool = False) -> AsyncFault[ActiveFault]:
        return AsyncFault(lambda: self.blocking.cut(a, b, one_way=one_way))

    def isolate(self, place: int | str) -> AsyncFault[ActiveFault]:
        return AsyncFault(lambda: self.blocking.isolate(place))

    def delay(self, a: Side, b: Side, ms: int, *, one_way: bool = False) -> AsyncFault[ActiveFault]:
        return AsyncFault(lambda: self.blocking.delay(a, b, ms, one_way=one_way))

    def hold_replication(self, follower: Side, leader: Side) -> AsyncFault[ActiveFault]:
        return AsyncFault(lambda: self.blocking.hold_replication(follower, leader))

    def reset(self, a: Side, b: Side) -> AsyncFault[ActiveFault]:
        return AsyncFault(lambda: self.blocking.reset(a, b))

    def disk_full(self, number: int) -> AsyncFault[ActiveFault]:
        return AsyncFault(lambda: self.blocking.disk_full(number))

    def slow_fsync(self, number: int, ms: int) -> AsyncFault[ActiveFault]:
        return AsyncFault(lambda: self.blocking.slow_fsync(number, ms))

    def wrong_clock(self, number: int, ms: int) -> AsyncFault[ActiveFault]:
        return AsyncFault(lambda: self.blocking.wrong_clock(number, ms))

    def stop_keeper(self) -> AsyncFault[ActiveFault]:
        return AsyncFault(self.blocking.stop_keeper)

    def elect_preferred(self) -> AsyncFault[ActiveFault]:
        return AsyncFault(self.blocking.elect_preferred)

    async def start_broker(self, number: int) -> None:
        await asyncio.to_thread(self.blocking.start_broker, number)

    async def resume(self, number: int) -> None:
        await asyncio.to_thread(self.blocking.resume, number)
