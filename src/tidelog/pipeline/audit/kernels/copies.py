"""Copies of a value: who wrote them, and whether its producer can have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.narrate.phrasebook import Phrase
from tidelog.pipeline.audit.causes.history import NOTHING
from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.findings import VIOLATION, Circumstance, Finding
from tidelog.pipeline.audit.kernels.ledger_piece import OK

Row = Mapping[str, Any]
Identity = tuple[int, int | None, int | None, int | None]
"""Of a copy: its offset, its leader epoch, and the id and epoch of its producer."""
_NEVER = 1 << 62


def was_lost(context: Context, number: int, send: Row) -> bool:
    """Whether a log may have lost the record where it was acknowledged."""
    part, history, told = context.parts[number], context.histories.get(number, NOTHING), send["offset"]
    if part.compacted or told < part.start:
        return True
    if send["settled_us"] is not None and not history.had_come_to(told, send["settled_us"]):
        return False
    power = any(death.kind == "power" and death.at_us >= send["sent_us"] for death in context.deaths)
    cut = any(cut.covers(told) and cut.at_us >= send["sent_us"] for cut in history.cuts)
    return cut or (power and told >= part.end)


def is_misplaced(context: Context, send: Row, copies: Iterable[Row]) -> bool:
    """Whether a copy is where its producer cannot have written it: among records of another producer's id,
    before it was sent, or after its producer knew that it had arrived."""
    slack = context.slack_us if context.kept else 0
    known = send["settled_us"] if send["outcome"] == OK and send["settled_us"] is not None else _NEVER
    return any(
        copy["owner"] not in (None, send["producer"])
        or copy["from_us"] > known + slack
        or copy["until_us"] < send["sent_us"] - slack
        for copy in copies
        if "as_sent" not in copy
    )


def identified(finding: Finding, copies: list[Identity], *, idempotent: bool) -> Finding:
    """A duplicated value, with who wrote each copy. Within one producer id and epoch brokers must
    recognise a repeat; copies that carry different ones were sent anew by the client itself."""
    apart = len({(producer, epoch) for _, _, producer, epoch in copies}) == len(copies)
    if copies[0][2] is not None and any(producer in (None, -1) for _, _, producer, _ in copies):
        apart = False  # a record without an id is of no epoch of that client
    if finding.facts is not None and finding.facts.misplaced:
        apart = False
    shown = copies[:10]
    words = ", ".join(str(o) + ("" if e is None else f" (epoch {e})") for o, e, _, _ in shown)
    fields = {"offsets": f"{words}{', …' if len(copies) > 10 else ''}"}
    finding.detail = Phrase("detail.copies", fields)
    known = copies[0][2] is not None
    if idempotent and known:
        fields["writers"] = ", ".join(f"{p}/{e}" for _, _, p, e in shown)
        finding.detail = Phrase("detail.copies_written", fields)
        if apart:
            finding.circumstance = Circumstance.NEW_IDENTITY
    if idempotent and not apart:
        finding.severity = VIOLATION
    finding.leader_epoch = copies[-1][1]
    return finding
