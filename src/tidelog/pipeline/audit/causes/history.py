"""What happened to each partition, in the order of time, to look a finding's cause up in.

Causes are asked "who took office after that without the record?" or "who cut it off?": with the few hundred
happenings of a partition in sorted lists, that is a look at a list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from tidelog.core.reasons import ElectionKind
from tidelog.pipeline.audit.reasons import Why, reason_of

Row = Mapping[str, Any]


class Election(NamedTuple):
    at_us: int
    epoch: int
    broker: int
    end: int
    """Of its log when it took office."""
    rule: str | None
    why: Why | None


class Following(NamedTuple):
    """A broker learnt that another one leads."""

    at_us: int
    broker: int


class Cut(NamedTuple):
    at_us: int
    broker: int
    before: int
    after: int
    rule: str | None
    why: Why | None

    def covers(self, offset: int) -> bool:
        return self.after <= offset < self.before


class Repair(NamedTuple):
    """Recovery found damage and cut it off."""

    at_us: int
    broker: int
    end: int
    why: Why | None


class Commit(NamedTuple):
    """Offsets that a leader committed, and whose copies counted."""

    epoch: int
    from_offset: int
    to_offset: int
    isr: tuple[int, ...]
    at_us: int
    """When the first of them was."""

    def covers(self, offset: int) -> bool:
        return self.from_offset <= offset < self.to_offset


class Death(NamedTuple):
    at_us: int
    broker: int
    kind: str


class Fault(NamedTuple):
    began_us: int
    ended_us: int | None
    words: str


@dataclass(slots=True)
class History:
    elections: list[Election] = field(default_factory=list)
    followings: list[Following] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    repairs: list[Repair] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    newest: list[tuple[int, int]] = field(default_factory=list)
    """Places where the log was cut, and its end; and when the newest record below each, of those that are
    there at the end, was made."""

    def places(self) -> set[int]:
        return {election.end for election in self.elections} | {cut.after for cut in self.cuts}

    def had_come_to(self, offset: int, at_us: int) -> bool:
        """Whether the log may have held the offset by then. What was below the place to which it was cut
        later, and is still there, had been written before."""
        ends = [election.end for election in self.elections if election.at_us >= at_us]
        ends += [cut.after for cut in self.cuts if cut.at_us >= at_us and cut.covers(offset)]
        kept = min(ends, default=offset)
        below = [made_us for place, made_us in self.newest if place <= min(kept, offset)]
        return not below or max(below) <= at_us

    def by_clients_clock(self, ahead_us: Mapping[int, int]) -> History:
        """The same where brokers' clocks are so far ahead: findings have the time of clients."""
        leaders = {election.epoch: election.broker for election in self.elections}

        def moved(happened: Iterable[Moved]) -> list[Moved]:
            back = [each._replace(at_us=each.at_us - ahead_us.get(each.broker, 0)) for each in happened]
            return sorted(back, key=lambda each: (each.at_us, each.broker))

        commits = [
            commit._replace(at_us=commit.at_us - ahead_us.get(leaders.get(commit.epoch, -1), 0))
            for commit in self.commits
        ]
        happened = (moved(self.elections), moved(self.followings), moved(self.cuts), moved(self.repairs))
        return History(*happened, commits, self.newest)


Moved = TypeVar("Moved", Election, Following, Cut, Repair)
NOTHING = History()


def histories(
    events: Iterable[Row], numbers: Mapping[tuple[str, int], int], schema_version: int
) -> dict[int, History]:
    """Of each partition, by its number. `events` are all but moves of high watermarks."""
    found: dict[int, History] = defaultdict(History)
    written: dict[tuple[int, int], Row] = {}
    states: dict[tuple[int, int], Row] = {}
    leaders: dict[int, list[Row]] = defaultdict(list)
    for row in events:
        number = numbers.get((row["topic"], row["partition"])) if row["topic"] is not None else None
        if number is None:
            continue
        at_us, history = row["time_ms"] * 1000, found[number]
        match row["event"]:
            case "became_leader":
                leaders[number].append(row)
            case "became_follower":
                history.followings.append(Following(at_us, row["broker"]))
            case "truncated":
                rule, why = reason_of(row, schema_version)
                before, after = row["previous_log_end_offset"], row["log_end_offset"]
                history.cuts.append(Cut(at_us, row["broker"], before, after, rule, why))
            case "log_recovered":
                history.repairs.append(Repair(at_us, row["broker"], row["log_end_offset"], row["cause"]))
            case "partition_state_written":
                # An election's reason is what the controller wrote first about its epoch.
                key, version = (number, row["leader_epoch"]), _version(row)
                states[number, version] = row
                if key not in written or version < _version(written[key]):
                    written[key] = row
    for number, rows in leaders.items():
        found[number].elections = [
            Election(
                row["time_ms"] * 1000,
                row["leader_epoch"],
                row["broker"],
                row["log_end_offset"] or 0,
                *_why_elected(number, row, written, states, schema_version),
            )
            for row in rows
        ]
    for history in found.values():
        history.elections.sort(key=lambda e: (e.at_us, e.epoch))
        history.followings.sort()
        history.cuts.sort(key=lambda c: (c.at_us, c.broker))
        history.repairs.sort(key=lambda r: (r.at_us, r.broker))
    return dict(found)


def _version(row: Row) -> int:
    return row["partition_version"] or 0


def _why_elected(
    number: int,
    leader: Row,
    written: Mapping[tuple[int, int], Row],
    states: Mapping[tuple[int, int], Row],
    schema_version: int,
) -> tuple[str | None, Why | None]:
    """By what the controller wrote; but one that was neither in sync nor eligible in the state before was not
    elected as the first that is in sync, whatever was written."""
    row = written.get((number, leader["leader_epoch"]))
    if row is None:
        return None, None
    rule, why = reason_of(row, schema_version)
    before = states.get((number, _version(row) - 1))
    able = None if before is None or before["isr"] is None else [*before["isr"], *(before["elr"] or ())]
    if rule == ElectionKind.CLEAN and able is not None and leader["broker"] not in able:
        return reason_of({**row, "rule": ElectionKind.UNCLEAN.value, "cause": None}, schema_version)
    return rule, why


def deaths(faults: Iterable[Row]) -> list[Death]:
    """Of brokers, as they were planned and done."""
    return sorted(
        Death(row["began_us"], int(target), row["kind"])
        for row in faults
        if row["kind"] in ("kill", "power") and row["began_us"] is not None
        for target in row["targets"] or ()
        if target.isdigit()
    )


def done(faults: Sequence[Row]) -> list[Fault]:
    """All that was done to the cluster."""
    return sorted(
        (
            Fault(
                row["began_us"],
                row["ended_us"],
                f"{row['kind']} {', '.join((row['targets'] or [])[:6])}",
            )
            for row in faults
            if row["began_us"] is not None
        ),
        key=lambda fault: fault.began_us,
    )
