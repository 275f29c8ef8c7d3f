"""Administration under faults: after any requests and failures the cluster agrees on its state."""

from random import Random

import pytest
from tests.core.administrator import Administrator

from tidelog.core import keeper_paths
from tidelog.core.messages import (
    ElectionType,
    ElectLeadersRequest,
    InitProducerIdRequest,
    Message,
    ProduceRequest,
)
from tidelog.core.topic_messages import (
    AlterTopicConfigRequest,
    CreatePartitionsRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
)
from tidelog.core.types import TopicPartition
from tidelog.scenario.setup import Setup
from tidelog.storage.memory import MemoryBatch

BROKERS = range(3)
NAMES = ("t", "u")
TWO_IN_SYNC = {"min.insync.replicas": "2"}


def random_request(dice: Random) -> Message:
    topic = dice.choice(NAMES)
    kinds: list[Message] = [
        CreateTopicRequest(
            topic=topic,
            partitions=dice.randint(1, 4),
            replication_factor=dice.randint(1, 3),
            config=TWO_IN_SYNC,
        ),
        CreateTopicRequest(topic=topic, partitions=dice.randint(1, 4), replication_factor=dice.randint(1, 3)),
        DeleteTopicRequest(topic=topic),
        DeleteTopicRequest(topic=topic),
        CreatePartitionsRequest(topic=topic, count=dice.randint(2, 6)),
        AlterTopicConfigRequest(topic=topic, values={"min.insync.replicas": dice.choice(["1", "2", None])}),
        ElectLeadersRequest(tp=TopicPartition(topic, 0), election=dice.choice(list(ElectionType))),
        InitProducerIdRequest(),
        ProduceRequest(TopicPartition(topic, 0), 1, MemoryBatch("a"), 1_000),
    ]
    return dice.choice(kinds)


def random_fault(admin: Administrator, dice: Random) -> None:
    world, broker = admin.world, dice.choice(BROKERS)
    process = world.processes[broker]
    fault = dice.choice(["crash", "pause", "keeper", "link", "reset", "mend"])
    if fault == "mend":
        mend(admin)
    elif process.core is None:
        world.start(broker)
    elif fault == "crash":
        world.crash(broker, power=dice.random() < 0.5)
    elif fault == "pause" and broker not in world.paused:
        world.pause(broker)
    elif fault == "keeper":
        world.cut([(broker, f"keeper-{member}") for member in range(3)])
    elif fault == "link":
        world.cut([(broker, (broker + 1) % 3)])
    elif broker not in world.paused:
        world.reset_connections(broker, (broker + 1) % 3)


def mend(admin: Administrator) -> None:
    world = admin.world
    world.heal()
    for broker in BROKERS:
        if world.processes[broker].core is None:
            world.start(broker)
        elif broker in world.paused:
            world.resume(broker)


def disagreements(admin: Administrator) -> list[str]:
    """Where keeper, brokers and disks differ about what topics there are."""
    nodes = admin.world.quorum.tree.dump()["nodes"]
    assignments = {name: admin.value(keeper_paths.topic_path(name)) for name in NAMES}
    existing = {name: node.partitions for name, node in assignments.items() if node is not None}
    found = [path for path in nodes if path.startswith(f"{keeper_paths.DELETE_TOPICS}/")]
    found += [
        path
        for path in nodes
        if path.startswith(f"{keeper_paths.TOPIC_CONFIGS}/") and keeper_paths.name_of(path) not in existing
    ]
    for broker in BROKERS:
        core = admin.core(broker)
        listed = {topic: sorted(assignment) for topic, assignment in existing.items()}
        if admin.listed(broker) != listed:
            found.append(f"{broker} lists {admin.listed(broker)} and not {listed}")
        mine = sorted(
            TopicPartition(topic, partition)
            for topic, assignment in existing.items()
            for partition, replicas in assignment.items()
            if broker in replicas
        )
        if not sorted(core.replicas) == mine == admin.logs(broker):
            found.append(f"{broker} holds {sorted(core.replicas)}, {admin.logs(broker)} and not {mine}")
        for topic in existing:
            least = admin.value(keeper_paths.config_path(topic)).get("min.insync.replicas", "1")
            if core.ctx.topic_config(topic).min_insync_replicas != int(least):
                found.append(f"{broker} has other settings of {topic}")
    for topic, assignment in existing.items():
        for partition in assignment:
            state = admin.state(topic, partition)
            if state is None or state.leader not in assignment[partition]:
                found.append(f"{topic}-{partition} is in state {state}")
    return found


def play(seed: int, generation: str, steps: int = 60) -> None:
    dice = Random(seed)
    admin = Administrator(Setup(brokers=3, generation=generation))
    for _ in range(steps):
        if dice.random() < 0.25:
            random_fault(admin, dice)
        else:
            controller = admin.value(keeper_paths.CONTROLLER)
            right = controller is not None and dice.random() < 0.8
            admin.send(random_request(dice), to=int(controller) if right else dice.choice(BROKERS))
        if dice.random() < 0.1:
            admin.world.advance(dice.choice([100, 7_000, 20_000]))
        for _ in range(dice.randint(0, 40)):
            if not (channels := admin.world.deliverable()):
                break
            admin.world.deliver(dice.choice(channels))
    mend(admin)
    admin.world.advance(60_000)
    assert disagreements(admin) == [], f"seed {seed}"


# Not the older generations: they have no broker epochs, so a rebooted broker obeys what a deposed controller
# sent to its former life, and may make a replica anew that has been deleted (KAFKA-7235).
@pytest.mark.parametrize("generation", ["epoch", "majority"])
def test_the_cluster_agrees_in_the_end(generation: str) -> None:
    """Requests to any broker, messages in any order, crashes, freezes and cuts: when all is healed, keeper,
    brokers and disks agree, every partition has a leader, and no deletion hangs."""
    for seed in range(50):
        play(seed, generation)
