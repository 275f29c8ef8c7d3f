"""A run as text: the scenario file itself, with what happened below each step.

A step after which nothing is different stands alone. The state is printed where it changed: one line for the
partition as the keeper knows it, one for each replica. A replica's records are grouped by leader epoch,
``0:[a b] 1:[f g]``; ``·`` is a control record.
"""

from __future__ import annotations

from itertools import groupby

from tidelog.narrate.clients import remark_words
from tidelog.narrate.events import narrate, notable
from tidelog.scenario.clients.events import RecordRead
from tidelog.scenario.narration import wrap_comment
from tidelog.scenario.run import Played, Run
from tidelog.scenario.scenario import OUTPUT_MARK, print_head
from tidelog.scenario.snapshot import ReplicaState, Snapshot, partition_line


def print_transcript(run: Run) -> str:
    lines = [*print_head(run.scenario), f"# generation: {run.scenario.setup.generation}"]
    lines += [] if run.stage == "sim" else [f"# stage: {run.stage}"]
    lines.append("")
    before: Snapshot | None = None
    for number, played in enumerate(run.played):
        narration = run.narration(number)
        if lines[-1] and narration:
            lines.append("")
        lines += _step(played, narration, before)
        before = played.after
    if lines[-1]:
        lines.append("")
    lines += _verdict(run)
    return "\n".join(lines) + "\n"


def _step(played: Played, narration: list[str], before: Snapshot | None) -> list[str]:
    lines: list[str] = []
    if played.step is None:
        lines.append("# The cluster at the beginning.")
    else:
        lines += wrap_comment(" ".join(narration)) if narration else []
        lines.append(str(played.step))
    output = [f"! {remark_words(played.remarks)}"] if played.remarks else []
    output += event_lines(played)
    output += state_lines(played.after, before)
    return [*lines, OUTPUT_MARK, *output, ""] if output else lines


def event_lines(played: Played) -> list[str]:
    """Each event in words, runs of the same one folded. What a ``read`` finds is in its remark."""
    reading = played.step is not None and played.step.verb == "read"
    events = notable([event for _, event in played.events])
    texts = [narrate(event) for event in events if not (reading and isinstance(event, RecordRead))]
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
            line = replica_line(replica)
            if former is None or line != replica_line(former.replicas[number]):
                lines.append(line)
    return lines


def replica_line(replica: ReplicaState) -> str:
    role = replica.role if replica.process == "up" else replica.process
    epochs = " ".join(f"{epoch}@{start}" for epoch, start in replica.epochs)
    line = f"  {replica.broker} {role:<8} LEO {replica.leo} HW {replica.hw}  {records_text(replica)}"
    return line.rstrip() + (f"  epochs {epochs}" if epochs else "")


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
