"""``cluster``, ``topic`` and ``producer`` lines: Kafka's configuration names to settings and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from tidelog.core.guards import ALL_GUARDS
from tidelog.core.types import TopicConfig
from tidelog.scenario.clients.producer import ProducerConfig
from tidelog.scenario.grammar import ALTERABLE
from tidelog.scenario.line import Line
from tidelog.scenario.setup import Setup, TopicSetup
from tidelog.settings.broker import BROKER
from tidelog.settings.kinds import Choice, Kind, Listed, Truth, Word, int32, int64, words

S = TypeVar("S", Setup, TopicSetup)


class HeadField(NamedTuple):
    """One KEY of a line: the attribute that holds its value, and the kind of the value."""

    attribute: str
    kind: Kind[Any]
    in_config: bool = False
    """The attribute is not the setup's, but that of the ``config`` in it."""


Fields = Mapping[str, HeadField]


def _of_brokers(name: str, attribute: str) -> HeadField:
    return HeadField(attribute, BROKER[name].kind, in_config=True)


# In the order in which they are printed.
CLUSTER_LINE: Fields = {
    "brokers": HeadField("brokers", int32(0)),
    "controller": HeadField("controller", int32(0)),
    "zones": HeadField("zones", Listed(Word())),
    "keepers": HeadField("keepers", int32(0)),
    "zookeeper.session.timeout.ms": HeadField(
        "session_timeout_ms", BROKER["zookeeper.session.timeout.ms"].kind
    ),
    "latency.ms": HeadField("latency_ms", int64(0)),
    **{
        name: _of_brokers(name, name.replace(".", "_"))
        for name in (
            "replica.lag.time.max.ms",
            "replica.lag.max.messages",
            "replica.fetch.wait.max.ms",
            "replica.fetch.backoff.ms",
            "unclean.leader.election.interval.ms",
        )
    },
    "replica.high.watermark.checkpoint.interval.ms": _of_brokers(
        "replica.high.watermark.checkpoint.interval.ms", "high_watermark_checkpoint_interval_ms"
    ),
    "isr.rule": _of_brokers("tidelog.isr.rule", "isr_rule"),
    "flush": HeadField("sync_each_append", Choice({"always": True, "roll": False})),
    "without": HeadField("without", Listed(words(*ALL_GUARDS.__slots__))),
    # Which generations there are is checked with the whole setup.
    "generation": HeadField("generation", Word()),
}
TOPIC_LINE: Fields = {
    "replicas": HeadField("replicas", Listed(int32(0))),
    "isr": HeadField("isr", Listed(int32(0))),
    "min.insync.replicas": HeadField("min_insync_replicas", ALTERABLE["min.insync.replicas"], in_config=True),
    "unclean.leader.election.enable": HeadField(
        "unclean_leader_election", ALTERABLE["unclean.leader.election.enable"], in_config=True
    ),
}
PLACE_OF_CLIENT: Mapping[str, Kind[Any]] = {"zone": Word(), "topic": Word()}
"""Of producers and consumers: the zone where it lives, and the topic that it writes to or reads."""
PRODUCER_LINE: Fields = {
    "acks": HeadField("acks", Choice({"0": 0, "1": 1, "all": -1, "-1": -1})),
    "retries": HeadField("retries", int32(0)),
    "request.timeout.ms": HeadField("request_timeout_ms", int32(0)),
    "delivery.timeout.ms": HeadField("delivery_timeout_ms", int32(0)),
    "retry.backoff.ms": HeadField("retry_backoff_ms", int64(0)),
    "retry.backoff.max.ms": HeadField("retry_backoff_max_ms", int64(0)),
    "enable.idempotence": HeadField("idempotent", Truth()),
    "batch.records": HeadField("batch_records", int32(1)),
}


def _kinds(fields: Fields) -> dict[str, Kind[Any]]:
    return {name: field.kind for name, field in fields.items()}


def _with(setup: S, fields: Fields, found: Mapping[str, Any]) -> S:
    own: dict[str, Any] = {}
    in_config: dict[str, Any] = {}
    for name, value in found.items():
        field = fields[name]
        (in_config if field.in_config else own)[field.attribute] = value
    return replace(setup, config=replace(setup.config, **in_config), **own)


def _printed(fields: Fields, values: Any, default: Any, always: tuple[str, ...]) -> list[str]:
    """KEY=VALUE for what is not as it is by default, and for ``always``."""
    printed = []
    for name, (attribute, kind, in_config) in fields.items():
        value, usual = (getattr(it.config if in_config else it, attribute) for it in (values, default))
        if name in always or value != usual:
            printed.append(f"{name}={kind.show(value)}")
    return printed


def parse_cluster(line: Line, setup: Setup) -> Setup:
    return _with(setup, CLUSTER_LINE, line.settings(1, _kinds(CLUSTER_LINE)))


def describe_cluster(setup: Setup) -> str:
    return " ".join(_printed(CLUSTER_LINE, setup, Setup(), ("brokers", "controller")))


def parse_topic(line: Line) -> TopicSetup:
    name = line.need(1, "the topic's name")
    found = line.settings(2, _kinds(TOPIC_LINE))
    if "replicas" not in found:
        raise line.error(len(line.words), "replicas=N,N,… (the brokers that hold the topic)")
    return _with(TopicSetup(name, ()), TOPIC_LINE, found)


def topic_config(config: TopicConfig, changes: Mapping[str, str]) -> TopicConfig:
    """A topic's settings after a ``configure`` step."""
    values = {TOPIC_LINE[name].attribute: ALTERABLE[name].parse(text) for name, text in changes.items()}
    return replace(config, **values)


def describe_topic(topic: TopicSetup) -> str:
    return " ".join([topic.name, *_printed(TOPIC_LINE, topic, TopicSetup("", ()), ("replicas",))])


def place_of(found: dict[str, Any], setup: Setup) -> tuple[str, str]:
    """The zone and the topic of a client, taken out of its settings."""
    return found.pop("zone", setup.zone(0)), found.pop("topic", "")


def parse_producer(line: Line, setup: Setup) -> tuple[str, str, str, ProducerConfig]:
    name = line.need(1, "the producer's name")
    found = line.settings(2, {**PLACE_OF_CLIENT, **_kinds(PRODUCER_LINE)})
    zone, topic = place_of(found, setup)
    config = ProducerConfig(**{PRODUCER_LINE[key].attribute: value for key, value in found.items()})
    return name, zone, topic, config


def describe_producer(config: ProducerConfig) -> list[str]:
    return _printed(PRODUCER_LINE, config, ProducerConfig(), ("acks",))
