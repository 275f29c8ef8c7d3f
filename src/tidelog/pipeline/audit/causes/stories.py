"""The story of a finding: what happened, in which order, put together from phrases of `narrate`. A phrase
with an unknown field is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from tidelog.narrate.phrasebook import ENGLISH
from tidelog.pipeline.audit.causes.case import Case
from tidelog.pipeline.audit.causes.history import Cut
from tidelog.pipeline.audit.causes.rules import CauseRule

Moment = Callable[[int | None], str | None]
"""A time in words."""


@lru_cache(maxsize=65_536)
def _spelled(key: str, *fields: tuple[str, object]) -> str:
    if any(value is None for _, value in fields):
        return ""
    return ENGLISH.templates[key].format_map(dict(fields))


def phrase(key: str, **fields: object) -> str:
    return _spelled(key, *fields.items())


def story(case: Case, rule: CauseRule | None, began_us: int) -> str:
    """Times are told in seconds after the load began."""

    def moment(us: int | None) -> str | None:
        return None if us is None else f"{(us - began_us) / 1e6:.3f} s"

    match case.finding.anomaly:
        case "lost" | "rewritten" | "inconsistent offset":
            parts = _removal(case, rule, moment)
        case "unavailable":
            parts = _outage(case, moment)
        case "duplicated" | "reordered":
            parts = _repeat(case, rule, moment)
        case "diverged" | "missing copy":
            parts = _replica(case, moment)
        case _:
            return case.finding.detail or ""
    return "".join(parts)


def _removal(case: Case, rule: CauseRule | None, moment: Moment) -> Iterator[str]:
    """Why a record is not where it was."""
    finding, taker = case.finding, case.taker
    stale = rule is CauseRule.STALE
    names = (phrase("cause.offset", offset=finding.offset), phrase("cause.value", value=finding.value))
    yield " ".join(filter(None, names))
    yield _known(case, moment, stale=stale)
    if case.committed is not None:
        yield phrase("cause.in_sync", isr=", ".join(map(str, case.committed.isr)))
    if taker is None:
        yield from _without_taker(case, rule, moment)
    else:
        yield _taker_log(case, moment)
        at, end = moment(taker.at_us), taker.end
        yield phrase("cause.elected", broker=taker.broker, epoch=taker.epoch, at=at, end=end)
        yield phrase("cause.because", why=taker.why)
    if rule is CauseRule.NOT_COMMITTED:
        yield phrase("cause.uncommitted")
    if rule is CauseRule.UNCONFIRMED:
        yield phrase("cause.unconfirmed")


def _without_taker(case: Case, rule: CauseRule | None, moment: Moment) -> Iterator[str]:
    """What became of a record without which no broker took office."""
    led, cut, heir = case.incumbent, case.cut, case.heir
    if rule is CauseRule.STALE and led is not None and cut is not None:
        yield phrase("cause.led", broker=led.broker, epoch=led.epoch, since=moment(led.at_us))
        at = moment(cut.at_us)
        yield phrase("cause.stale", broker=cut.broker, before=cut.before, after=cut.after, at=at)
        return
    if heir is not None and rule in (
        CauseRule.OTHER_BRANCH,
        CauseRule.UNCLEAN,
        CauseRule.LAST_KNOWN,
    ):
        at = moment(heir.at_us)
        yield phrase("cause.elected_other", broker=heir.broker, epoch=heir.epoch, at=at)
        yield phrase("cause.because", why=heir.why)
    if cut is not None:
        yield phrase("cause.truncated", **_truncation(cut, moment))


def _known(case: Case, moment: Moment, *, stale: bool) -> str:
    """How the record came to be known."""
    finding = case.finding
    if finding.consumer is not None:
        return phrase("cause.read", consumer=finding.consumer, at=moment(finding.time_us))
    if finding.anomaly != "lost":
        return phrase("cause.told", at=moment(finding.time_us))
    at = moment(finding.time_us if finding.until_us is None else finding.until_us)
    if case.incumbent is None or stale:
        return phrase("cause.acknowledged", at=at)
    return phrase("cause.acknowledged_by", broker=case.incumbent.broker, at=at)


def _taker_log(case: Case, moment: Moment) -> str:
    """What had happened to the log of the broker that took office."""
    repair, power, taker = case.taker_repair, case.taker_power, case.taker
    assert taker is not None
    if case.taker_cut is not None:
        return phrase("cause.truncated", **_truncation(case.taker_cut, moment))
    if repair is not None:
        damaged = phrase("cause.damaged", broker=taker.broker, at=moment(repair.at_us), end=repair.end)
        return damaged + phrase("cause.because", why=repair.why)
    if power is not None:
        return phrase("cause.lost_power", broker=taker.broker, at=moment(power.at_us))
    return phrase("cause.came_back_without", broker=taker.broker) if case.taker_was_in_sync else ""


def _truncation(cut: Cut, moment: Moment) -> dict[str, object]:
    return {
        "broker": cut.broker,
        "before": cut.before,
        "after": cut.after,
        "why": cut.why,
        "at": moment(cut.at_us),
    }


def _outage(case: Case, moment: Moment) -> Iterator[str]:
    yield case.finding.detail or ""
    yield phrase("cause.since", at=moment(case.finding.time_us))
    if case.fault is not None:
        yield phrase("cause.fault", fault=case.fault.words, at=moment(case.fault.began_us))


def _repeat(case: Case, rule: CauseRule | None, moment: Moment) -> Iterator[str]:
    yield case.finding.detail or ""
    change = case.change
    if change is not None and rule is not CauseRule.SENT_TWICE:
        at = moment(change.at_us)
        yield phrase("cause.elected_meanwhile", broker=change.broker, epoch=change.epoch, at=at)
    if rule is CauseRule.NEW_IDENTITY:
        yield phrase("cause.new_identity")
    if rule is CauseRule.RETRY_IN_EPOCH:
        yield phrase("cause.sent_again")


def _replica(case: Case, moment: Moment) -> Iterator[str]:
    yield case.finding.detail or ""
    writer, cut = case.writer, case.last_cut
    if writer is not None:
        since = moment(writer.at_us)
        yield phrase("cause.wrote", broker=writer.broker, epoch=writer.epoch, offset=writer.end, since=since)
    if cut is None:
        yield phrase("cause.never_truncated", broker=case.finding.broker)
    else:
        yield phrase("cause.truncated_last", **_truncation(cut, moment))
