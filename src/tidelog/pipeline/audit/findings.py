"""What an audit finds, in one schema for every kind of anomaly, so that all of them are one table.

Rules of the file:

* A *violation* breaks a promise; a *notice* breaks none and is worth knowing.
* Times are microseconds by the clock of the process that recorded them. Of a send, `time_us` is when it was
  handed to the client and `until_us` when its outcome was known; of a read, `time_us` is when the poll
  returned; of a window, they are its beginning and its end.
* A column that a kind has nothing to say about is null.
* `detail` is a phrase of `narrate`: the table has it in English, examples as a phrase too.
* A kernel writes its findings to a file of their own and hands back their `Tally`, whose size is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.narrate.phrasebook import Phrase, say

VIOLATION: Final = "violation"
NOTICE: Final = "notice"
EXAMPLES_MAX: Final = 20
_ROWS_MAX: Final = 50_000


class Circumstance(StrEnum):
    """What was seen beside a finding that decides about its cause. `detail` says the same in words."""

    NEW_IDENTITY = "new_identity"
    """The copies carry different producer ids or epochs."""
    SENT_TWICE = "sent_twice"
    """The producers themselves sent the value more than once."""
    MOVED_BY_GROUP = "moved_by_group"
    """The consumer belongs to a group that may have moved it."""
    REFUSED_AFTER_APPEND = "refused_after_append"
    """The answer said that the record was appended and not replicated."""
    NO_LEADER = "no_leader"
    TOO_FEW_IN_SYNC = "too_few_in_sync"
    LEADER_DOWN = "leader_down"
    SILENCE = "silence"
    """Nothing was acknowledged though a send waited."""
    TRANSACTION_OPEN = "transaction_open"
    """Its coordinator knows that the transaction is open."""
    TRANSACTION_HANGS = "transaction_hangs"
    """Its coordinator has ended the transaction, or does not know it."""
    LAST_KNOWN_LEADER = "last_known_leader"
    """The last leader was elected, because no replica was in sync or eligible."""
    COORDINATOR_ABSENT = "coordinator_absent"
    """The log of its coordinator is not there."""


COLUMNS: Final = {
    "anomaly": "string",
    "severity": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "leader_epoch": "int",
    "value": "string",
    "producer": "string",
    "sequence": "bigint",
    "acks": "int",
    "consumer": "string",
    "broker": "int",
    "time_us": "bigint",
    "until_us": "bigint",
    "count": "bigint",
    "detail": "string",
    "circumstance": "string",
    "cause": "string",
    "rule": "string",
    "explained": "boolean",
}
"""Name and Spark type of every column."""

ARROW_TYPES: Final = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_()}
SCHEMA: Final = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in COLUMNS.items()])


@dataclass(slots=True)
class Finding:
    """One finding, and the facts beside it by which its cause is known (`facts`, never written)."""

    anomaly: str
    severity: str
    part: int | None
    offset: int | None = None
    leader_epoch: int | None = None
    value: str | None = None
    producer: str | None = None
    sequence: int | None = None
    acks: int | None = None
    consumer: str | None = None
    broker: int | None = None
    time_us: int | None = None
    until_us: int | None = None
    count: int | None = None
    detail: Phrase | None = None
    circumstance: Circumstance | None = None
    facts: Facts | None = None


@dataclass(slots=True, frozen=True)
class Facts:
    """What the evidence shows about a finding beyond its row."""

    other_there: bool = False
    """Another record is at the offset, in a replica or in what a consumer read."""
    other_epoch: int | None = None
    """The leader epoch of that record, if it has one."""
    other_us: int | None = None
    """When that record was appended at the earliest: it and those before it had been sent."""
    other_until_us: int | None = None
    """When it was at the latest: it, or one behind it, had been acknowledged."""
    own_us: int | None = None
    """When the record of the finding was sent, if that is not the finding's own time."""
    known_us: int | None = None
    """When the record of the finding became known, if that is not the finding's own time."""
    acks: int | None = None
    """Of the send of that record, if that is not the finding's own."""
    hole: bool = False
    """The log goes on behind the offset, and holds nothing there. No change of leader leaves that behind."""
    at_end: bool = False
    """The log ends at or before the offset."""
    uncommitted: bool = False
    """The leader holds the record, above its high watermark."""
    since_us: int | None = None
    """When the consumer had read before."""
    position: int | None = None
    """The offset that the consumer waited for; of a reordered record, where the one before it is."""
    misplaced: bool = False
    """Sending it again does not lead there: a copy was written when its producer waited for no answer, or
    among the records of another one, or it was acknowledged elsewhere and no log lost it there."""


Cause = tuple[str, str, str, bool]
"""Anomaly, severity, rule, and whether that explains it."""
Example = dict[str, Any]


def _order(row: Example) -> tuple[Any, ...]:
    """Earliest first; what has no time comes first, and order never depends on who found it."""
    names = ("time_us", "topic", "partition", "offset", "value", "consumer", "broker")
    return tuple((row.get(name) is not None, row.get(name) or 0) for name in names[:1]) + tuple(
        str(row.get(name) or "") if name in ("topic", "value", "consumer") else (row.get(name) or 0)
        for name in names[1:]
    )


@dataclass(slots=True)
class Tally:
    """Findings summed up: how many, some of them, and when and where violations were."""

    causes: Counter[Cause] = field(default_factory=Counter)
    examples: dict[Cause, list[Example]] = field(default_factory=dict)
    moments: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Violations of a kind by the moment of the report's axis."""
    broken: Counter[tuple[str | None, int | None]] = field(default_factory=Counter)
    """Violations of each partition."""

    def add(self, row: Example, at: int | None) -> None:
        cause = (row["anomaly"], row["severity"], row["rule"], row["explained"])
        self.causes[cause] += 1
        kept = self.examples.setdefault(cause, [])
        kept.append(row)
        if len(kept) > 8 * EXAMPLES_MAX:
            self.examples[cause] = sorted(kept, key=_order)[:EXAMPLES_MAX]
        if row["severity"] == VIOLATION:
            self.broken[row["topic"], row["partition"]] += 1
            if at is not None:
                self.moments[at, row["anomaly"]] += 1

    def merge(self, other: Tally) -> None:
        self.causes.update(other.causes)
        self.moments.update(other.moments)
        self.broken.update(other.broken)
        for cause, rows in other.examples.items():
            self.examples[cause] = sorted([*self.examples.get(cause, ()), *rows], key=_order)[:EXAMPLES_MAX]

    def bounded(self) -> Tally:
        for cause, rows in self.examples.items():
            self.examples[cause] = sorted(rows, key=_order)[:EXAMPLES_MAX]
        return self

    def shown(self) -> dict[str, list[Example]]:
        """Up to 20 of each anomaly, violations first, then the earliest; but at least one of each cause."""
        found: dict[str, list[Example]] = {}
        for anomaly in sorted({cause[0] for cause in self.examples}):
            mine = [rows for cause, rows in self.examples.items() if cause[0] == anomaly and rows]
            firsts = [rows[0] for rows in mine]
            rest = [row for rows in mine for row in rows[1:]]
            rest.sort(key=lambda row: (row["severity"] != VIOLATION, _order(row)))
            chosen = firsts + rest[: max(EXAMPLES_MAX - len(firsts), 0)]
            chosen.sort(key=lambda row: (row["severity"] != VIOLATION, _order(row)))
            found[anomaly] = [_example(row) for row in chosen]
        return found


def _example(row: Example) -> Example:
    known = {name: each for name, each in row.items() if each is not None and name != "anomaly"}
    phrases = {"story": row["story"].as_json()}
    if (said := known.pop("said", None)) is not None:
        phrases["said"] = said.as_json()
    return known | phrases


_FIELDS: Final = tuple(f.name for f in fields(Finding) if f.name not in ("part", "facts"))


class FindingWriter:
    """Explains findings and writes them to a file of the table `anomalies`."""

    def __init__(self, context: Any, name: str) -> None:
        self._context = context
        self._name = name
        self._rows: list[Example] = []
        self._files = 0
        self.tally = Tally()

    def add(self, finding: Finding) -> None:
        context = self._context
        if finding.anomaly not in context.audits:
            return
        row: Example = {name: getattr(finding, name) for name in _FIELDS}
        if finding.detail is not None:
            row["said"], row["detail"] = finding.detail, say(finding.detail)
        if finding.part is None:
            row["topic"] = row["partition"] = None
        else:
            part = context.parts[finding.part]
            row["topic"], row["partition"] = part.topic, part.partition
        row |= context.explain(finding)
        self.tally.add(row, context.moment_of(finding.time_us))
        self._rows.append(row)
        if len(self._rows) >= _ROWS_MAX:
            self._flush()

    def add_all(self, found: Iterable[Finding]) -> None:
        for finding in found:
            self.add(finding)

    def _flush(self) -> None:
        table = pa.Table.from_pylist(self._rows, schema=SCHEMA)  # without phrases
        self._context.target.write_table(f"anomalies/{self._name}-{self._files:04}.parquet", table)
        self._files += 1
        self._rows.clear()

    def close(self, *, always: bool = False) -> Tally:
        """What was found, summed up. `always`: write a file even if nothing was."""
        if self._rows or (always and not self._files):
            self._flush()
        return self.tally.bounded()
