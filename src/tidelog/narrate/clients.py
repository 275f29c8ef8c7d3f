"""Outcomes for clients, and remarks of steps, as phrases."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.core.types import UNKNOWN_OFFSET
from tidelog.narrate.phrasebook import Fields, Phrase, say
from tidelog.scenario.clients.events import ClientError, ClientFailure, Outcome, Sent
from tidelog.scenario.remarks import Remark
from tidelog.wire.errors import ErrorCode


def error_phrase(error: ClientError) -> Phrase:
    if isinstance(error, ErrorCode):
        return Phrase("error", {"name": error.name, "code": error.value})
    return Phrase(f"ClientFailure.{error.name}")


def error_words(error: ClientError | None) -> str:
    return "" if error is None else say(error_phrase(error))


def answer_phrase(sent: Sent) -> Phrase:
    """What the application heard of a record."""
    if sent.outcome is Outcome.OK:
        asked = sent.offset != UNKNOWN_OFFSET
        return Phrase("answer.offset", {"offset": sent.offset}) if asked else Phrase("answer.unasked")
    if sent.outcome is None or sent.error is None:
        return Phrase("answer.nothing")
    return error_phrase(sent.error)


def remark_phrase(remark: Remark) -> Phrase:
    fields: Fields = {
        name: error_phrase(value) if isinstance(value, ErrorCode | ClientFailure) else value
        for name, value in remark.fields.items()
    }
    return Phrase(f"RemarkKind.{remark.kind.name}", fields)


def remark_words(remarks: Iterable[Remark]) -> str:
    return "; ".join(say(remark_phrase(remark)) for remark in remarks)
