"""AlterConfigs (33) and IncrementalAlterConfigs (44): change the settings of topics and of running brokers.

Behaviour: AlterConfigs replaces all settings of a resource, the incremental one changes those it names (set,
delete, append to or subtract from a list). All settings of a resource are checked before any is written.
A broker takes those of its own number, and those of every broker (the empty name). Most of its settings are
changed in its file, and refused here; to remove one that is not set changes nothing.
Not done: loggers of brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.broker.apis import serves
from tidelog.broker.apis.describe_configs import BROKER, TOPIC
from tidelog.broker.apis.gather import Gather, deadline_seconds
from tidelog.broker.connection import Request
from tidelog.broker.error_messages import brief
from tidelog.broker.topic_settings import require_few
from tidelog.core import topic_messages
from tidelog.core.keeper_paths import EVERY_BROKER
from tidelog.core.messages import Message
from tidelog.settings import dynamic
from tidelog.settings.kinds import TEXT_LENGTH_MAX
from tidelog.settings.table import SettingsError
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import alter_configs, incremental_alter_configs

if TYPE_CHECKING:
    from tidelog.broker.node import Node

SET, DELETE, APPEND, SUBTRACT = range(4)
Values = dict[str, str | None]


@serves(Api.ALTER_CONFIGS)
def handle(node: Node, request: Request) -> Steps[None]:
    results: list[Any] = []
    response = alter_configs.AlterConfigsResponse(responses=results)
    gather = Gather(lambda: request.respond(response), seconds_max=deadline_seconds())
    only = request.body.validate_only
    for resource in request.body.resources:
        result = alter_configs.AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        results.append(result)
        _alter(node, gather, resource, result, _named, replace=True, validate_only=only)
        yield
    gather.asked_all()


@serves(Api.INCREMENTAL_ALTER_CONFIGS)
def handle_incremental(node: Node, request: Request) -> Steps[None]:
    results: list[Any] = []
    response = incremental_alter_configs.IncrementalAlterConfigsResponse(responses=results)
    gather = Gather(lambda: request.respond(response), seconds_max=deadline_seconds())
    only = request.body.validate_only
    for resource in request.body.resources:
        result = incremental_alter_configs.AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        results.append(result)
        _alter(node, gather, resource, result, _changed, replace=False, validate_only=only)
        yield
    gather.asked_all()


def _alter(
    node: Node,
    gather: Gather,
    resource: Any,
    result: Any,
    values: Callable[[Any, _Target], Values],
    *,
    replace: bool,
    validate_only: bool,
) -> None:
    target = _target(node, resource, result)
    if target is None:
        return
    try:
        require_few(resource.configs)
        altered = values(resource, target)
        before = {} if replace else dict(target.own)
        target.check({k: v for k, v in {**before, **altered}.items() if v is not None})
    except SettingsError as error:
        result.error_code, result.error_message = target.invalid, brief(str(error))
        return
    if validate_only:
        return

    def fill(
        response: topic_messages.AlterTopicConfigResponse | topic_messages.AlterBrokerConfigResponse,
    ) -> None:
        result.error_code, result.error_message = response.error, brief(response.message)

    gather.ask(node, target.question(values=altered, replace=replace), fill)


# ---------------------------------------------------------------- whose settings


class _Target(Protocol):
    """A topic, a broker, or every broker."""

    @property
    def invalid(self) -> ErrorCode:
        """The error of a wrong value."""

    @property
    def own(self) -> Mapping[str, str]:
        """The settings that it has itself."""

    def current(self) -> Mapping[str, str]:
        """These and the defaults."""

    def check(self, values: Mapping[str, str]) -> object:
        """Raises ``SettingsError``."""

    def question(self, *, values: Values, replace: bool) -> Message: ...


def _target(node: Node, resource: Any, result: Any) -> _Target | None:
    """None: the result says why."""
    name = resource.resource_name
    if resource.resource_type == BROKER:
        if name in ("", str(node.id)):
            return _Broker(node, name)
        result.error_code = ErrorCode.INVALID_REQUEST
        result.error_message = brief(f"Unexpected broker id, expected {node.id}, but received {name}.")
    elif resource.resource_type != TOPIC:
        result.error_code = ErrorCode.INVALID_REQUEST
        result.error_message = "Only topics and brokers have settings that can be altered."
    elif name not in node.core.metadata.topics:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        return _Topic(node, name)
    return None


class _Topic:
    invalid = ErrorCode.INVALID_CONFIG

    def __init__(self, node: Node, name: str) -> None:
        self._topics = node.topics
        self._name = name
        self.own = node.topics.overrides(name)
        self.check = node.topics.checked
        self.question = partial(topic_messages.AlterTopicConfigRequest, topic=name)

    def current(self) -> Mapping[str, str]:
        return self._topics.of(self._name).texts()


class _Broker:
    invalid = ErrorCode.INVALID_REQUEST
    """As in Kafka."""

    def __init__(self, node: Node, name: str) -> None:
        self._running = node.running_settings
        self.own = self._running.own if name else self._running.of_every_broker
        self.check = dynamic.check
        self.question = partial(topic_messages.AlterBrokerConfigRequest, scope=name or EVERY_BROKER)

    def current(self) -> Mapping[str, str]:
        return self._running.values.texts()


# ---------------------------------------------------------------- what is asked for


def _named(resource: Any, _target: _Target) -> Values:
    return {setting.name: setting.value for setting in resource.configs}


def _changed(resource: Any, target: _Target) -> Values:
    """The settings after the operations of an incremental request."""
    current = target.current()
    values: Values = {}
    for setting in resource.configs:
        operation, name = setting.config_operation, setting.name
        if operation == SET:
            values[name] = setting.value
        elif operation == DELETE:
            values[name] = None
        elif operation in (APPEND, SUBTRACT):
            given = [item for item in (setting.value or "").split(",") if item]
            items = [item for item in current.get(name, "").split(",") if item and item not in given]
            values[name] = ",".join(items + (given if operation == APPEND else []))
        else:
            raise SettingsError(f"{name[:TEXT_LENGTH_MAX]}: there is no operation {operation}")
    return values
