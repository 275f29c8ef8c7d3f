"""The settings of brokers that change while they run (KIP-226): those of one broker over those of all.

They are in ``/config/brokers/N`` and ``/config/brokers/<default>``. Their changes are notified with those of
topics; ``topic_configs.py`` decides when to read. The core itself obeys none of them: it passes them to a
driver that asks for them. For others, such as the simulator, it reads nothing.

A change is answered when this broker has heard of it, and of all changes before it, also of topics. So a tool
that names the throttled replicas of a topic, and then sets the rate of each broker, can begin to move them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidelog.core.config_changes import ATTEMPTS_MAX, TOO_MANY_CONFLICTS, altered, values_of, write
from tidelog.core.context import Context
from tidelog.core.effects import ReplyTo
from tidelog.core.keeper_paths import EVERY_BROKER, broker_config_path
from tidelog.core.keeper_port import Get, Operation, Result
from tidelog.core.keeper_tasks import Task, TaskQueue, Together
from tidelog.core.topic_messages import AlterBrokerConfigRequest, AlterBrokerConfigResponse
from tidelog.wire.errors import ErrorCode

BROKERS = "brokers/"
"""How notifications about brokers begin."""

Obey = Callable[[Mapping[str, str], Mapping[str, str]], None]
"""Called with this broker's own settings and with those of every broker, at each change."""


class BrokerConfigs:
    __slots__ = ("_ctx", "_hear", "_obey", "_own", "_tasks", "_values")

    def __init__(self, ctx: Context, tasks: TaskQueue, hear: Callable[[], Task]) -> None:
        """``hear`` reads what was changed."""
        self._ctx = ctx
        self._tasks = tasks
        self._hear = hear
        self._obey: Obey | None = None
        self._own = str(ctx.broker)
        self._values: dict[str, dict[str, str]] = {self._own: {}, EVERY_BROKER: {}}

    def obey(self, obey: Obey) -> None:
        self._obey = obey

    # ------------------------------------------------------------ reading

    @property
    def questions(self) -> tuple[Operation, ...]:
        if self._obey is None:
            return ()
        return tuple(Get(broker_config_path(scope)) for scope in self._values)

    def answered(self, answers: Sequence[Result]) -> None:
        """The answers to ``questions``."""
        if answers and self._obey is not None:
            before = self._values
            self._values = dict(zip(before, map(values_of, answers), strict=True))
            if self._values != before:
                self._obey(self._values[self._own], self._values[EVERY_BROKER])

    def read(self) -> Task:
        questions = self.questions
        if questions:
            found = yield Together(questions)
            self.answered(found.value)

    # ------------------------------------------------------------ changes

    def alter(self, request: AlterBrokerConfigRequest, reply_to: ReplyTo) -> None:
        """Change the settings of one broker, or of every broker."""
        self._tasks.submit(
            lambda: self._alter(request, reply_to),
            # It is unknown whether it was written before the session ended.
            abandoned=lambda: self._answer(reply_to, ErrorCode.REQUEST_TIMED_OUT),
        )

    def _alter(self, request: AlterBrokerConfigRequest, reply_to: ReplyTo) -> Task:
        path = broker_config_path(request.scope)
        for _ in range(ATTEMPTS_MAX):
            settings = yield Get(path)
            before = values_of(settings)
            after = altered(before, request.values, replace=request.replace)
            if after == before or (yield from write(path, settings, after, f"{BROKERS}{request.scope}")):
                if self._obey is not None:
                    yield from self._hear()
                self._answer(reply_to, ErrorCode.NONE)
                return
        self._answer(reply_to, ErrorCode.REQUEST_TIMED_OUT, TOO_MANY_CONFLICTS)

    def _answer(self, reply_to: ReplyTo, error: ErrorCode, message: str | None = None) -> None:
        self._ctx.reply(reply_to, AlterBrokerConfigResponse(error=error, message=message))
