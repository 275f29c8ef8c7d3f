"""A controlled shutdown: when the controller is asked, and how long its answer is waited for."""

import pytest
from tests.core.harness import CONTROLLER, TP, Bench, leading

from tidelog.core.config import BrokerConfig
from tidelog.core.messages import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    EpochEndRequest,
    FetchRequest,
    UpdateMetadataRequest,
)
from tidelog.core.replication.follower import Phase
from tidelog.core.types import BrokerEpoch, BrokerId
from tidelog.wire.errors import ErrorCode

BACKOFF_MS = 200
PATIENCE_MS = 10_000
SUCCESSOR = BrokerId(3)
DONE = ControlledShutdownResponse(error=ErrorCode.NONE)
NOT_YET = ControlledShutdownResponse(error=ErrorCode.NONE, remaining=(TP,))


class Leaving(Bench):
    def __init__(self, *, retries: int = 3) -> None:
        super().__init__(
            config=BrokerConfig(
                controlled_shutdown_max_retries=retries,
                controlled_shutdown_retry_backoff_ms=BACKOFF_MS,
                controller_socket_timeout_ms=PATIENCE_MS,
            )
        )
        self.core.stop(self.now)
        self._collect()

    @property
    def asked(self) -> list[BrokerId]:
        return [send.to for send in self.sent if isinstance(send.message, ControlledShutdownRequest)]

    def answer_with(self, answer: ControlledShutdownResponse) -> None:
        self.hear(answer, CONTROLLER)

    def meet(self, controller: BrokerId) -> None:
        """Another controller introduces itself."""
        live = dict.fromkeys((self.me, controller), BrokerEpoch(1))
        header = self.header(controller, 2)
        self.hear(UpdateMetadataRequest(**header, live_brokers=live, endpoints={}, partitions=()), controller)


@pytest.mark.parametrize(
    ("generation", "isr", "follows"),
    [
        ("hw", (1,), False),
        ("kip101", (1,), False),
        ("epoch", (1,), False),
        ("epoch", (0, 1), False),
        ("elr", (1,), False),
        ("elr", (0, 1), True),
    ],
)
def test_a_leader_that_shuts_down_does_not_follow_the_next_one(
    generation: str, isr: tuple[int, ...], follows: bool
) -> None:
    """Kafka adds no fetchers then; Kafka 4 goes on fetching where the broker is still in sync."""
    bench = leading("ab", generation=generation)
    bench.produce("c", acks=1)
    bench.core.stop(bench.now)
    bench.sent.clear()
    bench.assign(1, 1, isr)
    bench.pass_time(5_000)
    asked = [send for send in bench.sent if isinstance(send.message, FetchRequest | EpochEndRequest)]
    assert bool(asked) == follows
    # 0.10 truncates before it looks whether it shuts down.
    assert bench.values == ("ab" if generation == "hw" else "abc")


def test_a_follower_that_shuts_down_stops_fetching_when_it_has_left_the_isr() -> None:
    """Under Kafka 4, where that changes no leader epoch. Nothing of it is waited for then."""
    bench = Bench(generation="elr")
    role = bench.follow(1, 0)
    bench.core.stop(bench.now)
    bench.assign(1, 0, (1,), 1)
    bench.sent.clear()
    bench.core.connected(BrokerId(1))
    bench.pass_time(1)
    assert role.phase is Phase.STALLED
    assert not [send for send in bench.sent if isinstance(send.message, FetchRequest)]


def test_a_controller_that_has_much_to_move_is_given_time() -> None:
    """The pause between two attempts is not what an answer may take."""
    bench = Leaving()
    bench.pass_time(PATIENCE_MS - 1)
    assert (bench.asked, bench.stopped) == ([CONTROLLER], False)
    bench.answer_with(DONE)
    assert bench.stopped


def test_what_could_not_be_moved_is_asked_for_again_after_a_pause() -> None:
    bench = Leaving()
    for attempts in (1, 2, 3):
        assert len(bench.asked) == attempts
        bench.answer_with(NOT_YET)
        bench.pass_time(BACKOFF_MS - 1)
        assert (len(bench.asked), bench.stopped) == (attempts, False)
        bench.pass_time(1)
    assert (len(bench.asked), bench.stopped) == (3, True)


def test_without_an_answer_it_leaves_in_the_end() -> None:
    bench = Leaving()
    bench.pass_time(3 * PATIENCE_MS - 1)
    assert (len(bench.asked), bench.stopped) == (3, False)
    bench.pass_time(1)
    assert bench.stopped


def test_a_new_controller_is_asked_at_once() -> None:
    """The one that was asked before may be dead; if it is not, it answers that it is not the controller."""
    bench = Leaving()
    bench.meet(SUCCESSOR)
    assert bench.asked == [CONTROLLER, SUCCESSOR]
    bench.meet(SUCCESSOR)
    assert bench.asked == [CONTROLLER, SUCCESSOR]


def test_a_connection_that_is_back_carries_the_request_again() -> None:
    """It may have been lost with the old one. That is no further attempt."""
    bench = Leaving(retries=1)
    bench.core.connected(SUCCESSOR)
    bench.core.connected(CONTROLLER)
    bench._collect()
    assert bench.asked == [CONTROLLER, CONTROLLER]
    assert not bench.stopped


def test_answers_of_two_attempts_do_not_count_twice() -> None:
    bench = Leaving()
    bench.core.connected(CONTROLLER)
    bench._collect()
    bench.answer_with(NOT_YET)
    bench.answer_with(NOT_YET)
    bench.pass_time(BACKOFF_MS)
    assert bench.asked == [CONTROLLER] * 3  # twice in the first attempt, once in the second
    bench.pass_time(BACKOFF_MS)
    assert bench.asked == [CONTROLLER] * 3


@pytest.mark.parametrize("answers", [[DONE, DONE], [NOT_YET, DONE, NOT_YET]])
def test_it_leaves_once(answers: list[ControlledShutdownResponse]) -> None:
    bench = Leaving()
    for answer in answers:
        bench.answer_with(answer)
    assert bench.stopped
    asked = len(bench.asked)
    bench.pass_time(10 * PATIENCE_MS)
    assert len(bench.asked) == asked
