"""OffsetFetch (9): the committed offsets of consumer groups.

Behaviour: an unknown group or partition has offset -1, which is not an error. In version 1 each partition
carries the error; since 2 null asks for all topics, and the error is that of the request; since 8 there are
several groups, each with its own error (KIP-709).
Not done: ``require_stable`` has no effect, because there are no transactions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.gather import Gather
from tidelog.broker.apis.named_partitions import named_partitions
from tidelog.broker.connection import Request
from tidelog.broker.translation.exchange import by_topic
from tidelog.core.types import TopicPartition
from tidelog.groups import messages as groups
from tidelog.storage.background import Steps, listed
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node

ONE_ERROR_SINCE = 2
SEVERAL_SINCE = 8


@serves(Api.OFFSET_FETCH)
def handle(node: Node, request: Request) -> Steps[None]:
    body: OffsetFetchRequest = request.body
    asked = body.groups
    if request.header.api_version < SEVERAL_SINCE:
        asked = [OffsetFetchRequestGroup(group_id=body.group_id, topics=body.topics)]
    found: list[_Found] = []
    whole: set[str] = set()
    gather = Gather(lambda: _respond(request, found))
    for group in asked:
        partitions = None
        if group.topics is None:
            # Otherwise an answer could be as large as all offsets times the groups of the request.
            if group.group_id in whole:
                raise ProtocolError("a request that asks twice for all offsets of a group")
            whole.add(group.group_id)
        else:
            named = ((topic.name, topic.partition_indexes) for topic in group.topics)
            partitions = tuple((yield from named_partitions(named)))
        of_group = _Found(group.group_id)
        found.append(of_group)
        fill = partial(of_group.fill, partitions, request.header.api_version)
        node.groups.ask(groups.PositionsRequest(group.group_id, partitions), gather.expect(fill))
        yield
    gather.asked_all()


class _Found:
    """The committed offsets of a group, for one entry of the request."""

    __slots__ = ("error", "group", "positions")

    def __init__(self, group: str) -> None:
        self.group = group
        self.error = ErrorCode.NONE
        self.positions: Mapping[TopicPartition, groups.Position] = {}

    def fill(
        self, asked: tuple[TopicPartition, ...] | None, version: int, response: groups.PositionsResponse
    ) -> None:
        self.error, self.positions = response.error, response.positions
        if response.error is not ErrorCode.NONE and version < ONE_ERROR_SINCE:
            self.positions = dict.fromkeys(asked or (), groups.NO_POSITION)


def _respond(request: Request, found: Sequence[_Found]) -> None:
    failed = any(of_group.error for of_group in found)
    request.respond_with(_answer(request.header.api_version, found), failed=failed)


def _answer(version: int, found: Sequence[_Found]) -> Steps[OffsetFetchResponse]:
    answers: list[OffsetFetchResponseGroup] = []
    for each in found:
        error = each.error
        parts = yield from listed((tp, _part(tp, at, error)) for tp, at in each.positions.items())
        named = by_topic(parts).items()
        topics = [OffsetFetchResponseTopic(name=name, partitions=part) for name, part in named]
        answers.append(OffsetFetchResponseGroup(group_id=each.group, topics=topics, error_code=error))
        yield
    if version >= SEVERAL_SINCE:
        return OffsetFetchResponse(groups=answers)
    (only,) = answers
    return OffsetFetchResponse(topics=only.topics, error_code=only.error_code)


def _part(tp: TopicPartition, position: groups.Position, error: ErrorCode) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=tp.partition,
        committed_offset=position.offset,
        committed_leader_epoch=position.leader_epoch,
        metadata=position.metadata,
        error_code=error,
    )
