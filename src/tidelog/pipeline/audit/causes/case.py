"""A finding beside what happened to its partition: who took office, who cut the record off, who lost power.

A record goes when a broker takes office whose log lacks it: from then on that log is the truth, and all
others cut off what it does not have. So most questions are about the *taker*, the first leader elected after
the record was known whose log ended at or before its offset.

Rules of the file: nothing is blamed that the evidence does not show. A truncation counts only if it covers
the offset; a power loss only of that broker, after the record; another branch of the log only if another
record is at the offset, of another epoch than those that were in office while the record was sent, or where
logs have no epochs (before KIP-101) of another time; a stale leader only if it did not know yet that another
led. Changes of leaders leave no holes. What cannot be known (a finding without an offset, or without a time)
is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Final, TypeVar

from tidelog.pipeline.audit.causes.history import (
    Commit,
    Cut,
    Death,
    Election,
    Fault,
    Following,
    History,
    Repair,
)
from tidelog.pipeline.audit.findings import NOTICE, Facts, Finding

_NOWHERE: Final = -1
_NEVER: Final = 1 << 62
_POWER: Final = "power"
_ALL: Final = -1
_NO_FACTS: Final = Facts()
T = TypeVar("T")
Happened = TypeVar("Happened", Cut, Repair, Death)


def _first(found: Iterable[T]) -> T | None:
    return next(iter(found), None)


class Case:
    """Each happening is looked up when a rule or a story first asks for it."""

    def __init__(
        self, finding: Finding, history: History, deaths: Sequence[Death], faults: Sequence[Fault]
    ) -> None:
        self.finding = finding
        self.facts = finding.facts or _NO_FACTS
        self.notice = finding.severity == NOTICE
        self.offset = _NOWHERE if finding.offset is None else finding.offset
        self.since = _NEVER if finding.time_us is None else finding.time_us
        """When the record was sent or read."""
        self.known = self.since
        """When its producer or consumer knew of it."""
        if self.facts.known_us is not None:
            self.known = self.facts.known_us
        elif finding.anomaly == "lost" and finding.until_us is not None and finding.time_us is not None:
            self.known = finding.until_us
        self.history = history
        self._deaths = deaths
        self._faults = faults

    # ------------------------------------------------------------ why a record is not where it was

    @cached_property
    def incumbent(self) -> Election | None:
        """The leader when the record became known."""
        if self.known == _NEVER:
            return None
        return _first(e for e in reversed(self.history.elections) if e.at_us <= self.known)

    @cached_property
    def taker(self) -> Election | None:
        """The first to take office after it was known, without it."""
        offset, known = self.offset, self.known
        if self.never_there:
            return None
        return _first(e for e in self.history.elections if e.at_us >= known and e.end <= offset)

    def _before_taker(
        self, happened: Sequence[Happened], lacks: Callable[[Happened], bool]
    ) -> Happened | None:
        """The last of what happened to the taker between the record and its election, if its log may lack
        the record after it."""
        taker = self.taker
        if taker is None:
            return None
        broker, since, until = taker.broker, self.since, taker.at_us
        mine = (each for each in reversed(happened) if each.broker == broker)
        return _first(each for each in mine if since <= each.at_us <= until and lacks(each))

    @cached_property
    def taker_cut(self) -> Cut | None:
        return self._before_taker(self.history.cuts, lambda cut: cut.covers(self.offset))

    @cached_property
    def taker_repair(self) -> Repair | None:
        return self._before_taker(self.history.repairs, lambda repair: repair.end <= self.offset)

    @cached_property
    def taker_power(self) -> Death | None:
        """Only if it had the record, as a member of the ISR or as the leader that appended it: a follower
        that had not fetched it yet lost nothing with its power."""
        led = self.incumbent
        if self.taker is None or not (self.taker_was_in_sync or (led and led.broker == self.taker.broker)):
            return None
        return self._before_taker(self._deaths, lambda death: death.kind == _POWER)

    @cached_property
    def committed(self) -> Commit | None:
        """How it was committed before the taker's term."""
        if self.since == _NEVER:
            return None
        offset, term = self.offset, _NEVER if self.taker is None else self.taker.epoch
        return _first(c for c in reversed(self.history.commits) if c.epoch < term and c.covers(offset))

    @property
    def taker_was_in_sync(self) -> bool:
        """Whether the taker was counted in sync when the record was committed."""
        taker, committed = self.taker, self.committed
        return taker is not None and committed is not None and taker.broker in committed.isr

    @property
    def was_held(self) -> bool:
        """Whether the leader that wrote it may have held it alone when another broker took office: nothing
        shows that its log ended below."""
        taker, led = self.taker, self.incumbent
        if led is None or self.committed is not None:
            return taker is not None
        if taker is None or taker.broker == led.broker:
            return False
        cut = _first(c for c in self.history.cuts if c.broker == led.broker and c.at_us >= self.known)
        lost = [death for death in self._deaths if death.kind == _POWER]
        tails: list[Repair | Death] = [*self.history.repairs, *lost]
        return (
            cut is None
            or cut.before > self.offset
            or any(each.broker == led.broker and self.since <= each.at_us <= cut.at_us for each in tails)
        )

    @cached_property
    def cut(self) -> Cut | None:
        """The first that cut it off, if no broker took office without it."""
        offset, since = self.offset, self.since
        if self.never_there or self.taker is not None:
            return None
        return _first(c for c in self.history.cuts if c.at_us >= since and c.covers(offset))

    @property
    def was_stale(self) -> bool:
        """Whether the broker that cut it off had been replaced before it acknowledged, and did not know: it
        cut its log when it learnt of its successor."""
        cut, led, facts = self.cut, self.incumbent, self.facts
        if cut is None or led is None or led.broker == cut.broker or _ALL in (self.finding.acks, facts.acks):
            return False
        term = self._believed(cut.broker)
        if term is None or term.epoch >= led.epoch or not (facts.other_there or facts.at_end):
            return False
        named = self.finding.leader_epoch
        return self.finding.anomaly != "rewritten" or named is None or named == term.epoch

    def _believed(self, broker: int) -> Election | None:
        """The term in which a broker led as far as it knew when the record became known."""
        known = self.known
        term = _first(e for e in reversed(self.history.elections) if e.broker == broker and e.at_us <= known)
        if term is None:
            return None
        return None if self._over(term) <= known else term

    @cached_property
    def in_office(self) -> list[Election]:
        """The terms between when the record was sent and when it became known. A consumer learns the leader
        epoch of what it reads; a producer does not."""
        elections, named = self.history.elections, self.finding.leader_epoch
        if self.finding.anomaly == "rewritten" and named is not None:
            return [election for election in elections if election.epoch == named]
        if self.known == _NEVER:
            return []
        since = self.since if self.facts.own_us is None else self.facts.own_us
        first = sum(election.at_us <= since for election in elections) - 1
        return [e for e in elections[max(first, 0) :] if e.at_us <= self.known]

    @cached_property
    def terms(self) -> list[Election]:
        """Those of them in which it may have been written: one whose log already went beyond the offset when
        its term began did not write there."""
        return [election for election in self.in_office if election.end <= self.offset]

    @cached_property
    def never_there(self) -> bool:
        """Whether no term wrote it where it is said to have been, or the log had not come so far by then:
        nothing took it away."""
        if self.known != _NEVER and not self.history.had_come_to(self.offset, self.known):
            return True
        return bool(self.in_office) and not self.terms

    @property
    def is_of_its_term(self) -> bool:
        """Whether the other record there may be of the same term as this one: then it shows no other leader's
        hand."""
        epoch, facts = self.facts.other_epoch, self.facts
        if not facts.other_there or not self.terms:
            return False
        if epoch is not None:
            return any(term.epoch == epoch for term in self.terms)
        if facts.other_us is None and facts.other_until_us is None:
            return False
        until = _NEVER if facts.other_until_us is None else facts.other_until_us
        began, ended = self._reign(self.terms[0])[0], self._reign(self.terms[-1])[1]
        return (facts.other_us or 0) < ended and until >= began

    def _reign(self, term: Election) -> tuple[int, int]:
        """From when to when the leader of a term led without a break."""
        others = [each for each in self.history.elections if each.broker != term.broker]
        before = max((e.at_us for e in others if e.at_us < term.at_us), default=_NOWHERE)
        mine = (e.at_us for e in self.history.elections if e.broker == term.broker and e.at_us > before)
        return min(mine), min((e.at_us for e in others if e.at_us > term.at_us), default=_NEVER)

    @cached_property
    def heir(self) -> Election | None:
        """Who brought the other record that is there, if that is of another term than this one: the leader of
        a later term, or, where the other record is older, the next that another broker led."""
        epoch, until, elections = self.facts.other_epoch, self.facts.other_until_us, self.history.elections
        led = self.incumbent
        if not self.facts.other_there or led is None or not self.terms or self.taker is not None:
            return None
        if self.never_there or not self._may_be_of_its_term:
            return None
        if epoch is None:
            if until is None or not elections[0].at_us <= until < self._reign(self.terms[0])[0]:
                return None
        elif epoch > max(term.epoch for term in self.terms):
            return _first(e for e in elections if e.epoch == epoch)
        elif epoch >= min(term.epoch for term in self.terms):
            return None
        return _first(e for e in elections if e.at_us >= self.known and e.broker != led.broker)

    # ------------------------------------------------------------ why replicas, order or place differ

    @cached_property
    def change(self) -> Election | None:
        """The first to take office while a send waited, and before what was sent again was written: its last
        copy, or the one that it is before."""
        waited = [e for e in self.history.elections if self.since <= e.at_us]
        if self.facts.position is not None:
            return _first(e for e in waited if self.offset < e.end <= self.facts.position)
        until = _NEVER if self.finding.until_us is None else self.finding.until_us
        return _first(e for e in waited if e.at_us <= until and e.end <= max(self.offset, 0))

    @property
    def is_repeat(self) -> bool:
        """Whether the last copy may be there because its producer sent it again for want of an answer. One
        that was written in a term that began after the answer is not."""
        until, writer = self.finding.until_us, self.writer
        later = until is not None and writer is not None and writer.at_us > until
        return not later and not self.facts.misplaced

    @cached_property
    def writer(self) -> Election | None:
        """The last leader whose term began at or before the offset: it wrote what the final log holds."""
        return _first(e for e in reversed(self.history.elections) if e.end <= self.offset)

    @property
    def is_of_another_term(self) -> bool:
        """Whether the replica's record came from another leader than the one that wrote the final log's: by
        its epoch, or where logs have none by when it was sent."""
        writer, facts = self.writer, self.facts
        if writer is None or self.finding.broker == writer.broker:
            return False
        if facts.other_epoch is None and facts.other_us is not None:
            return facts.other_us != facts.own_us and facts.other_us < writer.at_us
        return facts.other_epoch != writer.epoch and self._may_be_of_its_term

    @property
    def _may_be_of_its_term(self) -> bool:
        """Whether the leader of the epoch that the other record names may have written it there: as far as it
        is known who led, and until when it took itself for the leader."""
        facts, elections = self.facts, self.history.elections
        if facts.other_epoch is None:
            return True
        term = _first(e for e in elections if e.epoch == facts.other_epoch)
        if term is None:  # it may have been before what is known
            return facts.other_epoch < min(e.epoch for e in elections)
        return term.end <= self.offset and (facts.other_us is None or facts.other_us <= self._over(term))

    def _over(self, term: Election) -> int:
        """When the leader of a term knew that it was over, or died."""
        later = (each for each in self.history.elections if each.epoch > term.epoch)
        ends: list[Following | Death | Election] = [*self.history.followings, *self._deaths, *later]
        mine = (each.at_us for each in ends if each.broker == term.broker and each.at_us >= term.at_us)
        return min(mine, default=_NEVER)

    @cached_property
    def last_cut(self) -> Cut | None:
        """How the replica that differs was last cut."""
        return _first(cut for cut in reversed(self.history.cuts) if cut.broker == self.finding.broker)

    @property
    def lost_power(self) -> bool:
        """Whether that replica's broker lost power after the record was committed."""
        since = min((c.at_us for c in self.history.commits if c.covers(self.offset)), default=_NEVER)
        return any(
            d.broker == self.finding.broker and d.kind == _POWER and d.at_us >= since for d in self._deaths
        )

    @property
    def place_gone(self) -> bool:
        """Whether the log was cut off between the consumer's place and where it was moved back to."""
        position, earlier = self.facts.position, self.facts.since_us or 0
        if position is None or self.since == _NEVER:
            return False
        ends = [(c.at_us, c.after) for c in self.history.cuts]
        ends += [(e.at_us, e.end) for e in self.history.elections]
        return any(end <= self.offset and end < position and earlier <= at <= self.since for at, end in ends)

    @cached_property
    def fault(self) -> Fault | None:
        """What was being done to the cluster at that time."""
        until = self.since if self.finding.until_us is None else self.finding.until_us
        return _first(
            f
            for f in self._faults
            if f.began_us <= until and (f.ended_us is None or f.ended_us >= self.since)
        )
