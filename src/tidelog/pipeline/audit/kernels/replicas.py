"""Replicas beside each other: where they disagree, and what one that is in sync lacks.

Batches are compared by their headers and CRCs, so keys, headers, timestamps and holes are compared as well,
and nothing is decoded. Only where batches differ are the records looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.narrate.phrasebook import Phrase, joined, say
from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, Facts, Finding
from tidelog.pipeline.audit.kernels.hashes import Ints, Words, combined, flags, ints, starts_of, text_hashes
from tidelog.pipeline.audit.kernels.logs import Batches
from tidelog.pipeline.audit.partitions import Part, Replica
from tidelog.pipeline.audit.pieces import EVERYWHERE

SHORT_MAX: Final = 100
"""Records that an in-sync replica may end below the committed end: replicas are collected one after the
other, while the cluster stops."""
_WRITER: Final = ("producer_id", "producer_epoch", "producer_sequence")
COMPARED: Final = (
    *("offset", "leader_epoch", "control", "value_id", "value_crc32", "key_text", "timestamp_ms"),
    *("transactional", *_WRITER),
)
"""What is decoded where batches differ; `headers` besides, as its text. Batches that differ and hold the same
records are none: a follower that fetches from the middle of one has the rest of it as a batch of its own."""
_RANGES_MAX: Final = 256


def differing(batches: Mapping[int, Batches], part: Part) -> list[range]:
    """Offsets in which the batches of replicas differ, as few ranges. A replica that starts later or ends
    earlier disagrees with none; one that lacks a batch between does."""
    listed = list(batches.values())
    if len(listed) < 2 or not any(len(found.base) for found in listed):
        return []
    base = np.concatenate([found.base for found in listed])
    behind = np.concatenate([found.behind for found in listed])
    content = np.concatenate([found.content for found in listed])
    order = np.lexsort((content, base))
    base, behind, content = base[order], behind[order], content[order]
    first = starts_of(base)
    counts = np.diff(np.concatenate((first, [len(base)])))
    last = first + counts - 1
    alike = content[first] == content[last]
    holders = np.zeros(len(first), np.int64)
    for broker in batches:
        replica = part.replicas[broker]
        holders += (base[first] >= replica.start) & (base[first] < replica.end)
    wrong = ~alike | (counts < holders)
    if not wrong.any():
        return []
    ends = np.maximum.reduceat(behind, first)
    return _joined(base[first][wrong], ends[wrong])


def _joined(lows: Ints, highs: Ints) -> list[range]:
    """Ranges that touch are one; and if there are very many, all of them are."""
    highs = np.maximum.accumulate(highs)
    new = np.concatenate(([True], lows[1:] > highs[:-1]))
    starts = lows[new]
    ends = highs[np.concatenate((np.flatnonzero(new)[1:] - 1, [len(lows) - 1]))]
    if len(starts) > _RANGES_MAX:
        return [range(int(starts[0]), int(ends[-1]))]
    return [range(low, high) for low, high in zip(starts.tolist(), ends.tolist(), strict=True)]


def whole_hashes(table: Any) -> Words:
    """Of each record: all that replicas must agree in."""
    columns: list[Any] = [
        ints(table["leader_epoch"]),
        flags(table["control"]).astype(np.int64),
        text_hashes(table["value_id"]),
        ints(table["value_crc32"]),
        text_hashes(table["key_text"]),
    ]
    more = ("timestamp_ms", "transactional", *_WRITER)
    columns += [ints(table[name]) for name in more if name in table.column_names]
    if "headers" in table.column_names:
        headers = [_header_text(each) for each in table["headers"].to_pylist()]
        columns.append(text_hashes(pa.array(headers, pa.string())))
    return combined(*columns)


def _header_text(headers: list[dict[str, Any]] | None) -> str | None:
    return repr(headers) if headers else None


def disagreements(parts: list[Part], part: Ints, broker: Ints, table: Any) -> Iterator[Finding]:
    """Offsets at which replicas hold different records. `table` has the columns of `COMPARED`; `part` and
    `broker` say whose each row is."""
    offsets, hashes = ints(table["offset"]), whole_hashes(table)
    order = np.lexsort((broker, offsets, part))
    part, broker, offsets, hashes = part[order], broker[order], offsets[order], hashes[order]
    first = starts_of(part, offsets)
    if not len(first):
        return
    lowest, highest = np.minimum.reduceat(hashes, first), np.maximum.reduceat(hashes, first)
    ends = np.concatenate((first[1:], [len(offsets)]))
    wrong = np.flatnonzero(lowest != highest)
    if not len(wrong):
        return
    rows = np.concatenate([np.arange(first[at], ends[at]) for at in wrong.tolist()])
    names = ["leader_epoch", "control", "value_id", "value_crc32", "key_text"]
    names += [name for name in ("timestamp_ms", *_WRITER) if name in table.column_names]
    shown = table.select(names).take(pa.array(order[rows]))
    held = dict(zip(rows.tolist(), shown.to_pylist(), strict=True))
    for at in wrong.tolist():
        mine = range(int(first[at]), int(ends[at]))
        yield _diverged(
            parts[int(part[first[at]])],
            int(offsets[first[at]]),
            [(int(broker[row]), int(hashes[row]), held[row]) for row in mine],
        )


def _diverged(part: Part, offset: int, held: list[tuple[int, int, dict[str, Any]]]) -> Finding:
    right = next((each for each in held if each[0] == part.broker), held[0])
    other = next((each for each in held if each[1] != right[1]), held[-1])
    names = list(dict.fromkeys(say(_name(row)) for _, _, row in held))
    holdings = [_holding(broker, row) for broker, _, row in held]
    if len(names) == 1 and len({row["leader_epoch"] for _, _, row in held}) == 1:
        holdings.append(_inside(right[2], other[2]))
    above = part.known and offset >= part.end
    stale = all(_may_be_stale(part, offset, right, each) for each in held if each[1] != right[1])
    return Finding(
        "diverged",
        NOTICE if above or stale else VIOLATION,
        part.number,
        offset,
        other[2]["leader_epoch"],
        ", ".join(names),
        broker=other[0],
        count=len({each[1] for each in held}),
        detail=joined(holdings, "detail.and"),
        facts=Facts(
            other_there=True,
            other_epoch=other[2]["leader_epoch"],
            other_us=_sent_us(other[2]),
            own_us=_sent_us(right[2]),
        ),
    )


def _may_be_stale(
    part: Part, offset: int, right: tuple[int, int, dict[str, Any]], other: tuple[int, int, dict[str, Any]]
) -> bool:
    """A replica that is not in sync keeps what an earlier leader gave it and nothing shows to be committed,
    until it comes back and truncates."""
    replica = part.replicas[other[0]]
    epochs = other[2]["leader_epoch"], right[2]["leader_epoch"]
    older = None not in epochs and epochs[0] < epochs[1]
    return older and replica.in_sync is False and offset >= replica.high_watermark


def _sent_us(row: dict[str, Any]) -> int | None:
    at_ms = row.get("timestamp_ms")
    return None if at_ms is None else at_ms * 1000


def _holding(broker: int, row: dict[str, Any]) -> Phrase:
    what, epoch = _name(row), row["leader_epoch"]
    if epoch is None:
        return Phrase.of("detail.holds", broker=broker, what=what)
    return Phrase.of("detail.holds_of_epoch", broker=broker, what=what, epoch=epoch)


def _name(row: dict[str, Any]) -> Phrase:
    if row["control"]:
        return Phrase("detail.control_record")
    return Phrase.of("detail.value", value=row["value_id"]) if row["value_id"] else Phrase("detail.no_value")


def _inside(right: dict[str, Any], other: dict[str, Any]) -> Phrase:
    if right["value_crc32"] != other["value_crc32"]:
        return Phrase("detail.other_bytes")
    if right["key_text"] != other["key_text"]:
        return Phrase.of("detail.other_keys", one=str(right["key_text"]), other=str(other["key_text"]))
    if any(right.get(name) != other.get(name) for name in _WRITER):
        return Phrase("detail.other_writer")
    return Phrase("detail.other_metadata")


def lacking(
    part: Part,
    held: Mapping[int, Ints],
    span: range = EVERYWHERE,
    unreadable: Mapping[int, Sequence[range]] = MappingProxyType({}),
) -> Iterator[Finding]:
    """Committed records that a replica in sync lacks inside its own log. `held` are the offsets of `span`
    that each replica holds, in order. What it has in an unreadable place is damaged, which is found there."""
    if part.compacted or not part.known:
        return
    everything = [offsets for offsets in held.values() if len(offsets)]
    if not everything:
        return
    union = np.unique(np.concatenate(everything))
    for broker, offsets in sorted(held.items()):
        replica = part.replicas[broker]
        if replica.in_sync is False:
            continue
        begin, end = max(replica.start, part.start, span.start), min(replica.end, part.end, span.stop)
        wanted = union[(union >= begin) & (union < end)]
        absent = wanted[~np.isin(wanted, offsets, assume_unique=True)]
        for place in unreadable.get(broker, ()):
            absent = absent[(absent < place.start) | (absent >= place.stop)]
        if not len(absent):
            continue
        cuts = np.flatnonzero(np.diff(absent) > 1) + 1
        for run in np.split(absent, cuts):
            first, count = int(run[0]), len(run)
            yield Finding(
                "missing copy",
                VIOLATION,
                part.number,
                first,
                broker=broker,
                count=count,
                detail=_lacks(replica, first, count, at_end=int(run[-1]) + 1 == min(replica.end, part.end)),
            )


def _lacks(replica: Replica, first: int, count: int, *, at_end: bool) -> Phrase:
    if at_end and replica.in_sync:
        return Phrase.of("detail.too_short", broker=replica.broker, end=first, count=count)
    key = "detail.in_sync_lacks" if replica.in_sync else "detail.lacks"
    return Phrase.of(key, broker=replica.broker, count=count, offset=first)


def too_short(parts: list[Part]) -> Iterator[Finding]:
    """Replicas in sync whose log ends far below the committed end."""
    for part in parts:
        for broker, replica in sorted(part.replicas.items()):
            short = part.end - max(replica.end, part.start)
            seen = part.broker is not None and not replica.end_is_open
            if seen and replica.in_sync and short > SHORT_MAX:
                yield Finding(
                    "missing copy",
                    VIOLATION,
                    part.number,
                    replica.end,
                    broker=broker,
                    count=short,
                    detail=Phrase.of(
                        "detail.too_short" if replica.files else "detail.log_gone",
                        broker=broker,
                        end=replica.end,
                        count=short,
                    ),
                    facts=Facts(at_end=True),
                )
