"""The audit and an opinion that shares nothing with it agree about small evidence with everything wrong."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import tries
from tests.pipeline.judged import found_rows, judge_evidence
from tests.pipeline.oracle import Found, opinion
from tests.pipeline.planted import FINAL, Case, write

VALUES = [f"v{number}" for number in range(6)]
OFFSETS = st.integers(0, 6)
SENDS = st.lists(
    st.tuples(
        st.sampled_from(VALUES),
        st.none() | OFFSETS,
        st.sampled_from(["ok", "ok", "ok", "failed", "unknown"]),
        st.sampled_from(["p", "q"]),
        st.sampled_from([-1, 1, 0]),
        st.booleans(),
    ),
    max_size=8,
)
LOG = st.lists(st.sampled_from([*VALUES, None]), max_size=6)
POLLS = st.lists(
    st.tuples(
        st.sampled_from(["c", "d"]), OFFSETS, st.sampled_from(VALUES), st.sampled_from([False] * 9 + [True])
    ),
    max_size=6,
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A log on two replicas, which may differ; sends, reads and a final read, which may all lie."""
    case = Case("t")
    idempotent = {"p": draw(st.booleans()), "q": draw(st.booleans())}
    for value, offset, outcome, producer, acks, damaged in draw(SENDS):
        more = {"value_crc32": 7} if damaged and draw(st.booleans()) else {}
        case.send(
            value, offset, outcome, producer=producer, acks=acks, idempotent=idempotent[producer], **more
        )
    log = draw(LOG)
    watermark = draw(st.integers(0, len(log)))
    case.log(0, *log, hw=watermark)
    other = draw(st.one_of(st.just(log), LOG))
    case.log(1, *other, hw=watermark)
    if len(other) > 2 and draw(st.booleans()):
        case.records.remove(next(r for r in case.records if r["broker"] == 1 and r["offset"] == 1))
    for number, (consumer, offset, value, damaged) in enumerate(draw(POLLS)):
        changes: dict[str, Any] = {"value_crc32": 9} if damaged else {}
        case.read(consumer, (offset, value), at_ms=1000 + number, **changes)
    read = [(o, v) for o, v in enumerate(log[:watermark]) if v is not None]
    if draw(st.booleans()) and read:
        read.pop(draw(st.integers(0, len(read) - 1)))
    for offset, value in read:  # one by one, each where it waited
        case.read(FINAL, (offset, value), at_ms=100_000, position_before=offset)
    if draw(st.booleans()):
        _with_keys(draw, case)
    return case


def _with_keys(draw: st.DrawFn, case: Case) -> None:
    """All have the key k, some say nothing of it, and some say another."""
    keys = st.sampled_from(["k", "k", "k", "k", "other"])
    for row in case.ledger:
        row["key"] = draw(keys | st.none())
    for row in case.reads:
        row["key"] = draw(st.sampled_from(["k"] * 9 + ["other", None]))
    held: dict[tuple[int, str], str] = {}
    for row in case.records:
        if not row["control"]:
            there = (row["offset"], row["value"])
            row["key"] = held.setdefault(there, draw(keys))
            if draw(st.sampled_from([False] * 9 + [True])):
                row["key"] = draw(keys)


def found(path: Path) -> set[Found]:
    hidden = ("unavailable", "precommitted read")
    return {
        (row["anomaly"], row["severity"], row["value"], row["offset"], row["consumer"])
        for row in found_rows(path)
        if row["anomaly"] not in hidden
    }


@settings(max_examples=tries(100), deadline=None)
@given(cases())
def test_the_audit_agrees_with_the_oracle(case: Case) -> None:
    """Values, offsets, severities and consumers of fourteen anomalies, mixed."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "e", [case], final_reader=FINAL)
        if not case.ledger and not case.reads:
            return
        judge_evidence(path)
        wanted = opinion(case)
        if not case.reads:
            wanted = {finding for finding in wanted if finding[0] != "unseen"}
        if not case.ledger:
            wanted = {f for f in wanted if f[0] in NEED_NO_SENDS}
        assert found(path) == wanted


NEED_NO_SENDS = {"damaged", "diverged", "missing copy", "rewritten", "poll skip", "non-monotonic poll"}
