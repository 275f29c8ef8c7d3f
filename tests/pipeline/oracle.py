"""A naive opinion about evidence: everything in dictionaries, one loop for each question.

It shares no code with the audit, and is right by being short. What it leaves out: events, transactions,
compaction, retention; evidence that it is asked about has none of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from tests.pipeline.planted import FINAL, Case

Found = tuple[str, str, str | None, int | None, str | None]
"""anomaly, severity, value, offset, consumer"""
V, N = "violation", "notice"


def opinion(case: Case) -> set[Found]:
    """What an audit must find in a topic whose leader is broker 0."""
    logs: dict[int, dict[int, dict[str, Any]]] = {row["broker"]: {} for row in case.replicas}
    for row in case.records:
        logs[row["broker"]][row["offset"]] = row
    end = next(row["high_watermark"] for row in case.replicas if row["broker"] == 0)
    log = {offset: row for offset, row in logs[0].items() if offset < end}
    return {
        *_replicas(case, logs, end),
        *_sends(case, log, end),
        *_reads(case, log, end),
        *_told_twice(case, log),
        *_order(case, log),
    }


def _value(row: dict[str, Any] | None) -> str | None:
    return None if row is None or row["control"] else row.get("value")


def _differs(told: dict[str, Any], held: dict[str, Any], table: list[dict[str, Any]]) -> bool:
    """Other bytes, or another key, if the table tells any. A ledger does, even that there were none."""
    if told["value_crc32"] != held["value_crc32"]:
        return True
    keyed = "outcome" in table[0] or any(row.get("key") is not None for row in table)
    return keyed and told.get("key") != held.get("key")


def _replicas(case: Case, logs: dict[int, dict[int, dict[str, Any]]], end: int) -> set[Found]:
    found: set[Found] = set()
    ends = {row["broker"]: row["log_end_offset"] for row in case.replicas}
    for offset in sorted({o for log in logs.values() for o in log}):
        held = [log[offset] for log in logs.values() if offset in log]
        whole = {
            (r["leader_epoch"], r["control"], r.get("value"), r.get("value_crc32"), r.get("key"))
            for r in held
        }
        if len(whole) > 1:
            names = list(dict.fromkeys("control record" if r["control"] else r["value"] for r in held))
            found.add(("diverged", V if offset < end else N, ", ".join(names), offset, None))
    for broker, log in logs.items():
        missing = [
            o
            for o in sorted({o for other in logs.values() for o in other})
            if o < min(end, ends[broker]) and o not in log
        ]
        for offset in missing:
            if offset - 1 not in missing:
                found.add(("missing copy", V, None, offset, None))
    return found


def _copies(log: dict[int, dict[str, Any]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for offset, row in sorted(log.items()):
        if _value(row) is not None:
            found[row["value"]].append(offset)
    return found


def _sends(case: Case, log: dict[int, dict[str, Any]], end: int) -> set[Found]:
    found: set[Found] = set()
    copies = _copies(log)
    sends: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in case.ledger:
        sends[row["value"]].append(row)
    final = {row["value"] for row in case.reads if row["consumer"] == FINAL}
    for value in {*sends, *copies}:
        mine, at = sends[value], copies.get(value, [])
        ok = [send for send in mine if send["outcome"] == "ok"]
        told = [send["offset"] for send in ok if send["offset"] is not None]
        if ok and not at:
            acks = any(send["acks"] != 0 for send in ok)
            found.add(("lost", V if acks else N, value, told[0] if told else None, None))
        if not mine:
            found.add(("phantom", V, value, at[0], None))
        if ok and at and value not in final:
            found |= {("unseen", V, value, offset, FINAL) for offset in at}
        if len(at) > 1:
            repeated = len(mine) == 1 and mine[0]["idempotent"]
            repeated |= len(at) > len(mine) > 1 and all(send["idempotent"] for send in mine)
            found.add(("duplicated", V if repeated else N, value, at[-1], None))
        if len(mine) != 1:
            continue
        send = mine[0]
        if send["outcome"] == "failed" and at:
            found.add(("aborted read", V, value, at[0], None))
        if send["outcome"] == "unknown" and at:
            found.add(("unknown arrived", N, value, at[0], None))
        bad = [offset for offset in at if _differs(send, log[offset], case.ledger)]
        if bad:
            first = told[0] if told and told[0] in bad else bad[0]
            found.add(("damaged", V, value, first, None))
        if len(at) == 1 and told and told[0] != at[0] and told[0] not in log:
            found.add(("duplicated", V if send["idempotent"] else N, value, at[0], None))
    return found


def _reads(case: Case, log: dict[int, dict[str, Any]], end: int) -> set[Found]:
    found: set[Found] = set()
    copies = _copies(log)
    sends = defaultdict(list)
    for row in case.ledger:
        sends[row["value"]].append(row["outcome"])
    for row in case.reads:
        value, offset, consumer = row["value"], row["offset"], row["consumer"]
        now = log.get(offset)
        if _value(now) == value:
            assert now is not None
            if _differs(row, now, case.reads):
                found.add(("damaged", V, value, offset, consumer))
        else:
            if now is not None:
                found.add(("rewritten", V, value, offset, consumer))
            if not sends[value] and value not in copies:
                found.add(("phantom", V, value, offset, consumer))
            if sends[value] == ["failed"] and value not in copies:
                found.add(("aborted read", V, value, offset, consumer))
        before = row["position_before"]
        if offset < before:
            found.add(("non-monotonic poll", V, value, offset, consumer))
        passed = [o for o in sorted(log) if before <= o < offset and _value(log[o]) is not None]
        if passed:
            found.add(("poll skip", V, _value(log[passed[0]]), passed[0], consumer))
    return found


def _told_twice(case: Case, log: dict[int, dict[str, Any]]) -> set[Found]:
    said: dict[int, dict[str, int]] = defaultdict(dict)
    for row in case.ledger:
        if row["outcome"] == "ok" and row["offset"] is not None:
            told = said[row["offset"]]
            told[row["value"]] = min(told.get(row["value"], 1 << 62), row["settled_us"])
    for row in case.reads:
        told = said[row["offset"]]
        told[row["value"]] = min(told.get(row["value"], 1 << 62), row["read_us"])
    names = {
        offset: ", ".join(sorted(told, key=lambda v: (told[v], v)))
        for offset, told in said.items()
        if len(told) > 1
    }
    copies, times = _copies(log), Counter(row["value"] for row in case.ledger)
    for row in case.ledger:  # where it stands beside another record, of which nothing else was told
        value, offset = row["value"], row["offset"]
        at = copies.get(value, [])
        alone = row["outcome"] == "ok" and times[value] == 1 and len(at) == 1
        if alone and offset in log and offset not in (at[0], *names):
            names[offset] = f"{value}, {_value(log[offset]) or 'no value'}"
    return {("inconsistent offset", V, told, offset, None) for offset, told in names.items()}


def _order(case: Case, log: dict[int, dict[str, Any]]) -> set[Found]:
    found: set[Found] = set()
    copies = _copies(log)
    times: dict[str, int] = defaultdict(int)
    for row in case.ledger:
        times[row["value"]] += 1
    before: dict[str, dict[str, Any]] = {}
    for row in sorted(case.ledger, key=lambda r: (r["producer"], r["sequence"])):
        if times[row["value"]] > 1 or row["value"] not in copies:
            continue
        stands, last = copies[row["value"]][0], before.get(row["producer"])
        late = last is not None and stands < copies[last["value"]][0]
        if row["outcome"] == "ok":
            before[row["producer"]] = row
        elif row["outcome"] != "unknown" or not row["idempotent"]:
            continue
        if late and last is not None:
            waited = last["settled_us"] <= row["sent_us"]
            found.add(("reordered", V if row["idempotent"] or waited else N, row["value"], stands, None))
    return found
