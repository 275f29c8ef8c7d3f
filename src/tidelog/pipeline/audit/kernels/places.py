"""Round two, at offsets: what the log holds, what was acknowledged and what consumers read, stretch by
stretch, of those that differ.

Found here: rewritten, inconsistent offset, other bytes than the log's in what a consumer read, records passed
over. What is not where it should be goes on, by its value: sends that are not where they were acknowledged
(*misses*), records that no send was acknowledged for (*copies*), reads that the log does not confirm
(*strays*).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.narrate.phrasebook import Phrase, joined
from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.evidence import Need
from tidelog.pipeline.audit.findings import VIOLATION, Facts, Finding, FindingWriter, Tally
from tidelog.pipeline.audit.kernels.hashes import (
    Flags,
    Ints,
    Words,
    among,
    coded,
    flags,
    ints,
    starts_of,
    text_hashes,
)
from tidelog.pipeline.audit.kernels.held import NEVER, SPOT_BITS, Held, held_or, spots_of
from tidelog.pipeline.audit.kernels.ledger_piece import value_keys
from tidelog.pipeline.audit.kernels.reads_piece import Jump, skip_finding
from tidelog.pipeline.audit.kernels.round_two_rows import JUMPED, LOG, READ, SENT, bucket_numbers
from tidelog.pipeline.audit.rounds.parcels import Bucket, Parcel, pack, unpack

MISS, COPY, STRAY = "miss", "copy", "stray"
_NOTHING = np.zeros(0, np.int64)


class Report(NamedTuple):
    """Of a value at an offset."""

    at_us: int
    how: tuple[str, str]
    """The key of a phrase, and by whom or to whom."""
    sent_us: int | None
    acks: int | None = None
    """Of a send."""


_NONE: Final = Phrase("detail.record_without_value")


@dataclass(slots=True, frozen=True)
class PlacesShared:
    context: Context
    buckets: int
    """Of the round that follows."""


@dataclass(slots=True)
class PlacesResult:
    parcels: list[Parcel] = field(default_factory=list)
    candidates: Words = field(default_factory=lambda: np.zeros(0, np.uint64))
    tally: Tally = field(default_factory=Tally)


def judge_places(shared: PlacesShared, bucket: Bucket) -> PlacesResult:
    context = shared.context
    result = PlacesResult()
    writer = FindingWriter(context, f"place-{bucket.number:06}")
    log, sent, read = (unpack(context, bucket, kind) for kind in (LOG, SENT, READ))
    held = Held(context, log, read)
    place = _Place(context, held, sent, read)
    writer.add_all(place.inconsistent())
    writer.add_all(place.rewritten())
    writer.add_all(place.other_bytes())
    writer.add_all(_skipped(context, held, unpack(context, bucket, JUMPED)))
    result.tally = writer.close()
    candidates = []
    for kind, table in ((MISS, place.misses()), (COPY, place.copies()), (STRAY, place.strays())):
        if table is None or not table.num_rows:
            continue
        keys = value_keys(ints(table["part"]), text_hashes(table["value"]))
        candidates.append(keys)
        name = f"v{bucket.number:06}"
        result.parcels += pack(
            context, name, kind, table, bucket_numbers(keys, shared.buckets), shared.buckets
        )
    if candidates:
        result.candidates = np.unique(np.concatenate(candidates))
    return result


class _Place:
    """What was acknowledged and read, beside what the log holds."""

    def __init__(self, context: Context, held: Held, sent: Any, read: Any) -> None:
        self._context = context
        self._held = held
        self._sent, self._read = sent, read
        self._contradicted: list[int] = []
        """Offsets at which two values were reported, in order."""
        _, ends = context.limits()
        if sent is not None:
            self._sent_value = text_hashes(sent["value"])
            self._sent_row = held.at(spots_of(sent))
            row = self._sent_row
            self._committed = ints(sent["offset"]) < ends[ints(sent["part"])]
            self._same = self._alike(row, self._sent_value)
            self._sound = self._same & held_or(held.shown, row, fallback=False)
            self._changed = self._sound & self._other_content(sent, row, known=context.keyed_sends)
            mine = np.flatnonzero(self._sound)
            held.learn(row[mine], ints(sent["sent_us"])[mine], ints(sent["settled_us"])[mine])
        if read is not None:
            self._read_value = text_hashes(read["value"])
            self._read_row = held.at(spots_of(read))
            shown = held_or(held.shown, self._read_row, fallback=False)
            self._read_same = self._alike(self._read_row, self._read_value)
            self._confirmed = self._read_same & shown
            self._stray = ~self._confirmed

    def _alike(self, row: Ints, value: Words) -> Flags:
        found: Flags = (row >= 0) & (held_or(self._held.value, row, np.uint64(0)) == value)
        return found

    def _other_content(self, table: Any, row: Ints, *, known: bool) -> Flags:
        """Whether the log holds other bytes, or another key. `known`: the table has keys, so that none is
        none."""
        held, key = self._held, text_hashes(table["key"])
        found: Flags = _differs(ints(table["value_crc32"]), held_or(held.crc, row, -1))
        found |= (known | (key != 0)) & (key != held_or(held.key, row, np.uint64(0)))
        return found

    def _as_it_was_sent(self) -> Flags:
        """Reads of records that the log holds otherwise than they were sent, and that were read as they were
        sent. They are found once, as sends."""
        read, row, count = self._read, self._read_row, len(self._held.spot)
        if self._sent is None or not self._changed.any():
            return np.zeros(len(row), np.bool_)
        changed = np.flatnonzero(self._changed)
        at = self._sent_row[changed]
        sent_crc, sent_key = np.full(count, -1, np.int64), np.zeros(count, np.uint64)
        sent_crc[at] = ints(self._sent["value_crc32"])[changed]
        sent_key[at] = text_hashes(self._sent["key"])[changed]
        found: Flags = among(row, np.unique(at)) & ~_differs(ints(read["value_crc32"]), sent_crc[row])
        found &= text_hashes(read["key"]) == sent_key[row]
        return found

    # ------------------------------------------------------------ on their way to their values

    def misses(self) -> Any:
        """Sends that are not where they were acknowledged, or not as they were sent, with what is there
        instead."""
        if self._sent is None:
            return None
        held, row = self._held, self._sent_row
        chosen = np.flatnonzero(~self._sound | self._changed)
        if not len(chosen):
            return None
        at = row[chosen]
        there = (at >= 0) & self._committed[chosen]
        now, epochs, keys = [None] * len(at), [None] * len(at), [None] * len(at)
        seen = np.where(there, at, -1)
        since, until = held_or(held.from_us, seen, -1), held_or(held.until_us, seen, NEVER)
        if held.table is not None:
            now, epochs = _taken(held.table["value"], seen), _taken(held.table["leader_epoch"], seen)
            keys = _taken(held.table["key"], at)
        columns = {
            "part": self._sent["part"].take(pa.array(chosen)),
            "value": self._sent["value"].take(pa.array(chosen)),
            "row": self._sent["row"].take(pa.array(chosen)),
            "there": pa.array(there),
            "now": pa.array(now, pa.string()),
            "now_epoch": pa.array(epochs, pa.int32()),
            "now_us": pa.array(since, mask=since < 0),
            "now_until_us": pa.array(until, mask=until == NEVER),
            "reported": pa.array(among(spots_of(self._sent)[chosen], np.array(self._contradicted, np.int64))),
            "hole": pa.array((at < 0) & self._committed[chosen]),
            "uncommitted": pa.array(self._same[chosen] & ~self._committed[chosen]),
            "changed": pa.array(self._changed[chosen]),
            "stored_crc": pa.array(held_or(held.crc, at, -1) if len(held.spot) else np.full(len(at), -1)),
            "stored_key": pa.array(keys, pa.string()),
        }
        return pa.table(columns)

    def copies(self) -> Any:
        """Records that no send was acknowledged for, and those that the final reader did not get."""
        held = self._held
        if held.table is None:
            return None
        acknowledged = np.zeros(len(held.spot), np.bool_)
        if self._sent is not None:
            acknowledged[self._sent_row[self._sound]] = True
        unread = self._unread()
        valued = held.shown & (held.value != 0)
        chosen = valued & (~acknowledged | unread)
        if not chosen.any():
            return None
        rows = pa.array(np.flatnonzero(chosen))
        names = ["part", "value", "offset", "leader_epoch", "producer_id", "producer_epoch"]
        found = held.table.select([*names, "value_crc32", "key"]).take(rows)
        for name, column in (
            ("unread", unread),
            ("owner", self._owners()),
            ("from_us", held.from_us),
            ("until_us", held.until_us),
        ):
            found = found.append_column(name, pa.array(column).take(rows))
        return found

    def _owners(self) -> Any:
        """Of each record of the log the producer to whom its producer id belongs, by what was acknowledged
        there; none: it has no id, or nothing was."""
        ids = ints(self._held.table["producer_id"])
        owners = np.full(len(ids), None, object)
        if self._sent is not None and (ids >= 0).any():
            sound = np.flatnonzero(self._sound)
            names = self._sent["producer"].take(pa.array(sound)).to_pylist()
            owner = dict(zip(ids[self._sent_row[sound]].tolist(), names, strict=True))
            owners[:] = [owner.get(each) if each >= 0 else None for each in ids.tolist()]
        return owners

    def _unread(self) -> Flags:
        """What the final reader did not get of logs that replicas show."""
        held, context = self._held, self._context
        unread: Flags = np.zeros(len(held.spot), np.bool_)
        if Need.FINAL_READ not in context.facts or context.final_reader is None:
            return unread
        by_replica = np.array([*(part.broker is not None for part in context.parts), False])
        unread = held.shown & by_replica[held.part]
        if self._read is not None:
            final = flags(pc.equal(self._read["consumer"], context.final_reader))
            unread[self._read_row[final & self._confirmed]] = False
        return unread

    def strays(self) -> Any:
        """Reads of values that the log does not hold there: each offset, value and consumer once."""
        if self._read is None:
            return None
        rows = self._first_strays()
        rows = rows[self._read_value[rows] != 0]
        if not len(rows):
            return None
        found = self._read.select(["part", "value", "offset", "leader_epoch", "consumer", "read_us"])
        return found.take(pa.array(rows))

    def _first_strays(self) -> Ints:
        rows = np.flatnonzero(self._stray)
        if not len(rows):
            return rows
        spot, value = spots_of(self._read)[rows], self._read_value[rows]
        consumer, _ = coded(self._read["consumer"])
        read = ints(self._read["read_us"])[rows]
        order = np.lexsort((read, consumer[rows], value, spot))
        rows = rows[order]
        return rows[starts_of(spot[order], value[order], consumer[rows])]

    # ------------------------------------------------------------ what is found at an offset

    def rewritten(self) -> Iterator[Finding]:
        if self._read is None:
            return
        held, read = self._held, self._read
        _, ends = self._context.limits()
        rows = self._first_strays()
        part, offset = ints(read["part"])[rows], ints(read["offset"])[rows]
        # What was aborted since, or is not committed, is no other record.
        rows = rows[(self._read_row[rows] >= 0) & (offset < ends[part]) & ~self._read_same[rows]]
        again = np.flatnonzero(self._stamped_otherwise("leader_epoch"))
        rows = np.concatenate((rows, again))
        if not len(rows):
            return
        names = ["part", "offset", "leader_epoch", "value", "consumer", "read_us", "timestamp_ms"]
        at = self._read_row[rows]
        there = held.table.select(["value", "control", "leader_epoch"]).take(pa.array(at)).to_pylist()
        was = read.select(names).take(pa.array(rows)).to_pylist()
        for each, now, row in zip(was, there, at.tolist(), strict=True):
            epoch = now["leader_epoch"]
            yield Finding(
                "rewritten",
                VIOLATION,
                each["part"],
                each["offset"],
                each["leader_epoch"],
                each["value"],
                consumer=each["consumer"],
                time_us=each["read_us"],
                detail=_rewritten(each, now),
                facts=Facts(
                    other_there=True,
                    other_epoch=epoch,
                    **held.times_at(row),
                    own_us=None if each["timestamp_ms"] is None else each["timestamp_ms"] * 1000,
                ),
            )

    def other_bytes(self) -> Iterator[Finding]:
        """Reads of the right value with other bytes, another key or another timestamp than the log holds."""
        if self._read is None or not len(self._held.spot):
            return
        yield from self._other_times()
        held, read = self._held, self._read
        row = self._read_row
        crc = ints(read["value_crc32"])
        changed = self._confirmed & self._other_content(read, row, known=self._context.keyed_reads)
        changed &= ~self._as_it_was_sent()
        for each in np.flatnonzero(changed).tolist():
            at, consumer = int(row[each]), read["consumer"][each].as_py()
            yield Finding(
                "damaged",
                VIOLATION,
                read["part"][each].as_py(),
                read["offset"][each].as_py(),
                read["leader_epoch"][each].as_py(),
                read["value"][each].as_py(),
                consumer=consumer,
                time_us=read["read_us"][each].as_py(),
                detail=Phrase.of(
                    "detail.got_other",
                    consumer=consumer,
                    crc=int(crc[each]),
                    key=str(read["key"][each].as_py()),
                    held_crc=int(held.crc[at]),
                    held_key=str(held.table["key"][at].as_py()),
                ),
            )

    def _stamped_otherwise(self, column: str) -> Flags:
        """Reads of the right value of which the log has another timestamp or leader epoch."""
        if not self._context.stamped or self._held.table is None:
            return np.zeros(self._read.num_rows, np.bool_)
        held = held_or(ints(self._held.table[column]), self._read_row, -1)
        found: Flags = self._confirmed & _differs(ints(self._read[column]), held)
        return found

    def _other_times(self) -> Iterator[Finding]:
        """Each record once: a producer does not say which timestamp it sent, so any of two may be wrong."""
        rows = np.flatnonzero(self._stamped_otherwise("timestamp_ms"))
        _, first = np.unique(self._read_row[rows], return_index=True)
        names = ["part", "offset", "leader_epoch", "value", "consumer", "read_us", "timestamp_ms"]
        times = self._held.table["timestamp_ms"]
        for row, each in zip(
            rows[first].tolist(),
            self._read.select(names).take(pa.array(rows[first])).to_pylist(),
            strict=True,
        ):
            now = times[int(self._read_row[row])].as_py()
            yield Finding(
                "damaged",
                VIOLATION,
                each["part"],
                each["offset"],
                each["leader_epoch"],
                each["value"],
                consumer=each["consumer"],
                time_us=each["read_us"],
                detail=Phrase.of(
                    "detail.got_other_time", consumer=each["consumer"], was=each["timestamp_ms"], now=now
                ),
            )

    def inconsistent(self) -> Iterator[Finding]:
        """Two values that were acknowledged or read at one offset. Of two that differ at least one differs
        from the log, so only offsets are looked at where one does."""
        suspicious = []
        if self._sent is not None:
            suspicious.append(spots_of(self._sent)[~self._sound])
        if self._read is not None:
            suspicious.append(spots_of(self._read)[self._stray])
        offsets = np.unique(np.concatenate(suspicious)) if suspicious else _NOTHING
        if not len(offsets):
            return
        reports: dict[int, dict[str, list[Report]]] = {}
        if self._sent is not None:
            for spot, each in _rows_at(
                self._sent, offsets, ["value", "producer", "settled_us", "sent_us", "acks"]
            ):
                at = each["settled_us"] if each["settled_us"] is not None else each["sent_us"]
                how = ("detail.acknowledged_to", each["producer"])
                report = Report(at or 0, how, each["sent_us"], each["acks"])
                reports.setdefault(spot, {}).setdefault(each["value"], []).append(report)
        if self._read is not None:
            for spot, each in _rows_at(self._read, offsets, ["value", "consumer", "read_us", "timestamp_ms"]):
                derived = each["consumer"] == self._context.final_reader and not self._context.reads_to_end
                if each["value"] is None or derived:  # a value that all consumers read needs no mention
                    continue
                sent_us = None if each["timestamp_ms"] is None else each["timestamp_ms"] * 1000
                report = Report(each["read_us"] or 0, ("detail.read_by", each["consumer"]), sent_us)
                reports.setdefault(spot, {}).setdefault(each["value"], []).append(report)
        for spot, reported in sorted(reports.items()):
            if len(reported) > 1:
                self._contradicted.append(spot)
                yield self._two_values(spot, reported)

    def _two_values(self, spot: int, reported: dict[str, list[Report]]) -> Finding:
        part, offset = spot >> SPOT_BITS, spot & ((1 << SPOT_BITS) - 1)
        listed = sorted(
            (min(each.at_us for each in reports), value, sorted({each.how for each in reports}))
            for value, reports in reported.items()
        )
        held, row = self._held, int(self._held.at(np.array([spot]))[0])
        # The first that the log does not hold: why it does not is the question.
        now = held.value_at(row) if row >= 0 else None
        known_us, gone, _ = next(each for each in listed if each[1] != now)
        sent = [each.sent_us for each in reported[gone] if each.sent_us is not None]
        there, end = row >= 0, self._context.parts[part].end
        return Finding(
            "inconsistent offset",
            VIOLATION,
            part,
            offset,
            None,
            ", ".join(value for _, value, _ in listed[:10]),
            time_us=listed[0][0],
            until_us=listed[-1][0],
            count=len(listed),
            detail=joined((_reported(value, whos[:3]) for _, value, whos in listed[:10]), "detail.then"),
            facts=Facts(
                other_there=there,
                other_epoch=held.epoch_at(row) if there else None,
                **(held.times_at(row) if there else {}),
                own_us=min(sent, default=None),
                known_us=known_us,
                acks=min((each.acks for each in reported[gone] if each.acks is not None), default=None),
                hole=row < 0 and offset < end,
                at_end=offset >= end,
            ),
        )


def _rewritten(was: dict[str, Any], now: dict[str, Any]) -> Phrase:
    """What a consumer read, and what the log holds now."""
    consumer, epoch = was["consumer"], now["leader_epoch"]
    if now["value"] == was["value"] and not now["control"]:
        was_epoch = was["leader_epoch"]
        return Phrase.of("detail.of_other_epoch", consumer=consumer, was=was_epoch, now=epoch)
    name = Phrase("detail.a_control_record") if now["control"] else now["value"] or _NONE
    fields = {"consumer": consumer, "was": was["value"] or _NONE, "now": name}
    if epoch is None:
        return Phrase("detail.rewritten", fields)
    return Phrase("detail.rewritten_in_epoch", fields | {"epoch": epoch})


def _reported(value: str, whos: list[tuple[str, str]]) -> Phrase:
    how = joined((Phrase.of(key, who=who) for key, who in whos), "detail.and")
    return Phrase.of("detail.reported", value=value, how=how)


def _rows_at(table: Any, spots: Ints, names: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of some spots, which are sorted."""
    mine = spots_of(table)
    rows = np.flatnonzero(among(mine, spots))
    return zip(mine[rows].tolist(), table.select(names).take(pa.array(rows)).to_pylist(), strict=True)


def _taken(column: Any, rows: Ints) -> list[Any]:
    """Of a column, some rows; None where there is none."""
    listed = pa.array(rows, mask=rows < 0)
    found: list[Any] = column.take(listed).to_pylist()
    return found


def _differs(one: Ints, other: Ints) -> Flags:
    """Whether two sums are known and differ."""
    found: Flags = (one >= 0) & (other >= 0) & (one != other)
    return found


def _skipped(context: Context, held: Held, jumped: Any) -> Iterator[Finding]:
    """Records that a consumer was moved past, inside one stretch."""
    if jumped is None or held.table is None:
        return
    low, high = spots_of(jumped), spots_of(jumped, "landed")
    rows = np.flatnonzero(held.shown & (held.value != 0))
    spots = held.spot[rows]
    first, last = np.searchsorted(spots, low), np.searchsorted(spots, high)
    for each in np.flatnonzero(last > first).tolist():
        at = int(rows[first[each]])
        row = jumped.slice(each, 1).to_pylist()[0]
        jump = Jump(
            row["part"], row["consumer"], row["poll"], row["position_before"], row["landed"], row["read_us"]
        )
        passed = (int(held.offset[at]), held.value_at(at), held.epoch_at(at))
        yield skip_finding(context, jump, passed, int(last[each] - first[each]))
