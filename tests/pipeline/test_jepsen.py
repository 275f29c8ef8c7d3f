"""Histories as Jepsen's Kafka workload writes them, one for each thing that its checker tells apart: imported
and judged together, each is found exactly, and nothing else beside it."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest
from tests.evidence.importers.jepsen_history import History, poll, send
from tests.pipeline.judged import found_rows, judge_evidence

from tidelog.evidence.importers.jepsen.history import import_history
from tidelog.pipeline.audit import transactions
from tidelog.pipeline.audit.anomalies import AUDITS
from tidelog.pipeline.audit.verdict import Verdict

V, N = "violation", "notice"
Found = set[tuple[str, str, str | None, int | None]]
"""(anomaly, severity, value, offset)"""

CASES: dict[str, tuple[History, Found]] = {}
PROCESSES = 20


def case(name: str, *expected: tuple[str, str, str | None, int | None]) -> History:
    history = History(name.replace(" ", "-").replace(",", ""), PROCESSES * len(CASES))
    CASES[name] = (history, set(expected))
    return history


def four(history: History, process: int = 9) -> History:
    """a, b, c and d at the offsets 0 to 3 of x."""
    for offset, value in enumerate("abcd"):
        history.ok(process, send("x", value, offset))
    return history


# ---------------------------------------------------------------- nothing wrong
(
    case("clean")
    .ok(0, send("x", "a", 0), send("y", "a", 0))
    .ok(1, send("x", "b", 2))
    .ok(2, poll(x=[(0, "a"), (2, "b")], y=[(0, "a")]), send("z", "c", 0))
    .ok(3, poll(z=[(0, "c")]))
)
case("crashed and never seen").ok(0, send("x", "a", 0)).invoke(1, send("x", "b")).ok(2, poll(x=[(0, "a")]))
case("aborted and never seen").ok(0, send("x", "a", 0)).fail(1, send("x", "b", 1), send("y", "b")).ok(
    2, poll(x=[(0, "a")])
)

# ---------------------------------------------------------------- one offset, two values
(
    case("a conflict with a crashed transaction")
    .info(0, send("x", "a", 0), send("y", "a"))
    .ok(1, send("x", "b", 0))
    .ok(2, poll(x=[(0, "b")]))
)
(
    case(
        "the same when half of it was seen",
        ("inconsistent offset", V, ":a, :b", 0),
        ("lost", V, ":a", 0),
    )
    .info(0, send("x", ":a", 0), send("y", ":a"))
    .ok(1, send("x", ":b", 0))
    .ok(2, poll(x=[(0, ":b")], y=[(5, ":a")]))
)
(
    case("two were told the same", ("inconsistent offset", V, "641, 645", 537), ("lost", V, "641", 537))
    .ok(0, send("x", "641", 537))
    .ok(1, send("x", "645", 537))
    .ok(2, poll(x=[(537, "645")]))
)

# ---------------------------------------------------------------- aborted reads
(case("G1a", ("aborted read", V, "a", 0)).fail(0, send("x", "a"), send("y", "b")).ok(1, poll(x=[(0, "a")])))

# ---------------------------------------------------------------- losses
(
    case(
        "lost",
        ("lost", V, "a", 0),
        ("lost", V, "b", 1),
        ("unknown arrived", N, "c", 2),
        ("unseen", V, "d", 3),
    )
    .ok(0, send("x", "a", 0))
    .ok(0, send("x", "b", 1), send("x", "d", 3))
    .info(1, send("x", "c"))
    .ok(2, poll(x=[(2, "c")]))
)
(
    case("lost under another", ("lost", V, "a", 0), ("inconsistent offset", V, "a, b", 0))
    .ok(0, send("x", "a", 0))
    .ok(0, send("x", "b", 0), send("x", "c", 2))
    .ok(1, poll(x=[(0, "b"), (2, "c")]))
)
(
    case("crashed and absent", ("unknown arrived", N, "c", 1))
    .info(0, send("x", "a"), send("y", "b", 0))
    .info(1, send("y", "c"))
    .ok(2, poll(y=[(1, "c")]))
)
(
    case("lost, because all or nothing", ("lost", V, "b", 0), ("unknown arrived", N, "c", 1))
    .info(0, send("x", "a"), send("y", "b", 0))
    .info(1, send("y", "c"))
    .ok(2, poll(x=[(0, "a")]))
    .ok(3, poll(y=[(1, "c")]))
)
(
    case("acknowledged without an offset", ("unseen", V, "b", None))
    .ok(0, send("x", "a", 0))
    .ok(0, send("x", "b"))
    .ok(1, poll(x=[(0, "a")]))
)
case("nobody polled it", ("unseen", V, "a", 0)).ok(0, send("x", "a", 0))
case("nobody sent it", ("phantom", V, "a", 0)).ok(0, poll(x=[(0, "a")]))

# ---------------------------------------------------------------- polls that skip
SKIPPED = ("poll skip", V, "c", 2)


def skips(history: History) -> History:
    """Process 0 is at 2; another process reads c there."""
    return four(history).ok(0, poll(x=[(0, "a"), (1, "b")])).ok(1, poll(x=[(2, "c")]))


D = poll(x=[(3, "d")])
skips(case("skipped", SKIPPED)).ok(0, D)
skips(case("skipped after a choice that kept it", SKIPPED)).assign(0, "x", "y").ok(0, D)
skips(case("skipped as a member of a group", ("poll skip", N, "c", 2))).assign(0, "x", "y", f="subscribe").ok(
    0, D
)
skips(case("skipped after it was given up")).assign(0, "y").ok(0, D)
skips(case("skipped after it was perhaps given up")).assign(0, "y", kind="info").ok(0, D)
skips(case("skipped after a choice that failed", SKIPPED)).assign(0, "y", kind="fail").ok(0, D)
case("a gap in the log is no skip").ok(2, send("y", "e", 7)).ok(2, send("y", "f", 9)).ok(
    0, poll(y=[(7, "e")])
).ok(0, poll(y=[(9, "f")]))
four(case("back to the beginning")).ok(0, poll(x=[(2, "c"), (3, "d")])).assign(
    0, "x", **{"seek-to-beginning?": "true"}
).ok(0, poll(x=[(0, "a"), (1, "b")]))
four(case("not quite to the beginning", ("poll skip", V, "a", 0))).ok(0, poll(x=[(2, "c"), (3, "d")])).assign(
    0, "x", **{"seek-to-beginning?": "true"}
).ok(0, poll(x=[(1, "b")])).ok(1, poll(x=[(0, "a")]))

# ---------------------------------------------------------------- transactions that do not commit
ALL = poll(x=[(0, "a"), (1, "b"), (2, "c"), (3, "d")])
(
    four(case("aborted and rewound"))
    .ok(0, poll(x=[(0, "a")]), f="txn")
    .fail(0, poll(x=[(1, "b"), (2, "c")]), f="txn")
    .info(0, poll(x=[(1, "b"), (2, "c")]), f="txn")
    .ok(0, poll(x=[(1, "b"), (2, "c"), (3, "d")]), f="txn")
)
(
    four(case("aborted and not rewound", ("poll skip", V, "b", 1)))
    .ok(0, poll(x=[(0, "a")]), f="txn")
    .fail(0, poll(x=[(1, "b")]), f="txn")
    .fail(0, poll(x=[(2, "c")]), f="txn")
    .ok(0, poll(x=[(3, "d")]), f="txn")
)
(
    four(case("crashed and not rewound", ("poll skip", V, "b", 1)))
    .ok(0, poll(x=[(0, "a")]), f="txn")
    .fail(0, poll(x=[(1, "b"), (2, "c")]), f="txn")
    .info(0, poll(x=[(3, "d")]), f="txn")
)
(
    four(case("a lone poll is rolled back by nobody"))
    .ok(0, poll(x=[(0, "a")]))
    .fail(0, poll(x=[(1, "b"), (2, "c")]))
    .ok(0, D)
)

# ---------------------------------------------------------------- polls that go back
BACK = ("non-monotonic poll", V, "b", 1)
AGAIN = poll(x=[(1, "b"), (2, "c"), (3, "d")])


def at_three(history: History) -> History:
    return four(history).ok(0, poll(x=[(0, "a"), (1, "b"), (2, "c")]))


at_three(case("moved back", BACK)).ok(0, AGAIN)
at_three(case("moved back after a choice that kept it", BACK)).assign(0, "x", "y").ok(0, AGAIN)
at_three(case("moved back as a member of a group", ("non-monotonic poll", N, "b", 1))).assign(
    0, "x", "y", f="subscribe"
).ok(0, AGAIN)
at_three(case("moved back after it was given up")).assign(0, "y").ok(0, AGAIN)
four(case("skipped inside a poll", ("poll skip", V, "b", 1))).ok(0, poll(x=[(0, "a"), (2, "c")])).ok(1, ALL)
four(case("skipped between polls", ("poll skip", V, "b", 1))).ok(
    0, poll(x=[(0, "a")]), poll(x=[(2, "c")])
).ok(1, ALL)
four(case("skipped while keys changed hands")).ok(
    0,
    poll(x=[(0, "a")]),
    poll(x=[(2, "c")]),
    **{"rebalance-log": "[{:keys [:skipped-while-keys-changed-hands.x]}]"},
).ok(1, ALL)
four(case("moved back inside a poll", ("non-monotonic poll", V, "a", 0))).ok(
    0, poll(x=[(2, "c"), (0, "a")])
).ok(1, ALL)
four(case("read again between polls", ("non-monotonic poll", V, "c", 2))).ok(
    0, poll(x=[(1, "b"), (2, "c")]), poll(x=[(2, "c")])
).ok(1, ALL)

# ---------------------------------------------------------------- sends out of order
(
    case("reordered", ("reordered", V, "a", 1))
    .ok(0, send("x", "c", 3), send("x", "d", 4))
    .ok(0, send("x", "a", 1), send("x", "b", 2))
    .ok(1, poll(x=[(1, "a"), (2, "b"), (3, "c"), (4, "d")]))
)
(
    case(
        "reordered, told and never read",
        ("reordered", V, "a", 1),
        ("unseen", V, "a", 1),
        ("unseen", V, "c", 3),
    )
    .ok(0, send("x", "c", 3))
    .ok(0, send("x", "a", 1))
)
(
    case("reordered inside a transaction", ("reordered", V, "a", 1))
    .ok(0, send("x", "c", 3), send("x", "a", 1))
    .ok(1, poll(x=[(1, "a"), (3, "c")]))
)
(
    case("reordered inside a crashed one", ("reordered", V, "b", 2), ("unknown arrived", N, "c", 3))
    .info(0, send("x", "d"), send("x", "b"))
    .info(1, send("x", "c"))
    .ok(2, poll(x=[(2, "b"), (3, "c"), (4, "d")]))
)

# ---------------------------------------------------------------- duplicates
case("polled at two offsets", ("duplicated", V, "a", 3)).ok(0, send("x", "a", 1)).ok(
    1, poll(x=[(1, "a"), (3, "a")])
)
case("told here and polled there", ("duplicated", V, "a", 3), ("unknown arrived", N, "b", 2)).ok(
    0, send("x", "a", 1)
).info(1, send("x", "b")).ok(2, poll(x=[(2, "b"), (3, "a")]))
case("aborted polls count", ("duplicated", V, "a", 11), ("aborted read", V, "b", 12)).ok(
    0, send("x", "a", 1)
).fail(0, send("x", "b", 2)).fail(1, poll(x=[(11, "a"), (12, "b")]))

# ---------------------------------------------------------------- transactions
case("its own write", ("precommitted read", V, "a", 0)).ok(0, send("x", "a", 0), poll(x=[(0, "a")]))
(
    case("G0", ("write cycle", N, None, 1))
    .ok(0, send("x", "a", 0), send("y", "a", 1))
    .ok(1, send("x", "b", 1), send("y", "b", 0))
    .ok(2, poll(x=[(0, "a"), (1, "b")], y=[(0, "b"), (1, "a")]))
)
(
    case("between two of another", ("write cycle", N, None, 1))
    .ok(0, send("x", "a", 0), send("x", "c", 2))
    .ok(1, send("x", "b", 1), send("y", "b", 0))
    .ok(2, poll(x=[(0, "a"), (1, "b"), (2, "c")], y=[(0, "b")]))
)
(
    case("G1c of reads alone", ("circular information", V, None, 0))
    .ok(0, send("x", "a", 0), poll(y=[(0, "b")]))
    .ok(1, send("y", "b", 0), poll(x=[(0, "a")]))
)
(
    case("G1c with writes", ("circular information", N, None, 0))
    .ok(0, send("x", "a", 0), send("y", "c", 2))
    .ok(1, poll(x=[(0, "a")]), send("y", "b", 1))
    .ok(2, poll(y=[(1, "b"), (2, "c")]))
)
(
    case("a circle through one that aborted", ("aborted read", V, "b", 0))
    .ok(0, send("x", "a", 0), poll(y=[(0, "b")]))
    .fail(1, send("y", "b", 0), poll(x=[(0, "a")]))
)


def serial(history: History, seed: int, operations: int = 60) -> History:
    """What a correct log answers to transactions that come one after the other, of which some abort and of
    some nobody hears; the markers of commits take offsets, too. In the end everything is read."""
    dice = random.Random(seed)
    logs: dict[str, list[tuple[int, str]]] = {"x": [], "y": [], "z": []}
    ends = dict.fromkeys(logs, 0)
    places: dict[tuple[int, str], int] = {}
    for number in range(operations):
        process = dice.randrange(5)
        outcome = dice.choice(["ok", "ok", "ok", "fail", "info"])
        arrives = outcome == "ok" or (outcome == "info" and dice.random() < 0.5)
        steps, moved, written = [], dict(places), []
        for step in range(dice.randrange(1, 4)):
            key = dice.choice(list(logs))
            if dice.random() < 0.5:
                value = f"{number}-{step}"
                steps.append(send(key, f'"{value}"', ends[key] if outcome == "ok" else None))
                written.append((key, (ends[key], f'"{value}"')))
                ends[key] += 1
            else:
                there = [record for record in logs[key] if record[0] >= moved.get((process, key), 0)]
                there = there[: dice.randrange(4)]
                steps.append(poll(**{key: there}))
                moved[process, key] = there[-1][0] + 1 if there else moved.get((process, key), 0)
        history.op(process, outcome, steps, "txn")
        for key, record in written:
            ends[key] += dice.randrange(2)
            if arrives:
                logs[key].append(record)
        if outcome == "ok":
            places.update(moved)
    return history.ok(9, *(poll(**{key: log}) for key, log in logs.items()))


SERIAL = [f"serial {seed}" for seed in range(6)]
for seed, name in enumerate(SERIAL):
    serial(case(name), seed)


# ---------------------------------------------------------------- judged together


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Verdict, dict[str, Found]]:
    folder = tmp_path_factory.mktemp("jepsen")
    history = folder / "history.edn"
    history.write_text("\n".join(line for planted, _ in CASES.values() for line in planted.lines), "utf-8")
    import_history(history, folder / "e")
    verdict = judge_evidence(folder / "e")
    found: dict[str, Found] = defaultdict(set)
    for row in found_rows(folder / "e"):
        scope = row["topic"].rpartition(".")[0]
        found[scope].add((row["anomaly"], row["severity"], row["value"], row["offset"]))
    return verdict, found


@pytest.mark.parametrize("name", CASES)
def test_a_history_is_judged_exactly(name: str, judged: tuple[Verdict, dict[str, Found]]) -> None:
    """No more and no less than what it shows."""
    history, expected = CASES[name]
    assert judged[1].get(name.replace(" ", "-").replace(",", ""), set()) == expected, "\n".join(history.lines)


def test_a_circle_is_told_in_words(judged: tuple[Verdict, dict[str, Found]]) -> None:
    """Who came before whom, and how that shows."""
    told = [e["detail"] for e in judged[0].examples["circular information"]]
    assert any("which read G1c-of-reads-alone.x-0 offset 0" in words for words in told)
    told = [e["detail"] for e in judged[0].examples["write cycle"]]
    assert any("both wrote G0.x-0: offsets 0, 1" in words for words in told)


def test_what_is_too_much_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Islands that are too large, and too many transactions, are not judged, and that is said."""
    names = ("write cycle", "circular information")
    wanted = [audit for audit in AUDITS if audit.name in names]
    history = tmp_path / "history.edn"
    history.write_text("\n".join([*CASES["G0"][0].lines, *CASES["G1c of reads alone"][0].lines]), "utf-8")
    import_history(history, tmp_path / "e")
    found = judge_evidence(tmp_path / "e", audits=wanted).counts
    assert found == {names[0]: {V: 0, N: 1}, names[1]: {V: 1, N: 0}}
    monkeypatch.setattr(transactions, "EDGES_MAX", 1)
    verdict = judge_evidence(tmp_path / "e", audits=wanted)
    assert verdict.violations == verdict.notices == 0
    said = "\n".join(verdict.unjudged)
    assert "cycles of reads: 2 dependencies of transactions lie in one stretch of time" in said
    assert "cycles that need the order of writes: " in said
    monkeypatch.setattr(transactions, "ROWS_MAX", 1)
    said = "\n".join(judge_evidence(tmp_path / "e", audits=wanted).unjudged)
    assert "cycles of transactions: there are more than 1 steps of them" in said


def test_what_a_history_cannot_show_is_named(judged: tuple[Verdict, dict[str, Found]]) -> None:
    """There are no replicas, no events, and no consumer read to the end."""
    said = "\n".join(judged[0].unjudged)
    assert "records behind the last one polled" in said
    assert "diverged: there are no replica logs" in said
    assert "reads above the high watermark: there are no events of brokers" in said
