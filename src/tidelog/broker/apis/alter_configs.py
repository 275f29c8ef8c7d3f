"""AlterConfigs (33) and IncrementalAlterConfigs (44): change the settings of topics.

Behaviour: AlterConfigs replaces all settings of a topic, the incremental one changes those it names (set,
delete, append to or subtract from a list). All settings are checked before any is written.
Removing settings of a broker succeeds and changes nothing.
Not done: setting brokers' settings, which are changed in their files.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.broker.apis import serves
from tidelog.broker.apis.describe_configs import BROKER, TOPIC
from tidelog.broker.apis.gather import Gather, deadline_seconds
from tidelog.broker.connection import Request
from tidelog.broker.error_messages import brief
from tidelog.broker.topic_settings import require_few
from tidelog.core import topic_messages
from tidelog.settings.table import SettingsError
from tidelog.settings.topic import TEXT_LENGTH_MAX
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
        named = partial(_named, resource)
        _alter(node, gather, resource, result, named, replace=True, validate_only=only)
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

        changed = partial(_changed, node, resource)
        _alter(node, gather, resource, result, changed, replace=False, validate_only=only)
        yield
    gather.asked_all()


def _alter(
    node: Node,
    gather: Gather,
    resource: Any,
    result: Any,
    values: Callable[[], Values],
    *,
    replace: bool,
    validate_only: bool,
) -> None:
    if resource.resource_type == BROKER and not replace and _removes_only(resource):
        return
    if resource.resource_type != TOPIC:
        result.error_code = ErrorCode.INVALID_REQUEST
        result.error_message = "Only topics can be altered; a broker's settings are changed in its file."
        return
    if resource.resource_name not in node.core.metadata.topics:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return
    try:
        require_few(resource.configs)
        altered = values()
        before = {} if replace else dict(node.topics.overrides(resource.resource_name))
        node.topics.checked({k: v for k, v in {**before, **altered}.items() if v is not None})
    except SettingsError as error:
        result.error_code, result.error_message = ErrorCode.INVALID_CONFIG, brief(str(error))
        return
    if validate_only:
        return

    def fill(response: topic_messages.AlterTopicConfigResponse) -> None:
        result.error_code, result.error_message = response.error, brief(response.message)

    gather.ask(
        node,
        topic_messages.AlterTopicConfigRequest(topic=resource.resource_name, values=altered, replace=replace),
        fill,
    )


def _removes_only(resource: Any) -> bool:
    """To remove what is not set changes nothing, and no setting of a broker is. So tools that have moved
    partitions remove their throttles, whether they had set some or not."""
    return all(setting.config_operation == DELETE for setting in resource.configs)


def _named(resource: Any) -> Values:
    return {setting.name: setting.value for setting in resource.configs}


def _changed(node: Node, resource: Any) -> Values:
    """The settings after the operations of an incremental request."""
    current = node.topics.of(resource.resource_name).texts()
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
