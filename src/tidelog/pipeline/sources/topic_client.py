"""What the topic source asks of a cluster, through confluent-kafka: which partitions, from where to where.

A *position* is `{topic: {partition as text: offset}}`, as Spark's own Kafka source writes it: it is what a
checkpoint holds, so it must survive JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from tidelog.pipeline.errors import PipelineError

Position = dict[str, dict[str, int]]

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
ANSWER_WITHIN_S: Final = 30.0

_PREFIX: Final = "kafka."
_SERVERS: Final = "bootstrap.servers"


class TopicOptions:
    """The options of a query, checked. Names are those of Spark's own Kafka source, or librdkafka's."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        self.settings = {
            name.removeprefix(_PREFIX): value for name, value in given.items() if name.startswith(_PREFIX)
        }
        if servers := given.get(_SERVERS) or given.get("bootstrap_servers"):
            self.settings[_SERVERS] = servers
        if not self.settings.get(_SERVERS):
            raise PipelineError(
                "tidelog_topic needs the option kafka.bootstrap.servers: host:port of a broker"
            )
        self.servers = self.settings[_SERVERS]
        self.topics = [name.strip() for name in given.get("subscribe", "").split(",") if name.strip()]
        self.pattern = given.get("subscribepattern")
        if bool(self.topics) == bool(self.pattern):
            raise PipelineError("tidelog_topic needs either subscribe, a list of topics, or subscribePattern")
        self.starting = _offsets(given.get("startingoffsets", EARLIEST), "startingOffsets")
        self.ending = _offsets(given.get("endingoffsets", LATEST), "endingOffsets")
        self.max_rows = _number(given, "max_rows", "maxoffsetspertrigger")
        self.recheck = _number(given, "recheck") or 0
        self.tolerant = given.get("failondataloss", "true").lower() == "false"

    def consumer(self, **more: Any) -> Consumer:
        chosen: dict[str, Any] = {
            "group.id": "tidelog-unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
            "auto.offset.reset": "earliest" if self.tolerant else "error",
            # Its words would go to stderr; what matters comes back as an error.
            "log_level": 0,
            "error_cb": lambda error: None,
            **self.settings,
            **more,
        }
        try:
            return Consumer(chosen)
        except KafkaException as error:
            raise PipelineError(f"librdkafka refuses a setting: {error.args[0].str()}") from None


def _offsets(text: str, option: str) -> str | Position:
    if text in (EARLIEST, LATEST):
        return text
    try:
        parsed = json.loads(text)
        return {
            topic: {str(int(partition)): int(offset) for partition, offset in offsets.items()}
            for topic, offsets in parsed.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise PipelineError(f'{option} is earliest, latest, or JSON like {{"topic": {{"0": 17}}}}') from None


def _number(given: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        if text := given.get(name):
            if not text.isdigit() or int(text) == 0:
                raise PipelineError(f"{name} must be a positive number, not {text!r}")
            return int(text)
    return None


class Topics:
    """A cluster's topics and how far they go. Every answer is fresh."""

    def __init__(self, options: TopicOptions) -> None:
        self._options = options
        self._consumer = options.consumer()

    def close(self) -> None:
        self._consumer.close()

    def partitions(self) -> list[tuple[str, int]]:
        known = self._asked(lambda: self._consumer.list_topics(timeout=ANSWER_WITHIN_S)).topics
        if self._options.pattern is not None:
            pattern = re.compile(self._options.pattern)
            names = sorted(name for name in known if pattern.fullmatch(name))
        else:
            names = self._options.topics
            for name in names:
                if name not in known or known[name].error is not None:
                    raise PipelineError(f"there is no topic {name} at {self._options.servers}")
        return [(name, number) for name in names for number in sorted(known[name].partitions)]

    def cluster_id(self) -> str:
        known = self._asked(lambda: self._consumer.list_topics(timeout=ANSWER_WITHIN_S))
        return str(known.cluster_id)

    def is_compacted(self, topic: str) -> bool:
        """Whether records of the topic may be taken out from between others."""
        from confluent_kafka import admin

        settings: dict[str, Any] = {"log_level": 0, "error_cb": lambda error: None}
        client = admin.AdminClient(settings | self._options.settings)
        wanted = admin._config.ConfigResource("topic", topic)
        answers = client.describe_configs([wanted], request_timeout=ANSWER_WITHIN_S)
        return "compact" in (self._asked(answers[wanted].result)["cleanup.policy"].value or "")

    def position(self, at: str | Position) -> Position:
        """Where `at` is, for every partition there is."""
        found: Position = {}
        for topic, partition in self.partitions():
            given = at.get(topic, {}).get(str(partition), OFFSET_BEGINNING) if isinstance(at, dict) else at
            if isinstance(given, str) or given in (OFFSET_BEGINNING, OFFSET_END):
                low, high = self._watermarks(topic, partition)
                given = low if given in (EARLIEST, OFFSET_BEGINNING) else high
            found.setdefault(topic, {})[str(partition)] = given
        return found

    def _watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        place = TopicPartition(topic, partition)
        found: tuple[int, int] | None = self._asked(
            lambda: self._consumer.get_watermark_offsets(place, timeout=ANSWER_WITHIN_S)
        )
        if found is None:
            raise self._unanswered()
        return found

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN):
                raise self._unanswered() from None
            raise PipelineError(f"{self._options.servers} says: {reason.str()}") from None

    def _unanswered(self) -> PipelineError:
        return PipelineError(f"no broker answers at {self._options.servers}: is the cluster running?")


def entries(position: Position) -> Iterable[tuple[str, int, int]]:
    for topic, offsets in position.items():
        for partition, offset in offsets.items():
            yield topic, int(partition), offset


def limited(start: Position, end: Position, rows_max: int | None) -> Position:
    """As far towards `end` as `rows_max` allows, each partition by its share, none left out for ever."""
    if rows_max is None:
        return end
    waiting = {
        (topic, partition): max(0, offset - start.get(topic, {}).get(str(partition), offset))
        for topic, partition, offset in entries(end)
    }
    total = sum(waiting.values())
    if total <= rows_max:
        return end
    reached: Position = {}
    for topic, partition, offset in entries(end):
        behind = waiting[topic, partition]
        share = -(-behind * rows_max // total)  # rounded up, so that even the smallest moves on
        reached.setdefault(topic, {})[str(partition)] = offset - behind + min(behind, share)
    return reached
