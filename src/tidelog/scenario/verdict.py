"""What became of the promises: ledger × final logs × reads, for one run.

Names as everywhere in tidelog. A send has three outcomes: ok, failed (certainly not written) and unknown;
an unknown one can be neither lost nor phantom. Control records belong to the protocol, not to a client's
ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.events import Outcome, RecordRead, Sent
from tidelog.scenario.clients.producer import Producer
from tidelog.scenario.snapshot import PartitionSnapshot, Record, Snapshot

Finding = dict[str, Any]
_OK = Outcome.OK


@dataclass(slots=True)
class RunVerdict:
    lost: list[Finding] = field(default_factory=list)
    """Acknowledged, and not in the committed log at the end."""
    duplicated: list[Finding] = field(default_factory=list)
    """One value at two or more offsets."""
    diverged: list[Finding] = field(default_factory=list)
    """Replicas that disagree at one offset."""
    rewritten: list[Finding] = field(default_factory=list)
    """A consumer read one value at an offset and the log holds another there now."""
    reordered: list[Finding] = field(default_factory=list)
    """Two acknowledged records of one producer stand in the opposite order."""
    phantom: list[Finding] = field(default_factory=list)
    """A value that no producer sent, or whose send was certainly refused."""

    @property
    def held(self) -> bool:
        return not any(
            (self.lost, self.duplicated, self.diverged, self.rewritten, self.reordered, self.phantom)
        )

    def as_json(self) -> dict[str, list[Finding]]:
        return {
            "lost": self.lost,
            "duplicated": self.duplicated,
            "diverged": self.diverged,
            "rewritten": self.rewritten,
            "reordered": self.reordered,
            "phantom": self.phantom,
        }


def judge_end(end: Snapshot, clients: Collection[Producer | Consumer]) -> RunVerdict:
    """The state in which a run ended on any stage, against the outcomes and reads of its clients."""
    ledger = ledger_of(clients)
    reads = [read for client in clients if isinstance(client, Consumer) for read in client.reads]
    verdict = RunVerdict()
    for partition in end.partitions:
        place = partition.topic, partition.partition
        sent = [record for record in ledger if (record.tp.topic, record.tp.partition) == place]
        read = [record for record in reads if (record.tp.topic, record.tp.partition) == place]
        _judge_partition(verdict, partition, sent, read)
    return verdict


def ledger_of(clients: Collection[Producer | Consumer]) -> list[Sent]:
    return [record for client in clients if isinstance(client, Producer) for record in client.ledger]


def final_log(partition: PartitionSnapshot) -> Sequence[Record]:
    """The committed log: the leader's below its high watermark. Without a leader nothing can be read, but
    nothing is lost either as long as a member of the ISR, which alone may lead again, still holds it."""
    for replica in partition.replicas:
        if replica.broker == partition.leader:
            return replica.records[: replica.hw] if replica.role == "leader" else replica.records
    members = [r for r in partition.replicas if r.broker in partition.isr]
    return max((r.records for r in members), key=len, default=())


def _judge_partition(
    verdict: RunVerdict, partition: PartitionSnapshot, ledger: list[Sent], reads: list[RecordRead]
) -> None:
    log = final_log(partition)
    offsets: dict[str, list[int]] = {}
    for offset, _, value in log:
        if value is not None:
            offsets.setdefault(value, []).append(offset)
    sent = {record.value: record for record in ledger}
    acknowledged = [record for record in ledger if record.outcome is _OK]
    for record in acknowledged:
        if record.value not in offsets:
            verdict.lost.append(
                {
                    "value": record.value,
                    "offset": record.offset,
                    "acks": _acks(record),
                    "producer": record.producer,
                }
            )
    for value, where in offsets.items():
        if len(where) > 1:
            verdict.duplicated.append({"value": value, "offsets": where})
        if value not in sent or sent[value].outcome is Outcome.FAILED:
            verdict.phantom.append({"value": value, "offset": where[0]})
    verdict.diverged += diverged(partition)
    at = {offset: value for offset, _, value in log}
    for read in reads:
        if read.offset in at and at[read.offset] != read.value:
            verdict.rewritten.append(
                {
                    "value": read.value,
                    "offset": read.offset,
                    "now": at[read.offset],
                    "consumer": read.consumer,
                }
            )
    _find_reordered(verdict, acknowledged, offsets)


def _acks(record: Sent) -> str:
    return "all" if record.acks == -1 else str(record.acks)


def diverged(partition: PartitionSnapshot) -> list[Finding]:
    found = []
    longest = max((replica.leo for replica in partition.replicas), default=0)
    for offset in range(longest):
        values = {r.broker: r.records[offset] for r in partition.replicas if r.leo > offset}
        if len(set(values.values())) > 1:
            found.append(
                {
                    "value": ", ".join(dict.fromkeys(str(record[2]) for record in values.values())),
                    "offset": offset,
                    "replicas": {str(broker): record[2] for broker, record in values.items()},
                }
            )
    return found


def _find_reordered(verdict: RunVerdict, acknowledged: list[Sent], offsets: dict[str, list[int]]) -> None:
    last: dict[str, Sent] = {}
    for record in acknowledged:
        if record.value not in offsets:
            continue
        before = last.get(record.producer)
        if before is not None and offsets[before.value][0] > offsets[record.value][0]:
            verdict.reordered.append({"value": record.value, "sent_after": before.value})
        last[record.producer] = record
