"""Round two, by value: all sends and all copies of a value that is not, or not only, where it was
acknowledged.

Found here: lost, duplicated, phantom, aborted read, unknown arrived, damaged, unseen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.ledger.identity import by_content
from tidelog.narrate.phrasebook import Phrase, say
from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.evidence import Need
from tidelog.pipeline.audit.findings import (
    NOTICE,
    VIOLATION,
    Circumstance,
    Facts,
    Finding,
    FindingWriter,
    Tally,
)
from tidelog.pipeline.audit.kernels.copies import Identity, identified, is_misplaced, was_lost
from tidelog.pipeline.audit.kernels.hashes import Ints, combined, text_hashes
from tidelog.pipeline.audit.kernels.ledger_piece import FAILED, OK, UNKNOWN
from tidelog.pipeline.audit.kernels.places import COPY, MISS, STRAY
from tidelog.pipeline.audit.kernels.round_two_rows import SEND
from tidelog.pipeline.audit.kernels.value_groups import Group, Row, groups_of
from tidelog.pipeline.audit.rounds.parcels import Bucket, unpack

_AFTER_APPEND: Final = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
_OPEN_MAX: Final = 20_000


@dataclass(slots=True, frozen=True)
class ValuesShared:
    context: Context
    keys: tuple[Any, Ints] | None = None
    """Of compacted topics: the keys, sorted, and where each was written last."""


@dataclass(slots=True)
class ValuesResult:
    rows: list[Ints] = field(default_factory=list)
    real_offsets: list[Ints] = field(default_factory=list)
    """Sends that are not where they were acknowledged: their rows, and their offsets (-1: nowhere)."""
    repeated: int = 0
    """Values that were sent more than once and of which nothing can be said."""
    unread: int = 0
    """Acknowledged sends at whose offsets no consumer of a kept ledger read anything."""
    compacted: dict[int, int] = field(default_factory=dict)
    """Sends that compaction may have taken, by partition."""
    open: list[tuple[Finding, list[Identity]]] = field(default_factory=list)
    """Values of idempotent producers that are duplicated, with copies whose producer id is not known."""
    tally: Tally = field(default_factory=Tally)


def judge_values(shared: ValuesShared, bucket: Bucket) -> ValuesResult:
    context = shared.context
    result = ValuesResult()
    writer = FindingWriter(context, f"value-{bucket.number:06}")
    judge = _Judge(shared, result)
    tables = {kind: unpack(context, bucket, kind) for kind in (SEND, MISS, COPY, STRAY)}
    for group in groups_of(tables, judge.place, keyed=judge.keyed):
        writer.add_all(judge.findings(group))
    result.tally = writer.close()
    return result


# ---------------------------------------------------------------- judging


class _Judge:
    def __init__(self, shared: ValuesShared, result: ValuesResult) -> None:
        self._shared = shared
        self._context = shared.context
        self._result = result
        facts = self._context.facts
        self._whole_ledger = Need.ALL_SENDS in facts
        self._final_read = Need.FINAL_READ in facts and Need.REPLICA_LOGS in facts
        self.keyed = self._context.keyed_sends

    def place(self, rows: Ints, real_offset: Ints) -> None:
        self._result.rows.append(rows)
        self._result.real_offsets.append(real_offset)

    def findings(self, group: Group) -> Iterator[Finding]:
        self._locate(group)
        part = self._context.parts[group.part]
        sends, copies = group.sends, sorted(group.copies)
        ok = [send for send in sends if send["outcome"] == OK]
        if not sends:
            yield from self._not_sent(group, copies)
            return
        if ok and not copies:
            yield from self._lost(group, ok)
        only = sends[0]
        if len(sends) == 1:
            if only["outcome"] == FAILED:
                yield from self._aborted(group, only, copies)
            if only["outcome"] == UNKNOWN and copies and not only["in_transaction"]:
                yield self._of_send(
                    "unknown arrived",
                    NOTICE,
                    group,
                    only,
                    copies[0],
                    count=len(copies),
                    detail=_answer(only, "detail.no_answer"),
                )
            yield from self._damaged(group, only)
        elif len(sends) > len(copies) and copies:
            self._result.repeated += 1
        yield from self._twice(group, copies)
        if ok and part.broker is not None and self._final_read:
            yield from self._unseen(group, ok)

    def _locate(self, group: Group) -> None:
        """Where its send is: the first copy that another producer did not write. Nothing tells the sends of a
        value apart."""
        for send in group.sends:
            if send["outcome"] == FAILED:
                continue
            mine = (at for at, c in group.copies.items() if c.get("owner") in (None, send["producer"]))
            real_offset = min(mine, default=-1) if len(group.sends) == 1 else -1
            if (
                real_offset < 0
                and len(group.sends) == 1
                and send["outcome"] == OK
                and not self._context.reads_to_end
            ):
                # Behind the last record that was read it is where the broker said: nothing else shows it.
                place = send["offset"]
                end = self._context.parts[group.part].end
                real_offset = place if place is not None and place >= end else -1
            if send["outcome"] == OK or real_offset >= 0:
                self.place(np.array([send["row"]]), np.array([real_offset]))

    # ------------------------------------------------------------ one by one

    def _of_send(
        self, anomaly: str, severity: str, group: Group, send: Row, offset: int | None, **more: Any
    ) -> Finding:
        return Finding(
            anomaly,
            severity,
            group.part,
            offset,
            more.pop("leader_epoch", send["leader_epoch"]),
            group.value,
            send["producer"],
            send["sequence"],
            send["acks"],
            time_us=send["sent_us"],
            until_us=send["settled_us"],
            **more,
        )

    def _not_sent(self, group: Group, copies: list[int]) -> Iterator[Finding]:
        if self._context.kept:
            return  # another producer's
        if self._whole_ledger and copies:
            said, value, count = Phrase("detail.never_sent"), group.value, len(copies)
            yield Finding("phantom", VIOLATION, group.part, copies[0], value=value, count=count, detail=said)
        if len(copies) > 1:
            yield from self._twice(group, copies)
        if self._whole_ledger and not copies:
            for stray in group.strays:
                said = Phrase.of("detail.never_sent_and_read", consumer=stray["consumer"])
                yield self._of_stray("phantom", group, stray, detail=said)

    def _of_stray(self, anomaly: str, group: Group, stray: Row, **more: Any) -> Finding:
        """About a read that the log does not confirm."""
        return Finding(
            anomaly,
            VIOLATION,
            group.part,
            stray["offset"],
            stray["leader_epoch"],
            group.value,
            consumer=stray["consumer"],
            time_us=stray["read_us"],
            **more,
        )

    def _lost(self, group: Group, ok: list[Row]) -> Iterator[Finding]:
        """Acknowledged, and nowhere."""
        part, context = self._context.parts[group.part], self._context
        send = next((each for each in ok if each["offset"] is not None), ok[0])
        place = send["offset"]
        if part.compacted and not self._last_of_its_key(group.part, send):
            self._result.compacted[group.part] = self._result.compacted.get(group.part, 0) + 1
            return
        miss = group.misses.get(send["row"])
        if context.kept and part.broker is None and not (miss is not None and miss["there"]):
            # Nothing was read at its offset: not yet, or by others.
            self._result.unread += 1
            return
        if (place is None and part.start > 0) or (place is not None and place < part.start):
            return
        if not context.reads_to_end and (place is None or place >= part.end):
            if Need.FINAL_READ in context.facts and not group.strays:
                yield self._of_send(
                    "unseen",
                    VIOLATION,
                    group,
                    send,
                    place,
                    detail=Phrase("detail.unplaced_unread" if place is None else "detail.behind_last_read"),
                )
            return
        promised = [each for each in ok if each["acks"] != 0]
        acks = "all" if send["acks"] == -1 else send["acks"]
        key = "detail.acknowledged_again" if len(ok) > 1 else "detail.acknowledged"
        yield self._of_send(
            "lost",
            VIOLATION if promised else NOTICE,
            group,
            send,
            place,
            detail=Phrase.of(key, acks=acks, sends=len(ok)),
            facts=Facts(
                other_there=miss is not None and miss["there"],
                other_epoch=None if miss is None else miss["now_epoch"],
                other_us=None if miss is None else miss["now_us"],
                other_until_us=None if miss is None else miss["now_until_us"],
                uncommitted=miss is not None and miss["uncommitted"],
                hole=miss is not None and miss["hole"] and not part.compacted,
                at_end=place is not None and place >= part.end,
            ),
        )

    def _last_of_its_key(self, part: int, send: Row) -> bool:
        """Whether its key was not written again, as far as the ledger knows."""
        if self._shared.keys is None or send["key"] is None or send["offset"] is None:
            return False
        keys, places = self._shared.keys
        key = combined(np.array([part]), text_hashes(pa.array([send["key"]])))[0]
        at = int(np.searchsorted(keys, key))
        return at < len(keys) and keys[at] == key and int(places[at]) == send["offset"]

    def _aborted(self, group: Group, send: Row, copies: list[int]) -> Iterator[Finding]:
        """The value of a send that certainly failed, in the final log or else in what was read."""
        said = _answer(send, "detail.an_error")
        after = Circumstance.REFUSED_AFTER_APPEND if send["error"] == _AFTER_APPEND else None
        if copies:
            yield self._of_send(
                "aborted read",
                VIOLATION,
                group,
                send,
                copies[0],
                count=len(copies),
                detail=Phrase.of("detail.failed_and_there", told=said),
                circumstance=after,
            )
        elif Need.READS in self._context.facts:
            sender = {name: send[name] for name in ("producer", "sequence", "acks")}
            for stray in group.strays:
                read = Phrase.of("detail.failed_and_read", consumer=stray["consumer"], told=said)
                more = {"detail": read, "circumstance": after, **sender}
                yield self._of_stray("aborted read", group, stray, **more)

    def _damaged(self, group: Group, send: Row) -> Iterator[Finding]:
        """Other bytes, or another key, than it was sent with: the first such copy."""
        miss = group.misses.get(send["row"])
        bad = None
        if miss is not None and miss["changed"]:
            bad = {"offset": send["offset"], "value_crc32": miss["stored_crc"], "key": miss["stored_key"]}
        for offset in sorted(group.copies):
            copy = group.copies[offset]
            if "as_sent" in copy or bad is not None:
                continue
            crc, key = copy["value_crc32"], copy["key"]
            other = None not in (crc, send["value_crc32"]) and crc != send["value_crc32"]
            if other or (key != send["key"] and (self.keyed or send["key"] is not None)):
                bad = copy
        if bad is None:
            return
        if bad["value_crc32"] not in (None, -1, send["value_crc32"]):
            said = Phrase.of("detail.other_crc", sent=send["value_crc32"], now=bad["value_crc32"])
        else:
            said = Phrase.of("detail.other_key", sent=_key(send["key"]), now=_key(bad["key"]))
        yield self._of_send("damaged", VIOLATION, group, send, bad["offset"], detail=said)

    def _twice(self, group: Group, copies: list[int]) -> Iterator[Finding]:
        """At two or more offsets; or elsewhere than it was acknowledged, and nothing is there."""
        sends = group.sends
        if len(copies) > 1:
            yield from self._duplicated(group, copies)
        elif len(sends) == 1 and len(copies) == 1 and sends[0]["outcome"] == OK:
            send = sends[0]
            place, miss = send["offset"], group.misses.get(send["row"])
            if place is None or place == copies[0]:
                return
            if miss is not None and miss["there"]:
                if not miss["reported"]:
                    yield self._in_the_place_of_another(group, send, miss)
                return
            lost = was_lost(self._context, group.part, send)
            if not lost and Need.EVENTS in self._context.facts:
                yield self._where_no_log_was(group, send, copies[0])
                return
            yield self._of_send(
                "duplicated",
                VIOLATION if send["idempotent"] else NOTICE,
                group,
                send,
                copies[0],
                count=2,
                detail=Phrase.of("detail.elsewhere", told=place, offset=copies[0]),
                facts=Facts(misplaced=not lost),
            )

    def _where_no_log_was(self, group: Group, send: Row, offset: int) -> Finding:
        """Acknowledged at an offset that no log had, or that none lost: nothing wrote it twice."""
        place, who = send["offset"], send["producer"]
        detail = Phrase.of(
            "detail.acknowledged_nowhere", value=group.value, who=who, told=place, offset=offset
        )
        facts = Facts(known_us=send["settled_us"], acks=send["acks"])
        more: dict[str, Any] = {"count": 1, "detail": detail, "facts": facts}
        return self._of_send("inconsistent offset", VIOLATION, group, send, place, **more)

    def _in_the_place_of_another(self, group: Group, send: Row, miss: Row) -> Finding:
        """Acknowledged where the log holds another record, of which nothing else was reported."""
        value, now = group.value, miss["now"] or say(Phrase("detail.no_value"))
        detail = Phrase.of("detail.acknowledged_in_place_of", value=value, who=send["producer"], now=now)
        settled_us = send["settled_us"]
        return Finding(
            "inconsistent offset",
            VIOLATION,
            group.part,
            send["offset"],
            value=f"{value}, {now}",
            time_us=send["sent_us"] if settled_us is None else settled_us,
            until_us=settled_us,
            count=2,
            detail=detail,
            facts=Facts(
                other_there=True,
                other_epoch=miss["now_epoch"],
                other_us=miss["now_us"],
                other_until_us=miss["now_until_us"],
                own_us=send["sent_us"],
                acks=send["acks"],
            ),
        )

    def _duplicated(self, group: Group, copies: list[int]) -> Iterator[Finding]:
        sends = group.sends
        send = sends[0] if sends else None
        listed = [group.copies[offset] for offset in copies]
        identities = [
            (c["offset"], c.get("leader_epoch"), c.get("producer_id"), c.get("producer_epoch"))
            for c in listed
        ]
        finding = Finding("duplicated", NOTICE, group.part, copies[-1], value=group.value, count=len(copies))
        if send is not None:
            finding.producer, finding.sequence = send["producer"], send["sequence"]
            finding.acks, finding.time_us, finding.until_us = (
                send["acks"],
                send["sent_us"],
                send["settled_us"],
            )
        # The same content may have been sent by a producer that keeps no ledger.
        alone = not self._context.kept or not by_content(group.value)
        # One that the ledger has twice under its number is one send, however often it was acknowledged.
        times = len({(each["producer"], each["sequence"]) for each in sends})
        if times > 1:
            if len(copies) <= times:
                finding.circumstance = Circumstance.SENT_TWICE
            elif alone and all(each["idempotent"] for each in sends):
                finding.severity = VIOLATION
        finding.facts = Facts(misplaced=send is not None and is_misplaced(self._context, send, listed))
        idempotent = alone and times == 1 and sends[0]["idempotent"]
        unknown = any("as_sent" in copy for copy in listed)
        by_replica = self._context.parts[group.part].broker is not None
        if idempotent and unknown and by_replica and len(self._result.open) < _OPEN_MAX:
            self._result.open.append((finding, identities))
            return
        yield identified(finding, identities, idempotent=idempotent)

    def _unseen(self, group: Group, ok: list[Row]) -> Iterator[Finding]:
        """In the log, and the final reader got it nowhere."""
        final = self._context.final_reader
        unread = [offset for offset, copy in group.copies.items() if copy.get("unread")]
        if not unread or len(unread) < len(group.copies) or any(s["consumer"] == final for s in group.strays):
            return
        for offset in sorted(unread):
            yield self._of_send(
                "unseen",
                VIOLATION,
                group,
                ok[0],
                offset,
                leader_epoch=group.copies[offset]["leader_epoch"],
                consumer=final,
                detail=Phrase("detail.unread"),
            )


def _answer(send: Row, otherwise: str) -> Phrase:
    """What its producer got as an answer."""
    return Phrase.of("detail.producer_got", answer=send["error"] or Phrase(otherwise))


def _key(key: str | None) -> Phrase:
    return Phrase.of("detail.key", key=key) if key else Phrase("detail.no_key")
