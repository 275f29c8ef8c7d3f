"""The settings of topics, and notification of changes (Kafka's DynamicConfigManager).

They are in ``/config/topics/T``. A change also creates a numbered notification in ``/config/changes`` in the
same transaction; brokers watch the notifications, not the settings. A broker that missed notifications
because they were deleted sees a gap in the numbers and reads everything again, so deletion needs no clock. It
also reads everything when a new controller sends its first request, and a topic's settings when it first
learns of the topic: a topic that was deleted and created again may have other settings.

Settings must be known *before* a broker leads a partition: a leader without the right min.insync.replicas
would acknowledge too early. So a LeaderAndIsr waits until the settings of its topics are known, which costs
one read for a new topic. In a new session all settings must be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Protocol

from tidelog.core import events
from tidelog.core.broker_configs import BROKERS, BrokerConfigs
from tidelog.core.config import BrokerConfig
from tidelog.core.config_changes import ATTEMPTS_MAX, TOO_MANY_CONFLICTS, altered, values_of, write
from tidelog.core.context import Context
from tidelog.core.effects import ReplyTo
from tidelog.core.keeper_paths import (
    CONFIG_CHANGE_PREFIX,
    CONFIG_CHANGES,
    TOPIC_CONFIGS,
    config_path,
    name_of,
    topic_path,
)
from tidelog.core.keeper_port import Check, Children, Delete, Get, Result
from tidelog.core.keeper_tasks import KeeperClient, Procedure, Task, TaskQueue, Together
from tidelog.core.topic_messages import (
    AlterTopicConfigRequest,
    AlterTopicConfigResponse,
    DescribeTopicConfigRequest,
    DescribeTopicConfigResponse,
)
from tidelog.core.types import TopicConfig
from tidelog.wire.errors import ErrorCode

MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"

DIGITS_MAX = 1_000
"""A client cannot set a longer value. Python refuses to read thousands of digits."""
NOTES_MAX = 100
"""The controller deletes half of the notifications when there are more than this."""

_TOPICS = "topics/"


def topic_config(values: Mapping[str, str], defaults: BrokerConfig) -> TopicConfig:
    """The settings of a topic that replication uses. An invalid value counts as not set: a tool wrote it past
    the checks, and it must not stop a broker."""
    least = values.get(MIN_INSYNC_REPLICAS, "").strip()
    unclean = values.get(UNCLEAN_LEADER_ELECTION, "").strip().lower()
    return TopicConfig(
        int(least)
        if least.isascii() and least.isdigit() and len(least) <= DIGITS_MAX
        else defaults.min_insync_replicas,
        unclean == "true" if unclean in ("true", "false") else defaults.unclean_leader_election_enable,
    )


class Configure(Protocol):
    """What is done with settings that are new or have changed (``Broker.configure_topic``)."""

    def __call__(self, topic: str, config: TopicConfig, *, min_isr_written: bool) -> None: ...


class TopicConfigs:
    __slots__ = (
        "_configure",
        "_ctx",
        "_is_controller",
        "_last_note",
        "_learning",
        "_loaded",
        "_tasks",
        "_values",
        "brokers",
    )

    def __init__(
        self,
        ctx: Context,
        keeper: KeeperClient,
        configure: Configure,
        is_controller: Callable[[], bool],
    ) -> None:
        self._ctx = ctx
        self._configure = configure
        self._is_controller = is_controller
        self._tasks = TaskQueue(keeper)
        self.brokers = BrokerConfigs(ctx, self._tasks, self._read_notes)
        self._values: dict[str, dict[str, str]] = {}
        """The settings in the keeper, by topic."""
        self._loaded = False
        """Whether everything has been read in this session."""
        self._learning: set[str] = set()
        """New topics, whose entries in ``_values`` may be of deleted topics of the same name. Never
        iterated."""
        self._last_note = -1

    # ------------------------------------------------------------ reading

    def session_started(self) -> None:
        self._tasks.cancel()
        self._loaded = False
        self._learning = set()

    def changed(self) -> None:
        """The watch on the notifications fired."""
        self._tasks.submit(self._read_notes)

    def topics_listed(self, listed: Container[str]) -> None:
        """A new controller sent its first request, which lists all topics."""
        for topic in [topic for topic in self._values if topic not in listed]:
            self.forget(topic)
        self._tasks.submit(self._load)

    def topics_appeared(self, topics: list[str]) -> None:
        """The metadata lists new topics, of which this broker has no replica."""
        topics = [topic for topic in topics if not self._is_set_by_hand(topic)]
        if topics:
            self._learning.update(topics)
            self._tasks.submit(lambda: self._learn(topics))

    def forget(self, topic: str) -> None:
        """The topic was deleted. A later topic of the same name has its own settings."""
        values = self._values.pop(topic, None)
        if values is not None:
            self._ctx.topic_configs.pop(topic, None)
        if values:
            self._ctx.emit(events.TopicConfigured(self._ctx.broker, topic, {}))

    def when_known(self, topics: Iterable[str], listed: Container[str], then: Callable[[], None]) -> None:
        """Call ``then`` as soon as the settings of these topics are known, which may be now. A topic that the
        metadata does not list yet is new: remembered settings are of a deleted topic of that name."""
        topics = [topic for topic in dict.fromkeys(topics) if not self._is_set_by_hand(topic)]
        unread = [t for t in topics if t not in listed or t not in self._values or t in self._learning]
        if not topics or (self._loaded and not unread):
            then()
        else:
            self._tasks.submit(lambda: self._learn_for(topics, unread, then))

    def _is_set_by_hand(self, topic: str) -> bool:
        """Whether settings are set directly, as the simulator does."""
        return topic in self._ctx.topic_configs and topic not in self._values

    def _learn(self, topics: list[str]) -> Task:
        yield from self._read(topics)
        self._learning.difference_update(topics)

    def _learn_for(self, topics: list[str], unread: list[str], then: Callable[[], None]) -> Task:
        yield from self._read([t for t in topics if t in unread or t not in self._values])
        then()

    def _load(self) -> Task:
        # The notifications first: later changes create new ones.
        notes_and_topics = (Children(CONFIG_CHANGES, watch=True, values=False), Children(TOPIC_CONFIGS))
        found = yield Together((*notes_and_topics, *self.brokers.questions))
        notes, settings, *of_brokers = found.value
        self._last_note = max((_number(path) for path in notes.nodes), default=-1)
        self.take_all(settings)
        self.brokers.answered(of_brokers)
        self._loaded = True

    def _read_notes(self) -> Task:
        found = yield Children(CONFIG_CHANGES, watch=True)
        notes = sorted((_number(path), path) for path in found.nodes)
        fresh = [path for number, path in notes if number > self._last_note]
        if not fresh:
            return
        gap = _number(fresh[0]) > self._last_note + 1
        self._last_note = notes[-1][0]
        if gap:
            self.take_all((yield Children(TOPIC_CONFIGS)))
            yield from self.brokers.read()
        else:
            entities = [str(found.nodes[path].value) for path in fresh]
            topics = [e[len(_TOPICS) :] for e in entities if e.startswith(_TOPICS)]
            yield from self._read(topics, known_only=True)
            if any(e.startswith(BROKERS) for e in entities):
                yield from self.brokers.read()
        if len(notes) > NOTES_MAX and self._is_controller():
            yield Together(tuple(Delete(path) for _, path in notes[: -NOTES_MAX // 2]))

    def _read(self, topics: list[str], *, known_only: bool = False) -> Task:
        """``known_only``: a topic without settings may have been deleted, and is not remembered."""
        topics = list(dict.fromkeys(topics))
        if topics:
            found = yield Together(tuple(Get(config_path(topic)) for topic in topics))
            for topic, settings in zip(topics, found.value, strict=True):
                if settings.ok or topic in self._values or not known_only:
                    self._take(topic, values_of(settings))

    def take_all(self, settings: Result, topics: Iterable[str] = ()) -> None:
        """The settings of all topics that have some. ``topics``: also take note that these have no others."""
        if settings.ok:
            present = {name_of(path): node.value or {} for path, node in settings.nodes.items()}
            others = [topic for topic in topics if not self._is_set_by_hand(topic)]
            for topic in [topic for topic in (*self._values, *others) if topic not in present]:
                self._take(topic, {})
            for topic, values in present.items():
                self._take(topic, values)

    def _take(self, topic: str, values: dict[str, str]) -> None:
        before = self._values.get(topic)
        if before != values:
            self._values[topic] = values
            written = before is not None and before.get(MIN_INSYNC_REPLICAS) != values.get(
                MIN_INSYNC_REPLICAS
            )
            self._configure(topic, topic_config(values, self._ctx.config), min_isr_written=written)
            self._ctx.emit(events.TopicConfigured(self._ctx.broker, topic, values))

    # ------------------------------------------------------------ changes

    def alter(self, request: AlterTopicConfigRequest, reply_to: ReplyTo) -> None:
        """Change a topic's settings. Any broker may do this: conditional writes detect conflicts."""
        self._tasks.submit(
            lambda: self._alter(request, reply_to),
            # It is unknown whether it was written before the session ended.
            abandoned=lambda: self._ctx.reply(
                reply_to, AlterTopicConfigResponse(topic=request.topic, error=ErrorCode.REQUEST_TIMED_OUT)
            ),
        )

    def _alter(self, request: AlterTopicConfigRequest, reply_to: ReplyTo) -> Task:
        response = AlterTopicConfigResponse(
            topic=request.topic, error=ErrorCode.REQUEST_TIMED_OUT, message=TOO_MANY_CONFLICTS
        )
        for _ in range(ATTEMPTS_MAX):
            error = yield from self._try_to_alter(request)
            if error is not None:
                message = None
                if error is not ErrorCode.NONE:
                    message = f"The topic '{request.topic}' does not exist."
                response = AlterTopicConfigResponse(topic=request.topic, error=error, message=message)
                break
        self._ctx.reply(reply_to, response)

    def _try_to_alter(self, request: AlterTopicConfigRequest) -> Procedure[ErrorCode | None]:
        """None after a conflict with another change, or with an earlier attempt whose answer was lost."""
        topic = request.topic
        found = yield Together((Get(topic_path(topic)), Get(config_path(topic))))
        node, settings = found.value
        if not node.ok:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        before = values_of(settings)
        after = altered(before, request.values, replace=request.replace)
        if after == before and settings.ok:
            return ErrorCode.NONE
        exists = Check(topic_path(topic), node.value.stat.version)  # no settings without a topic
        written = yield from write(config_path(topic), settings, after, f"{_TOPICS}{topic}", exists)
        return ErrorCode.NONE if written else None

    def describe(self, request: DescribeTopicConfigRequest, reply_to: ReplyTo) -> None:
        self._tasks.submit(
            lambda: self._describe(request, reply_to),
            abandoned=lambda: self._ctx.reply(
                reply_to, DescribeTopicConfigResponse(topic=request.topic, error=ErrorCode.REQUEST_TIMED_OUT)
            ),
        )

    def _describe(self, request: DescribeTopicConfigRequest, reply_to: ReplyTo) -> Task:
        found = yield Together((Get(topic_path(request.topic)), Get(config_path(request.topic))))
        node, settings = found.value
        error = ErrorCode.NONE if node.ok else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._ctx.reply(
            reply_to,
            DescribeTopicConfigResponse(topic=request.topic, error=error, values=values_of(settings)),
        )


def _number(path: str) -> int:
    """The number of a notification; −1 if it is not one."""
    digits = path.removeprefix(CONFIG_CHANGE_PREFIX)
    return int(digits) if digits.isascii() and digits.isdigit() else -1
