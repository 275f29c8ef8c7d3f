"""The broker core on each keeper: brokers register, elect a controller, and fail over.

The cores are the ones that ship; between them there is no network, only the keeper is real.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.forwarder import until
from tests.keeper.stages import Client, Stage, ZooKeeperStage
from tests.zookeeper import ZooKeeper

from tidelog.core import keeper_paths
from tidelog.core.assignments import TopicNode
from tidelog.core.broker import Broker
from tidelog.core.config import BrokerConfig
from tidelog.core.effects import KeeperCall, Reply, Send, WakeAt
from tidelog.core.events import ControllerElected, ControllerResigned
from tidelog.core.generations import GENERATIONS
from tidelog.core.keeper_port import Create, Get
from tidelog.core.types import BrokerEndpoint, BrokerId, PartitionState, TopicPartition
from tidelog.keeper.client import Notice
from tidelog.storage.memory import MemoryStorage

TP = TopicPartition("t", 0)


class Node:
    """A core with its connection to the keeper; messages to other nodes are handed over."""

    def __init__(self, number: int, client: Client, others: dict[BrokerId, "Node"], generation: str) -> None:
        self.id = BrokerId(number)
        self.client = client
        self._others = others
        self._loop = asyncio.get_running_loop()
        self.running = True
        self.events: list[Any] = []
        self.core = Broker(
            self.id,
            MemoryStorage(),
            GENERATIONS[generation],
            BrokerConfig(),
            registration=BrokerEndpoint("127.0.0.1", 9000 + number, f"az{number}"),
        )

    def _now(self) -> int:
        return int(self._loop.time() * 1000)

    def hear(self, notice: Notice) -> None:
        self._step(lambda: self.core.keeper_notice(notice, self._now()))

    def receive(self, sender: BrokerId, message: Any) -> None:
        self._step(lambda: self.core.receive(sender, message, self._now()))

    def _step(self, input_: Callable[[], None]) -> None:
        if not self.running:
            return
        input_()
        effects, self.core.effects[:] = list(self.core.effects), []
        for effect in effects:
            if isinstance(effect, KeeperCall):
                self.client.connection.call(effect)
            elif isinstance(effect, (Send, Reply)):
                to = self._others[effect.to]  # type: ignore[index]
                self._loop.call_soon(to.receive, self.id, effect.message)
            elif isinstance(effect, WakeAt):
                self._loop.call_at(effect.at / 1000, lambda: self._step(lambda: self.core.wake(self._now())))
            else:
                self.events.append(effect)

    async def stop(self) -> None:
        """As a process that dies; its session is closed, so that the test need not wait for its expiry."""
        self.running = False
        await self.client.connection.close()


async def cluster(stage: Stage, generation: str = "epoch") -> dict[BrokerId, Node]:
    """Three brokers, all registered, one of them the controller."""
    nodes: dict[BrokerId, Node] = {}
    for number in range(3):
        client = await stage.unconnected(started=False)
        node = nodes[BrokerId(number)] = Node(number, client, nodes, generation)
        client.connection.start(node.hear)
    await until(lambda: all(node.core.ctx.broker_epoch > 0 for node in nodes.values()), "registration")
    await until(lambda: any(node.core.controller.active for node in nodes.values()), "a controller")
    return nodes


async def state_of(admin: Client, reached: Callable[[PartitionState], bool]) -> PartitionState:
    """The partition's state in the keeper, once it is so."""
    while True:
        found = await admin.ask(Get(keeper_paths.state_path(TP)))
        if found.ok and reached(found.value.value):
            state: PartitionState = found.value.value
            return state
        await asyncio.sleep(0.01)


def controller(nodes: dict[BrokerId, Node]) -> Node:
    (active,) = [node for node in nodes.values() if node.running and node.core.controller.active]
    return active


async def test_a_topic_is_led_and_fails_over(stage: Stage) -> None:
    """A new partition is led by its first replica, and by the next one when that one dies."""
    nodes = await cluster(stage)
    admin = await stage.client()
    replicas = tuple(sorted(nodes, key=lambda broker: broker == controller(nodes).id))
    await admin.do(Create(keeper_paths.topic_path(TP.topic), TopicNode({0: replicas})))
    first = await state_of(admin, lambda state: True)
    assert (first.leader, first.leader_epoch, first.isr) == (replicas[0], 0, replicas)
    await nodes[replicas[0]].stop()
    second = await state_of(admin, lambda state: state.leader_epoch > 0)
    assert (second.leader, second.leader_epoch) == (replicas[1], 1)
    assert second.isr == replicas[1:]


async def test_the_controller_is_replaced(stage: Stage) -> None:
    """With a larger epoch, by one of those that are left."""
    nodes = await cluster(stage)
    admin = await stage.client()
    old = controller(nodes)
    epoch = (await admin.do(Get(keeper_paths.CONTROLLER_EPOCH))).value.value
    await old.stop()
    await until(lambda: any(n.running and n.core.controller.active for n in nodes.values()), "a new one")
    assert controller(nodes) is not old
    assert (await admin.do(Get(keeper_paths.CONTROLLER_EPOCH))).value.value > epoch
    assert (await admin.do(Get(keeper_paths.CONTROLLER))).value.value == controller(nodes).id


async def test_a_controller_whose_session_expired_resigns_and_registers_anew(stage: Stage) -> None:
    """Under a larger broker epoch; there is a controller afterwards."""
    nodes = await cluster(stage)
    admin = await stage.client()
    node = controller(nodes)
    epoch = node.core.ctx.broker_epoch
    await stage.expire(node.client)
    await until(lambda: node.core.ctx.broker_epoch > epoch, "registered again")
    assert any(isinstance(event, ControllerResigned) for event in node.events)
    await until(
        lambda: sum(isinstance(e, ControllerElected) for n in nodes.values() for e in n.events) == 2,
        "a second election",
    )
    found = (await admin.do(Get(keeper_paths.broker_path(node.id)))).value
    assert found.stat.created == node.core.ctx.broker_epoch


async def test_a_controller_goes_on_after_a_broken_connection(stage: Stage) -> None:
    """Disconnected while topics are created: when it is back all have leaders, and no other controller was
    elected."""
    nodes = await cluster(stage)
    admin = await stage.client()
    node = controller(nodes)
    for number in range(5):
        await admin.do(Create(keeper_paths.topic_path(f"t{number}"), TopicNode({0: tuple(nodes)})))
        if number == 2:
            stage.cut(node.client)
            await until(lambda: not node.client.connection.connected, "the break is noticed")
    stage.mend(node.client)
    for number in range(5):
        path = keeper_paths.state_path(TopicPartition(f"t{number}", 0))
        while not (await admin.ask(Get(path))).ok:
            await asyncio.sleep(0.01)
    assert node.core.controller.active
    assert sum(isinstance(e, ControllerElected) for n in nodes.values() for e in n.events) == 1


@pytest.mark.parametrize("generation", ["epoch", "hw"])
async def test_kafkas_own_json_is_what_a_stranger_reads(zookeeper: ZooKeeper, generation: str) -> None:
    """A plain ZooKeeper client finds what it would find of Kafka 2.7, or of 2.8, where topics have ids."""
    async with ZooKeeperStage(zookeeper.url()) as stage:
        nodes = await cluster(stage, generation)
        admin = await stage.client()
        await admin.do(Create(keeper_paths.topic_path(TP.topic), TopicNode({0: (BrokerId(1), BrokerId(2))})))
        await state_of(admin, lambda state: True)

        def read(client: Any) -> dict[str, Any]:
            asked = ["controller", "controller_epoch", "brokers/ids/1", "brokers/topics/t", "cluster/id"]
            asked.append("brokers/topics/t/partitions/0/state")
            found = {path: client.get(f"/{stage.chroot}/{path}") for path in asked}
            assert found["brokers/ids/1"][1].ephemeralOwner
            assert found["brokers/ids/1"][1].czxid == nodes[BrokerId(1)].core.ctx.broker_epoch
            assert found["controller"][1].ephemeralOwner
            assert client.get(f"/{stage.chroot}/brokers/topics")[0] == b""
            return {path: json.loads(stored) for path, (stored, _) in found.items()}

        found = await stage.foreign(read)
        elected = controller(nodes).id
    for path in ("controller", "brokers/ids/1"):
        assert found[path].pop("timestamp").isdigit()
    assert len(found["cluster/id"].pop("id")) == 22
    topic_id = found["brokers/topics/t"].pop("topic_id", "")
    assert bool(topic_id) == (generation == "epoch")
    assert found == {
        "controller": {"version": 1, "brokerid": elected},
        "controller_epoch": 1,
        "brokers/ids/1": {
            "version": 5,
            "host": "127.0.0.1",
            "port": 9001,
            "endpoints": ["PLAINTEXT://127.0.0.1:9001"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "jmx_port": -1,
            "rack": "az1",
            "features": {},
        },
        "brokers/topics/t": {
            "version": 3 if topic_id else 2,
            "partitions": {"0": [1, 2]},
            "adding_replicas": {},
            "removing_replicas": {},
        },
        "brokers/topics/t/partitions/0/state": {
            "version": 1,
            "leader": 1,
            "leader_epoch": 0,
            "controller_epoch": 1,
            "isr": [1, 2],
        },
        "cluster/id": {"version": "1"},
    }
