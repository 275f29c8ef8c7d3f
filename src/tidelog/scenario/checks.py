"""What a scenario may speak of: its clients, brokers, zones, topics, and the records that it sends.

Every refusal names the line and the column. Conditions and ``expect`` lines are about the scenario's first
topic, so the brokers in them must hold a replica of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tidelog.faults.places import KEEPER, Channel, Node
from tidelog.faults.step import Aimed, Sides, Step
from tidelog.faults.targets import Takes
from tidelog.scenario.conditions import OF_REPLICA, Condition
from tidelog.scenario.grammar import TAKES, node
from tidelog.scenario.head import topic_config
from tidelog.scenario.line import Line, is_number
from tidelog.scenario.setup import Setup, SetupError

if TYPE_CHECKING:
    from tidelog.scenario.scenario import Scenario

ADMINISTRATOR = "admin"
_SENDS = ("send", "produce")
_ABOUT_VALUES = frozenset(("lost", "duplicated", "rewritten", "reordered"))
_ONCE = frozenset(("scenario", "title", "source", "cluster"))
"""Words of the head that stand in one line only; of the others there is one line for each name."""
_NUMBERS = frozenset(("epoch", "shrinks", "diverged"))


# ---------------------------------------------------------------- steps


def check_step(scenario: Scenario, line: Line, step: Step) -> None:
    """Refuse a step that speaks of a client, broker, zone or topic which this scenario does not have."""
    setup = scenario.setup
    takes = TAKES.get(step.verb)
    if step.client is not None:
        _check_client(scenario, line, step)
    elif takes in (Takes.BROKER, Takes.BROKERS, Takes.PAIR):
        for index, broker in enumerate(step.args, start=1):
            _check_broker(setup, line, index, broker)
        if takes is Takes.PAIR and step.args[0] == step.args[1]:
            raise line.error(2, "another broker: nothing connects one with itself")
    elif takes is Takes.MEMBER:
        if not 0 <= int(str(step.args[0])) < setup.keepers:
            raise line.error(1, f"a keeper member between 0 and {setup.keepers - 1}")
    elif step.verb == "configure":
        _check_configure(scenario, line, step)
    elif step.verb in ("reassign", "create-topic", "delete-topic"):
        _check_reassign(scenario, line, step)
    elif takes is Takes.ZONE and step.args[0] not in _places(scenario):
        raise line.error(1, f"a zone out of {', '.join(zones(setup))}")
    for arg in step.args:
        if isinstance(arg, Condition):
            _check_condition(scenario, line, arg)
        elif isinstance(arg, Channel):
            _check_channel(scenario, line, 2, arg)
        elif isinstance(arg, Sides):
            _check_sides(scenario, line, arg)


def _check_condition(scenario: Scenario, line: Line, condition: Condition) -> None:
    name, args = condition.name, condition.args
    if name in ("registered", "unregistered", "controller"):
        _check_broker(scenario.setup, line, 2, args[0])
    elif name == "leader" and args[0] is not None:
        _check_replica(scenario, line, 2, args[0])
    elif name in ("isr", "replicas") and isinstance(args[0], tuple):
        for broker in args[0]:
            _check_replica(scenario, line, 2, broker)
        if len(set(args[0])) != len(args[0]):
            raise line.error(2, "each broker once")
    elif name in OF_REPLICA:
        _check_replica(scenario, line, 2, args[0])
        if name == "follows":
            _check_replica(scenario, line, 3, args[1])
            if args[0] == args[1]:
                raise line.error(3, "another broker: none follows itself")
        if name in ("holds", "knows") and args[1] not in _values(scenario.steps):
            raise line.error(3, "a record that an earlier step sends")
    elif name == "in-flight" and isinstance(args[0], Channel):
        _check_channel(scenario, line, 3, args[0])
    if name in ("epoch", "leo", "hw") and int(str(args[-1])) < 0:
        raise line.error(len(args) + 1, "a number of at least 0")


def _check_channel(scenario: Scenario, line: Line, index: int, channel: Channel) -> None:
    """The two ends must be nodes between which such messages travel."""
    kind = channel.name.removesuffix("-reply")
    ends = (channel.source, channel.target)
    source, target = reversed(ends) if kind != channel.name else ends
    example = {"client": "p->0", KEEPER: "0->keeper"}.get(kind, "1->0")
    if kind != channel.name:
        example = "->".join(reversed(example.split("->")))
    expected = f"two nodes of this scenario like {example}"
    brokers = range(scenario.setup.brokers)
    if kind == "client":
        senders: Iterable[Node] = [*(client.name for client in scenario.clients), ADMINISTRATOR]
    else:
        senders = brokers
    if source not in senders or target not in ([KEEPER] if kind == KEEPER else brokers):
        raise line.error(index, expected)
    if kind == "fetch":
        if source == target:
            raise line.error(index, f"{expected}: no broker fetches from itself")
        for end in (source, target):
            if not any(end in topic.hosts for topic in scenario.setup.topics):
                raise line.error(index, f"{expected}: broker {end} holds no replica")


def _check_sides(scenario: Scenario, line: Line, sides: Sides) -> None:
    known = _places(scenario)
    for place in (*sides.left, *sides.right):
        if place not in known:
            at = next(i for i, word in enumerate(line.words) if place in word.split(",") and i > 0)
            raise line.error(at, f"zones or nodes out of {', '.join(known)}")
    ends = {node(place) for place in (*sides.left, *sides.right)}
    if len(ends) == 1 and not ends & set(zones(scenario.setup)):
        raise line.error(3 if sides.one_way else 2, "another place: nothing connects one with itself")


def _check_configure(scenario: Scenario, line: Line, step: Step) -> None:
    for topic in scenario.setup.topics:
        if topic.name == step.args[0]:
            found = dict(str(setting).split("=", 1) for setting in step.args[1:])
            config = topic_config(topic.config, found)
            try:
                replace(scenario.setup, topics=(replace(topic, config=config),)).check()
            except SetupError as error:
                raise line.error(2, f"a setting that can be met ({error})") from None
            return
    raise line.error(1, f"a topic out of {', '.join(topic.name for topic in scenario.setup.topics)}")


def _check_reassign(scenario: Scenario, line: Line, step: Step) -> None:
    names = [topic.name for topic in scenario.setup.topics]
    if step.args[0] not in names:
        raise line.error(1, f"a topic out of {', '.join(names)}")
    brokers = step.args[-1]
    if isinstance(brokers, tuple):
        for broker in brokers:
            _check_broker(scenario.setup, line, 2, broker)
        if len(set(brokers)) != len(brokers):
            raise line.error(2, "each broker once")


def _check_client(scenario: Scenario, line: Line, step: Step) -> None:
    for client in scenario.clients:
        if client.name == step.client:
            wants_producer = step.verb in _SENDS
            if wants_producer != (client.producer is not None):
                raise line.error(1, "a producer" if wants_producer else "a consumer")
            if isinstance(step.args[0], Aimed):
                _check_broker(scenario.setup, line, 1, step.args[0].broker)
            return
    known = ", ".join(client.name for client in scenario.clients) or "none is declared"
    raise line.error(1, f"a client of this scenario ({known})")


def _check_broker(setup: Setup, line: Line, index: int, broker: object) -> None:
    if not isinstance(broker, int) or not 0 <= broker < setup.brokers:
        raise line.error(index, f"a broker between 0 and {setup.brokers - 1}")


def _check_replica(scenario: Scenario, line: Line, index: int, broker: object) -> None:
    _check_broker(scenario.setup, line, index, broker)
    topic = scenario.setup.topics[0]
    if broker not in topic.hosts:
        raise line.error(
            index, f"a broker that holds a replica of {topic.name} ({', '.join(map(str, topic.hosts))})"
        )


# ---------------------------------------------------------------- places and records


def zones(setup: Setup) -> list[str]:
    """Those of brokers and keeper members, and those that ``zones=`` names beyond them, for clients alone."""
    used = (setup.zone(index) for index in range(max(setup.brokers, setup.keepers)))
    return list(dict.fromkeys([*used, *setup.zones]))


def _places(scenario: Scenario) -> list[str]:
    """Everything a step may call a place: zones, brokers (by number and by name), keeper members, clients."""
    return [*_machines(scenario.setup), *(client.name for client in scenario.clients)]


def _machines(setup: Setup) -> list[str]:
    """Zones, brokers and keeper members by their names."""
    brokers = [*map(str, range(setup.brokers)), *(f"broker-{b}" for b in range(setup.brokers))]
    return [*zones(setup), *brokers, *(f"keeper-{k}" for k in range(setup.keepers))]


def _values(steps: Iterable[Step]) -> set[object]:
    """The records that are sent by these steps."""
    return {value for step in steps if step.verb in _SENDS for value in step.args[1:]}


# ---------------------------------------------------------------- the head


class HeadLines:
    """The lines of the head, to point at when the scenario is complete and something in it cannot be."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], Line] = {}
        self._expectations: list[Line] = []

    def add(self, line: Line) -> None:
        keyword = line.word(0)
        if keyword == "expect":
            self._expectations.append(line)
        names = [""] if keyword in _ONCE else str(line.word(1)).split(",")
        for name in names:
            before = self._lines.get((keyword, name))
            self._lines[keyword, name] = line
            if before is not None and keyword != "topic":  # that is refused with the whole setup
                what = f"{keyword} {name}".strip()
                raise line.error(0, f"one line '{what}' only: there is one in line {before.number_in_file}")

    def check_cluster(self, scenario: Scenario) -> None:
        """Before the first step: steps may speak of this cluster only."""
        try:
            scenario.setup.check()
        except SetupError as error:
            raise self._refusal(error) from None
        known = zones(scenario.setup)
        topics = [topic.name for topic in scenario.setup.topics]
        taken = (*_machines(scenario.setup), KEEPER, ADMINISTRATOR)
        for client in scenario.clients:
            line = self._lines["consumer" if client.producer is None else "producer", client.name]
            if client.zone not in known:
                raise line.error(line.setting("zone"), f"zone= one of {', '.join(known)}")
            if client.topic and client.topic not in topics:
                raise line.error(line.setting("topic"), f"topic= one of {', '.join(topics)}")
            if client.name in taken:
                raise line.error(1, f"a client's name that is not also that of a place ({', '.join(taken)})")

    def check_expectations(self, scenario: Scenario) -> None:
        for line in self._expectations:
            _check_expectation(scenario, line)

    def _refusal(self, error: SetupError) -> Exception:
        line = self._lines.get(("topic", error.topic) if error.topic else ("cluster", ""))
        if line is None:  # the cluster is the default one, so a topic asks too much of it
            line = next(one for (keyword, _), one in self._lines.items() if keyword == "topic")
        return line.refusal(line.setting(error.setting), str(error))


def _check_expectation(scenario: Scenario, line: Line) -> None:
    replicas = [str(broker) for broker in scenario.setup.topics[0].hosts]
    sent = _values(scenario.steps)
    for index, word in enumerate(line.words[2:], start=2):
        fact, _, listed = word.partition("=")
        for one in listed.split(","):
            if fact in _ABOUT_VALUES and one not in sent:
                raise line.error(index, f"records that a step of this scenario sends, and not {one}")
            if fact in _NUMBERS and not is_number(one):
                raise line.error(index, f"{fact}= a number")
            if fact in ("leader", "isr") and one not in replicas and (fact, one) != ("leader", "none"):
                holders = ", ".join(replicas)
                raise line.error(index, f"{fact}= brokers that hold a replica ({holders})")
