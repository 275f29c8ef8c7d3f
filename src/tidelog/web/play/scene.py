"""What there is to draw at one moment, as a flat mapping: one key for each thing that can change by itself.

Flat, so that the difference between two moments is a smaller mapping of the same kind, and the page redraws
what is named there and nothing else. Keys:

=====================  =====================================================================================
``now``                virtual time, the keeper's controller and its epoch
``part/T``             leader, epoch and ISR of topic number T, as the keeper holds them; the states of
                       partition and replicas in the controller's machines
``broker/B``           process state, whether it is registered and connected, whether it takes itself for the
                       controller, and the keeper member that its session is at
``log/T/B``            role, LEO, HW, what is on disk for certain, records, epochs, and what it tells clients
``inside/T/B``         the high watermark on disk; of a leader the Remote LEOs, and the requests that wait
``caught/T/B``         of a leader after a step: how long ago each follower had everything, in ms
``keeper/M``           whether member M runs, serves, leads
``client/C``           the ledger of a producer, or what a consumer has read
``cuts``, ``held``     links that are cut, channels whose messages wait
``flight``             messages on their way
=====================  =====================================================================================
"""

from __future__ import annotations

from typing import Any

from tidelog.core.keeper_paths import CONTROLLER, CONTROLLER_EPOCH, broker_path
from tidelog.core.types import TopicPartition
from tidelog.lab.world.snapshot import take
from tidelog.lab.world.world import World
from tidelog.narrate.clients import error_phrase
from tidelog.scenario.clients.events import Outcome, Sent
from tidelog.scenario.clients.producer import Producer
from tidelog.scenario.snapshot import ReplicaState
from tidelog.web.play.messages import travel

Scene = dict[str, Any]

FLIGHT_MAX = 200
"""A reader cannot distinguish more dots than this."""


def scene(world: World) -> Scene:
    """Everything."""
    found = small_scene(world)
    network = world.network
    found["cuts"] = sorted(([a, b] for a, b in network.blocked), key=str)
    found["held"] = ["all"] if network.hold_all else list(map(str, network.held()))
    flight = [
        travel(channel, payload) for channel in network.active for payload in network.in_flight(channel)
    ]
    found["flight"] = flight[:FLIGHT_MAX]
    for number, partition in enumerate(take(world).partitions):
        for replica in partition.replicas:
            found[f"caught/{number}/{replica.broker}"] = [
                None if follower.last_caught_up_ms is None else world.now - follower.last_caught_up_ms
                for follower in replica.remote
            ]
    return found


def small_scene(world: World) -> Scene:
    """Everything that a single message can change."""
    tree = world.quorum.tree
    controller, epoch = tree.get(CONTROLLER), tree.get(CONTROLLER_EPOCH)
    found: Scene = {
        "now": {
            "at": world.now,
            "controller": None if controller is None else controller.value,
            "epoch": 0 if epoch is None else epoch.value,
        }
    }
    for number, partition in enumerate(take(world).partitions):
        found[f"part/{number}"] = {
            "leader": partition.leader,
            "epoch": partition.leader_epoch,
            "isr": list(partition.isr),
            "elr": list(partition.elr),
            "lastKnown": list(partition.last_known_elr),
            "phase": partition.phase,
            "phases": {str(broker): phase for broker, phase in partition.replica_phases},
        }
        tp = TopicPartition(partition.topic, partition.partition)
        for replica in partition.replicas:
            synced = world.processes[replica.broker].storage.open(tp).synced_offset
            found[f"log/{number}/{replica.broker}"] = _log(replica, synced)
            found[f"inside/{number}/{replica.broker}"] = {
                "checkpoint": replica.checkpoint,
                "remote": [[follower.broker, follower.leo] for follower in replica.remote],
                "parked": [[parked.kind, parked.sender, parked.offset] for parked in replica.parked],
            }
    for broker in world.broker_ids():
        found[f"broker/{broker}"] = _broker(world, broker)
    serving = world.quorum.serving(world.network.linked)
    for member in world.quorum.members:
        found[f"keeper/{member}"] = {
            "running": world.quorum.running[member],
            "serving": member in serving,
            "leads": member == world.quorum.leader,
        }
    for name, client in world.clients.items():
        if isinstance(client, Producer):
            found[f"client/{name}"] = [entry(sent) for sent in client.ledger]
        else:
            found[f"client/{name}"] = [[read.value, read.offset] for read in client.reads]
    return found


def _broker(world: World, broker: int) -> dict[str, Any]:
    core = world.processes[broker].core
    return {
        "process": "down" if core is None else "paused" if broker in world.paused else "up",
        "registered": world.quorum.tree.get(broker_path(world.processes[broker].id)) is not None,
        "connected": core is not None and world.quorum.is_connected(broker),
        "controls": core is not None and core.controller.active,
        "member": world.quorum.session_at.get(broker) if core is not None else None,
    }


def _log(replica: ReplicaState, synced: int) -> dict[str, Any]:
    believes = replica.believes
    return {
        "role": replica.role,
        "leo": replica.leo,
        "hw": replica.hw,
        "synced": synced,
        "records": [[epoch, value] for _, epoch, value in replica.records],
        "epochs": [list(pair) for pair in replica.epochs],
        "believes": None if believes is None else {**believes, "isr": list(believes["isr"])},
    }


def entry(sent: Sent) -> dict[str, Any]:
    """A line of the ledger: the outcome of one record for its producer."""
    line: dict[str, Any] = {
        "value": sent.value,
        "acks": "all" if sent.acks == -1 else str(sent.acks),
        "outcome": "pending" if sent.outcome is None else sent.outcome.value,
        "attempts": sent.attempts,
    }
    if sent.outcome is Outcome.OK and sent.offset >= 0:
        line["offset"] = sent.offset
    elif sent.outcome is not Outcome.OK and sent.error is not None:
        line["error"] = error_phrase(sent.error).as_json()
    return line


def changes(before: Scene, after: Scene) -> Scene:
    """What is different, as a scene of its own. Nothing ever disappears from a scene."""
    return {key: value for key, value in after.items() if before.get(key) != value}
