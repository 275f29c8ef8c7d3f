"""Each way in which a record can be lost has its own name, with who did what and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.judged import found_rows, judge_evidence
from tests.pipeline.planted import Case, write

from tidelog.core import events as e
from tidelog.core.reasons import ElectionKind, StateWriteReason, TruncationRule
from tidelog.core.types import BrokerId, LeaderEpoch, TopicPartition
from tidelog.pipeline.audit.causes.rules import UNEXPLAINED, CauseRule
from tidelog.pipeline.audit.verdict import Verdict

CLEAN, UNCLEAN = ElectionKind.CLEAN, ElectionKind.UNCLEAN
NEW = StateWriteReason.CREATED
WATERMARK = TruncationRule.OWN_HIGH_WATERMARK
EPOCH_END = (TruncationRule.EPOCH_END_ON_LEADER, 0, 1)
"""Epoch 0 ends at 1 on the leader."""

CASES: dict[str, tuple[Case, str, str]] = {}
"""name → (evidence, rule, something that the words must say)"""


def case(name: str, rule: str, words: str, **configs: str) -> Case:
    planted = Case(name, **configs)
    CASES[name] = (planted, rule, words)
    return planted


def lost(name: str, rule: str, words: str, acks: int = -1) -> Case:
    """b was acknowledged at offset 1 at 0.015 s, and is gone."""
    return (
        case(name, rule, words)
        .elected(0, 0, 0, 0, NEW, [0, 1])
        .send("a", 0)
        .send("b", 1, acks=acks)
        .logs("a")
    )


(
    lost(
        "watermark",
        CauseRule.TO_WATERMARK,
        "broker 1 truncated from 2 to 1 (to its own high watermark) at 0.100 s",
    )
    .committed(14, 0, 2, [0, 1])
    .truncated(100, 1, 2, 1, WATERMARK)
    .elected(200, 1, 1, 1, CLEAN, [1])
)
(
    lost("epoch", CauseRule.TO_EPOCH, "(epoch 0 ends at 1 on the leader) at 0.100 s")
    .committed(14, 0, 2, [0, 1])
    .truncated(100, 1, 2, 1, *EPOCH_END)
    .elected(200, 1, 1, 1, CLEAN, [1])
)
(
    lost("the leader's log", CauseRule.TO_LEADER, "(the leader's log is shorter) at 0.100 s")
    .committed(14, 0, 2, [0, 1])
    .truncated(100, 1, 2, 1, TruncationRule.LEADER_LOG_SHORTER)
    .elected(200, 1, 1, 1, CLEAN, [1])
)
lost(
    "not copied", CauseRule.NOT_COPIED, "became leader of epoch 1 at 0.200 s, its log ending at 1", acks=1
).committed(14, 0, 1, [0, 1]).elected(200, 1, 1, 1, CLEAN, [1]).truncated(300, 0, 2, 1, *EPOCH_END)
lost("unclean", CauseRule.UNCLEAN, "(unclean election)").committed(14, 0, 2, [0, 2]).elected(
    200, 1, 1, 1, UNCLEAN, [1]
)
(
    lost("unclean, whatever was written", CauseRule.UNCLEAN, "(unclean election)")
    .committed(14, 0, 2, [0, 2])
    .written(100, -1, 1, [0], 1)
    .elected(200, 1, 2, 1, CLEAN, [1])
)
lost("last known", CauseRule.LAST_KNOWN, "(last known leader)").committed(14, 0, 2, [0, 2]).elected(
    200, 0, 1, 1, ElectionKind.LAST_KNOWN_LEADER, [0]
)
lost("only one", CauseRule.ONLY_ONE, "in sync then: [0]").committed(14, 0, 2, [0]).elected(
    200, 1, 1, 1, UNCLEAN, [1]
)
lost(
    "power, told", CauseRule.UNSYNCED, "broker 0 found its log damaged at 0.100 s and kept it up to 1"
).committed(14, 0, 2, [0]).recovered(100, 0, 1, 77, "torn").elected(200, 0, 1, 1, CLEAN, [0])
lost(
    "in sync, came back without",
    CauseRule.OUT_OF_STEP,
    "had been counted in sync with it and came back without it",
).committed(14, 0, 2, [0, 1]).elected(200, 1, 1, 1, CLEAN, [1])
lost("out of step", CauseRule.OUT_OF_STEP, "became leader of epoch 1").committed(14, 0, 2, [0, 2]).elected(
    200, 1, 1, 1, CLEAN, [1]
)
lost(
    "stale", CauseRule.STALE, "broker 1 led epoch 1 since 0.005 s; broker 0, which did not know", acks=1
).elected(5, 1, 1, 1, CLEAN, [1]).truncated(300, 0, 2, 1, *EPOCH_END)
case("nothing happened", UNEXPLAINED, "offset 1 (b)").send("a", 0).send("b", 1).logs("a").elected(
    0, 0, 0, 0, NEW, [0, 1]
)
case("no answer asked for", CauseRule.UNCONFIRMED, "no broker said that it arrived").send("b", acks=0).logs(
    "a"
).send("a", 0)
case("not committed", CauseRule.NOT_COMMITTED, "above its high watermark").send("a", 0).send("b", 1).logs(
    "a", "b", hw=1
)
(
    case("rewritten", CauseRule.NOT_COPIED, "offset 1 (x) read by c at 0.050 s")
    .send("a", 0)
    .send("x", outcome="unknown")
    .send("b", outcome="unknown")
    .logs("a", "b")
    .read("c", (0, "a"), (1, "x"), at_ms=50)
    .elected(200, 1, 1, 1, CLEAN, [1])
)
case("again, one epoch", CauseRule.RETRY_IN_EPOCH, "so it was sent again").send("a", 1).logs("a", "a")
case("again, two epochs", CauseRule.RETRY_ACROSS, "became leader of epoch 1 at 0.003 s").send("a", 1).logs(
    "a", "a"
).elected(3, 1, 1, 1, CLEAN, [1])
case("diverged", CauseRule.NEVER_CUT, "broker 1 never truncated").send("a", 0).log(0, "a").log(
    1, "x"
).elected(0, 0, 1, 0, CLEAN, [0])
case("too few", CauseRule.TOO_FEW, "committed by [0] alone", **{"min.insync.replicas": "2"}).send(
    "a", 0
).logs("a").committed(3, 0, 1, [0])
case("moved back", CauseRule.PLACE_GONE, "was at offset 2").send("a", 0).send("b", 1).logs("a", "b").read(
    "c", (0, "a"), (1, "b"), at_ms=50
).read("c", (0, "a"), at_ms=400).elected(200, 1, 1, 0, CLEAN, [1])


# What happened, and explains nothing.
(
    lost("elected with the record", UNEXPLAINED, "offset 1 (b)")
    .committed(14, 0, 2, [0, 1])
    .elected(200, 1, 1, 2, CLEAN, [1])
    .elected(300, 0, 2, 2, CLEAN, [0, 1])
)
(
    case("a hole that a truncation covers", UNEXPLAINED, "offset 1 (b)")
    .elected(0, 0, 0, 0, NEW, [0, 1])
    .send("a", 0)
    .send("b", 1)
    .send("c", 2)
    .logs("a", "b", "c")
    .truncated(100, 1, 3, 1, *EPOCH_END)
)
for _row in [row for row in CASES["a hole that a truncation covers"][0].records if row["offset"] == 1]:
    CASES["a hole that a truncation covers"][0].records.remove(_row)
(
    case("missing in the middle, though a truncation covers it", UNEXPLAINED, "lacks 1 committed record")
    .elected(0, 0, 0, 0, NEW, [0, 1])
    .send("a", 0)
    .send("b", 1)
    .send("c", 2)
    .logs("a", "b", "c")
    .truncated(100, 1, 3, 1, *EPOCH_END)
)
del CASES["missing in the middle, though a truncation covers it"][0].records[-2]
(
    case("another value of its own term, and a follower that was cut", UNEXPLAINED, "offset 1 (b")
    .elected(0, 0, 0, 0, NEW, [0, 1])
    .send("a", 0)
    .send("b", 1, acks=1)
    .send("x", outcome="unknown")
    .logs("a", "x")
    .truncated(300, 1, 2, 1, *EPOCH_END)
)
(
    case("acknowledged while an election waited", UNEXPLAINED, "offset 1 (b)")
    .elected(0, 0, 0, 0, NEW, [0, 1])
    .send("a", 0)
    .send("b", 1, settled_ms=50)
    .send("x", outcome="unknown")
    .logs("a", "x")
    .elected(30, 1, 1, 2, CLEAN, [0, 1])
    .elected(200, 0, 2, 2, CLEAN, [0, 1])
)
(
    lost("it knew its successor", UNEXPLAINED, "offset 1 (b)", acks=1)
    .elected(5, 1, 1, 1, CLEAN, [1])
    .happened(
        6,
        e.BecameFollower(
            BrokerId(0), TopicPartition("it knew its successor", 0), LeaderEpoch(1), BrokerId(1)
        ),
    )
    .truncated(300, 0, 2, 1, *EPOCH_END)
)
CASES["it knew its successor"][0].log(1, "a", "x", epochs=[0, 1], leader=1).send("x", outcome="unknown")
(
    case("a copy of a later term than its answer", UNEXPLAINED, "at offsets 0")
    .send("a", 0)
    .logs("a", "a")
    .elected(500, 1, 1, 1, CLEAN, [1])
)
(
    case("out of order in one term", UNEXPLAINED, "sent after number 0")
    .elected(0, 0, 0, 0, NEW, [0, 1])
    .send("a", 1, idempotent=True, settled_ms=50)
    .send("b", 0, idempotent=True, settled_ms=50)
    .logs("b", "a")
    .elected(20, 1, 1, 0, CLEAN, [1])
)
(
    case("out of order across two terms", CauseRule.RETRY_ACROSS, "became leader of epoch 1 at 0.020 s")
    .elected(0, 0, 0, 0, NEW, [0, 1])
    .send("a", 1, idempotent=True, settled_ms=50)
    .send("b", 0, idempotent=True, settled_ms=50)
    .logs("b", "a")
    .elected(20, 1, 1, 1, CLEAN, [1])
)
(
    case("another value of the same reign, without epochs", UNEXPLAINED, "offset 1 (b")
    .elected(0, 0, 0, 0, NEW, [0, 1])
    .send("a", 0)
    .send("b", 1)
    .send("x", 1, settled_ms=30)
    .logs("a", "x", epochs=[None, None])
    .elected(200, 1, 1, 2, CLEAN, [0, 1])
    .truncated(300, 0, 2, 1, WATERMARK)
)
(
    case("another branch, without epochs", CauseRule.OTHER_BRANCH, "broker 0 became leader of epoch 2")
    .elected(0, 0, 0, 0, NEW, [0, 1])
    .send("a", 0)
    .send("x", 1)
    .elected(17, 1, 1, 1, CLEAN, [1, 0])
    .send("b", 1)
    .logs("a", "x", epochs=[None, None])
    .elected(200, 0, 2, 2, CLEAN, [0])
)
lost("cut far behind it", UNEXPLAINED, "offset 1 (b)").committed(14, 0, 2, [0, 1]).truncated(
    100, 1, 9, 5, *EPOCH_END
)
(
    case("another value in the same term", UNEXPLAINED, "offset 1 (b) read by c at 0.400 s")
    .send("a", 0)
    .send("b", outcome="unknown")
    .send("x", outcome="unknown")
    .log(0, "a", "x", epochs=[1, 1])
    .log(1, "a", "x", epochs=[1, 1])
    .elected(0, 0, 1, 0, CLEAN, [0, 1])
    .elected(200, 1, 2, 2, CLEAN, [0, 1])
    .read("c", (0, "a"), (1, "b"), at_ms=400, leader_epoch=1)
)
(
    case("diverged in one term", UNEXPLAINED, "broker 1 truncated last from 9 to 5")
    .send("a", 0)
    .log(0, "a")
    .log(1, "x")
    .elected(0, 0, 0, 0, NEW, [0, 1])
    .truncated(300, 1, 9, 5, *EPOCH_END)
)
case("a copy that no election explains", UNEXPLAINED, "at offsets 0").send("a", 1, idempotent=True).logs(
    "a", "a"
).elected(500, 1, 1, 2, CLEAN, [1])
case("a failure that no answer explains", UNEXPLAINED, "its producer got an error").send(
    "a", outcome="failed"
).logs("a")
(
    case("moved back though the log was whole", UNEXPLAINED, "was at offset 2")
    .send("a", 0)
    .send("b", 1)
    .logs("a", "b")
    .elected(10, 0, 0, 0, NEW, [0])
    .read("c", (0, "a"), (1, "b"), at_ms=50)
    .read("c", (0, "a"), at_ms=400)
    .elected(200, 1, 1, 2, CLEAN, [1])
)

(
    case("said to be where the log had been before its term", UNEXPLAINED, "offset 0 (a, b)")
    .elected(0, 0, 0, 0, NEW, [0, 1])
    .send("a", 0)
    .elected(20, 1, 1, 1, CLEAN, [1])
    .send("b", 0, sent_ms=30, producer="q")
    .logs("a", "b", epochs=[None, None])
    .elected(200, 0, 2, 1, CLEAN, [0])
    .truncated(300, 1, 2, 0, WATERMARK)
)
(
    lost("its own leader came back shorter, and nothing shows why", UNEXPLAINED, "offset 1 (b)", acks=1)
    .committed(14, 0, 1, [0, 1])
    .elected(200, 0, 1, 1, CLEAN, [0])
)
(
    lost("the log of its leader was never so long", UNEXPLAINED, "offset 1 (b)", acks=1)
    .committed(14, 0, 1, [0, 1])
    .elected(200, 1, 1, 1, CLEAN, [1])
    .truncated(300, 0, 1, 0, *EPOCH_END)
)
(
    case("acknowledged where no log ever was", UNEXPLAINED, "offset 7 (b) reported")
    .send("a", 0)
    .send("b", 7)
    .logs("a", "b")
)
(
    case("acknowledged where a log was cut", CauseRule.RETRY_IN_EPOCH, "acknowledged at offset 2")
    .send("a", 0)
    .send("b", 2)
    .logs("a", "b")
    .truncated(100, 0, 3, 2, WATERMARK)
)
(
    case("a copy behind what was sent after its answer", UNEXPLAINED, "at offsets 0")
    .send("a", 0)
    .send("b", 1, sent_ms=100)
    .logs("a", "b", "a")
)
(
    case("a copy before it was sent", UNEXPLAINED, "at offsets 0")
    .send("x", 1, sent_ms=0)
    .send("b", 2, sent_ms=100, producer="q")
    .logs("b", "x", "b")
)
(
    case("acknowledged by all, so by no stale leader", UNEXPLAINED, "offset 1 (b, x)")
    .elected(0, 0, 0, 0, NEW, [0, 1])
    .send("a", 0)
    .send("b", 1)
    .send("x", 1, sent_ms=100, producer="q")
    .send("c", 2, sent_ms=110, producer="q")
    .logs("a", "x", "c", "b", epochs=[0, 1, 1, 1])
    .elected(5, 1, 1, 1, CLEAN, [1])
    .truncated(300, 0, 2, 1, *EPOCH_END)
)
(
    case("neighbours that stand where the other was acknowledged", UNEXPLAINED, "offset")
    .send("a", 0, settled_ms=50)
    .send("b", 1, settled_ms=50)
    .logs("b", "a")
)


def test_a_power_loss_explains_only_what_its_broker_lost_after_it(tmp_path: Path) -> None:
    """Not that of another broker, and not one before the record was committed."""
    cases = [
        Case(name)
        .send("a", 0)
        .log(0, "a", epochs=[1])
        .log(1, "x", epochs=[0])
        .elected(0, 0, 1, 0, CLEAN, [0, 1])
        for name in ("early", "late")
    ]
    cases[0].committed(400, 0, 1, [0, 1], epoch=1)
    cases[1].committed(50, 0, 1, [0, 1], epoch=1)
    faults = [
        {"number": 0, "kind": "power", "targets": ["1"], "began_us": 100_000},
        {"number": 1, "kind": "power", "targets": ["0"], "began_us": 500_000},
    ]
    path = write(tmp_path / "e", cases, faults)
    judge_evidence(path)
    found = {row["topic"]: row["rule"] for row in found_rows(path) if row["anomaly"] == "diverged"}
    assert found == {"early": CauseRule.NEVER_CUT, "late": CauseRule.UNSYNCED}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Verdict, dict[str, list[dict[str, Any]]]]:
    path = write(tmp_path_factory.mktemp("causes") / "e", [planted for planted, _, _ in CASES.values()])
    verdict = judge_evidence(path)
    rows = found_rows(path)
    hidden = ("unknown arrived", "unavailable")
    return verdict, {
        name: [row for row in rows if row["topic"] == name and row["anomaly"] not in hidden] for name in CASES
    }


@pytest.mark.parametrize("name", CASES)
def test_a_cause_has_its_name_and_its_story(
    name: str, told: tuple[Verdict, dict[str, list[dict[str, Any]]]]
) -> None:
    """The rule that explains it, and the facts by which it is known."""
    _, rule, words = CASES[name]
    found = {(row["rule"], row["explained"]) for row in told[1][name]}
    assert found == {(rule, rule != UNEXPLAINED)}
    assert all(words in row["cause"] for row in told[1][name]), [row["cause"] for row in told[1][name]]


def test_causes_are_counted(told: tuple[Verdict, dict[str, list[dict[str, Any]]]]) -> None:
    """How many findings each rule accounts for, and how many none does."""
    verdict, rows = told
    lost_rows = [row for found in rows.values() for row in found if row["anomaly"] == "lost"]
    assert sum(c["count"] for c in verdict.causes if c["anomaly"] == "lost") == len(lost_rows)
    assert verdict.unexplained == sum(not row["explained"] for found in rows.values() for row in found)
