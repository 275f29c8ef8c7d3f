"""Carrying out the steps of a scenario, wherever it plays.

Between steps everything in flight arrives unless the scenario holds all messages; so a hand-written scenario
reads as a story, and a schedule found by search is played message by message. A step that finds nothing to
do says so and does no harm: that is what lets a schedule be shrunk.

Where it plays is a ``Stage`` (``stage.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, assert_never

from tidelog.faults import FAULT_VERBS, MENDING_VERBS
from tidelog.faults.base import Fault
from tidelog.faults.damage import Damage
from tidelog.faults.places import Channel, Node
from tidelog.faults.step import Aimed, Duration, Sides, Step
from tidelog.faults.targets import Moot, Takes, Targets
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.events import ClientError, Sent
from tidelog.scenario.clients.producer import Producer
from tidelog.scenario.conditions import Condition
from tidelog.scenario.remarks import Remark, RemarkKind
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.stage import Stage

Remarks = tuple[Remark, ...]

PATIENCE_MS = 120_000
"""How long ``wait`` and ``produce`` wait when the scenario does not say."""


class ScriptRunner:
    def __init__(self, scenario: Scenario, stage: Stage) -> None:
        self._stage = stage
        self._partition_of = {each.name: scenario.partition_of(each.name) for each in scenario.clients}
        for client in scenario.clients:
            if client.producer is None:
                stage.add_consumer(client.name, client.zone)
            else:
                stage.add_producer(client.name, client.zone, client.producer)
        self._verbs: dict[str, Callable[..., Remarks]] = {
            "produce": self._produce,
            "send": self._send,
            "read": self._read,
            "poll": self._poll,
            "sync": self._sync,
            "configure": self._configure,
            "reassign": self._reassign,
            "create-topic": self._create_topic,
            "delete-topic": self._delete_topic,
            "delete": self._delete,
            "deliver": self._deliver,
            "drop": self._drop,
            "tick": self._tick,
            "advance": self._advance,
            "settle": self._settle,
            "wait": self._wait,
            **{verb: partial(self._inject, fault) for verb, fault in FAULT_VERBS.items()},
            **{verb: partial(self._mend, damage) for verb, damage in MENDING_VERBS.items()},
        }

    def perform(self, step: Step) -> Remarks:
        """Carry out one step. The answer is for the reader: nothing, if all went as the step says."""
        remarks = self._verbs[step.verb](*step.args)
        self._stage.settle_after_step()
        return remarks

    # ------------------------------------------------------------ clients

    def _batches(self, sender: str | Aimed, values: tuple[str, ...]) -> Iterator[Sent]:
        """Send the values, and return the first record of each batch."""
        name, broker = (sender.client, sender.broker) if isinstance(sender, Aimed) else (sender, None)
        client = self._stage.clients[name]
        assert isinstance(client, Producer)
        size = client.config.batch_records
        for start in range(0, len(values), size):
            value, *rest = values[start : start + size]
            yield client.send(self._partition_of[name], value, broker, *rest)

    def _send(self, sender: str | Aimed, *values: str) -> Remarks:
        for _ in self._batches(sender, values):
            pass
        return ()

    def _produce(self, sender: str | Aimed, *values: str) -> Remarks:
        for record in self._batches(sender, values):
            self._stage.run_until(lambda record=record: _answered(record), PATIENCE_MS)  # type: ignore[misc]
        return ()

    def _consumer(self, name: str) -> Consumer:
        client = self._stage.clients[name]
        assert isinstance(client, Consumer)
        return client

    def _poll(self, name: str) -> Remarks:
        self._consumer(name).poll(self._partition_of[name])
        return ()

    def _read(self, name: str) -> Remarks:
        consumer = self._consumer(name)
        before = len(consumer.reads)
        consumer.poll(self._partition_of[name])
        self._stage.run_until(lambda: not consumer.busy, PATIENCE_MS)
        if consumer.last_error is not None:
            return _remark(RemarkKind.READ_FAILED, client=name, error=consumer.last_error)
        records = " ".join(f"{read.value}@{read.offset}" for read in consumer.reads[before:])
        if not records:
            return _remark(RemarkKind.READ_NOTHING, client=name)
        return _remark(RemarkKind.READ, client=name, records=records)

    # ------------------------------------------------------------ faults

    def _inject(self, fault: Fault, *args: object) -> Remarks:
        remarks: Remarks = ()
        for targets in self._targets(fault.takes, args):
            moot = fault.moot(self._stage, targets) or fault.inject(self._stage, targets)
            remarks += _moot(moot, targets)
        return remarks

    def _mend(self, damage: Damage, *args: object) -> Remarks:
        remarks: Remarks = ()
        for targets in self._targets(damage.takes, args):
            moot = damage.moot(self._stage, targets)
            if moot is None:
                damage.mend(self._stage, targets)
            remarks += _moot(moot, targets)
        return remarks

    def _targets(self, takes: Takes, args: tuple[Any, ...]) -> list[Targets]:
        """What to do one after the other: each broker alone, all links at once."""
        match takes:
            case Takes.NOTHING:
                return [Targets()]
            case Takes.BROKER | Takes.BROKERS:
                return [Targets(brokers=(broker,)) for broker in args]
            case Takes.PAIR:
                return [Targets(brokers=args)]
            case Takes.MEMBER:
                return [Targets(members=args)]
            case Takes.ZONE:
                return [Targets(zone=args[0])]
            case Takes.SIDES:
                return [Targets(links=self._pairs(args[0]))]
            case Takes.SIDES_OR_NOTHING:
                pairs = self._pairs(args[0]) if args else ()
                return [Targets(links=pairs)] if pairs or not args else []
            case Takes.DELAY:
                return [Targets(links=self._pairs(args[0]), ms=args[1].ms)]
            case Takes.CHANNEL_OR_ALL:
                return [Targets(channels=args) if isinstance(args[0], Channel) else Targets()]
        assert_never(takes)

    def _sync(self, *brokers: int) -> Remarks:
        for broker in brokers:
            self._stage.sync_disk(broker)
        return ()

    def _pairs(self, sides: Sides) -> tuple[tuple[Node, Node], ...]:
        nodes = self._stage.nodes_at
        left = [node for place in sides.left for node in nodes(place)]
        right = [node for place in sides.right for node in nodes(place)]
        pairs = tuple((a, b) for a in left for b in right if a != b)
        return pairs if sides.one_way else pairs + tuple((b, a) for a, b in pairs)

    # ------------------------------------------------------------ messages

    def _deliver(self, channel: Channel) -> Remarks:
        if self._stage.deliver(channel):
            return ()
        return _remark(RemarkKind.NOTHING_ARRIVES, channel=str(channel))

    def _drop(self, channel: Channel) -> Remarks:
        if self._stage.drop(channel):
            return ()
        return _remark(RemarkKind.NOTHING_IN_FLIGHT, channel=str(channel))

    # ------------------------------------------------------------ time

    def _tick(self) -> Remarks:
        return () if self._stage.tick() else _remark(RemarkKind.NO_TIMER)

    def _advance(self, duration: Duration) -> Remarks:
        self._stage.advance(duration.ms)
        return ()

    def _settle(self) -> Remarks:
        self._stage.settle()
        return ()

    def _wait(self, condition: Condition) -> Remarks:
        within = condition.within_ms if condition.within_ms is not None else PATIENCE_MS
        if self._stage.reaches(condition, within):
            return ()
        return _remark(RemarkKind.TIMED_OUT, seconds=within // 1000, condition=condition.wanted)

    # ------------------------------------------------------------ administration

    def _configure(self, topic: str, *settings: str) -> Remarks:
        self._stage.configure_topic(topic, dict(setting.split("=", 1) for setting in settings))
        return ()

    def _reassign(self, topic: str, brokers: tuple[int, ...] | str) -> Remarks:
        target = brokers if isinstance(brokers, tuple) else None
        return () if self._stage.reassign(topic, target) else _remark(RemarkKind.NO_CONTROLLER)

    def _create_topic(self, topic: str, brokers: tuple[int, ...]) -> Remarks:
        return () if self._stage.create_topic(topic, brokers) else _remark(RemarkKind.NO_CONTROLLER)

    def _delete_topic(self, topic: str) -> Remarks:
        if not self._stage.delete_topic(topic):
            return _remark(RemarkKind.NO_CONTROLLER)
        for client in self._stage.clients.values():
            client.topic_deleted(topic)
        return ()

    def _delete(self, path: str) -> Remarks:
        return () if self._stage.delete_node(path) else _remark(RemarkKind.NO_SUCH_NODE, path=path)


def _moot(moot: Moot | None, targets: Targets) -> Remarks:
    if moot is None:
        return ()
    where = {"broker": targets.brokers[0]} if targets.brokers else {}
    return (Remark(RemarkKind[moot.name], {**where}),)


def _remark(kind: RemarkKind, **fields: str | int | ClientError) -> Remarks:
    return (Remark(kind, fields),)


def _answered(record: Sent) -> bool:
    return record.outcome is not None
