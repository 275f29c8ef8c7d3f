"""One real broker core, driven by hand: messages and time go in, effects come out sorted by kind.

The core is the one that ships, its disk is the simulator's and its keeper is the real tree, answered at once.
A test plays the other replicas, the clients and the controller, and so decides what arrives when.
"""

from collections.abc import Iterable
from typing import TypeVar

from tidelog.core import keeper_paths
from tidelog.core.broker import Broker
from tidelog.core.config import BrokerConfig
from tidelog.core.effects import KeeperCall, Reply, Send, Stopped, WakeAt
from tidelog.core.events import Event
from tidelog.core.generations import GENERATIONS
from tidelog.core.keeper_port import Create, KeeperReply, SessionStarted
from tidelog.core.messages import (
    ACKS_ALL,
    CONSUMER,
    ControlHeader,
    EpochEndResponse,
    FetchRequest,
    FetchResponse,
    LeaderAndIsrRequest,
    Message,
    PartitionAssignment,
    ProduceRequest,
    ProduceResponse,
    UpdateMetadataRequest,
)
from tidelog.core.replication.follower import FollowerRole
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.replication.replica import Replica
from tidelog.core.types import (
    NO_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicConfig,
    TopicPartition,
)
from tidelog.keeper.tree import Tree
from tidelog.storage.memory import MemoryBatch, MemoryStorage
from tidelog.wire.errors import ErrorCode

TP = TopicPartition("t", 0)
CONTROLLER = BrokerId(9)
M = TypeVar("M")


def ids(brokers: Iterable[int]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


class Bench:
    """A broker that is registered with the keeper and knows brokers 0 to 3; broker 9 is its controller."""

    def __init__(
        self,
        me: int = 0,
        generation: str = "epoch",
        *,
        config: BrokerConfig | None = None,
        topic: TopicConfig | None = None,
        storage: MemoryStorage | None = None,
        replicas: Iterable[int] = (0, 1),
    ) -> None:
        self.me = BrokerId(me)
        self.now = 0
        self.storage = storage or MemoryStorage()
        self.tree = Tree()
        self.sent: list[Send] = []
        self.replies: list[Reply] = []
        self.events: list[Event] = []
        self.stopped = False
        self.replicas = ids(replicas)
        self.core = Broker(self.me, self.storage, GENERATIONS[generation], config or BrokerConfig())
        self.core.configure_topic(TP.topic, topic or TopicConfig())
        self._wakes: list[int] = []
        self._tokens = 0
        self._requests = 0
        self._register()

    def _register(self) -> None:
        for path in keeper_paths.PERSISTENT:
            self.tree.make_path(path)
        elsewhere = self.tree.open_session()
        self.tree.apply(elsewhere, Create(keeper_paths.CONTROLLER, CONTROLLER, ephemeral=True))
        self._session = self.tree.open_session()
        self.core.keeper_notice(SessionStarted(self._session), self.now)
        self._collect()
        live = dict.fromkeys(ids(range(4)), BrokerEpoch(1))
        self.hear(
            UpdateMetadataRequest(**self.header(), live_brokers=live, endpoints={}, partitions=()), CONTROLLER
        )

    def header(self, controller: BrokerId = CONTROLLER, epoch: int = 1) -> ControlHeader:
        self._requests += 1
        return {
            "controller": controller,
            "controller_epoch": ControllerEpoch(epoch),
            "broker_epoch": self.core.ctx.broker_epoch,
            "request_id": self._requests,
        }

    # ------------------------------------------------------------ input

    def hear(self, message: Message, sender: object) -> None:
        """A message arrives."""
        self.core.receive(sender, message, self.now)
        self._collect()

    def _collect(self) -> None:
        while self.core.effects:
            effects = list(self.core.effects)
            self.core.effects.clear()
            for effect in effects:
                if isinstance(effect, Send):
                    self.sent.append(effect)
                elif isinstance(effect, Reply):
                    self.replies.append(effect)
                elif isinstance(effect, WakeAt):
                    self._wakes.append(effect.at)
                elif isinstance(effect, KeeperCall):
                    result, _ = self.tree.apply(self._session, effect.operation)
                    self.core.keeper_notice(KeeperReply(effect.call, result), self.now)
                elif isinstance(effect, Stopped):
                    self.stopped = True
                else:
                    self.events.append(effect)

    def pass_time(self, ms: int) -> None:
        """Time passes, with a wake-up at every moment that was asked for."""
        until = self.now + ms
        while due := [at for at in self._wakes if at <= until]:
            self.now = max(self.now, min(due))
            self._wakes = [at for at in self._wakes if at > self.now]
            self.core.wake(self.now)
            self._collect()
        self.now = until

    # ------------------------------------------------------------ the controller's part

    def assign(self, leader: int, epoch: int, isr: Iterable[int], version: int = 0) -> None:
        """LeaderAndIsr: who leads from this epoch on."""
        state = PartitionState(BrokerId(leader), LeaderEpoch(epoch), ids(isr), ControllerEpoch(1), version)
        partition = PartitionAssignment(tp=TP, replicas=self.replicas, state=state)
        self.hear(LeaderAndIsrRequest(**self.header(), partitions=(partition,)), CONTROLLER)

    def lead(self, epoch: int = 0, isr: Iterable[int] | None = None, version: int = 0) -> LeaderRole:
        self.assign(self.me, epoch, self.replicas if isr is None else isr, version)
        return self.leader

    def follow(self, leader: int, epoch: int) -> FollowerRole:
        self.assign(leader, epoch, self.replicas)
        assert isinstance(self.replica.role, FollowerRole)
        return self.replica.role

    # ------------------------------------------------------------ the clients' and followers' part

    def _token(self, who: object) -> tuple[object, int]:
        self._tokens += 1
        return who, self._tokens

    def produce(
        self, value: str, acks: int = ACKS_ALL, timeout_ms: int = 5_000, sequence: int | None = None
    ) -> object:
        """A client sends one record. Returns the token its answer will carry."""
        batch = MemoryBatch(value)
        if sequence is not None:
            batch = MemoryBatch(value, producer_id=7, producer_epoch=0, base_sequence=sequence)
        token = self._token("client")
        self.hear(ProduceRequest(TP, acks, batch, timeout_ms), token)
        return token

    def fetch(
        self,
        replica: int,
        offset: int,
        *,
        epoch: int | None = None,
        wait_ms: int = 500,
        broker_epoch: int = 1,
        from_any: bool = False,
    ) -> object:
        """A follower's (or a consumer's) fetch arrives, by default in the leader's own epoch."""
        if epoch is None:
            epoch = NO_EPOCH if replica == CONSUMER else self.replica.leader_epoch
        token = self._token(replica)
        self.hear(
            FetchRequest(
                TP,
                BrokerId(replica),
                offset,
                LeaderEpoch(epoch),
                wait_ms,
                BrokerEpoch(broker_epoch),
                from_any_replica=from_any,
            ),
            token,
        )
        return token

    def consume(
        self, offset: int, *, epoch: int = NO_EPOCH, wait_ms: int = 0, from_any: bool = False
    ) -> object:
        return self.fetch(CONSUMER, offset, epoch=epoch, wait_ms=wait_ms, from_any=from_any)

    # ------------------------------------------------------------ the leader's part, towards a follower

    def fed(
        self,
        offset: int,
        records: Iterable[MemoryBatch] = (),
        *,
        high_watermark: int = 0,
        epoch: int | None = None,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        """The leader answers the fetch at ``offset``."""
        epoch = self.replica.leader_epoch if epoch is None else epoch
        response = FetchResponse(TP, error, offset, LeaderEpoch(epoch), high_watermark, tuple(records))
        self.hear(response, BrokerId(1))

    def told_epoch_end(self, asked: int, found: int, end: int, *, epoch: int | None = None) -> None:
        epoch = self.replica.leader_epoch if epoch is None else epoch
        self.hear(
            EpochEndResponse(
                tp=TP,
                error=ErrorCode.NONE,
                current_leader_epoch=LeaderEpoch(epoch),
                asked_epoch=LeaderEpoch(asked),
                epoch=LeaderEpoch(found),
                end_offset=end,
            ),
            BrokerId(1),
        )

    # ------------------------------------------------------------ what can be seen

    @property
    def replica(self) -> Replica:
        return self.core.replicas[TP]

    @property
    def leader(self) -> LeaderRole:
        assert isinstance(self.replica.role, LeaderRole)
        return self.replica.role

    @property
    def leo(self) -> int:
        return self.replica.log.end_offset

    @property
    def hw(self) -> int:
        return self.replica.high_watermark

    @property
    def values(self) -> str:
        """The records of the log, one letter each; a control record is a dot."""
        return "".join(batch.value or "·" for batch in self.storage.open(TP).batches)

    @property
    def epochs(self) -> list[tuple[int, int]]:
        return [(entry.epoch, entry.start_offset) for entry in self.replica.log.epochs.entries]

    def answer(self, token: object, kind: type[M]) -> M | None:
        """The one answer to a request, None while it is parked."""
        found = [reply.message for reply in self.replies if reply.to == token]
        assert len(found) <= 1, f"answered more than once: {found}"
        if not found:
            return None
        assert isinstance(found[0], kind)
        return found[0]

    def answer_to(self, token: object) -> tuple[ErrorCode, int] | None:
        """The answer to a producer: (error, offset), None while it waits."""
        answer = self.answer(token, ProduceResponse)
        return None if answer is None else (answer.error, answer.base_offset)

    def fetched(self, token: object) -> FetchResponse:
        answer = self.answer(token, FetchResponse)
        assert answer is not None, "the fetch is still parked"
        return answer

    def is_parked(self, token: object) -> bool:
        return self.answer(token, FetchResponse) is None

    def last_sent(self, kind: type[M]) -> M:
        """The newest message that left for another broker, which must be of this kind."""
        message = self.sent[-1].message
        assert isinstance(message, kind), message
        return message

    def happened(self, kind: type[M]) -> list[M]:
        return [event for event in self.events if isinstance(event, kind)]


def records(text: str, *, start: int = 0, epoch: int = 0) -> tuple[MemoryBatch, ...]:
    """Records as a leader of ``epoch`` stored them: one per letter, from offset ``start``."""
    return tuple(MemoryBatch(value, start + index, LeaderEpoch(epoch)) for index, value in enumerate(text))


def letters(response: FetchResponse) -> str:
    return "".join(batch.value or "·" for batch in response.batches if isinstance(batch, MemoryBatch))


def leading(text: str = "", *, generation: str = "epoch", replicas: tuple[int, ...] = (0, 1)) -> Bench:
    """A leader of epoch 0 whose followers have everything in ``text``, and who knows it."""
    bench = Bench(generation=generation, replicas=replicas)
    bench.lead()
    for value in text:
        bench.produce(value, acks=1)
    for follower in replicas[1:]:
        bench.fetch(follower, len(text))
    assert (bench.leo, bench.hw) == (len(text), len(text))
    return bench


def disk(*runs: tuple[int, str], high_watermark: int = 0) -> MemoryStorage:
    """A disk that holds these runs of records, ``(epoch, "abc")``, and a checkpointed high watermark."""
    storage = MemoryStorage()
    log = storage.open(TP)
    for epoch, text in runs:
        if epoch != NO_EPOCH:
            log.epochs.assign(LeaderEpoch(epoch), log.end_offset)
        for batch in records(text, start=log.end_offset, epoch=epoch):
            log.append_as_follower(batch)
    storage.checkpoint_high_watermarks({TP: high_watermark})
    return storage
