"""Scenarios in Python: the same language as the files, one method a command, for tests and notebooks.

::

    run = (
        Story()
        .cluster(brokers=3, controller=2)
        .topic("t", replicas=(0, 1))
        .producer("p", zone="az3", acks="all")
        .produce("p", "a", "b")
        .crash(0)
        .wait("leader 1")
        .run("epoch")
    )
    assert run.verdict.held

Every method writes a line, and ``scenario`` gives the lines to the parser of scenario files: what can be said
here can be said there, and mistakes get the same messages. ``text`` is the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tidelog.lab.play import run
from tidelog.scenario.run import Run
from tidelog.scenario.scenario import Scenario, parse

Setting = str | int | bool | Sequence[int] | Sequence[str]


class Story:
    __slots__ = ("_lines",)

    def __init__(self, name: str = "story") -> None:
        self._lines = [f"scenario {name}"]

    # ------------------------------------------------------------ the head

    def cluster(self, **settings: Setting) -> Self:
        """Kafka's names with underscores for dots: ``replica_lag_time_max_ms=10_000``."""
        return self.say("cluster", *_settings(settings))

    def topic(self, name: str, **settings: Setting) -> Self:
        return self.say("topic", name, *_settings(settings))

    def producer(self, name: str, **settings: Setting) -> Self:
        return self.say("producer", name, *_settings(settings))

    def consumer(self, name: str, **settings: Setting) -> Self:
        return self.say("consumer", name, *_settings(settings))

    # ------------------------------------------------------------ the steps

    def say(self, *words: object) -> Self:
        """Any line of a scenario file."""
        self._lines.append(" ".join(map(str, words)))
        return self

    def note(self, comment: str) -> Self:
        """Narrate the next step."""
        return self.say("#", comment)

    def produce(self, producer: str, *values: str) -> Self:
        return self.say("produce", producer, *values)

    def send(self, producer: str, *values: str) -> Self:
        return self.say("send", producer, *values)

    def read(self, consumer: str) -> Self:
        return self.say("read", consumer)

    def crash(self, *brokers: int) -> Self:
        return self.say("crash", *brokers)

    def power_off(self, *brokers: int) -> Self:
        return self.say("power-off", *brokers)

    def restart(self, *brokers: int) -> Self:
        return self.say("restart", *brokers)

    def pause(self, *brokers: int) -> Self:
        return self.say("pause", *brokers)

    def resume(self, *brokers: int) -> Self:
        return self.say("resume", *brokers)

    def stop(self, broker: int) -> Self:
        return self.say("stop", broker)

    def sync(self, *brokers: int) -> Self:
        return self.say("sync", *brokers)

    def cut(self, one: str, other: str, *, one_way: bool = False) -> Self:
        return self.say("cut", one, *(["->"] if one_way else []), other)

    def isolate(self, zone: str) -> Self:
        return self.say("isolate", zone)

    def heal(self) -> Self:
        return self.say("heal")

    def hold(self, channel: str) -> Self:
        return self.say("hold", channel)

    def release(self, channel: str = "all") -> Self:
        return self.say("release", channel)

    def deliver(self, channel: str) -> Self:
        return self.say("deliver", channel)

    def reassign(self, topic: str, *brokers: int) -> Self:
        """Move a topic; without brokers: cancel the move."""
        return self.say("reassign", topic, ",".join(map(str, brokers)) or "cancel")

    def create_topic(self, topic: str, *brokers: int) -> Self:
        return self.say("create-topic", topic, ",".join(map(str, brokers)))

    def delete_topic(self, topic: str) -> Self:
        return self.say("delete-topic", topic)

    def elect_preferred(self) -> Self:
        return self.say("elect-preferred")

    def advance(self, duration: str) -> Self:
        return self.say("advance", duration)

    def wait(self, condition: str) -> Self:
        return self.say("wait", condition)

    # ------------------------------------------------------------ the end

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def scenario(self, generation: str | None = None) -> Scenario:
        scenario = parse(self.text, "story")
        return scenario if generation is None else scenario.under(generation)

    def run(self, generation: str | None = None) -> Run:
        return run(self.scenario(generation))


def _settings(settings: dict[str, Setting]) -> list[str]:
    return [f"{key.replace('_', '.')}={_setting(value)}" for key, value in settings.items()]


def _setting(value: Setting) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int)) else ",".join(map(str, value))
