"""Carrying out the steps of a scenario, wherever it plays.

Between steps everything in flight arrives unless the scenario holds all messages; so a hand-written scenario
reads as a story, and a schedule found by search is played message by message. A step that finds nothing to
do says so and does no harm: that is what lets a schedule be shrunk.

Where it plays is a ``Stage`` (``stage.py``).
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.faults.places import Channel, Node
from tidelog.faults.step import Duration, Sides, Step
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.events import ClientError, Sent
from tidelog.scenario.clients.producer import Producer
from tidelog.scenario.conditions import Condition
from tidelog.scenario.line import is_number
from tidelog.scenario.remarks import Remark, RemarkKind
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.stage import Stage

Remarks = tuple[Remark, ...]

PATIENCE_MS = 120_000
"""How long ``wait`` and ``produce`` wait when the scenario does not say."""


class ScriptRunner:
    def __init__(self, scenario: Scenario, stage: Stage) -> None:
        self._stage = stage
        self._tp = scenario.partition
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
            "crash": self._each(self._crash),
            "power-off": self._each(self._power_off),
            "restart": self._each(self._restart),
            "pause": self._each(self._pause),
            "resume": self._each(self._resume),
            "stop": self._stop,
            "sync": self._each(self._sync),
            "cut": self._cut,
            "isolate": self._isolate,
            "heal": self._heal,
            "reset": self._reset,
            "delay": self._delay,
            "keeper-stop": lambda n: self._keeper(n, running=False),
            "keeper-start": lambda n: self._keeper(n, running=True),
            "elect-preferred": self._elect_preferred,
            "configure": self._configure,
            "hold": self._hold,
            "release": self._release,
            "deliver": self._deliver,
            "drop": self._drop,
            "tick": self._tick,
            "advance": self._advance,
            "settle": self._settle,
            "wait": self._wait,
        }

    def perform(self, step: Step) -> Remarks:
        """Carry out one step. The answer is for the reader: nothing, if all went as the step says."""
        remarks = self._verbs[step.verb](*step.args)
        self._stage.settle_after_step()
        return remarks

    # ------------------------------------------------------------ clients

    def _producer(self, name: str) -> Producer:
        client = self._stage.clients[name]
        assert isinstance(client, Producer)
        return client

    def _send(self, name: str, *values: str) -> Remarks:
        for value in values:
            self._producer(name).send(self._tp, value)
        return ()

    def _produce(self, name: str, *values: str) -> Remarks:
        for value in values:
            record = self._producer(name).send(self._tp, value)
            self._stage.run_until(lambda record=record: _answered(record), PATIENCE_MS)  # type: ignore[misc]
        return ()

    def _consumer(self, name: str) -> Consumer:
        client = self._stage.clients[name]
        assert isinstance(client, Consumer)
        return client

    def _poll(self, name: str) -> Remarks:
        self._consumer(name).poll(self._tp)
        return ()

    def _read(self, name: str) -> Remarks:
        consumer = self._consumer(name)
        before = len(consumer.reads)
        consumer.poll(self._tp)
        self._stage.run_until(lambda: not consumer.busy, PATIENCE_MS)
        if consumer.last_error is not None:
            return _remark(RemarkKind.READ_FAILED, client=name, error=consumer.last_error)
        records = " ".join(f"{read.value}@{read.offset}" for read in consumer.reads[before:])
        if not records:
            return _remark(RemarkKind.READ_NOTHING, client=name)
        return _remark(RemarkKind.READ, client=name, records=records)

    # ------------------------------------------------------------ processes

    def _each(self, one: Callable[[int], Remarks]) -> Callable[..., Remarks]:
        return lambda *brokers: tuple(remark for broker in brokers for remark in one(broker))

    def _crash(self, broker: int) -> Remarks:
        if not self._stage.is_up(broker):
            return _remark(RemarkKind.ALREADY_DOWN, broker=broker)
        self._stage.crash(broker)
        return ()

    def _power_off(self, broker: int) -> Remarks:
        self._stage.power_off(broker)
        return ()

    def _restart(self, broker: int) -> Remarks:
        if self._stage.is_up(broker):
            return _remark(RemarkKind.ALREADY_RUNNING, broker=broker)
        self._stage.start(broker)
        return ()

    def _pause(self, broker: int) -> Remarks:
        if not self._stage.is_up(broker) or self._stage.is_paused(broker):
            return _remark(RemarkKind.NOT_RUNNING, broker=broker)
        self._stage.pause(broker)
        return ()

    def _resume(self, broker: int) -> Remarks:
        if not self._stage.is_paused(broker):
            return _remark(RemarkKind.NOT_PAUSED, broker=broker)
        self._stage.resume(broker)
        return ()

    def _stop(self, broker: int) -> Remarks:
        if not self._stage.is_up(broker):
            return _remark(RemarkKind.ALREADY_DOWN, broker=broker)
        self._stage.stop(broker)
        return ()

    def _sync(self, broker: int) -> Remarks:
        self._stage.sync_disk(broker)
        return ()

    def _keeper(self, number: int, *, running: bool) -> Remarks:
        self._stage.keeper_member(f"keeper-{number}", running=running)
        return ()

    # ------------------------------------------------------------ network

    def _nodes(self, places: tuple[str, ...]) -> list[Node]:
        """A place is a zone with everything in it, or a single node."""
        zones, found = self._stage.zones(), []
        for place in places:
            if place in zones:
                found += self._stage.nodes_in(place)
            elif is_number(place.removeprefix("broker-")):
                found.append(int(place.removeprefix("broker-")))
            else:
                found.append(place)
        return found

    def _pairs(self, places: Sides) -> list[tuple[Node, Node]]:
        left, right = self._nodes(places.left), self._nodes(places.right)
        pairs = [(a, b) for a in left for b in right if a != b]
        return pairs if places.one_way else pairs + [(b, a) for a, b in pairs]

    def _cut(self, places: Sides) -> Remarks:
        self._stage.cut(self._pairs(places))
        return ()

    def _isolate(self, zone: str) -> Remarks:
        others = tuple(other for other in self._stage.zones() if other != zone)
        return self._cut(Sides((zone,), others))

    def _heal(self, places: Sides | None = None) -> Remarks:
        self._stage.heal(None if places is None else self._pairs(places))
        return ()

    def _reset(self, a: int, b: int) -> Remarks:
        self._stage.reset_connections(a, b)
        return ()

    def _delay(self, places: Sides, delay: Duration) -> Remarks:
        self._stage.delay(self._pairs(places), delay.ms)
        return ()

    def _hold(self, what: Channel | str) -> Remarks:
        self._stage.hold(what if isinstance(what, Channel) else None)
        return ()

    def _release(self, what: Channel | str) -> Remarks:
        self._stage.release(what if isinstance(what, Channel) else None)
        return ()

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
        return _remark(RemarkKind.TIMED_OUT, seconds=within // 1000, condition=str(condition))

    # ------------------------------------------------------------ administration

    def _elect_preferred(self) -> Remarks:
        return () if self._stage.elect_preferred(self._tp) else _remark(RemarkKind.NO_CONTROLLER)

    def _configure(self, topic: str, *settings: str) -> Remarks:
        self._stage.configure_topic(topic, dict(setting.split("=", 1) for setting in settings))
        return ()


def _remark(kind: RemarkKind, **fields: str | int | ClientError) -> Remarks:
    return (Remark(kind, fields),)


def _answered(record: Sent) -> bool:
    return record.outcome is not None
