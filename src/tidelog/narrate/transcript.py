"""A run as text: the scenario file itself, with what happened below each step.

A step that changes nothing has no state below it. The state is printed where it changed: one line for the
partition as the keeper knows it, one for each replica. A replica's records are grouped by leader epoch,
``0:[a b] 1:[f g]``; ``·`` is a control record. ``epochs 0@0 1@2`` is its leader-epoch table,
``remote 1:2 2:?`` a leader's Remote LEO of each follower (``?``: it has not fetched yet).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from tidelog.narrate.clients import remark_words
from tidelog.narrate.events import narrate, notable
from tidelog.narrate.inside import has_remote_news, inside_lines, remote_text
from tidelog.scenario.clients.events import RecordRead
from tidelog.scenario.narration import wrap_comment
from tidelog.scenario.run import Played, Run
from tidelog.scenario.scenario import OUTPUT_MARK, print_head
from tidelog.scenario.snapshot import PartitionSnapshot, ReplicaState, Snapshot, partition_line


def print_transcript(run: Run, *, detail: bool = False) -> str:
    """``detail``: also what goes on inside brokers, keeper and clients."""
    lines = [*print_head(run.scenario), f"# generation: {run.scenario.setup.generation}"]
    lines += [] if run.stage == "sim" else [f"# stage: {run.stage}"]
    lines.append("")
    before: Snapshot | None = None
    for number, played in enumerate(run.played):
        narration = run.narration(number)
        if lines[-1] and narration:
            lines.append("")
        lines += _step(played, narration, before, detail=detail)
        before = played.after
    if lines[-1]:
        lines.append("")
    lines += _verdict(run)
    return "\n".join(lines) + "\n"


def _step(played: Played, narration: list[str], before: Snapshot | None, *, detail: bool) -> list[str]:
    lines: list[str] = []
    if played.step is None:
        lines.append("# The cluster at the beginning.")
    else:
        lines += wrap_comment(" ".join(narration)) if narration else []
        lines.append(str(played.step))
    output = [f"! {remark_words(played.remarks)}"] if played.remarks else []
    output += event_lines(played, detail=detail)
    output += state_lines(played.after, before)
    if before is not None or detail:
        output += [f"  {line}" for line in inside_lines(played.after, before, detail=detail)]
    return [*lines, OUTPUT_MARK, *output, ""] if output else lines


def event_lines(played: Played, *, detail: bool = False) -> list[str]:
    """Each event in words, runs of the same one folded. What a ``read`` finds is in its remark."""
    reading = played.step is not None and played.step.verb == "read"
    events = notable([event for _, event in played.events], detail=detail)
    several = len(played.after.partitions) > 1
    texts = [
        narrate(event, several=several) for event in events if not (reading and isinstance(event, RecordRead))
    ]
    lines = []
    for text, group in groupby(texts):
        times = len(list(group))
        lines.append(f"  {text}" + (f" (x{times})" if times > 1 else ""))
    return lines


def state_lines(after: Snapshot, before: Snapshot | None) -> list[str]:
    lines = []
    for index, partition in enumerate(after.partitions):
        former = before.partitions[index] if before is not None else None
        head = partition_line(after, partition)
        if before is None or former is None or head != partition_line(before, former):
            lines.append(head)
        for number, replica in enumerate(partition.replicas):
            if former is None or is_news(replica, former.replicas[number], partition):
                lines.append(replica_line(replica))
    return lines


def is_news(after: ReplicaState, before: ReplicaState, partition: PartitionSnapshot) -> bool:
    """Whether a replica looks different."""
    if replica_line(after) != replica_line(replace(before, remote=after.remote)):
        return True
    return has_remote_news(after, before, partition)


def replica_line(replica: ReplicaState) -> str:
    role = replica.role if replica.process == "up" else replica.process
    epochs = " ".join(f"{epoch}@{start}" for epoch, start in replica.epochs)
    line = f"  {replica.broker} {role:<8} LEO {replica.leo} HW {replica.hw}  {records_text(replica)}"
    return line.rstrip() + (f"  epochs {epochs}" if epochs else "") + remote_text(replica)


def records_text(replica: ReplicaState) -> str:
    parts = []
    for epoch, group in groupby(replica.records, key=lambda record: record[1]):
        values = " ".join("·" if value is None else value for _, _, value in group)
        parts.append(f"[{values}]" if epoch is None else f"{epoch}:[{values}]")
    return " ".join(parts)


def _verdict(run: Run) -> list[str]:
    lines = ["# Verdict"]
    facts = run.facts()
    for kind, findings in run.verdict.as_json().items():
        if findings:
            lines.append(f"#   {kind}: {facts[kind]}")
    if run.verdict.held:
        lines.append("#   every promise held")
    for broken, at in zip(run.broken, run.broken_at, strict=True):
        lines.append(f"#   invariant {broken.name} broken at step {at}: {broken.message}")
    lines += [f"#   not as expected: {surprise}" for surprise in run.surprises()]
    return lines
