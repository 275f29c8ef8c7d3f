"""Members of a group that know the rules well enough to break them late.

A mutated frame seldom has the id that a coordinator gave to a member, so what is behind that check is reached
from here: members that join in order and then sync, commit, beat and leave with something wrong, or vanish.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Any, Final

from fuzz.attacks import Ground
from fuzz.vocabulary import STANDING
from tidelog.cluster.directory import BrokerStatus
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

_STEPS: Final = 12
_GROUPS: Final = 20


async def misbehave(ground: Ground) -> None:
    """One life on one broker; two times out of three it is not the one that coordinates the group."""
    broker, seed = ground.any_broker(), ground.dice.randrange(1 << 30)
    ground.tally["request of a member"] += await asyncio.to_thread(_live, broker, seed)


def _live(broker: BrokerStatus, seed: int) -> int:
    """How many requests the member made. It ends early where it is not understood any more."""
    dice = Random(seed)
    member = _Member(f"fuzz-members-{dice.randrange(_GROUPS)}", dice)
    with suppress(ClientError), Client(broker.host, broker.port) as coordinator:
        for _ in range(_STEPS):
            member.step(coordinator)
    return member.asked


class _Member:
    def __init__(self, group: str, dice: Random) -> None:
        self.group = group
        self.asked = 0
        self._dice = dice
        self._id = ""
        self._generation = -1

    def step(self, coordinator: Client) -> None:
        steps = (self._join, self._join, self._sync, self._sync, self._beat, self._commit, self._leave)
        self.asked += 1
        self._dice.choice(steps)(coordinator)

    def _join(self, coordinator: Client) -> None:
        names = self._dice.sample(("range", "roundrobin", "sticky"), self._dice.randint(0, 3))
        answer = coordinator.ask(
            Api.JOIN_GROUP,
            JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=6_000,
                rebalance_timeout_ms=self._dice.choice((1, 50, 200)),
                member_id=self._id,
                group_instance_id=self._dice.choice((None, None, "fuzz-static")),
                protocol_type=self._dice.choice(("consumer", "consumer", "connect")),
                protocols=[
                    JoinGroupRequestProtocol(name=name, metadata=self._dice.randbytes(30)) for name in names
                ],
            ),
        )
        if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self._id, self._generation = answer.member_id, answer.generation_id

    def _sync(self, coordinator: Client) -> None:
        to = self._dice.choice(([self._id], [], [self._id, "nobody"], [self._id] * 3))
        coordinator.ask(
            Api.SYNC_GROUP,
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self._said_generation(),
                member_id=self._id,
                protocol_type="consumer",
                protocol_name=self._dice.choice(("range", "roundrobin", None)),
                assignments=[
                    SyncGroupRequestAssignment(member_id=name, assignment=self._dice.randbytes(40))
                    for name in to
                ],
            ),
        )

    def _beat(self, coordinator: Client) -> None:
        self._ask(coordinator, Api.HEARTBEAT, HeartbeatRequest)

    def _commit(self, coordinator: Client) -> None:
        parts = [
            OffsetCommitRequestPartition(
                partition_index=self._dice.choice((0, 1, 9, -1)),
                committed_offset=self._dice.choice((0, 5, -1, 2**62)),
                committed_metadata=self._dice.choice((None, "", "x" * 5_000)),
            )
        ]
        coordinator.ask(
            Api.OFFSET_COMMIT,
            OffsetCommitRequest(
                group_id=self.group,
                generation_id_or_member_epoch=self._said_generation(),
                member_id=self._id,
                topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name in STANDING],
            ),
        )

    def _leave(self, coordinator: Client) -> None:
        who = [
            MemberIdentity(member_id=name) for name in self._dice.choice(([self._id], ["nobody", self._id]))
        ]
        coordinator.ask(Api.LEAVE_GROUP, LeaveGroupRequest(group_id=self.group, members=who))

    def _ask(self, coordinator: Client, api: Api, request: Any) -> None:
        coordinator.ask(
            api, request(group_id=self.group, generation_id=self._said_generation(), member_id=self._id)
        )

    def _said_generation(self) -> int:
        return self._dice.choice((self._generation, self._generation, self._generation + 1, -1))
