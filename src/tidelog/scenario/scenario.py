"""Scenario files: a failure as a short text, the same for the simulator and for real processes.

A file has a head (what the cluster is made of, what is expected of each generation) and steps, one command a
line. A comment above a step narrates it (``narration.py``). A *transcript* is the same file with what
happened printed below each step, after ``----``; so every transcript is also a scenario, and the parser skips
the output. Its comments are those that were true of the run.

::

    scenario hw-loss
    title    [hw] An acknowledged record disappears from every replica
    cluster  brokers=3 controller=2
    topic    t replicas=0,1
    producer p acks=all
    expect   hw lost=c

    # Both replicas hold a and b.
    produce p a b
    wait hw 1 2

Parsing and printing live together here so that what one writes the other reads. Grammar of the steps:
``grammar.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidelog.core.generations import GENERATIONS
from tidelog.core.types import TopicPartition
from tidelog.faults.step import EVERY_GENERATION, Step
from tidelog.scenario.checks import HeadLines, check_step
from tidelog.scenario.clients.producer import ProducerConfig
from tidelog.scenario.grammar import generations, parse_step
from tidelog.scenario.head import (
    PLACE_OF_CLIENT,
    describe_cluster,
    describe_producer,
    describe_topic,
    parse_cluster,
    parse_producer,
    parse_topic,
    place_of,
)
from tidelog.scenario.line import Line, ScenarioError, is_number
from tidelog.scenario.narration import comment_line, parse_narration, print_narration
from tidelog.scenario.setup import Setup, TopicSetup
from tidelog.settings.kinds import Word

OUTPUT_MARK = "----"
VERDICT_KINDS = ("lost", "duplicated", "diverged", "rewritten", "reordered", "phantom")
FACTS = (*VERDICT_KINDS, "leader", "epoch", "isr", "shrinks")
"""What an ``expect`` line may speak of. A verdict that is not mentioned is expected to be empty."""


@dataclass(slots=True, frozen=True)
class ClientSetup:
    name: str
    zone: str
    producer: ProducerConfig | None
    """None for a consumer."""
    topic: str = ""
    """What it writes to, or reads; empty: the first topic."""


@dataclass(slots=True, frozen=True)
class Expectation:
    """What a generation should end in: verdict lists by kind, and the other facts where given."""

    generation: str
    facts: dict[str, str]


@dataclass(slots=True)
class Scenario:
    name: str
    setup: Setup
    title: str = ""
    source: str = ""
    clients: list[ClientSetup] = field(default_factory=list)
    expectations: list[Expectation] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    title_under: tuple[str, ...] = ()
    """The generations that the title is true of; empty: of all."""

    def under(self, generation: str) -> Scenario:
        """The same scenario under other rules."""
        return replace(self, setup=replace(self.setup, generation=generation))

    @property
    def partition(self) -> TopicPartition:
        """The partition that conditions speak of."""
        return TopicPartition(self.setup.topics[0].name, 0)

    def partition_of(self, client: str) -> TopicPartition:
        """The partition that a client writes to, or reads."""
        topics = {each.name: each.topic for each in self.clients}
        return TopicPartition(topics[client] or self.setup.topics[0].name, 0)

    @property
    def is_vouched_for(self) -> bool:
        """Whether the author says how it ends under these rules. A text without ``expect`` lines is its
        reader's own."""
        return not self.expectations or self.expectation(self.setup.generation) is not None

    @property
    def title_holds(self) -> bool:
        """Whether the title tells what happens under these rules."""
        return self.is_vouched_for and self.setup.generation in (self.title_under or GENERATIONS)

    def expectation(self, generation: str) -> Expectation | None:
        for expectation in self.expectations:
            if expectation.generation == generation:
                return expectation
        return None


# ---------------------------------------------------------------- parsing


def parse(text: str, origin: str = "scenario") -> Scenario:
    """Read a scenario or a transcript. Raises ``ScenarioError`` with line, column and what was expected."""
    scenario = Scenario("", Setup())
    head = HeadLines()
    comment: list[Line] = []
    in_output = False
    for number, raw in enumerate(text.splitlines(), start=1):
        if in_output:
            in_output = raw.strip() != ""
            continue
        if raw.strip() == OUTPUT_MARK:
            in_output = True
            comment = []
            continue
        if not raw.strip():
            comment = []
            continue
        if raw.lstrip().startswith("#"):
            comment.append(comment_line(origin, number, raw))
            continue
        line = Line(origin, number, raw)
        if _parse_head(scenario, line):
            head.add(line)
        else:
            if not scenario.name:
                raise line.error(0, "'scenario NAME' at the top of the file")
            if not scenario.setup.topics:
                raise line.error(0, "a topic before the first step, like 'topic t replicas=0,1,2'")
            if not scenario.steps:
                head.check_cluster(scenario)
                scenario.setup = _with_hosts(scenario.setup, text)
            step = parse_step(line, parse_narration(comment))
            check_step(scenario, line, step)
            scenario.steps.append(step)
        comment = []
    if not scenario.name:
        raise ScenarioError(f"{origin}: line 1, column 1: expected 'scenario NAME' at the top of the file")
    if not scenario.setup.topics:
        last = len(text.splitlines())
        raise ScenarioError(
            f"{origin}: line {last}, column 1: expected a topic below, like 'topic t replicas=0,1,2'"
        )
    if not scenario.steps:
        head.check_cluster(scenario)
    head.check_expectations(scenario)
    return scenario


def _with_hosts(setup: Setup, text: str) -> Setup:
    """With the brokers that steps move topics to. Steps before may speak of them: hold their fetches, say."""
    topics = {topic.name: topic for topic in setup.topics}
    for line in text.splitlines():
        verb, name, brokers = (*line.split(), "", "", "")[:3]
        if verb in ("reassign", "create-topic") and name in topics:
            topic = topics[name]
            found = dict.fromkeys(int(word) for word in brokers.split(",") if is_number(word))
            new = tuple(broker for broker in found if broker < setup.brokers and broker not in topic.hosts)
            topics[name] = replace(topic, later=(*topic.later, *new))
    return replace(setup, topics=tuple(topics.values()))


def _parse_head(scenario: Scenario, line: Line) -> bool:
    """Take a line of the head. False if it is a step."""
    keyword = line.word(0)
    setup = scenario.setup
    if keyword == "scenario":
        scenario.name = line.need(1, "the scenario's name")
        line.end(2)
    elif keyword == "title":
        scenario.title, scenario.title_under = _parse_title(line)
    elif keyword == "source":
        scenario.source = line.rest(1)
    elif keyword == "cluster":
        scenario.setup = parse_cluster(line, setup)
    elif keyword == "topic":
        scenario.setup = replace(setup, topics=(*setup.topics, parse_topic(line)))
    elif keyword == "producer":
        name, zone, topic, config = parse_producer(line, setup)
        _check_new_client(scenario, line, name)
        scenario.clients.append(ClientSetup(name, zone, config, topic))
    elif keyword == "consumer":
        name = line.need(1, "the consumer's name")
        _check_new_client(scenario, line, name)
        zone, topic = place_of(line.settings(2, PLACE_OF_CLIENT), setup)
        scenario.clients.append(ClientSetup(name, zone, None, topic))
    elif keyword == "expect":
        scenario.expectations += _parse_expectation(line)
    else:
        return False
    if scenario.steps and keyword != "expect":
        raise line.error(0, f"a step ('{keyword}' belongs to the head, above the first step)")
    return True


def _parse_title(line: Line) -> tuple[str, tuple[str, ...]]:
    """``title [hw,kip101] WORDS``: the words are true of these generations only."""
    marker = line.word(1)
    if not (marker.startswith("[") and marker.endswith("]")):
        return line.rest(1), ()
    bare = line.with_words([word.strip("[]") if at == 1 else word for at, word in enumerate(line.words)])
    under = generations(bare, 1)
    return line.rest(2), () if under == (EVERY_GENERATION,) else under


def _parse_expectation(line: Line) -> list[Expectation]:
    named = line.need(1, f"a generation ({', '.join(GENERATIONS)})").split(",")
    for generation in named:
        if generation not in GENERATIONS:
            raise line.error(1, f"a generation ({', '.join(GENERATIONS)})")
    if line.word(2) == "none" and len(line.words) == 3:
        facts: dict[str, str] = {}
    else:
        facts = line.settings(2, dict.fromkeys(FACTS, Word()))
    return [Expectation(generation, facts) for generation in named]


def _check_new_client(scenario: Scenario, line: Line, name: str) -> None:
    if name in [client.name for client in scenario.clients]:
        raise line.error(1, "a name that no other client has")


# ---------------------------------------------------------------- printing


def describe_client(client: ClientSetup) -> str:
    place = f"{client.name} zone={client.zone}" + (f" topic={client.topic}" if client.topic else "")
    if client.producer is None:
        return f"consumer {place}"
    return " ".join(["producer", place, *describe_producer(client.producer)])


def print_head(scenario: Scenario) -> list[str]:
    lines = [f"scenario {scenario.name}"]
    if scenario.title:
        marker = f"[{','.join(scenario.title_under)}] " if scenario.title_under else ""
        lines.append(f"title    {marker}{scenario.title}")
    if scenario.source:
        lines.append(f"source   {scenario.source}")
    lines.append(f"cluster  {describe_cluster(scenario.setup)}")
    lines += [f"topic    {describe_topic(topic)}" for topic in scenario.setup.topics]
    lines += map(describe_client, scenario.clients)
    for expectation in scenario.expectations:
        facts = " ".join(f"{key}={value}" for key, value in expectation.facts.items()) or "none"
        lines.append(f"expect   {expectation.generation} {facts}")
    return lines


def print_scenario(scenario: Scenario) -> str:
    lines = [*print_head(scenario), ""]
    for step in scenario.steps:
        if step.narration:
            lines += ["", *print_narration(step.narration)]
        lines.append(str(step))
    return "\n".join(lines) + "\n"


__all__ = ["ClientSetup", "Expectation", "Scenario", "ScenarioError", "TopicSetup", "parse", "print_scenario"]
