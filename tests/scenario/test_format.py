"""Scenario files: what is printed can be read, transcripts are scenarios, and mistakes are pointed at."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.stories import known

from tidelog.core.config import BrokerConfig, IsrRule
from tidelog.core.generations import GENERATIONS
from tidelog.core.types import TopicConfig
from tidelog.faults.places import CHANNEL_NAMES, Channel, Node
from tidelog.faults.step import Aimed, Claim, Duration, Passage, Sides, Step
from tidelog.narrate.transcript import print_transcript
from tidelog.scenario import catalogue
from tidelog.scenario.clients.producer import ProducerConfig
from tidelog.scenario.conditions import Condition
from tidelog.scenario.grammar import node
from tidelog.scenario.scenario import ClientSetup, Expectation, Scenario, ScenarioError, parse, print_scenario
from tidelog.scenario.setup import Setup, TopicSetup

# ---------------------------------------------------------------- what is printed can be read


@pytest.mark.parametrize("name", catalogue.names())
def test_every_file_survives_printing(name: str) -> None:
    """parse(print(parse(file))) is the same scenario, comments included; printing is stable."""
    scenario = catalogue.load(name)
    printed = print_scenario(scenario)
    assert parse(printed) == scenario
    assert print_scenario(parse(printed)) == printed


@pytest.mark.parametrize("name", catalogue.names())
def test_every_transcript_is_a_scenario(name: str) -> None:
    """A transcript parses to the scenario it tells, with the comments that are true of this run."""
    for generation in GENERATIONS:
        told = known(name, generation)
        steps = [
            replace(step, narration=(Passage(" ".join(true)),) if (true := told.narration(number)) else ())
            for number, step in enumerate(told.scenario.steps, start=1)
        ]
        assert parse(print_transcript(told)) == replace(told.scenario, steps=steps)


brokers = st.integers(0, 2)
words = st.text("abcxyz019-_", min_size=1, max_size=6)
durations = st.integers(0, 200_000).map(Duration)
places = st.lists(st.sampled_from(["az1", "az2", "broker-0", "2", "keeper-1", "p"]), min_size=1, max_size=3)
FAR_ENDS: dict[str, tuple[list[Node], list[Node]]] = {
    "client": (["p", "c"], [0, 2]),
    "keeper": ([0, 1], ["keeper"]),
}


def channel(name: str, forth: tuple[Node, Node]) -> Channel:
    return Channel(name, *(reversed(forth) if name.endswith("-reply") else forth))


channels = st.sampled_from(CHANNEL_NAMES).flatmap(
    lambda name: st.builds(
        channel,
        st.just(name),
        st.tuples(*map(st.sampled_from, FAR_ENDS.get(name.removesuffix("-reply"), ([0, 1], [2])))),
    )
)
sent = st.sampled_from(["a", "b"])


def is_possible(cut: Sides) -> bool:
    """Nothing connects one node with itself; a zone has several."""
    ends = {node(place) for place in (*cut.left, *cut.right)}
    return len(ends) > 1 or "az1" in ends or "az2" in ends


cuts = st.builds(Sides, places.map(tuple), places.map(tuple), st.booleans()).filter(is_possible)
pairs = st.sampled_from([(0, 1), (0, 2), (1, 0), (2, 1)])
conditions = st.one_of(
    st.tuples(st.just("leader"), st.tuples(st.none() | brokers)),
    st.tuples(st.just("isr"), st.tuples(st.lists(brokers, min_size=1, unique=True).map(tuple))),
    st.tuples(st.sampled_from(["epoch", "controller", "leads", "registered"]), st.tuples(brokers)),
    st.tuples(st.sampled_from(["leo", "hw"]), st.tuples(brokers, brokers)),
    st.tuples(st.just("follows"), pairs),
    st.tuples(st.sampled_from(["holds", "knows"]), st.tuples(brokers, sent)),
    st.tuples(st.just("in-flight"), st.tuples(channels)),
    st.tuples(st.sampled_from(["answered", "converged"]), st.just(())),
).flatmap(
    lambda one: st.builds(
        Condition,
        st.just(one[0]),
        st.just(one[1]),
        st.none() | st.integers(0, 9_999),
        st.sampled_from([(), ("all",), ("hw", "majority")]),
    )
)
several = st.lists(brokers, min_size=1, max_size=3).map(tuple)
steps = st.one_of(
    st.builds(
        Step, st.sampled_from(["produce", "send"]), st.lists(words, min_size=1).map(lambda v: ("p", *v))
    ),
    st.builds(Step, st.sampled_from(["produce", "send"]), st.just((Aimed("p", 1), "z"))),
    st.builds(Step, st.just("delete"), st.just(("/controller",))),
    st.builds(Step, st.sampled_from(["read", "poll"]), st.just(("c",))),
    st.builds(Step, st.sampled_from(["crash", "power-off", "restart", "pause", "resume", "sync"]), several),
    st.builds(Step, st.sampled_from(["stop", "keeper-stop", "keeper-start"]), st.tuples(brokers)),
    st.builds(Step, st.sampled_from(["cut", "heal"]), st.tuples(cuts)),
    st.builds(Step, st.sampled_from(["heal", "tick", "settle", "elect-preferred"])),
    st.builds(Step, st.just("isolate"), st.sampled_from([("az1",), ("az3",)])),
    st.builds(Step, st.just("reset"), st.just((0, 2))),
    st.builds(Step, st.just("delay"), st.tuples(cuts, durations)),
    st.builds(Step, st.sampled_from(["hold", "release"]), st.just(("all",)) | st.tuples(channels)),
    st.builds(Step, st.sampled_from(["deliver", "drop"]), st.tuples(channels)),
    st.builds(Step, st.just("advance"), st.tuples(durations)),
    st.builds(Step, st.just("wait"), st.tuples(conditions)),
    st.builds(Step, st.just("configure"), st.just(("t", "min.insync.replicas=2"))),
)
texts = st.lists(words, min_size=1, max_size=40).map(" ".join)
claims = st.sampled_from(
    [Claim("error", "75"), Claim("truncates", "0", denied=True), Claim("isr", "0,1"), Claim("log", "1:a,b")]
)
passages = st.builds(
    Passage,
    texts,
    st.sampled_from([(), ("hw",), ("kip101", "epoch")]),
    st.lists(claims, max_size=2).map(tuple),
)
narrations = st.lists(passages, max_size=3).map(tuple)
configs = st.builds(
    BrokerConfig,
    replica_lag_time_max_ms=st.integers(2, 50_000),
    replica_lag_max_messages=st.integers(1, 5_000),
    isr_rule=st.sampled_from(IsrRule),
    replica_fetch_wait_max_ms=st.integers(1, 5_000),
    replica_fetch_backoff_ms=st.integers(1, 5_000),
    high_watermark_checkpoint_interval_ms=st.integers(1, 9_000),
)
setups = st.builds(
    Setup,
    controller=brokers,
    zones=st.just(()) | st.just(("az1", "az2", "az3")),
    generation=st.sampled_from(list(GENERATIONS)),
    without=st.just(()) | st.just(("match_fetch_epoch", "maximal_isr")),
    config=configs,
    session_timeout_ms=st.integers(1, 9_000),
    latency_ms=st.integers(1, 9),
    sync_each_append=st.booleans(),
    topics=st.builds(
        TopicSetup,
        st.just("t"),
        st.just((0, 1, 2)),
        st.builds(TopicConfig, st.integers(1, 3), st.booleans()),
        st.none() | st.just((1, 0)),
    ).map(lambda topic: (topic,)),
)
producers = st.builds(
    ProducerConfig,
    acks=st.sampled_from([0, 1, -1]),
    retries=st.integers(0, 9),
    idempotent=st.booleans(),
    request_timeout_ms=st.integers(1, 9_000),
    delivery_timeout_ms=st.integers(1, 99_000),
    retry_backoff_ms=st.integers(1, 900),
)


@given(setups, producers, st.lists(st.tuples(steps, narrations), max_size=12), words)
def test_any_scenario_survives_printing(
    setup: Setup, producer: ProducerConfig, narrated: list[tuple[Step, tuple[Passage, ...]]], title: str
) -> None:
    """Every setting, every command and every condition can be written down and read back."""
    scenario = Scenario(
        "any",
        setup,
        title,
        source="KIP-101 §2",
        clients=[
            ClientSetup("p", "az1", producer),
            ClientSetup("q", "az1", producer, setup.topics[-1].name),
            ClientSetup("c", "az2", None, setup.topics[0].name),
        ],
        expectations=[Expectation("hw", {"lost": "a,b", "leader": "1"}), Expectation("epoch", {})],
        steps=[
            Step("produce", ("p", "a", "b")),
            *(replace(step, narration=narration) for step, narration in narrated),
        ],
    )
    assert parse(print_scenario(scenario)) == scenario


def test_brokers_may_be_written_with_their_kind() -> None:
    """``broker-1`` and ``1`` are the same node of a channel; durations come in ms, s and m."""
    scenario = parse(HEAD + "hold fetch broker-1->broker-0\nadvance 2m\nadvance 500ms\n")
    assert [str(step) for step in scenario.steps] == ["hold fetch 1->0", "advance 120s", "advance 500ms"]


def test_comments_belong_to_the_step_below_them() -> None:
    """Lines of one comment are joined; a blank line cuts a comment off from what follows."""
    scenario = parse(HEAD + "# one\n#   two\nsettle\n# stray\n\ntick\n")
    assert [step.narration for step in scenario.steps] == [(Passage("one two"),), ()]


def test_a_passage_may_belong_to_some_generations() -> None:
    """A marker begins a passage. A bracket that is no marker is text. Text goes on until the next marker."""
    text = "# [0,1] is the ISR.\n# [hw,kip101 error=6] one\n# two\n# [all truncates!=1] three\nsettle\n"
    (step,) = parse(HEAD + text).steps
    assert step.narration == (
        Passage("[0,1] is the ISR."),
        Passage("one two", ("hw", "kip101"), (Claim("error", "6"),)),
        Passage("three", (), (Claim("truncates", "1", denied=True),)),
    )


COMMENT_MISTAKES = [
    ("# [hv] text", 3, "generations out of hw, kip101,"),
    ("# [hw text", 12, "] after the generations and claims"),
    ("# [hw eror=6] text", 7, "(did you mean error?)"),
    ("# [error=six] text", 3, "an error code like 75"),
    ("# [hw epoch] text", 7, "a claim like error=75"),
    ("#[truncates=x] text", 2, "a broker's number"),
]


@pytest.mark.parametrize(("line", "column", "expected"), COMMENT_MISTAKES)
def test_a_malformed_marker_is_pointed_at(line: str, column: int, expected: str) -> None:
    """A narration for generations that do not exist, or with a claim that cannot be checked."""
    with pytest.raises(ScenarioError) as caught:
        parse(HEAD + line + "\nsettle\n", "my.scenario")
    assert str(caught.value).startswith(f"my.scenario: line 6, column {column}: expected ")
    assert expected in str(caught.value)


def test_output_is_skipped_up_to_the_next_blank_line() -> None:
    """What follows ``----`` is what happened once, not what to do."""
    scenario = parse(HEAD + "settle\n----\ncrash 0\n# not a comment\n\ntick\n")
    assert [str(step) for step in scenario.steps] == ["settle", "tick"]


def test_one_expect_line_may_speak_for_several_generations() -> None:
    """Facts that are not mentioned are not expected of the end, verdicts that are not are expected empty."""
    scenario = parse(HEAD + "expect hw,epoch lost=a leader=1\nexpect majority none\nsend p a\n")
    assert scenario.expectation("hw") == Expectation("hw", {"lost": "a", "leader": "1"})
    assert scenario.expectation("epoch") == Expectation("epoch", {"lost": "a", "leader": "1"})
    assert scenario.expectation("majority") == Expectation("majority", {})
    assert scenario.expectation("kip101") is None


# ---------------------------------------------------------------- mistakes are pointed at

HEAD = """scenario x
cluster brokers=3
topic t replicas=0,1
producer p
consumer c
"""

STEP_MISTAKES = [
    ("crsh 0", 1, "a command (did you mean crash?)"),
    ("crash", 7, "a broker's number, found the end of the line"),
    ("crash one", 7, "a broker's number, found 'one'"),
    ("crash " + "0" * 5_000, 7, "a broker's number, found '000"),
    ("crash 0 7", 9, "a broker between 0 and 2, found '7'"),
    ("crash -1", 7, "a broker between 0 and 2, found '-1'"),
    ("stop 0 1", 8, "the end of the line, found '1'"),
    ("settle now", 8, "the end of the line, found 'now'"),
    ("produce", 9, "a client's name, found the end of the line"),
    ("produce p", 11, "at least one value to send"),
    ("produce q a", 9, "a client of this scenario (p, c), found 'q'"),
    ("produce c a", 9, "a producer, found 'c'"),
    ("read p", 6, "a consumer, found 'p'"),
    ("advance soon", 9, "a duration like 500ms or 10s, found 'soon'"),
    (f"advance {'0' * 5_000}ms", 9, "a duration like 500ms or 10s"),
    ("advance 5", 9, "a duration like 500ms or 10s, found '5'"),
    ("hold fetsch 1->0", 6, "a channel (fetch, fetch-reply,"),
    ("hold fetch 1", 12, "two nodes like 1->0, found '1'"),
    ("hold fetch 1->9", 12, "two nodes of this scenario like 1->0, found '1->9'"),
    ("cut az1", 9, "a zone or a node on the other side"),
    ("cut az1 az9", 9, "zones or nodes out of az1, az2, az3,"),
    ("isolate az9", 9, "a zone out of az1, az2, az3, found 'az9'"),
    ("delay az1 az2", 15, "a duration like 500ms or 10s, found the end of the line"),
    ("wait", 6, "a condition (leader, epoch,"),
    ("wait leeder 1", 6, "(did you mean leader?)"),
    ("wait leader nobody", 13, "a broker's number or none, found 'nobody'"),
    ("wait isr 0;1", 10, "brokers like 0,1, found '0;1'"),
    ("wait hw 0", 11, "an offset, found the end of the line"),
    ("wait answered within", 22, "a duration like 500ms or 10s"),
    ("wait answered quickly", 15, "the end of the line, found 'quickly'"),
    ("wait leads 9", 12, "a broker between 0 and 2, found '9'"),
    ("wait leader 9", 13, "a broker between 0 and 2, found '9'"),
    ("wait leader 2", 13, "a broker that holds a replica of t (0, 1), found '2'"),
    ("wait isr 0,1,2", 10, "a broker that holds a replica of t (0, 1), found '0,1,2'"),
    ("wait isr 0,0", 10, "each broker once, found '0,0'"),
    ("wait controller 3", 17, "a broker between 0 and 2, found '3'"),
    ("wait holds 2 a", 12, "a broker that holds a replica of t (0, 1), found '2'"),
    ("wait holds 1 a", 14, "a record that an earlier step sends, found 'a'"),
    ("wait follows 1 2", 16, "a broker that holds a replica of t (0, 1), found '2'"),
    ("wait hw 0 -1", 11, "a number of at least 0, found '-1'"),
    ("wait epoch -1", 12, "a number of at least 0, found '-1'"),
    ("wait answered times-out", 25, "generations out of hw, kip101,"),
    ("wait answered times-out zab", 25, "generations out of hw, kip101,"),
    ("hold fetch 0->0", 12, "no broker fetches from itself, found '0->0'"),
    ("hold fetch 2->0", 12, "broker 2 holds no replica, found '2->0'"),
    ("hold client 0->p", 13, "two nodes of this scenario like p->0, found '0->p'"),
    ("hold client-reply p->0", 19, "two nodes of this scenario like 0->p, found 'p->0'"),
    ("drop keeper 0->1", 13, "two nodes of this scenario like 0->keeper, found '0->1'"),
    ("wait in-flight fetch 1->p", 22, "two nodes of this scenario like 1->0, found '1->p'"),
    ("send p->x a", 6, "a producer and a broker like p->1, found 'p->x'"),
    ("send p->3 a", 6, "a broker between 0 and 2, found 'p->3'"),
    ("delete /brokers", 8, "/controller, the only node that can be deleted, found '/brokers'"),
    ("keeper-stop 3", 13, "a keeper member between 0 and 2, found '3'"),
    ("configure u min.insync.replicas=1", 11, "a topic out of t, found 'u'"),
    ("configure t retention.ms=1", 13, "KEY=VALUE with KEY one of min.insync.replicas,"),
    ("configure t min.insync.replicas=3", 13, "a setting that can be met"),
    ("wait follows 0 0", 16, "another broker: none follows itself, found '0'"),
    ("reset 0 0", 9, "another broker: nothing connects one with itself, found '0'"),
    ("cut 0 broker-0", 7, "another place: nothing connects one with itself, found 'broker-0'"),
    ("cut 0 -> 0", 10, "another place: nothing connects one with itself, found '0'"),
    ("delay p p 1s", 9, "another place: nothing connects one with itself, found 'p'"),
    ("producer az2", 10, "a client's name that is not also that of a place (az1, az2, az3, 0,"),
    ("producer 1", 10, "a client's name that is not also that of a place"),
    ("consumer admin", 10, "a client's name that is not also that of a place"),
    ("cluster brokers=4", 1, "one line 'cluster' only: there is one in line 2"),
    ("scenario y", 1, "one line 'scenario' only: there is one in line 1"),
    ("   crash   x", 12, "a broker's number, found 'x'"),
]


@pytest.mark.parametrize(("line", "column", "expected"), STEP_MISTAKES)
def test_a_malformed_step_is_pointed_at(line: str, column: int, expected: str) -> None:
    """File, line, column, and what should stand there."""
    with pytest.raises(ScenarioError) as caught:
        parse(HEAD + "\n# a comment\n" + line + "\n", "my.scenario")
    message = str(caught.value)
    assert message.startswith(f"my.scenario: line 8, column {column}: expected ")
    assert expected in message


HEAD_MISTAKES = [
    ("", 1, 1, "'scenario NAME' at the top of the file"),
    ("topic t replicas=0", 1, 1, "'scenario NAME' at the top of the file"),
    ("scenario", 1, 10, "the scenario's name, found the end of the line"),
    ("scenario x\nsettle", 2, 1, "a topic before the first step"),
    ("scenario x\ncluster brokers=many", 2, 9, "brokers=many: expected an integer"),
    ("scenario x\ncluster broker=3", 2, 9, "(did you mean brokers?)"),
    ("scenario x\ncluster brokers", 2, 9, "KEY=VALUE with KEY one of brokers,"),
    ("scenario x\ncluster flush=never", 2, 9, "flush=never: expected one of always, roll"),
    (
        "scenario x\ncluster isr.rule=mood",
        2,
        9,
        "isr.rule=mood: expected one of fetch-time, message-lag, caught-up-time",
    ),
    ("scenario x\ncluster without=luck", 2, 9, "without=luck: expected one of "),
    ("scenario x\ntopic", 2, 7, "the topic's name, found the end of the line"),
    ("scenario x\ntopic t", 2, 9, "replicas=N,N,…"),
    ("scenario x\ntopic t replicas=" + "0" * 5_000, 2, 9, ": expected an integer, not '000"),
    ("scenario x\ntopic t replicas=0,b", 2, 9, "replicas=0,b: expected an integer, not 'b'"),
    ("scenario x\ntopic t replicas=0\nproducer", 3, 10, "the producer's name"),
    (
        "scenario x\ntopic t replicas=0\nproducer p acks=2",
        3,
        12,
        "acks=2: expected one of 0, 1, all, -1",
    ),
    ("scenario x\ntopic t replicas=0\nproducer p retries=few", 3, 12, "retries=few: expected an integer"),
    (
        "scenario x\ntopic t replicas=0\nproducer p enable.idempotence=yes",
        3,
        12,
        "enable.idempotence=yes: expected true or false",
    ),
    ("scenario x\ntopic t replicas=0\nconsumer", 3, 10, "the consumer's name"),
    (
        "scenario x\ntopic t replicas=0\nexpect raft lost=a",
        3,
        8,
        "a generation (hw, kip101, epoch, elr, majority)",
    ),
    (
        "scenario x\ntopic t replicas=0\nproducer p zone=az9 acks=1",
        3,
        12,
        "zone= one of az1, az2, az3, found 'zone=az9'",
    ),
    ("scenario x\ntopic t replicas=0\nconsumer c zone=az", 3, 12, "zone= one of az1, az2, az3"),
    (
        "scenario x\ntopic t replicas=0\ntopic u replicas=1\nproducer p topic=v",
        4,
        12,
        "topic= one of t, u, found",
    ),
    (
        "scenario x\ntopic t replicas=0\nproducer p\nexpect hw lost=a,zz\nsend p a",
        4,
        11,
        "records that a step of this scenario sends, and not zz, found 'lost=a,zz'",
    ),
    ("scenario x\ntopic t replicas=0\nexpect hw leader=1", 3, 11, "brokers that hold a replica (0)"),
    ("scenario x\ntopic t replicas=0\nexpect hw none\nexpect epoch isr=0,1", 4, 14, "isr= brokers that"),
    ("scenario x\ntopic t replicas=0\nexpect hw epoch=two", 3, 11, "epoch= a number, found 'epoch=two'"),
    ("scenario x\ntopic t replicas=0\nexpect hw mood=bad", 3, 11, "KEY=VALUE with KEY one of lost,"),
    ("scenario x\ntopic t replicas=0\nsettle\ntopic u replicas=0", 4, 1, "'topic' belongs to the head"),
]


@pytest.mark.parametrize(("text", "line", "column", "expected"), HEAD_MISTAKES)
def test_a_malformed_head_is_pointed_at(text: str, line: int, column: int, expected: str) -> None:
    """The head is checked as carefully as the steps."""
    with pytest.raises(ScenarioError) as caught:
        parse(text, "my.scenario")
    message = str(caught.value)
    assert message.startswith(f"my.scenario: line {line}, column {column}: ")
    assert expected in message


IMPOSSIBLE = [
    ("cluster brokers=0", "a cluster needs at least one broker"),
    ("cluster keepers=0", "a cluster needs at least one keeper member"),
    ("cluster controller=3", "controller 3 is not one of the brokers 0 to 2"),
    ("cluster generation=raft", "unknown generation 'raft': choose one of hw, kip101, epoch, elr, majority"),
    ("topic u replicas=0,5", "topic u wants replicas on [5], the brokers are 0 to 2"),
    ("topic u replicas=1,1", "topic u names a replica twice: [1, 1]"),
    ("topic t replicas=1", "topic t is declared twice"),
    ("topic u replicas=0,1 min.insync.replicas=3", "2 replicas can never meet min.insync.replicas=3"),
    (
        "topic u replicas=0,1 min.insync.replicas=0",
        "min.insync.replicas=0: expected an integer of at least 1",
    ),
    ("topic u replicas=0,1 isr=0,2", "the ISR [0, 2] is not part of [0, 1]"),
    ("topic u replicas=0,1 isr=1", "the first replica leads, so the ISR must contain 0"),
]


@pytest.mark.parametrize(("line", "reason"), IMPOSSIBLE)
def test_an_impossible_cluster_is_refused(line: str, reason: str) -> None:
    """Nothing is simulated that could not exist; the message names the setting and says what to change."""
    with pytest.raises(ScenarioError) as caught:
        parse(f"scenario x\ntopic t replicas=0\n{line}\n", "my.scenario")
    named = {"topic t replicas=1": "topic"}.get(line, line.rsplit(maxsplit=1)[-1])
    assert str(caught.value).startswith(f"my.scenario: line 3, column {line.index(named) + 1}: ")
    assert reason in str(caught.value)


def test_a_topic_that_asks_too_much_of_the_default_cluster_is_pointed_at() -> None:
    """There is no line of the cluster to point at."""
    with pytest.raises(ScenarioError, match=r"^x: line 2, column 9: topic t wants replicas on \[7\]"):
        parse("scenario x\ntopic t replicas=7\n", "x")
