"""A follower, fed by hand: its watermark, which answers it believes, and where it truncates."""

import pytest
from tests.core.harness import CONTROLLER, TP, Bench, disk, records

from tidelog.core.config import BrokerConfig
from tidelog.core.events import BrokerExited, FollowerStalled, Truncated
from tidelog.core.generations import GENERATIONS
from tidelog.core.messages import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    EpochEndRequest,
    EpochEndResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from tidelog.core.replication.follower import FollowerRole, Phase
from tidelog.core.types import (
    NO_EPOCH,
    UNKNOWN_OFFSET,
    BrokerId,
    InvariantViolation,
    LeaderEpoch,
    TopicConfig,
)
from tidelog.storage.memory import MemoryBatch, MemoryStorage
from tidelog.wire.errors import ErrorCode

LEADER = BrokerId(1)


def following(epoch: int = 0, generation: str = "epoch", storage: MemoryStorage | None = None) -> Bench:
    bench = Bench(generation=generation, storage=storage, replicas=(0, 1, 2))
    bench.follow(LEADER, epoch)
    return bench


def phase(bench: Bench) -> Phase:
    assert isinstance(bench.replica.role, FollowerRole)
    return bench.replica.role.phase


def truncations(bench: Bench) -> list[tuple[int, int]]:
    return [(event.before, event.after) for event in bench.happened(Truncated)]


# ---------------------------------------------------------------- fetching


def test_a_fetch_starts_at_the_log_end_and_names_epoch_and_incarnation() -> None:
    """Not LEO + 1, as one of the sources says: at LEO."""
    bench = following(epoch=3, storage=disk((NO_EPOCH, "ab"), high_watermark=2))
    request = bench.last_sent(FetchRequest)
    assert bench.sent[-1].to == LEADER
    assert (request.replica, request.offset, request.current_leader_epoch) == (0, 2, 3)
    assert request.broker_epoch == bench.core.ctx.broker_epoch
    assert request.max_wait_ms == 500


def test_what_is_fetched_is_appended_and_the_next_fetch_leaves_at_once() -> None:
    """One request is outstanding, and it always asks for the log end."""
    bench = following()
    bench.fed(0, records("ab"))
    assert (bench.values, bench.leo) == ("ab", 2)
    assert bench.last_sent(FetchRequest).offset == 2
    bench.fed(2, records("c", start=2))
    assert bench.last_sent(FetchRequest).offset == 3
    assert len([send for send in bench.sent if isinstance(send.message, FetchRequest)]) == 3


@pytest.mark.parametrize(
    ("fed", "leaders", "own", "reason"),
    [
        ("abc", 0, 0, "the leader has committed nothing yet"),
        ("abc", 2, 2, "one round behind: the leader knew of two"),
        ("abc", 3, 3, "the leader has committed everything"),
        ("a", 3, 1, "never above the own log end"),
        ("", 3, 0, "even with an empty log"),
    ],
)
def test_the_watermark_is_the_smaller_of_own_end_and_leaders_watermark(
    fed: str, leaders: int, own: int, reason: str
) -> None:
    """Follower HW = min(own LEO, HW in the response), counted after the append."""
    bench = following()
    bench.fed(0, records(fed), high_watermark=leaders)
    assert bench.hw == own, reason


def test_the_watermark_lags_one_fetch_round() -> None:
    """The answer that brings a record cannot say yet that it is committed; the next one can."""
    bench = following()
    bench.fed(0, records("a"), high_watermark=0)
    assert (bench.leo, bench.hw) == (1, 0)
    bench.fed(1, high_watermark=1)
    assert (bench.leo, bench.hw) == (1, 1)


def test_the_watermark_follows_a_leader_that_knows_less() -> None:
    """A new leader's watermark may still be behind: the follower takes it over, down as well as up."""
    bench = following()
    bench.fed(0, records("abc"), high_watermark=3)
    bench.fed(3, high_watermark=1)
    assert bench.hw == 1


def test_epochs_are_learnt_from_records_only() -> None:
    """Following in epoch 5 writes nothing down; records of epochs 0 and 4 do."""
    bench = following(epoch=5)
    assert bench.epochs == []
    bench.fed(0, [*records("ab", epoch=0), *records("c", start=2, epoch=4)])
    assert bench.epochs == [(0, 0), (4, 2)]
    bench.fed(3, records("d", start=3, epoch=4))
    assert bench.epochs == [(0, 0), (4, 2)]


# ---------------------------------------------------------------- which answers count


def test_an_answer_to_another_offset_is_ignored() -> None:
    """It was meant for an earlier request: its records would leave a gap, or be duplicates."""
    bench = following()
    bench.fed(0, records("ab"))
    sent = len(bench.sent)
    bench.fed(0, records("ab"))
    bench.fed(5, records("x", start=5))
    assert (bench.values, len(bench.sent)) == ("ab", sent)


def test_an_answer_of_another_epoch_is_ignored() -> None:
    """It is from before the last change of leaders; what it brings may have been truncated there."""
    bench = following(epoch=4)
    bench.fed(0, records("a", epoch=3), epoch=3)
    assert bench.values == ""
    bench.fed(0, records("b", epoch=4), epoch=4)
    assert bench.values == "b"


@pytest.mark.parametrize("generation", ["hw", "kip101"])
def test_older_followers_take_answers_of_any_epoch(generation: str) -> None:
    """Before KIP-320 only the offset is compared."""
    bench = following(epoch=4, generation=generation)
    bench.fed(0, [MemoryBatch("a", 0, NO_EPOCH)], epoch=3)
    assert bench.values == "a"


def test_records_that_come_while_truncating_are_ignored() -> None:
    """First agree, then fetch: an old answer must not be appended while the log may still be cut."""
    bench = following(epoch=1, storage=disk((0, "ab"), high_watermark=2))
    assert phase(bench) is Phase.TRUNCATING
    bench.fed(2, records("c", start=2))
    assert bench.values == "ab"


def test_an_answer_about_another_epoch_than_asked_is_ignored() -> None:
    """A late answer to an earlier question, or one of an earlier leader epoch, truncates nothing."""
    bench = following(epoch=7, storage=disk((0, "ab"), (3, "cd"), high_watermark=0))
    assert bench.last_sent(EpochEndRequest).asked_epoch == 3
    bench.told_epoch_end(asked=0, found=0, end=1)
    bench.told_epoch_end(asked=3, found=3, end=1, epoch=6)
    assert bench.values == "abcd"
    bench.told_epoch_end(asked=3, found=3, end=3)
    assert bench.values == "abc"


def test_an_answer_to_a_former_follower_is_ignored() -> None:
    """It leads now: nothing that was fetched for it as a follower may land in its log."""
    bench = following(epoch=0)
    bench.lead(epoch=1)
    bench.fed(0, records("a"), epoch=0)
    assert bench.values == ""


# ---------------------------------------------------------------- refusals


def test_fenced_means_wait_for_the_controller() -> None:
    """FENCED_LEADER_EPOCH (74): this follower lives in the past; asking again cannot help."""
    bench = following(epoch=2)
    sent = len(bench.sent)
    bench.fed(0, error=ErrorCode.FENCED_LEADER_EPOCH)
    assert phase(bench) is Phase.STALLED
    bench.pass_time(60_000)
    bench.core.connected(LEADER)
    assert len(bench.sent) == sent
    bench.follow(LEADER, epoch=3)
    assert bench.last_sent(FetchRequest).current_leader_epoch == 3


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_other_refusals_are_tried_again_after_a_pause(error: ErrorCode) -> None:
    """The leader does not know yet that it leads: replica.fetch.backoff.ms later it may."""
    bench = following(epoch=2)
    bench.fed(0, error=error)
    sent = len(bench.sent)
    bench.pass_time(999)
    assert len(bench.sent) == sent
    bench.pass_time(1)
    assert len(bench.sent) == sent + 1
    assert bench.last_sent(FetchRequest).offset == 0
    assert [event.error for event in bench.happened(FollowerStalled)] == [error]


def test_a_question_about_epochs_is_tried_again_too() -> None:
    """A refused OffsetForLeaderEpoch is repeated after the pause, with the same question."""
    bench = following(epoch=1, storage=disk((0, "a"), high_watermark=1))
    bench.hear(
        EpochEndResponse(
            tp=TP,
            error=ErrorCode.UNKNOWN_LEADER_EPOCH,
            current_leader_epoch=LeaderEpoch(1),
            asked_epoch=LeaderEpoch(0),
        ),
        LEADER,
    )
    assert bench.values == "a"
    bench.pass_time(1_000)
    assert bench.last_sent(EpochEndRequest).asked_epoch == 0
    assert len([send for send in bench.sent if isinstance(send.message, EpochEndRequest)]) == 2


def test_a_pause_outlived_by_the_role_does_nothing() -> None:
    """When the back-off ends the broker leads: it must not fetch."""
    bench = following(epoch=2)
    bench.fed(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.lead(epoch=3)
    sent = len(bench.sent)
    bench.pass_time(5_000)
    assert len(bench.sent) == sent


def out_of_range(generation: str, *, unclean: bool) -> Bench:
    """A follower whose log ends at 3 has heard that the leader's ends at 1."""
    bench = following(epoch=1, generation=generation, storage=disk((NO_EPOCH, "abc"), high_watermark=3))
    bench.core.configure_topic("t", TopicConfig(1, unclean))
    assert bench.last_sent(FetchRequest).offset == 3
    bench.fed(3, error=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert bench.last_sent(ListOffsetsRequest).current_leader_epoch == 1
    bench.hear(
        ListOffsetsResponse(tp=TP, error=ErrorCode.NONE, current_leader_epoch=LeaderEpoch(1), offset=1),
        LEADER,
    )
    return bench


@pytest.mark.parametrize(
    ("generation", "unclean"), [("hw", True), ("kip101", True), ("epoch", True), ("epoch", False)]
)
def test_a_log_longer_than_the_leaders_is_cut_to_its_end(generation: str, unclean: bool) -> None:
    """OFFSET_OUT_OF_RANGE: ask for the leader's end, truncate to it, fetch on."""
    bench = out_of_range(generation, unclean=unclean)
    assert (bench.values, bench.hw) == ("a", 1)
    assert bench.last_sent(FetchRequest).offset == 1
    assert bench.happened(BrokerExited) == []


@pytest.mark.parametrize("generation", ["hw", "kip101"])
def test_before_2_1_it_was_not_cut_where_unclean_elections_are_forbidden(generation: str) -> None:
    """The broker says why and stops, leadership first; its log stays as it is (KAFKA-7414)."""
    bench = out_of_range(generation, unclean=False)
    assert bench.happened(BrokerExited) == [BrokerExited(BrokerId(0), TP, LEADER, 3, 1)]
    assert bench.last_sent(ControlledShutdownRequest).broker == 0
    assert not bench.stopped
    bench.hear(ControlledShutdownResponse(error=ErrorCode.NONE), CONTROLLER)
    assert bench.stopped
    assert (bench.values, bench.hw) == ("abc", 3)


@pytest.mark.parametrize("state", ["fetching", "truncating", "finding the end"])
def test_a_new_connection_repeats_the_outstanding_request(state: str) -> None:
    """Whatever was asked when the connection broke is asked again, and nothing else."""
    if state == "truncating":
        bench = following(epoch=1, storage=disk((0, "a")))
    else:
        bench = following(epoch=1)
    if state == "finding the end":
        bench.fed(0, error=ErrorCode.OFFSET_OUT_OF_RANGE)
    before = bench.sent[-1]
    bench.core.connected(BrokerId(2))
    assert bench.core.effects == []
    bench.core.connected(LEADER)
    assert bench.core.effects == [before]


# ---------------------------------------------------------------- truncation by the high watermark (0.10)


def test_hw_truncates_to_its_own_watermark_at_once() -> None:
    """No question asked: what is above the own watermark goes, acknowledged or not."""
    bench = following(epoch=1, generation="hw", storage=disk((NO_EPOCH, "abc"), high_watermark=2))
    assert truncations(bench) == [(3, 2)]
    assert bench.last_sent(FetchRequest).offset == 2


def test_hw_keeps_a_stale_record_below_its_watermark() -> None:
    """The other half of KIP-101: a watermark says nothing about who wrote what is below it."""
    bench = following(epoch=1, generation="hw", storage=disk((NO_EPOCH, "abx"), high_watermark=3))
    assert (truncations(bench), bench.values) == ([], "abx")


def test_the_watermark_of_a_restarted_broker_is_its_checkpoint() -> None:
    """Written every five seconds and read at the start: what was committed since is forgotten."""
    bench = following(generation="hw")
    bench.fed(0, [MemoryBatch("a", 0)], high_watermark=1)
    bench.pass_time(5_000)
    bench.fed(1, [MemoryBatch("b", 1)], high_watermark=2)
    assert bench.hw == 2
    again = following(epoch=1, generation="hw", storage=bench.storage)
    assert truncations(again) == [(2, 1)]


def test_a_checkpoint_beyond_a_log_that_lost_its_tail_is_cut() -> None:
    """After a power cut the watermark may be above the log end; it cannot stay there."""
    storage = disk((0, "abc"), high_watermark=3)
    log = storage.open(TP)
    log.synced_offset = 1
    storage.lose_power()
    bench = following(epoch=1, storage=storage)
    assert (bench.leo, bench.hw) == (1, 1)


def test_the_interval_of_the_checkpoint_is_a_setting() -> None:
    """replica.high.watermark.checkpoint.interval.ms, on a fixed grid."""
    bench = Bench(config=BrokerConfig(high_watermark_checkpoint_interval_ms=2_000))
    bench.lead(isr=(0,))
    bench.produce("a")
    bench.pass_time(1_999)
    assert bench.storage.checkpointed_high_watermark(TP) == 0
    bench.pass_time(1)
    assert bench.storage.checkpointed_high_watermark(TP) == 1


# ---------------------------------------------------------------- truncation by epochs


def test_epoch_asks_before_it_cuts() -> None:
    """On a restart nothing is truncated: the first thing sent is a question about the latest epoch."""
    bench = following(epoch=2, storage=disk((0, "ab"), (1, "c"), high_watermark=2))
    request = bench.last_sent(EpochEndRequest)
    assert (request.asked_epoch, request.current_leader_epoch) == (1, 2)
    assert truncations(bench) == []
    assert phase(bench) is Phase.TRUNCATING


ABCDE = ((0, "ab"), (2, "cd"), (5, "e"))
"""Epoch 0 ends at 2, epoch 2 at 4, epoch 5 at the log end, 5."""


@pytest.mark.parametrize(
    ("found", "end", "left", "reason"),
    [
        (5, 5, "abcde", "the leader has as much of our epoch as we have"),
        (5, 9, "abcde", "it has more: nothing to cut, it will be fetched"),
        (5, 4, "abcd", "it has less of our epoch: the rest was never committed"),
        (
            2,
            3,
            "abc",
            "it never saw our epoch but knows the one before: the lower end counts, the leader's",
        ),
        (2, 8, "abcd", "... or ours is lower"),
        (-1, UNKNOWN_OFFSET, "ab", "it knows nothing of our epoch: only the watermark (2) is certain"),
        (5, 0, "", "it has nothing of it at all"),
    ],
)
def test_epoch_truncates_to_where_both_logs_agree(found: int, end: int, left: str, reason: str) -> None:
    """Each case of the answer to "where does epoch 5 end?" that settles it."""
    bench = following(epoch=7, storage=disk(*ABCDE, high_watermark=2))
    bench.told_epoch_end(asked=5, found=found, end=end)
    assert bench.values == left, reason
    assert bench.last_sent(FetchRequest).offset == len(left)


def test_epoch_asks_again_about_an_older_epoch_it_knows() -> None:
    """The leader names epoch 3, which is unknown here: cut what came after the own epoch 2 and ask about
    that one (KIP-279), until both know what they speak of."""
    bench = following(epoch=7, storage=disk(*ABCDE, high_watermark=0))
    bench.told_epoch_end(asked=5, found=3, end=4)
    assert (bench.values, bench.epochs) == ("abcd", [(0, 0), (2, 2)])
    assert bench.last_sent(EpochEndRequest).asked_epoch == 2
    bench.told_epoch_end(asked=2, found=1, end=3)
    assert (bench.values, bench.epochs) == ("ab", [(0, 0)])
    assert bench.last_sent(EpochEndRequest).asked_epoch == 0
    bench.told_epoch_end(asked=0, found=0, end=1)
    assert bench.values == "a"
    assert bench.last_sent(FetchRequest).offset == 1
    assert truncations(bench) == [(5, 4), (4, 2), (2, 1)]


def test_epoch_below_all_its_own_epochs_keeps_nothing() -> None:
    """The leader names an epoch older than any here: all that is here is newer, and none of it is the
    leader's. Kafka 2.7 ends such an epoch at the start of the first one it knows."""
    bench = following(epoch=9, storage=disk((4, "ab"), (5, "cd"), high_watermark=0))
    bench.told_epoch_end(asked=5, found=2, end=1)
    assert bench.values == ""
    assert bench.last_sent(FetchRequest).offset == 0


def test_epoch_without_epochs_of_its_own_falls_back_to_the_watermark() -> None:
    """A log from before 0.11 carries none: nothing to ask about."""
    bench = following(epoch=1, storage=disk((NO_EPOCH, "abc"), high_watermark=2))
    assert bench.values == "ab"
    assert bench.last_sent(FetchRequest).offset == 2


def test_truncation_takes_epochs_and_watermark_along() -> None:
    """Epochs that start beyond the new end are forgotten, the watermark is never above it."""
    bench = following(epoch=7, storage=disk(*ABCDE, high_watermark=5))
    assert bench.hw == 5
    bench.told_epoch_end(asked=5, found=2, end=3)
    assert (bench.leo, bench.hw, bench.epochs) == (3, 3, [(0, 0), (2, 2)])


def test_kip101_asks_once_and_believes_the_number() -> None:
    """The answer does not name the epoch, so it keeps d, which the leader never had (KIP-279)."""
    bench = following(epoch=7, generation="kip101", storage=disk(*ABCDE, high_watermark=0))
    assert bench.last_sent(EpochEndRequest).asked_epoch == 5
    bench.told_epoch_end(asked=5, found=NO_EPOCH, end=4)
    assert bench.values == "abcd"
    assert bench.last_sent(FetchRequest).offset == 4


def test_kip101_undefined_means_the_watermark() -> None:
    """The leader's epochs do not reach back that far."""
    bench = following(epoch=7, generation="kip101", storage=disk(*ABCDE, high_watermark=1))
    bench.told_epoch_end(asked=5, found=NO_EPOCH, end=UNKNOWN_OFFSET)
    assert bench.values == "a"


@pytest.mark.parametrize(
    ("generation", "question"),
    [
        ("epoch", EpochEndRequest),
        ("majority", EpochEndRequest),
        ("kip101", FetchRequest),
        ("hw", FetchRequest),
    ],
)
def test_a_new_epoch_of_the_same_leader(generation: str, question: type) -> None:
    """Since KAFKA-7164 every epoch sends a follower through truncation; before, only another leader did."""
    epoch = NO_EPOCH if generation == "hw" else 0
    bench = following(epoch=0, generation=generation)
    bench.fed(0, records("ab", epoch=epoch), high_watermark=1)
    bench.follow(LEADER, epoch=1)
    assert isinstance(bench.sent[-1].message, question)
    assert bench.values == "ab"


@pytest.mark.parametrize(
    ("generation", "left"), [("epoch", "ab"), ("majority", "ab"), ("kip101", "ab"), ("hw", "a")]
)
def test_a_new_leader_in_the_same_life(generation: str, left: str) -> None:
    """A new leader makes all followers truncate: by epochs after a request, by watermark at once."""
    epoch = NO_EPOCH if generation == "hw" else 0
    bench = following(epoch=0, generation=generation)
    bench.fed(0, records("ab", epoch=epoch), high_watermark=1)
    bench.follow(2, epoch=1)
    assert bench.values == left
    assert bench.sent[-1].to == 2


# ---------------------------------------------------------------- answers that begin below the log's end


def whole_batch(generation: str, storage: MemoryStorage | None = None) -> Bench:
    """A follower that ends at 2 fetches, and the leader's answer is a batch of offsets 1 to 3."""
    bench = following(
        epoch=1, generation=generation, storage=storage or disk((NO_EPOCH, "ab"), high_watermark=2)
    )
    offset = bench.last_sent(FetchRequest).offset
    epoch = NO_EPOCH if generation == "hw" else LeaderEpoch(1)
    answer = FetchResponse(TP, ErrorCode.NONE, offset, LeaderEpoch(1))
    answer.batches, answer.high_watermark = (MemoryBatch("x", 1, epoch, rest=("y", "z")),), 4
    bench.hear(answer, LEADER)
    return bench


def test_under_hw_a_follower_keeps_its_own_records_below_its_end() -> None:
    """0.10 stores messages one by one: of a batch that begins earlier it appends what lies beyond its end."""
    bench = whole_batch("hw")
    assert (bench.values, bench.hw) == ("abyz", 4)
    assert bench.last_sent(FetchRequest).offset == 4


def test_under_kip101_it_stops_until_the_next_epoch() -> None:
    """1.1: "out of order offsets" end the fetcher."""
    bench = whole_batch("kip101")
    assert bench.values == "ab"
    assert [event.error for event in bench.happened(FollowerStalled)] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert phase(bench) is Phase.STALLED
    bench.pass_time(60_000)
    assert bench.last_sent(FetchRequest).offset == 2
    bench.follow(2, epoch=2)
    assert phase(bench) is not Phase.STALLED


@pytest.mark.parametrize("generation", ["epoch", "majority"])
def test_later_rules_exclude_it(generation: str) -> None:
    """Both logs agree up to the point of truncation, so they agree on where a batch begins."""
    with pytest.raises(InvariantViolation):
        whole_batch(generation)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_an_empty_follower_takes_the_whole_batch_in_which_the_leaders_log_starts(generation: str) -> None:
    """DeleteRecords may leave the start of a log inside a batch."""
    storage = MemoryStorage()
    storage.open(TP).restart_at(2)
    bench = whole_batch(generation, storage)
    assert (bench.values, bench.replica.log.end_offset) == ("xyz", 4)
