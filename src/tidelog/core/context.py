"""The context that all state machines of one broker share: identity, rules, and outbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.core.config import BrokerConfig
from tidelog.core.effects import EffectList, KeeperCall, Outbox, Reply, Send, Stopped, WakeAt
from tidelog.core.events import Event
from tidelog.core.guards import Guards
from tidelog.core.messages import AlterIsrRequest
from tidelog.core.replication.isr_checks import IsrChecks
from tidelog.core.timers import Callback, Timer, Timers, Unexpected, raised
from tidelog.core.types import (
    NO_BROKER_EPOCH,
    BrokerId,
    ControllerEpoch,
    InvariantViolation,
    LeaderEpoch,
    Millis,
    TopicConfig,
    TopicId,
    TopicPartition,
)

if TYPE_CHECKING:
    from tidelog.core.generations import Generation

Effect = Send | Reply | KeeperCall | WakeAt | Stopped | Event


class Context:
    __slots__ = (
        "ask_relief",
        "broker",
        "broker_epoch",
        "call_keeper",
        "config",
        "default_topic_config",
        "effects",
        "exit",
        "generation",
        "guards",
        "is_alive",
        "is_leaving",
        "isr_checks",
        "new_topic_id",
        "now",
        "propose_isr",
        "rack_of",
        "reply",
        "send",
        "stop_following",
        "timers",
        "topic_configs",
        "unexpected",
        "wake_at",
    )

    def __init__(
        self,
        broker: BrokerId,
        config: BrokerConfig,
        generation: Generation,
        guards: Guards,
        outbox: Outbox | None = None,
    ) -> None:
        self.broker = broker
        self.broker_epoch = NO_BROKER_EPOCH
        self.config = config
        self.generation = generation
        self.guards = guards
        self.topic_configs: dict[str, TopicConfig] = {}
        self.default_topic_config = TopicConfig(
            config.min_insync_replicas, config.unclean_leader_election_enable
        )
        self.effects: list[Effect] = []
        outbox = outbox or EffectList(self.effects)
        self.send, self.reply = outbox.send, outbox.reply
        self.call_keeper, self.wake_at = outbox.call_keeper, outbox.wake_at
        self.timers = Timers()
        self.now: Millis = 0
        """The time of the last notice of the keeper, for tasks that its answers resume."""
        self.propose_isr: Callable[[AlterIsrRequest], None] = _nowhere
        """Sends a leader's ISR proposal: to the controller or to the keeper."""
        self.ask_relief: Callable[[TopicPartition, LeaderEpoch], None] = _nowhere
        """Reports that a replica cannot write."""
        self.stop_following: Callable[[BrokerId, TopicPartition], None] = _unheeded
        """A follower gives up a leader, and no answer to its last request is needed any more."""
        self.exit: Callable[[Millis], None] = _nowhere
        """Stops the broker, because it must not continue."""
        self.is_alive: Callable[[BrokerId], bool] = _anybody
        """Whether a broker is alive according to the metadata."""
        self.rack_of: Callable[[BrokerId], str | None] = _nowhere_known
        """Where a live broker is, according to the metadata."""
        self.is_leaving = False
        """A controlled shutdown has begun: where this broker gives up leadership it does not follow."""
        self.isr_checks = IsrChecks()
        self.new_topic_id: Callable[[ControllerEpoch, int], TopicId] = _numbered
        """An id that no topic ever had: for the topic with this number under a controller. A process draws it
        at random."""
        self.unexpected: Unexpected = raised
        """Handles an unexpected exception in one partition, task or timer: a simulation ends with it, a
        process logs it and continues. An ``InvariantViolation`` is not passed here: it ends both."""

    def emit(self, event: Event) -> None:
        self.effects.append(event)

    def set_timer(self, at: Millis, callback: Callback) -> Timer:
        timer = Timer(at, callback)
        wake_at = self.timers.set(timer)
        if wake_at is not None:
            self.wake_at(wake_at)
        return timer

    def set_earlier(self, timer: Timer | None, at: Millis, callback: Callback) -> Timer:
        """One timer for many deadlines, set to the earliest. A later timer is cancelled: clients choose
        deadlines, and each could otherwise leave a timer behind."""
        if timer is not None:
            if timer.at <= at:
                return timer
            timer.cancel()
        return self.set_timer(at, callback)

    def topic_config(self, topic: str) -> TopicConfig:
        return self.topic_configs.get(topic, self.default_topic_config)


def _anybody(_broker: BrokerId) -> bool:
    return True


def _nowhere_known(_broker: BrokerId) -> None:
    return None


def _numbered(controller_epoch: ControllerEpoch, number: int) -> TopicId:
    return TopicId(f"{controller_epoch}-{number}")


def _unheeded(_leader: BrokerId, _tp: TopicPartition) -> None:
    pass


def _nowhere(*message: object) -> None:
    raise InvariantViolation(f"{message} left a broker that was not assembled")
