"""The inside of a broker as JSON, to find out why: ``GET /state`` on the port of its metrics.

It holds what a number with labels cannot say: what a leader knows of each follower, which requests wait for
what, and the states in the controller's machines. Times are relative to the answer, because the clock of the
core means nothing to others.

A broker with many partitions makes the page in slices: each partition is consistent, the page as a whole is
not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Hashable
from typing import Any, Final

from tidelog.broker.metrics.readings import leader_of, recovery_point
from tidelog.core.broker import Broker
from tidelog.core.inside import parked_requests, phases, remote_replicas, role_name
from tidelog.core.replication.replica import Replica
from tidelog.core.types import Millis, TopicPartition

SLICE_PARTITIONS: Final = 50
ITSELF: Final = "this broker"


async def state_page(broker: Broker) -> bytes:
    controller = broker.controller
    page: dict[str, Any] = {
        "broker": broker.ctx.broker,
        "generation": broker.ctx.generation.name,
        "controls": controller.epoch if controller.active else None,
        "partitions": [],
        "machines": [],
    }
    for number, (tp, replica) in enumerate(list(broker.replicas.items())):
        await _pause(number)
        page["partitions"].append(_named(tp) | _replica(replica, _now()))
    machines = controller.machines
    if machines is not None:
        for number, (tp, assignment) in enumerate(list(machines.cluster.assignments.items())):
            await _pause(number)
            phase, of_replicas = phases(controller, tp, assignment)
            page["machines"].append(_named(tp) | {"phase": phase, "replicas": of_replicas})
    return json.dumps(page).encode() + b"\n"


async def _pause(number: int) -> None:
    if number % SLICE_PARTITIONS == SLICE_PARTITIONS - 1:
        await asyncio.sleep(0)


def _now() -> Millis:
    """The clock of the core, as ``Node.now``."""
    return int(asyncio.get_running_loop().time() * 1000)


def _named(tp: TopicPartition) -> dict[str, Any]:
    return {"topic": tp.topic, "partition": tp.partition}


def _replica(replica: Replica, now: Millis) -> dict[str, Any]:
    return {
        "role": role_name(replica),
        "leader": leader_of(replica),
        "leader_epoch": replica.leader_epoch,
        "log_end_offset": replica.log.end_offset,
        "high_watermark": replica.high_watermark,
        "recovery_point": recovery_point(replica),
        "remote": [
            {
                "broker": follower.broker,
                "log_end_offset": follower.leo,
                "caught_up_ms_ago": None
                if follower.last_caught_up_ms is None
                else now - follower.last_caught_up_ms,
            }
            for follower in remote_replicas(replica)
        ],
        "parked": [
            {
                "kind": request.kind,
                "sender": request.sender,
                "offset": request.offset,
                "ms_left": request.deadline_ms - now,
            }
            for request in parked_requests(replica, _sender)
        ],
    }


def _sender(waiter: Hashable) -> str:
    """Group coordinators wait without a client's request."""
    return str(getattr(waiter, "sender", ITSELF))
