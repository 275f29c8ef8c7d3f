"""A scenario's cluster from nothing to the state in which its first step finds it: keeper, brokers, topics.

As in the lab: the broker that is to be controller starts first, the others when it is; then the topics are
made, and everybody has heard of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tidelog.cluster.errors import TrialError
from tidelog.cluster.network.networks import LOOPBACK
from tidelog.cluster.network.relays.switchboard import Switchboard
from tidelog.core.types import TopicPartition
from tidelog.faults.places import KEEPER
from tidelog.kafka_client.aio import ask
from tidelog.keeper.client import connect
from tidelog.keeper.embedded.server import EmbeddedKeeper
from tidelog.process_stage.observation import Observation
from tidelog.process_stage.processes import Processes
from tidelog.process_stage.translation import creation, creation_with_a_past
from tidelog.scenario.setup import Setup, TopicSetup
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode

BOOT_SECONDS_MAX = 60.0
ANSWER_SECONDS_MAX = 10.0
POLL_SECONDS = 0.01
SHORTEST_SESSION_MS = 100


async def start_keeper(switchboard: Switchboard) -> EmbeddedKeeper:
    """In memory: what a keeper survives is not what scenarios are about. Its clock ticks finely, because
    sessions are short here."""
    keeper = EmbeddedKeeper(None, host=LOOPBACK, session_timeout_min_ms=SHORTEST_SESSION_MS)
    await keeper.start()
    switchboard.place(KEEPER, LOOPBACK, keeper.port)
    return keeper


async def start_brokers(
    setup: Setup, observation: Observation, start: Callable[[int], Awaitable[None]]
) -> None:
    """``start`` starts one broker and returns when it serves."""
    first = setup.controller
    await start(first)
    await eventually(lambda: _is_controller(observation, first), f"broker {first} does not become controller")
    await asyncio.gather(*(start(broker) for broker in range(setup.brokers) if broker != first))


async def _is_controller(observation: Observation, broker: int) -> bool:
    view = await observation.view(broker)
    return view is not None and view.acts_as_controller


async def create_topics(
    setup: Setup, processes: Processes, observation: Observation, keeper: EmbeddedKeeper
) -> None:
    for topic in setup.topics:
        if topic.isr is None:
            await _create(setup, topic, processes)
        else:
            await _create_with_a_past(topic, topic.isr, keeper)
    for topic in setup.topics:
        await eventually(
            lambda topic=topic: _is_known(setup, topic, observation),  # type: ignore[misc]
            f"the brokers do not take up topic {topic.name}",
        )


async def _create(setup: Setup, topic: TopicSetup, processes: Processes) -> None:
    at = processes.brokers[setup.controller].at
    assert at is not None
    try:
        answer = await ask((at.host, at.port), Api.CREATE_TOPICS, 4, creation(topic), ANSWER_SECONDS_MAX)
    except OSError as error:
        raise TrialError(f"topic {topic.name} cannot be created: {error}") from None
    code = answer.topics[0].error_code
    if code != ErrorCode.NONE:
        raise TrialError(f"topic {topic.name} cannot be created: {ErrorCode(code).name}")


async def _create_with_a_past(topic: TopicSetup, isr: tuple[int, ...], keeper: EmbeddedKeeper) -> None:
    connection = connect(f"embedded://{LOOPBACK}:{keeper.port}")
    connection.start(lambda notice: None)
    try:
        result = await connection.request(creation_with_a_past(topic, isr))
    finally:
        await connection.close()
    if not result.ok:
        raise TrialError(f"topic {topic.name} cannot be created: {result.error}")


async def _is_known(setup: Setup, topic: TopicSetup, observation: Observation) -> bool:
    """All replicas have taken up their roles, and every broker would send a client to the leader."""
    tp = TopicPartition(topic.name, 0)
    state = observation.partition_state(tp)
    if state is None:
        return False
    views = await observation.views(beliefs=True)
    for broker, view in views.items():
        known = view.believes.get(tp) if view is not None else None
        if known is None or (known.leader, known.leader_epoch) != (state.leader, state.leader_epoch):
            return False
        if broker in topic.replicas:
            replica = view.replicas.get(tp) if view is not None else None
            if replica is None or replica.leader != state.leader:
                return False
    return True


async def eventually(check: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    """Until it holds; ``TrialError`` if that takes too long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + BOOT_SECONDS_MAX
    while not await check():
        if loop.time() > deadline:
            raise TrialError(f"{otherwise} within {BOOT_SECONDS_MAX:g} s")
        await asyncio.sleep(POLL_SECONDS)
