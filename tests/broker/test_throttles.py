"""Which fetches wait for a quota: those of throttled partitions that are not in sync."""

from __future__ import annotations

import asyncio

from tidelog.broker.throttles import FollowerThrottle, LeaderThrottle, Throttles
from tidelog.core.messages import FetchRequest, FetchResponse
from tidelog.core.types import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from tidelog.settings.dynamic import DynamicSettings
from tidelog.settings.kinds import EVERY_REPLICA
from tidelog.settings.topic import LogConfig
from tidelog.wire.batch import split
from tidelog.wire.errors import ErrorCode
from tidelog.wire.records import Record, build_batch

ME, OTHER = BrokerId(1), BrokerId(2)
TP = TopicPartition("t", 0)
BATCHES = split(build_batch([Record(timestamp=1, key=None, value=b"x" * 1_000)]))
SIZE = len(BATCHES[0].data)


def answer(tp: TopicPartition = TP, high_watermark: int = 100) -> FetchResponse:
    return FetchResponse(tp, ErrorCode.NONE, 0, LeaderEpoch(1), high_watermark, BATCHES, 0)


def request(offset: int, tp: TopicPartition = TP) -> FetchRequest:
    return FetchRequest(tp, ME, offset, LeaderEpoch(1), 500, BrokerEpoch(1))


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def test_a_broker_is_throttled_where_a_topic_names_it() -> None:
    throttle = FollowerThrottle(ME, Clock())
    assert not throttle.covers(TP)
    throttle.configure("t", ((0, 1), (1, 2), (2, 1)))
    assert [throttle.covers(TopicPartition("t", number)) for number in range(4)] == [True, False, True, False]
    assert not throttle.covers(TopicPartition("u", 0))
    throttle.configure("t", EVERY_REPLICA)
    assert throttle.covers(TopicPartition("t", 7))
    throttle.configure("t", ((0, 2),))
    assert throttle.topics == {}, "nothing to look at for a fetch"


def test_a_leader_holds_back_what_is_not_in_sync_while_its_quota_is_exceeded() -> None:
    clock = Clock()
    in_sync: set[tuple[TopicPartition, BrokerId]] = set()
    throttle = LeaderThrottle(ME, clock, lambda *which: which in in_sync)
    throttle.configure("t", ((0, 1),))
    throttle.quota.rate = SIZE
    assert [throttle.passes(answer(), OTHER) for _ in range(3)] == [True, True, False]
    assert throttle.passes(answer(TopicPartition("t", 1)), OTHER), "which is not throttled, and not counted"
    clock.now = 2_000
    assert throttle.passes(answer(), OTHER)
    assert not throttle.passes(answer(), OTHER)
    in_sync.add((TP, OTHER))
    assert throttle.passes(answer(), OTHER), "and counts"
    clock.now = 3_999
    assert throttle.holds_back(TP, BrokerId(3))
    clock.now = 4_000
    assert not throttle.holds_back(TP, BrokerId(3))


def test_a_follower_does_not_ask_while_its_quota_is_exceeded_unless_it_is_in_sync() -> None:
    async def scene() -> None:
        clock = Clock()
        throttle = FollowerThrottle(ME, clock)
        throttle.configure("t", EVERY_REPLICA)
        throttle.quota.rate = SIZE
        assert not throttle.delays(request(0))
        for _ in range(2):
            throttle.fetched(answer(high_watermark=100))
        assert throttle.delays(request(99))
        assert not throttle.delays(request(100)), "all that is committed: it is in sync"
        refused = answer(high_watermark=-1)
        refused.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        throttle.fetched(refused)
        assert throttle.delays(request(99)), "an error says nothing about that"
        assert throttle.delays(request(0, TopicPartition("t", 1))), "one quota for all, and nothing known"
        clock.now = 2_000
        assert not throttle.delays(request(99))
        throttle.close()

    asyncio.run(scene())


def test_what_waits_is_fetched_when_time_has_passed_or_the_throttle_is_another() -> None:
    async def scene() -> None:
        throttles = Throttles(ME, lambda: int(asyncio.get_running_loop().time() * 1_000), lambda *_: False)
        throttle = throttles.follower
        went_on: asyncio.Queue[bool] = asyncio.Queue()
        throttle.go_on = lambda: went_on.put_nowait(throttle.delays(request(0)))
        throttled = LogConfig(follower_replication_throttled_replicas=EVERY_REPLICA)
        throttles.configure_topic("t", throttled)
        throttles.set_rates(DynamicSettings(follower_replication_throttled_rate=1))
        throttle.fetched(answer())
        assert throttle.delays(request(0))
        assert await went_on.get(), "after a second it is told to look again, and sets the next timer"
        throttles.set_rates(DynamicSettings(follower_replication_throttled_rate=2))
        assert await went_on.get()
        throttles.configure_topic("t", LogConfig())
        assert not await went_on.get()
        throttle.changed()
        assert went_on.empty(), "nothing waits"
        throttle.close()

    asyncio.run(scene())
