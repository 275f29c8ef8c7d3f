"""What a consumer has read stays true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.events import TopicDeleted
from tidelog.core.types import Offset, TopicPartition
from tidelog.lab.invariants.base import Handlers, Invariant
from tidelog.lab.world.snapshot import judge
from tidelog.scenario.clients.events import RecordRead

if TYPE_CHECKING:
    from tidelog.lab.invariants.committed import CommitHistory
    from tidelog.lab.world.world import World


class ReadsAreStable(Invariant):
    name = "reads-are-stable"
    claim = "an offset that was read once holds that value for ever"

    def __init__(self, world: World, history: CommitHistory) -> None:
        super().__init__(world, history)
        self._seen: dict[tuple[TopicPartition, Offset], str] = {}

    def handlers(self) -> Handlers:
        return {RecordRead: self._read, TopicDeleted: self._deleted}

    def _deleted(self, event: TopicDeleted) -> None:
        self._seen = {key: value for key, value in self._seen.items() if key[0].topic != event.topic}

    def _read(self, event: RecordRead) -> None:
        before = self._seen.setdefault((event.tp, event.offset), event.value)
        if before != event.value:
            raise self.broken(f"offset {event.offset} was read as {before!r} and later as {event.value!r}")


class PromisesKept(Invariant):
    name = "promises-kept"
    claim = (
        "in the end every acknowledged record is in the committed log, and no record that no producer sent"
    )

    def at_end(self) -> None:
        verdict = judge(self.world)
        if verdict.lost:
            first = verdict.lost[0]
            where = f", offset {first['offset']}" if first["offset"] >= 0 else ""
            promise = f"acks={first['acks']}{where}"
            raise self.broken(f"{first['value']!r} was acknowledged ({promise}) and is gone")
        if verdict.phantom:
            raise self.broken(f"{verdict.phantom[0]['value']!r} is in the log, but its send had been refused")
        if verdict.rewritten:
            first = verdict.rewritten[0]
            raise self.broken(
                f"offset {first['offset']} was read as {first['value']!r} and holds {first['now']!r} now"
            )
