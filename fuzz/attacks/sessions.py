"""Fetch sessions (KIP-227) whose rules are broken: a mutated frame never has the id of a session.

A client opens sessions, as a consumer or as a follower, and then fetches in them with something wrong: epochs
that are repeated or skipped, partitions that do not exist, that are named and forgotten at once, or by the
thousand; a session that is used on two connections, left with a request that waits, or closed twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from random import Random
from typing import Any, Final

from fuzz.attacks import Ground
from fuzz.vocabulary import PARTITIONS, STANDING
from tidelog.cluster.directory import BrokerStatus
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

_STEPS: Final = 30
_SESSIONS: Final = 3
_MANY: Final = 3_000
_FOLLOWERS: Final = (-1, -1, -1, 1, 2, 3, 4)
_ODD_EPOCHS: Final = (-2, 1, 2, 2**31 - 1, -(2**31))


async def confuse(ground: Ground) -> None:
    """Some sessions on one broker, by two connections in turn."""
    broker, seed = ground.any_broker(), ground.dice.randrange(1 << 30)
    ground.tally["request in a session"] += await asyncio.to_thread(_live, broker, seed)


def _live(broker: BrokerStatus, seed: int) -> int:
    """How many requests were made. A connection that is closed is opened again."""
    dice, asked = Random(seed), 0
    sessions = [_Session(dice) for _ in range(_SESSIONS)]
    with ExitStack() as open_:
        clients: list[Client] = []
        while asked < _STEPS:
            with suppress(ClientError):
                if len(clients) < 2:
                    clients.append(open_.enter_context(Client(broker.host, broker.port)))
                client = dice.choice(clients)
                asked += 1
                try:
                    dice.choice(sessions).step(client)
                except ClientError:
                    clients.remove(client)
    return asked


class _Session:
    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._replica = dice.choice(_FOLLOWERS)
        self._id = self._epoch = 0

    def step(self, client: Client) -> None:
        dice = self._dice
        match dice.randrange(8):
            case 0:
                self._fetch(client, self._id, 0, self._some())  # anew, with the old one closed
            case 1:
                self._fetch(client, self._id, -1, self._some())
            case 2:
                self._fetch(client, self._id, dice.choice(_ODD_EPOCHS), self._some())
            case 3:
                self._fetch(client, self._id, self._epoch, [], self._some())
            case 4:
                both = self._some()
                self._fetch(client, self._id, self._epoch, both, both)
            case 5:
                many = [("fuzz-plain", number) for number in range(dice.randrange(_MANY))]
                self._fetch(client, self._id, self._epoch, many)
            case _:
                self._fetch(client, self._id, self._epoch, self._some())

    def _some(self) -> list[tuple[str, int]]:
        """Partitions, some of which do not exist, and some twice."""
        names = (*STANDING, "fuzz-new-1", "")
        count = self._dice.choice((0, 1, 1, 2, 5))
        return [(self._dice.choice(names), self._dice.randrange(-1, PARTITIONS + 1)) for _ in range(count)]

    def _fetch(
        self,
        client: Client,
        number: int,
        epoch: int,
        named: list[tuple[str, int]],
        forgotten: Sequence[tuple[str, int]] = (),
    ) -> None:
        dice = self._dice
        answer: Any = client.ask(
            Api.FETCH,
            FetchRequest(
                replica_id=self._replica,
                max_wait_ms=dice.choice((0, 0, 5, 30, -1)),
                min_bytes=dice.choice((0, 1, 1, 1 << 20, -1)),
                max_bytes=dice.choice((0, 1, 1 << 20, -1)),
                session_id=number,
                session_epoch=epoch,
                topics=[self._named(*each) for each in named],
                forgotten_topics_data=[
                    ForgottenTopic(topic=topic, partitions=[partition]) for topic, partition in forgotten
                ],
            ),
        )
        if answer.error_code == ErrorCode.NONE:
            if epoch == 0 or answer.session_id != self._id:
                self._id, self._epoch = answer.session_id, 0
            self._epoch += 1
        elif answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND and dice.random() < 0.7:
            self._id = self._epoch = 0

    def _named(self, topic: str, partition: int) -> FetchTopic:
        dice = self._dice
        part = FetchPartition(
            partition=partition,
            current_leader_epoch=dice.choice((-1, -1, 0, 1, 7)),
            fetch_offset=dice.choice((0, 0, 1, 10, 2**62, -1)),
            log_start_offset=dice.choice((-1, 0)),
            partition_max_bytes=dice.choice((0, 1, 1 << 20, -1)),
        )
        return FetchTopic(topic=topic, partitions=[part])
