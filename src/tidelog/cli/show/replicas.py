"""Replica logs as rows of cells. Offsets are aligned; ``|`` precedes the first uncommitted record.

A record is its value with its leader epoch as a subscript: ``a₀ b₀|c₁``. If the log is wider than the page,
its beginning is left out, because replicas mostly differ at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from tidelog.cli.show import palette
from tidelog.narrate.inside import has_remote_news, remote_text
from tidelog.scenario.snapshot import PartitionSnapshot, Record, ReplicaState, Snapshot

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_CELL_WIDTH_MAX = 14
_CUT = "…"
_CONTROL_RECORD = "·"

State = tuple[object, ...]
"""The visible state of a replica or a partition: equal states look the same."""


def state_of(replica: ReplicaState) -> str:
    """``leader``, ``follower``, ``no role``, or the state of a process that is not up."""
    if replica.process != "up":
        return replica.process
    return "no role" if replica.role == "-" else replica.role


def seen(replica: ReplicaState) -> State:
    return replica.broker, state_of(replica), replica.leo, replica.hw, replica.records


def partition_text(snapshot: Snapshot, partition: PartitionSnapshot, *, short: bool = False) -> Text:
    """Leader, epoch and ISR as stored in the keeper."""
    leader = "no leader" if partition.leader < 0 else f"leader {partition.leader}"
    isr = ",".join(map(str, partition.isr))
    text = Text.assemble(
        (leader, palette.STRONG), f", epoch {partition.leader_epoch}, ISR [{isr}]{partition.eligible}"
    )
    if short:
        return text
    controller = "none" if snapshot.controller is None else str(snapshot.controller)
    controller += "".join(f", stale controller {broker}" for broker in snapshot.other_controllers)
    topic = f"{partition.topic}-{partition.partition}"
    return Text.assemble(f"{topic}: ", text, f"; controller {controller}")


def _cell(record: Record) -> str:
    _, epoch, value = record
    label = _CONTROL_RECORD if value is None else value
    subscript = "" if epoch is None else str(epoch).translate(_SUBSCRIPTS)
    room = _CELL_WIDTH_MAX - len(subscript)
    if cell_len(label) > room:
        label = set_cell_size(label, room - 1).rstrip() + _CUT
    return label + subscript


@dataclass(slots=True, frozen=True)
class Columns:
    """The width of each offset, the same for all replicas, and the first offset that fits on the page."""

    widths: tuple[int, ...]
    first: int

    @classmethod
    def fitting(cls, replicas: Iterable[ReplicaState], room: int) -> Columns:
        replicas = tuple(replicas)
        count = max((max(r.leo, r.hw) for r in replicas), default=0)
        widths = [1] * count
        for replica in replicas:
            for offset, record in enumerate(replica.records):
                widths[offset] = max(widths[offset], cell_len(_cell(record)))
        first, used = count, 1
        while first > 0 and used + widths[first - 1] + 1 + (first > 1) <= room:
            first -= 1
            used += widths[first] + 1
        return cls(tuple(widths), min(first, max(count - 1, 0)))

    @property
    def width(self) -> int:
        return sum(self.widths[self.first :]) + len(self.widths) - self.first + 1 + (self.first > 0)

    def draw(self, replica: ReplicaState) -> Text:
        """The log of one replica, padded to ``width``."""
        row = Text(_CUT if self.first else "")
        for offset in range(self.first, len(self.widths)):
            row.append(*_before(replica, offset))
            width = self.widths[offset]
            if offset < len(replica.records):
                record = replica.records[offset]
                row.append(set_cell_size(_cell(record), width), palette.of_epoch(record[1]))
            else:
                row.append(" " * width)
        row.append(*_before(replica, len(self.widths)))
        return row


def _before(replica: ReplicaState, offset: int) -> tuple[str, str]:
    return ("|", palette.WATERMARK) if replica.hw == offset else (" ", "")


def table(partition: PartitionSnapshot, before: PartitionSnapshot | None, room: int) -> list[Text]:
    """One row for each replica, with LEO and HW, and with the Remote LEOs of a leader. ``*`` marks the rows
    that changed since ``before``."""
    brokers = max(len(str(r.broker)) for r in partition.replicas)
    numbers = max(len(str(max(r.leo, r.hw))) for r in partition.replicas)
    ends = len("  LEO   HW ") + 2 * numbers
    lead = len("* broker   follower ") + brokers
    ends += max(len(_beside(replica)) for replica in partition.replicas)
    columns = Columns.fitting(partition.replicas, room - lead - ends)
    rows = []
    for number, replica in enumerate(partition.replicas):
        former = before.replicas[number] if before is not None else None
        changed = former is not None and (
            seen(former) != seen(replica) or has_remote_news(replica, former, partition)
        )
        state = state_of(replica)
        rows.append(
            Text.assemble(
                "* " if changed else "  ",
                f"broker {replica.broker:>{brokers}}  ",
                (f"{state:<8}", palette.of_state(state)),
                " ",
                columns.draw(replica),
                f"  LEO {replica.leo:>{numbers}}  HW {replica.hw:>{numbers}}",
                _beside(replica),
            )
        )
    return rows


def _beside(replica: ReplicaState) -> str:
    return " on disk" if replica.process == "down" else remote_text(replica)


def compact_table(partition: PartitionSnapshot, differs: list[bool], room: int) -> list[Text]:
    """The same without numbers, for narrow columns. ``≠`` marks the rows that ``differs`` selects."""
    brokers = max(len(str(r.broker)) for r in partition.replicas)
    columns = Columns.fitting(partition.replicas, room - len("≠  follower ") - brokers)
    rows = []
    for replica, different in zip(partition.replicas, differs, strict=True):
        state = state_of(replica)
        rows.append(
            Text.assemble(
                ("≠ ", palette.BAD) if different else "  ",
                f"{replica.broker:>{brokers}} ",
                (f"{state:<8}", palette.of_state(state)),
                " ",
                columns.draw(replica),
            )
        )
    return rows
