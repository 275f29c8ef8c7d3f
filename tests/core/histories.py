"""Histories of one partition: three real brokers, and elections of any replica at any time.

Elections here are as unclean as they can be, followers fetch as little as they like, processes restart and
machines lose power. All that a history keeps is what the rules of truncation rely on: one leader per epoch.
"""

from dataclasses import dataclass

from hypothesis import strategies as st
from tests.core.harness import TP, Bench, M

from tidelog.core.messages import EpochEndRequest, EpochEndResponse, FetchRequest, FetchResponse
from tidelog.core.types import BrokerId
from tidelog.storage.memory import MemoryBatch, MemoryStorage

REPLICAS = (0, 1, 2)


@dataclass(frozen=True)
class Reign:
    """One epoch: who leads, how many records it takes, and how many of them each follower fetches."""

    leader: int
    writes: int
    fetches: tuple[int | None, ...]
    """For each replica how many records it fetches at most; None: it does not hear of this epoch at all."""
    ends: tuple[str, ...] = ("", "", "")
    """What happens to each replica afterwards: a ``restart``, a ``power cut`` and a restart, a ``sync``."""


def reigns(*ends: str) -> st.SearchStrategy[Reign]:
    """Any epoch, after which any of these may happen to any replica."""
    return st.builds(
        Reign,
        leader=st.sampled_from(REPLICAS),
        writes=st.integers(0, 3),
        fetches=st.tuples(*(st.none() | st.integers(0, 3) for _ in REPLICAS)),
        ends=st.tuples(*(st.sampled_from(("", *ends)) for _ in REPLICAS)),
    )


class History:
    def __init__(self, generation: str) -> None:
        self.generation = generation
        self.disks = [MemoryStorage() for _ in REPLICAS]
        self.brokers = [self._start(broker) for broker in REPLICAS]
        self.epoch = -1
        self.written = 0
        self.above_agreement: list[str] = []
        """Truncations after which a follower still held a record that its leader did not have there."""

    def _start(self, broker: int) -> Bench:
        self.disks[broker].recover()
        return Bench(broker, self.generation, storage=self.disks[broker], replicas=REPLICAS)

    def play(self, history: list[Reign]) -> None:
        for reign in history:
            self.epoch += 1
            leader = self.brokers[reign.leader]
            leader.lead(self.epoch)
            for _ in range(reign.writes):
                leader.produce(f"<{self.written}>", acks=1)
                self.written += 1
            for follower, fetches in enumerate(reign.fetches):
                if fetches is not None and follower != reign.leader:
                    self._follow(reign.leader, follower, fetches)
            for broker, end in enumerate(reign.ends):
                if end == "sync":
                    self.disks[broker].sync()
                elif end:
                    if end == "power cut":
                        self.disks[broker].lose_power()
                    self.brokers[broker] = self._start(broker)

    def records(self, broker: int) -> list[MemoryBatch]:
        return self.disks[broker].open(TP).batches

    def agreement(self, one: int, other: int) -> int:
        """The length of the longest common prefix of two logs."""
        length = 0
        for mine, theirs in zip(self.records(one), self.records(other), strict=False):
            if (mine.leader_epoch, mine.value) != (theirs.leader_epoch, theirs.value):
                break
            length += 1
        return length

    def _follow(self, leading: int, following: int, fetches: int) -> None:
        """Follow, truncate as the generation says, then fetch so many records at most."""
        follower, leader = self.brokers[following], self.brokers[leading]
        agreement = self.agreement(following, leading)
        follower.follow(leading, self.epoch)
        asked = 0
        while isinstance(question := follower.sent[-1].message, EpochEndRequest):
            asked += 1
            assert asked <= self.epoch + 1, f"asks for ever: {question}"
            follower.hear(_answer(leader, question, EpochEndResponse), BrokerId(leading))
        if follower.leo > agreement:
            self.above_agreement.append(
                f"epoch {self.epoch}: {following} keeps {follower.leo}, {leading} has {agreement} of them"
            )
        if follower.leo < leader.leo:
            response = _answer(leader, follower.last_sent(FetchRequest), FetchResponse)
            response.batches = response.batches[:fetches]
            follower.hear(response, BrokerId(leading))


def _answer(leader: Bench, question: EpochEndRequest | FetchRequest, kind: type[M]) -> M:
    leader.hear(question, question.replica)
    message = leader.replies[-1].message
    assert isinstance(message, kind)
    return message
