"""Partitions for the tests: steps of a log as batches, and an oracle that follows them offset by offset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

from hypothesis import strategies as st

from tidelog.pipeline.reconcile.compare import Fate
from tidelog.pipeline.reconcile.facts import AbsenceCause, Presence
from tidelog.pipeline.reconcile.skips import RUN_MIN
from tidelog.wire.records import Record, build_batch

MARKER = Struct(">hh")
Step = tuple[str, int, int]
"""What happens (`plain`, `sent`, `commit`, `abort`, …), by which producer, how many records."""

steps = st.lists(
    st.tuples(
        st.sampled_from(("plain", "sent", "sent", "commit", "abort", "leader", "hole", "thin")),
        st.integers(1, 3),
        st.integers(1, 6),
    ),
    max_size=25,
)


@dataclass
class Made:
    """The log as bytes of several files, by base offset, and what each of its offsets is."""

    files: dict[int, bytes] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    end: int = 0
    stable_end: int = 0


def value_of(offset: int) -> bytes:
    return b"value %d" % offset


def made(happened: Sequence[Step], per_file: int = 4, start: int = 0) -> Made:
    """A log that begins at `start`."""
    log, at, base, data = Made(), start, start, b""
    open_: dict[int, list[int]] = {}
    for number, (what, producer, count) in enumerate(happened):
        if number and number % per_file == 0 and data:
            log.files[base], base, data = data, at, b""
        kept = list(range(at, at + count))
        if what == "hole":
            at += count
            continue
        if what in {"commit", "abort", "leader"}:
            key = MARKER.pack(0, {"abort": 0, "commit": 1, "leader": 2}[what])
            data += build_batch(
                [Record(timestamp=0, key=key, value=b"")],
                base_offset=at,
                leader_epoch=0,
                control=True,
                transactional=what != "leader",
                producer_id=-1 if what == "leader" else producer,
            )
            log.kinds[at] = "marker"
            for offset in open_.pop(producer, []) if what != "leader" else ():
                log.kinds[offset] = "aborted" if what == "abort" else "record"
            at = log.end = at + 1
            continue
        kept = kept[:: 2 if what == "thin" else 1]
        records = [Record(offset=each, timestamp=1000 + each, value=value_of(each)) for each in kept]
        data += build_batch(
            records,
            base_offset=at,
            leader_epoch=0,
            transactional=what == "sent",
            producer_id=producer if what == "sent" else -1,
            next_offset=at + count,
        )
        log.kinds |= dict.fromkeys(kept, "record")
        if what == "sent":
            open_.setdefault(producer, []).extend(kept)
        at += count
        log.end = at
    if data:
        log.files[base] = data
    log.stable_end = min((offsets[0] for offsets in open_.values()), default=log.end)
    return log


def written(folder: Path, log: Made) -> Path:
    folder.mkdir(parents=True)
    for base, data in log.files.items():
        (folder / f"{base:020}.log").write_bytes(data)
    return folder


Batches = Sequence[tuple[int, int]]


def judged(log: Made, table: Sequence[int], log_start: int = 0, batches: Batches = ()) -> Counter[Fate]:
    """The oracle: a dictionary of offsets, one after the other. `batches` are those of a query, if there is
    one, without a gap between them."""
    rows = Counter(table)
    table_end = max(rows, default=-1) + 1
    query = (batches[0][0], batches[-1][1]) if batches else None
    arrived = table_end if query is None else query[1]
    gone = _skips(rows, batches, log_start)
    found: Counter[Fate] = Counter()
    for offset in range(max(log.end, table_end, 0 if query is None else query[1])):
        kind = log.kinds.get(offset)
        if rows[offset] > 1:
            found[Presence.TWICE, None] += 1
        elif rows[offset]:
            found[_present(log, offset, kind), None] += 1
        elif offset in gone and not offset >= log.end:
            found[Presence.ABSENT, AbsenceCause.SKIPPED] += 1
        else:
            found[Presence.ABSENT, _why(log, offset, arrived, log_start, query)] += 1
    return found


def _skips(rows: Counter[int], batches: Batches, log_start: int) -> set[int]:
    """Offsets that left the topic before the batch they were planned for."""
    absent = {o for start, end in batches for o in range(start, min(end, log_start)) if not rows[o]}
    first: set[int] = set()
    for start, end in batches:
        for offset in range(start, min(end, log_start)):
            if rows[offset]:
                break
            first.add(offset)
    if first == absent:
        return first
    return {offset for offset in first if _run(first, offset) >= RUN_MIN}


def _run(members: set[int], offset: int) -> int:
    """How many neighbours there are in the set, the offset included."""
    low = high = offset
    while low - 1 in members:
        low -= 1
    while high + 1 in members:
        high += 1
    return high - low + 1


def _present(log: Made, offset: int, kind: str | None) -> Presence:
    if offset >= log.end:
        return Presence.BEYOND_END
    return Presence.UNCOMMITTED if kind in {"marker", "aborted"} else Presence.ONCE


def _why(log: Made, offset: int, arrived: int, log_start: int, query: tuple[int, int] | None) -> AbsenceCause:
    kind = log.kinds.get(offset)
    if kind == "marker":
        return AbsenceCause.MARKER
    if kind == "aborted":
        return AbsenceCause.ABORTED
    if log.stable_end <= offset < log.end:
        return AbsenceCause.OPEN
    if offset >= log.end:
        return AbsenceCause.TRUNCATED
    if offset >= arrived:
        return AbsenceCause.NOT_YET
    if query is not None and offset < query[0]:
        return AbsenceCause.BEFORE_QUERY
    if offset < log_start:
        return AbsenceCause.BEFORE_LOG_START
    return AbsenceCause.UNEXPLAINED if kind == "record" else AbsenceCause.COMPACTED
