"""The story of a finding: what happened, in which order, put together from phrases of `narrate`. A phrase
with an unknown field is left out. The verdict keeps the phrases: a report says them in its language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tidelog.narrate.phrasebook import Phrase, say
from tidelog.pipeline.audit.causes.case import Case
from tidelog.pipeline.audit.causes.history import Cut
from tidelog.pipeline.audit.causes.rules import CauseRule

Moment = Callable[[int | None], str | None]
"""A time in words."""


Part = Phrase | str | None
"""A text is what is between phrases."""


def clause(key: str, **fields: str | int | Phrase | None) -> Phrase | None:
    known = {name: value for name, value in fields.items() if value is not None}
    return Phrase(key, known) if len(known) == len(fields) else None


class Story(tuple[Phrase | str, ...]):
    """What happened: clauses that follow each other. Times are in seconds after the load began."""

    __slots__ = ()

    @property
    def english(self) -> str:
        return "".join(part if isinstance(part, str) else say(part) for part in self)

    def as_json(self) -> list[Any]:
        return [part if isinstance(part, str) else part.as_json() for part in self]


def story(case: Case, rule: CauseRule | None, began_us: int) -> Story:
    def moment(us: int | None) -> str | None:
        return None if us is None else f"{(us - began_us) / 1e6:.3f} s"

    return Story(filter(None, _parts(case, rule, moment)))


def _parts(case: Case, rule: CauseRule | None, moment: Moment) -> Iterable[Part]:
    match case.finding.anomaly:
        case "lost" | "rewritten" | "inconsistent offset":
            return _removal(case, rule, moment)
        case "unavailable":
            return _outage(case, moment)
        case "duplicated" | "reordered":
            return _repeat(case, rule, moment)
        case "diverged" | "missing copy":
            return _replica(case, moment)
        case _:
            return (case.finding.detail,)


def _removal(case: Case, rule: CauseRule | None, moment: Moment) -> Iterator[Part]:
    """Why a record is not where it was."""
    finding, taker = case.finding, case.taker
    stale = rule is CauseRule.STALE
    offset, value = clause("cause.offset", offset=finding.offset), clause("cause.value", value=finding.value)
    yield from (offset, " " if offset and value else None, value)
    yield _known(case, moment, stale=stale)
    if case.committed is not None:
        yield clause("cause.in_sync", isr=", ".join(map(str, case.committed.isr)))
    if taker is None:
        yield from _without_taker(case, rule, moment)
    else:
        yield from _taker_log(case, moment)
        at, end = moment(taker.at_us), taker.end
        yield clause("cause.elected", broker=taker.broker, epoch=taker.epoch, at=at, end=end)
        yield clause("cause.because", why=taker.why)
    if rule is CauseRule.NOT_COMMITTED:
        yield clause("cause.uncommitted")
    if rule is CauseRule.UNCONFIRMED:
        yield clause("cause.unconfirmed")


def _without_taker(case: Case, rule: CauseRule | None, moment: Moment) -> Iterator[Part]:
    """What became of a record without which no broker took office."""
    led, cut, heir = case.incumbent, case.cut, case.heir
    if rule is CauseRule.STALE and led is not None and cut is not None:
        yield clause("cause.led", broker=led.broker, epoch=led.epoch, since=moment(led.at_us))
        at = moment(cut.at_us)
        yield clause("cause.stale", broker=cut.broker, before=cut.before, after=cut.after, at=at)
        return
    if heir is not None and rule in (
        CauseRule.OTHER_BRANCH,
        CauseRule.UNCLEAN,
        CauseRule.LAST_KNOWN,
    ):
        at = moment(heir.at_us)
        yield clause("cause.elected_other", broker=heir.broker, epoch=heir.epoch, at=at)
        yield clause("cause.because", why=heir.why)
    if cut is not None:
        yield clause("cause.truncated", **_truncation(cut, moment))


def _known(case: Case, moment: Moment, *, stale: bool) -> Part:
    """How the record came to be known."""
    finding = case.finding
    if finding.consumer is not None:
        return clause("cause.read", consumer=finding.consumer, at=moment(finding.time_us))
    if finding.anomaly != "lost":
        return clause("cause.told", at=moment(finding.time_us))
    at = moment(finding.time_us if finding.until_us is None else finding.until_us)
    if case.incumbent is None or stale:
        return clause("cause.acknowledged", at=at)
    return clause("cause.acknowledged_by", broker=case.incumbent.broker, at=at)


def _taker_log(case: Case, moment: Moment) -> Iterator[Part]:
    """What had happened to the log of the broker that took office."""
    repair, power, taker = case.taker_repair, case.taker_power, case.taker
    assert taker is not None
    if case.taker_cut is not None:
        yield clause("cause.truncated", **_truncation(case.taker_cut, moment))
    elif repair is not None:
        yield clause("cause.damaged", broker=taker.broker, at=moment(repair.at_us), end=repair.end)
        yield clause("cause.because", why=repair.why)
    elif power is not None:
        yield clause("cause.lost_power", broker=taker.broker, at=moment(power.at_us))
    elif case.taker_was_in_sync:
        yield clause("cause.came_back_without", broker=taker.broker)


def _truncation(cut: Cut, moment: Moment) -> dict[str, str | int | Phrase | None]:
    return {
        "broker": cut.broker,
        "before": cut.before,
        "after": cut.after,
        "why": cut.why,
        "at": moment(cut.at_us),
    }


def _outage(case: Case, moment: Moment) -> Iterator[Part]:
    yield case.finding.detail
    yield clause("cause.since", at=moment(case.finding.time_us))
    if case.fault is not None:
        yield clause("cause.fault", fault=case.fault.words, at=moment(case.fault.began_us))


def _repeat(case: Case, rule: CauseRule | None, moment: Moment) -> Iterator[Part]:
    yield case.finding.detail
    change = case.change
    if change is not None and rule is not CauseRule.SENT_TWICE:
        at = moment(change.at_us)
        yield clause("cause.elected_meanwhile", broker=change.broker, epoch=change.epoch, at=at)
    if rule is CauseRule.NEW_IDENTITY:
        yield clause("cause.new_identity")
    if rule is CauseRule.RETRY_IN_EPOCH:
        yield clause("cause.sent_again")


def _replica(case: Case, moment: Moment) -> Iterator[Part]:
    yield case.finding.detail
    writer, cut = case.writer, case.last_cut
    if writer is not None:
        since = moment(writer.at_us)
        yield clause("cause.wrote", broker=writer.broker, epoch=writer.epoch, offset=writer.end, since=since)
    if cut is None:
        yield clause("cause.never_truncated", broker=case.finding.broker)
    else:
        yield clause("cause.truncated_last", **_truncation(cut, moment))
