"""When an administrator says that a partition has moved."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, cast

from tests.broker.in_process import TOPIC, stage

from tidelog.broker.connection import Request
from tidelog.core.types import NO_LEADER
from tidelog.kafka_client.admin import Admin
from tidelog.storage.background import Steps
from tidelog.wire.api import Api

LATE = 3
"""The broker that is asked for metadata."""


def test_a_partition_has_moved_when_the_broker_that_is_asked_knows_it(tmp_path: Path) -> None:
    """Otherwise the next command shows the old replicas."""

    async def scene() -> None:
        async with stage(tmp_path, 3) as set_up:
            for threads in set_up.threads.values():
                threads.release_all_from_now_on()
            await set_up.create([1])
            late, held = set_up.nodes[LATE], list[Request]()
            assert late.core.known_controller not in (LATE, NO_LEADER)
            take = late.server.handlers[Api.UPDATE_METADATA]
            late.server.replace(Api.UPDATE_METADATA, held.append)
            run = partial(asyncio.get_running_loop().run_in_executor, None)
            host, port = late.endpoint.host, late.endpoint.port
            admin = await run(Admin, f"{host}:{port}")
            moves = {0: [2]}

            async def moved(seconds: float) -> Any:
                return await run(admin.wait_until_moved, TOPIC, moves, seconds)

            try:
                await run(admin.reassign, TOPIC, moves)
                assert not await moved(0.5)
                late.server.restore(Api.UPDATE_METADATA)
                for request in held:
                    request.go_on(cast(Steps[None], take(request)))
                late.settle()
                assert await moved(15)
            finally:
                await run(admin.close)

    asyncio.run(scene())
