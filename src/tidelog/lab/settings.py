"""``cluster``, ``topic`` and ``producer`` lines: Kafka's configuration names to settings and back."""

from __future__ import annotations

from dataclasses import replace

from tidelog.core.config import BrokerConfig, IsrRule
from tidelog.core.guards import ALL_GUARDS
from tidelog.core.types import TopicConfig
from tidelog.lab.clients import ProducerConfig
from tidelog.lab.grammar import Line, is_number
from tidelog.lab.setup import Setup, TopicSetup

_BROKER_KEYS = {
    "replica.lag.time.max.ms": "replica_lag_time_max_ms",
    "replica.lag.max.messages": "replica_lag_max_messages",
    "replica.fetch.wait.max.ms": "replica_fetch_wait_max_ms",
    "replica.fetch.backoff.ms": "replica_fetch_backoff_ms",
    "replica.high.watermark.checkpoint.interval.ms": "high_watermark_checkpoint_interval_ms",
}
_SETUP_KEYS = {
    "brokers": "brokers",
    "keepers": "keepers",
    "controller": "controller",
    "zookeeper.session.timeout.ms": "session_timeout_ms",
    "latency.ms": "latency_ms",
}
_CLUSTER_KEYS = (*_SETUP_KEYS, "zones", "isr.rule", "flush", "without", "generation", *_BROKER_KEYS)
_TOPIC_KEYS = ("replicas", "isr", "min.insync.replicas", "unclean.leader.election.enable")
_PRODUCER_KEYS = {
    "retries": "retries",
    "request.timeout.ms": "request_timeout_ms",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
}


def _index_of(line: Line, key: str) -> int:
    return next(index for index, word in enumerate(line.words) if word.startswith(f"{key}="))


def _whole_number(line: Line, key: str, value: str) -> int:
    if not is_number(value):
        raise line.error(_index_of(line, key), f"{key}= with a whole number")
    return int(value)


def _truth(line: Line, key: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise line.error(_index_of(line, key), f"{key}=true or {key}=false")
    return value == "true"


def _numbers(line: Line, key: str, value: str) -> tuple[int, ...]:
    if not all(map(is_number, value.split(","))):
        raise line.error(_index_of(line, key), f"{key}= with numbers like 0,1,2")
    return tuple(int(part) for part in value.split(","))


# ---------------------------------------------------------------- cluster


def parse_cluster(line: Line, setup: Setup) -> Setup:
    found = line.settings(1, _CLUSTER_KEYS)
    config = setup.config
    for key, value in found.items():
        if key in _SETUP_KEYS:
            setup = replace(setup, **{_SETUP_KEYS[key]: _whole_number(line, key, value)})  # type: ignore[arg-type]
        elif key in _BROKER_KEYS:
            config = replace(config, **{_BROKER_KEYS[key]: _whole_number(line, key, value)})  # type: ignore[arg-type]
        elif key == "zones":
            setup = replace(setup, zones=tuple(value.split(",")))
        elif key == "generation":
            setup = replace(setup, generation=value)
        elif key == "isr.rule":
            rules = {rule.value: rule for rule in IsrRule}
            if value not in rules:
                raise line.error(_index_of(line, key), f"isr.rule= with one of {', '.join(rules)}")
            config = replace(config, isr_rule=rules[value])
        elif key == "flush":
            if value not in ("always", "roll"):
                raise line.error(_index_of(line, key), "flush=always or flush=roll")
            setup = replace(setup, sync_each_append=value == "always")
        else:
            setup = replace(setup, without=_guards(line, value))
    return replace(setup, config=config)


def _guards(line: Line, value: str) -> tuple[str, ...]:
    names = tuple(value.split(","))
    for name in names:
        if name not in ALL_GUARDS.__slots__:
            known = ", ".join(ALL_GUARDS.__slots__)
            raise line.error(_index_of(line, "without"), f"without= with guards out of {known}")
    return names


def describe_cluster(setup: Setup) -> str:
    default, base = Setup(), BrokerConfig()
    words = [f"brokers={setup.brokers}", f"controller={setup.controller}"]
    if setup.zones:
        words.append(f"zones={','.join(setup.zones)}")
    for key, attribute in _SETUP_KEYS.items():
        if key not in ("brokers", "controller") and getattr(setup, attribute) != getattr(default, attribute):
            words.append(f"{key}={getattr(setup, attribute)}")
    for key, attribute in _BROKER_KEYS.items():
        if getattr(setup.config, attribute) != getattr(base, attribute):
            words.append(f"{key}={getattr(setup.config, attribute)}")
    if setup.config.isr_rule is not base.isr_rule:
        words.append(f"isr.rule={setup.config.isr_rule.value}")
    if setup.sync_each_append:
        words.append("flush=always")
    if setup.without:
        words.append(f"without={','.join(setup.without)}")
    if setup.generation != default.generation:
        words.append(f"generation={setup.generation}")
    return " ".join(words)


# ---------------------------------------------------------------- topics


def parse_topic(line: Line) -> TopicSetup:
    name = line.need(1, "the topic's name")
    found = line.settings(2, _TOPIC_KEYS)
    if "replicas" not in found:
        raise line.error(len(line.words), "replicas=N,N,… (the brokers that hold the topic)")
    return TopicSetup(
        name,
        _numbers(line, "replicas", found["replicas"]),
        topic_config(line, TopicConfig(), found),
        _numbers(line, "isr", found["isr"]) if "isr" in found else None,
    )


def topic_config(line: Line, config: TopicConfig, found: dict[str, str]) -> TopicConfig:
    if "min.insync.replicas" in found:
        needed = _whole_number(line, "min.insync.replicas", found["min.insync.replicas"])
        config = replace(config, min_insync_replicas=needed)
    if "unclean.leader.election.enable" in found:
        key = "unclean.leader.election.enable"
        config = replace(config, unclean_leader_election=_truth(line, key, found[key]))
    return config


def describe_topic(topic: TopicSetup) -> str:
    words = [topic.name, f"replicas={','.join(map(str, topic.replicas))}"]
    if topic.isr is not None:
        words.append(f"isr={','.join(map(str, topic.isr))}")
    if topic.config.min_insync_replicas != 1:
        words.append(f"min.insync.replicas={topic.config.min_insync_replicas}")
    if topic.config.unclean_leader_election:
        words.append("unclean.leader.election.enable=true")
    return " ".join(words)


# ---------------------------------------------------------------- producers


def parse_producer(line: Line, setup: Setup) -> tuple[str, str, ProducerConfig]:
    name = line.need(1, "the producer's name")
    found = line.settings(2, ("zone", "acks", "enable.idempotence", *_PRODUCER_KEYS))
    config = ProducerConfig()
    for key, value in found.items():
        if key in _PRODUCER_KEYS:
            config = replace(config, **{_PRODUCER_KEYS[key]: _whole_number(line, key, value)})  # type: ignore[arg-type]
        elif key == "acks":
            levels = {"0": 0, "1": 1, "all": -1, "-1": -1}
            if value not in levels:
                raise line.error(_index_of(line, key), "acks=0, acks=1 or acks=all")
            config = replace(config, acks=levels[value])
        elif key == "enable.idempotence":
            config = replace(config, idempotent=_truth(line, key, value))
    return name, found.get("zone", setup.zone(0)), config


def describe_producer(name: str, zone: str, config: ProducerConfig) -> str:
    base = ProducerConfig()
    words = [name, f"zone={zone}", f"acks={'all' if config.acks == -1 else config.acks}"]
    for key, attribute in _PRODUCER_KEYS.items():
        if getattr(config, attribute) != getattr(base, attribute):
            words.append(f"{key}={getattr(config, attribute)}")
    if config.idempotent:
        words.append("enable.idempotence=true")
    return " ".join(words)
