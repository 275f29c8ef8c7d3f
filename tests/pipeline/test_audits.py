"""Planted anomalies, among them the histories that checkers of Kafka are known by: each is found exactly, and
nothing else is found beside it."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest
from tests.pipeline.judged import found_rows, judge_evidence
from tests.pipeline.planted import FINAL, Case, write

from tidelog.core.reasons import ElectionKind
from tidelog.pipeline.audit.anomalies import AUDITS
from tidelog.pipeline.audit.causes.rules import UNEXPLAINED, CauseRule
from tidelog.pipeline.audit.evidence import Need
from tidelog.pipeline.audit.findings import COLUMNS
from tidelog.pipeline.audit.verdict import Verdict

ROOT = Path(__file__).resolve().parents[2]

Found = set[tuple[str, str, str | None, int | None]]
"""(anomaly, severity, value, offset)"""

CASES: dict[str, tuple[Case, Found]] = {}


def case(name: str, *expected: tuple[str, str, str | None, int | None], **configs: str) -> Case:
    planted = Case(name, **configs)
    CASES[name] = (planted, set(expected))
    return planted


V, N = "violation", "notice"

# ---------------------------------------------------------------- nothing wrong
(
    case("clean")
    .send("a", 0)
    .send("b", 2)
    .logs("a", None, "b")
    .read("c", (0, "a"), (2, "b"))
    .final((0, "a"), (2, "b"))
    .committed(1, 0, 3, [0, 1])
)
case("unknown and absent").send("a", 0).send("u", outcome="unknown").logs("a").final((0, "a"))
case("failed and absent").send("a", 0).send("f", outcome="failed").logs("a").final((0, "a"))
case("deleted by retention").send("a", 0).send("b", 1).send("c", 2).logs("c", start=2).final((2, "c"))
case("compacted", **{"cleanup.policy": "compact"}).send("a", 0).send("b", 1).logs("b", start=1).final(
    (1, "b")
)
case("sent twice").send("a", 0).send("a", 0, producer="q").logs("a").final((0, "a"))
(
    case("without a leader")
    .send("a", 0)
    .send("b", 1)
    .log(0, "a", leader=-1, isr=[1])
    .log(1, "a", "b", hw=0, leader=-1, isr=[1])
    .final((0, "a"), (1, "b"))
)
case("a reader that is behind").send("a", 0).send("b", 1).logs("a", "b").read("c", (0, "a")).final(
    (0, "a"), (1, "b")
)
case("a follower that is behind").send("a", 0).send("b", 1).log(0, "a", "b").log(1, "a").final(
    (0, "a"), (1, "b")
)

# ---------------------------------------------------------------- sends
case("lost, all", ("lost", V, "b", 1)).send("a", 0).send("b", 1).logs("a").final((0, "a"))
case("lost, one", ("lost", V, "b", 1)).send("a", 0).send("b", 1, acks=1).logs("a").final((0, "a"))
case("lost, none", ("lost", N, "b", None)).send("a", 0).send("b", acks=0).logs("a").final((0, "a"))
case("lost by a gap", ("lost", V, "b", 1)).send("a", 0).send("b", 1).send("c", 2).logs("a", None, "c").final(
    (0, "a"), (2, "c")
)
case("lost, seen by clients alone", ("lost", V, "b", 1)).send("a", 0).send("b", 1).final((0, "a"))
case("above the watermark", ("lost", V, "b", 1)).send("a", 0).send("b", 1).logs("a", "b", hw=1).final(
    (0, "a")
)
case("unseen", ("unseen", V, "b", 1)).send("a", 0).send("b", 1).logs("a", "b").final((0, "a"))
case("sent again", ("duplicated", N, "a", 1)).send("a", 1).logs("a", "a").final((0, "a"), (1, "a"))
case("sent again, idempotent", ("duplicated", V, "a", 1)).send("a", 0, idempotent=True).logs("a", "a").final(
    (0, "a"), (1, "a")
)
case("a phantom", ("phantom", V, "z", 1)).send("a", 0).logs("a", "z").final((0, "a"), (1, "z"))
case("a phantom that was read", ("phantom", V, "z", 5)).send("a", 0).logs("a").read(
    "c", (5, "z"), follow=False
).final((0, "a"))
case("failed and there", ("aborted read", V, "f", 1)).send("a", 0).send("f", outcome="failed").logs(
    "a", "f"
).final((0, "a"), (1, "f"))
case("failed and read", ("aborted read", V, "f", 5)).send("a", 0).send("f", outcome="failed").logs("a").read(
    "c", (5, "f"), follow=False
).final((0, "a"))
case("unknown and there", ("unknown arrived", N, "u", 1)).send("a", 0).send("u", outcome="unknown").logs(
    "a", "u"
).final((0, "a"), (1, "u"))
case("damaged", ("damaged", V, "a", 0)).send("a", 0, value_crc32=7).logs("a").final((0, "a"))
case("reordered in flight", ("reordered", N, "b", 0)).send("a", 1, settled_ms=50).send("b", 0).logs(
    "b", "a"
).final((0, "b"), (1, "a"))
case("reordered one by one", ("reordered", V, "b", 0)).send("a", 1).send("b", 0).logs("b", "a").final(
    (0, "b"), (1, "a")
)
case("reordered, idempotent", ("reordered", V, "b", 0)).send("a", 1, settled_ms=50, idempotent=True).send(
    "b", 0, idempotent=True
).logs("b", "a").final((0, "b"), (1, "a"))
(
    case("below promise", ("acknowledged below promise", V, "a", 0), **{"min.insync.replicas": "2"})
    .send("a", 0)
    .send("b", 1)
    .logs("a", "b")
    .final((0, "a"), (1, "b"))
    .committed(3, 0, 1, [0])
    .committed(12, 1, 2, [0, 1])
)
(
    case("committed again by a leader that is alone", **{"min.insync.replicas": "2"})
    .send("a", 0)
    .logs("a")
    .final((0, "a"))
    .committed(2, 0, 1, [0, 1])
    .committed(3, 0, 1, [1])
)
(
    case("enough when it was asked again", **{"min.insync.replicas": "2"})
    .send("a", 0, settled_ms=50)
    .logs("a")
    .final((0, "a"))
    .committed(3, 0, 1, [0])
    .isr_changed(20, [0, 1])
)

# ---------------------------------------------------------------- replicas
case("diverged", ("diverged", V, "b, x", 1)).send("a", 0).send("b", 1).log(0, "a", "b").log(
    1, "a", "x"
).final((0, "a"), (1, "b"))
case("diverged in its epoch", ("diverged", V, "a", 0)).send("a", 0).log(0, "a", epochs=[0]).log(
    1, "a", epochs=[1]
).final((0, "a"))
case("diverged above the end", ("diverged", N, "b, x", 1)).send("a", 0).send("b", outcome="unknown").log(
    0, "a", "b", hw=1
).log(1, "a", "x").final((0, "a"))

case("missing in the middle of an in-sync replica", ("missing copy", V, None, 1)).send("a", 0).send(
    "b", 1
).send("c", 2).log(0, "a", "b", "c").log(1, "a", "b", "c").final((0, "a"), (1, "b"), (2, "c"))
del CASES["missing in the middle of an in-sync replica"][0].records[-2]

# ---------------------------------------------------------------- reads
(
    case("rewritten", ("rewritten", V, "x", 1), ("inconsistent offset", V, "b, x", 1))
    .send("a", 0)
    .send("b", 1)
    .send("x", outcome="unknown")
    .logs("a", "b")
    .read("c", (0, "a"), (1, "x"))
    .final((0, "a"), (1, "b"))
)
case("two at one offset", ("inconsistent offset", V, "a, b", 0)).send("a", 0).send("b", 0).logs(
    "a", "b"
).final((0, "a"), (1, "b"))
(
    case("skipped", ("poll skip", V, "b", 1))
    .send("a", 0)
    .send("b", 1)
    .send("c", 2)
    .logs("a", "b", "c")
    .read("c", (0, "a"))
    .read("c", (2, "c"))
    .final((0, "a"), (1, "b"), (2, "c"))
)
(
    case("skipped inside a poll", ("poll skip", V, "b", 1))
    .send("a", 0)
    .send("b", 1)
    .send("c", 2)
    .logs("a", "b", "c")
    .read("c", (0, "a"), (2, "c"))
    .final((0, "a"), (1, "b"), (2, "c"))
)
(
    case("skipped knowingly", ("poll skip", N, "b", 1))
    .send("a", 0)
    .send("b", 1)
    .send("c", 2)
    .logs("a", "b", "c")
    .read("c", (0, "a"), at_ms=800)
    .noticed("c", 1)
    .read("c", (2, "c"))
    .final((0, "a"), (1, "b"), (2, "c"))
)
(
    case("moved back", ("non-monotonic poll", V, "a", 0))
    .send("a", 0)
    .send("b", 1)
    .logs("a", "b")
    .read("c", (0, "a"), (1, "b"))
    .read("c", (0, "a"))
    .final((0, "a"), (1, "b"))
)
(
    case("moved back inside a poll", ("non-monotonic poll", V, "a", 0))
    .send("a", 0)
    .send("b", 1)
    .logs("a", "b")
    .read("c", (0, "a"), (1, "b"), (0, "a"))
    .final((0, "a"), (1, "b"))
)
(
    case("read too early", ("precommitted read", V, "b", 1))
    .send("a", 0)
    .send("b", 1)
    .logs("a", "b")
    .committed(4, 0, 1, [0, 1])
    .read("c", (0, "a"), (1, "b"), at_ms=20)
    .committed(30, 1, 2, [0, 1])
    .final((0, "a"), (1, "b"))
)

(
    case("read from the next leader, which knew the watermark")
    .send("a", 0)
    .send("b", 1)
    .logs("a", "b")
    .committed(4, 0, 1, [0, 1])
    .elected(10, 1, 2, 2, ElectionKind.CLEAN, [1], watermark=2)
    .read("c", (0, "a"), (1, "b"), at_ms=20)
    .final((0, "a"), (1, "b"))
)

# ---------------------------------------------------------------- transactions
(
    case("transactions that interleave", ("write cycle", N, None, 2))
    .send("a", 0, transaction="t1")
    .send("b", 1, transaction="t2", producer="q")
    .send("c", 2, transaction="t1")
    .logs("a", "b", "c")
    .final((0, "a"), (1, "b"), (2, "c"))
)
(
    case("transactions one by one")
    .send("a", 0, transaction="t3")
    .send("b", 1, transaction="t3")
    .send("c", 2, transaction="t4")
    .logs("a", "b", "c")
    .read("c", (0, "a"), (1, "b"), transaction="t4")
    .final((0, "a"), (1, "b"), (2, "c"))
)
(
    case("transactions that saw each other", ("circular information", V, None, 0))
    .send("a", 0, transaction="t5")
    .send("b", 1, transaction="t6")
    .logs("a", "b")
    .read("c", (0, "a"), transaction="t6")
    .read("d", (1, "b"), transaction="t5", follow=False)
    .final((0, "a"), (1, "b"))
)
(
    case("a transaction that saw itself", ("precommitted read", V, "a", 0))
    .send("a", 0, transaction="t7")
    .logs("a")
    .read("c", (0, "a"), transaction="t7")
    .final((0, "a"))
)
(
    case("half of a transaction", ("lost", V, "b", 1))
    .send("a", outcome="unknown", transaction="t8")
    .send("b", 1, outcome="unknown", transaction="t8")
    .logs("a")
    .final((0, "a"))
)
case("nothing of a transaction").send("a", outcome="unknown", transaction="t9").logs().final()
case("acknowledged where no log was", ("inconsistent offset", V, "a", 7)).send("a", 7).logs("a").final(
    (0, "a")
)

# ---------------------------------------------------------------- windows
(
    case("no leader for a while", ("unavailable", N, None, None))
    .written(10, -1, 1, [0], 1)
    .written(40, 0, 2, [0], 2)
)
(
    case("too few in sync", ("unavailable", N, None, None), **{"min.insync.replicas": "2"})
    .written(10, 0, 1, [0], 1)
    .written(20, 1, 2, [1], 2)
    .written(40, 1, 2, [1, 0], 3)
)
case("silence", ("unavailable", N, None, None)).send("a", 0).send("b", 1, settled_ms=3000).logs(
    "a", "b"
).final((0, "a"), (1, "b"))
case("nobody sent anything for a while").send("a", 0).send("b", 1, sent_ms=3000).logs("a", "b").final(
    (0, "a"), (1, "b")
)


TRACEBACK = """\
serving
Traceback (most recent call last):
  File "x.py", line 1, in <module>
ValueError: no such offset
stopped
19:42:17.862 ERROR Fatal read error on socket transport
  + Exception Group Traceback (most recent call last):
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    | ValueError: x
    +------------------------------------
"""
CASES["a broker's log"] = (Case("a broker's log"), {("broker exception", N, None, None)})


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Verdict, dict[str, Found]]:
    path = write(
        tmp_path_factory.mktemp("planted") / "e",
        [planted for planted, _ in CASES.values()],
        final_reader=FINAL,
    )
    (path / "logs").mkdir()
    (path / "logs/broker-1.log").write_text(TRACEBACK)
    verdict = judge_evidence(path)
    found: dict[str, Found] = defaultdict(set)
    for row in found_rows(path):
        found[row["topic"] or "a broker's log"].add(
            (row["anomaly"], row["severity"], row["value"], row["offset"])
        )
    return verdict, found


@pytest.mark.parametrize("name", CASES)
def test_a_planted_anomaly_is_found_exactly_and_alone(
    name: str, judged: tuple[Verdict, dict[str, Found]]
) -> None:
    """No more and no less than what was planted; and in clean evidence nothing."""
    assert judged[1].get(name, set()) == CASES[name][1]


def test_tracebacks_and_fatal_errors_are_counted(judged: tuple[Verdict, dict[str, Found]]) -> None:
    """A group of exceptions once, and the last one is shown."""
    (example,) = judged[0].examples["broker exception"]
    assert example["count"] == 3
    assert example["detail"].endswith("ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)")


def test_every_audit_has_something_planted_for_it(judged: tuple[Verdict, dict[str, Found]]) -> None:
    """An audit that finds nothing at all would be seen."""
    verdict = judged[0]
    of_trials = [audit.name for audit in AUDITS if Need.LOG_FOLDERS not in audit.needs]
    assert verdict.judged == of_trials
    assert {finding[0] for _, expected in CASES.values() for finding in expected} == set(verdict.judged)
    assert all(sum(counts.values()) for counts in verdict.counts.values())


def test_what_cannot_be_judged_is_named(judged: tuple[Verdict, dict[str, Found]]) -> None:
    """Deleted records, compacted topics, values that were sent twice: passed over, and said."""
    said = "\n".join(judged[0].unjudged)
    for part in (
        "records of deleted by retention below the start of its log",
        "losses in compacted",
        "1 values that were sent more than once",
    ):
        assert part in said


def _sections(page: str) -> dict[str, str]:
    """The text below each second heading of a page."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_audit_is_described() -> None:
    """Each has a section of the page, in the order of the verdict, that says how it is judged and how grave
    it is; and a row of the table with what it needs."""
    page = (ROOT / "docs/reference/anomalies.md").read_text("utf-8")
    sections = _sections(page)
    assert list(sections) == [*(audit.name for audit in AUDITS), "Causes", "Columns"]
    rows = re.findall(r"^\| \[(.+?)\]\(#(.+?)\) \| .+ \| (.+) \|$", page, re.MULTILINE)
    assert [name for name, _, _ in rows] == [audit.name for audit in AUDITS]
    for audit, (_, anchor, needs) in zip(AUDITS, rows, strict=True):
        assert anchor == audit.name.replace(" ", "-")
        assert needs == (", ".join(sorted(audit.needs)) or "sends or events"), audit.name
        text = sections[audit.name].strip()
        assert text.startswith("**"), audit.name
        assert "Judged" in text, audit.name
        assert "Severity:" in text, audit.name


def test_the_page_of_anomalies_lists_all_causes_and_columns() -> None:
    sections = _sections((ROOT / "docs/reference/anomalies.md").read_text("utf-8"))
    causes = [line.removeprefix("- ") for line in sections["Causes"].splitlines() if line.startswith("- ")]
    assert causes == [*CauseRule, f"{UNEXPLAINED}: nothing in the evidence accounts for it"]
    assert re.findall(r"^\| `(.+)` \| (.+) \|$", sections["Columns"], re.MULTILINE) == list(COLUMNS.items())
