"""Connections to the other brokers."""

import asyncio
from pathlib import Path

from tests.broker.in_process import stage, until

from tidelog.core.types import BrokerId

CONTROLLER, LEADER = 1, 2


def test_a_controller_that_follows_connects_to_a_leader_that_came_back(tmp_path: Path) -> None:
    """It tells itself, not over the network, that the leader lives. Of the leader's partitions it fetches no
    one else, and has nothing to tell it, so that nothing else opens the connection again."""

    async def scene() -> None:
        async with stage(tmp_path, brokers=2, replica_lag_time_max_ms="600000") as place:
            for threads in place.threads.values():
                threads.release_all_from_now_on()
            await place.create([LEADER, CONTROLLER])
            node = place.nodes[CONTROLLER]
            fetches = node.peers._peers[BrokerId(LEADER)].fetches
            await until(lambda: fetches._line is not None)
            assert fetches._line is not None
            del node.core.metadata.endpoints[BrokerId(LEADER)]
            fetches._line.abort()
            await until(lambda: not fetches.usable and fetches._connecting is None)
            await place.create([CONTROLLER], "another")
            client = await place.client(LEADER)
            client.produce(b"value", acks=-1)
            assert (await client.produced()).error == 0

    asyncio.run(scene())
