"""A run of the simulator as evidence: the same tables that a trial on real processes writes.

An audit can judge a simulated run like a real one, and tests compare its verdict with the lab's. Times are
virtual. The records of every replica are rows, since there are no segment files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from zlib import crc32

from tidelog._version import __version__
from tidelog.core.types import UNKNOWN_OFFSET
from tidelog.evidence.event_schema import KINDS, Row, to_row
from tidelog.evidence.folder import COMPLETE, EvidenceFolder, Manifest
from tidelog.evidence.parquet.parts import PartWriter
from tidelog.evidence.tables import EVENTS, FAULTS, LEDGER, READS, RECORDS, REPLICAS, Table, value_id
from tidelog.faults import FAULT_VERBS
from tidelog.scenario.clients.events import Acknowledged, Outcome, RecordRead, SendFailed, Sent
from tidelog.scenario.clients.producer import ProducerConfig
from tidelog.scenario.run import Run
from tidelog.scenario.scenario import print_scenario
from tidelog.scenario.snapshot import PartitionSnapshot
from tidelog.wire.errors import ErrorCode


def export(run: Run, path: Path) -> Path:
    """Write the evidence of a run into a new folder. Raises `EvidenceError`."""
    scenario = run.scenario
    manifest = Manifest(
        "sim",
        generation=scenario.setup.generation,
        versions={"tidelog": __version__},
        settings={"scenario": scenario.name, "text": print_scenario(scenario)},
        topics=[
            {
                "name": topic.name,
                "partitions": 1,
                "replication_factor": len(topic.replicas),
                "configs": {"min.insync.replicas": str(topic.config.min_insync_replicas)},
            }
            for topic in scenario.setup.topics
        ],
        brokers=[
            {"id": number, "zone": scenario.setup.zone(number)} for number in range(scenario.setup.brokers)
        ],
        clients=[{"name": c.name, "zone": c.zone, "role": _role(c.producer)} for c in scenario.clients],
    )
    manifest.lacks("segment files", "the simulator keeps logs in memory: see the table records")
    folder = EvidenceFolder.create(path, manifest)
    try:
        _write(folder.path, LEDGER, _ledger(run))
        _write(folder.path, READS, _reads(run))
        _write(folder.path, EVENTS, _events(run))
        _write(folder.path, FAULTS, _faults(run))
        partitions = run.final.partitions
        _write(folder.path, RECORDS, (row for partition in partitions for row in _records(partition)))
        _write(folder.path, REPLICAS, (row for partition in partitions for row in _replicas(partition)))
        manifest.state = COMPLETE
        manifest.load_started_us, manifest.load_ended_us = 0, run.final.at_ms * 1000
        manifest.ended_us = manifest.load_ended_us
        for empty in (folder.events_journal, folder.journal, folder.logs):
            empty.rmdir()
        folder.write_manifest()
    finally:
        folder.release()
    return folder.path


def _role(config: ProducerConfig | None) -> str:
    return "consumer" if config is None else "producer"


def _write(evidence: Path, table: Table, rows: Iterable[Row]) -> None:
    writer = PartWriter(evidence / table.name, table, seconds_max=float("inf"))
    for row in rows:
        writer.write({name: value for name, value in row.items() if value is not None})
    writer.close()


def _value(value: str | None) -> Row:
    if value is None:
        return {}
    data = value.encode()
    return {"value": value_id(value), "value_bytes": len(data), "value_crc32": crc32(data)}


# ---------------------------------------------------------------- clients


def _ledger(run: Run) -> Iterator[Row]:
    configs = {client.name: client.producer for client in run.scenario.clients}
    zones = {client.name: client.zone for client in run.scenario.clients}
    settled = {id(event.record): at for at, event in _heard(run)}
    counts: Counter[str] = Counter()
    for record in run.ledger:
        config = configs.get(record.producer) or ProducerConfig()
        at = settled.get(id(record))
        outcome = Outcome.UNKNOWN if record.outcome is None else record.outcome
        yield {
            "producer": record.producer,
            "zone": zones.get(record.producer),
            "sequence": counts[record.producer],
            "topic": record.tp.topic,
            "partition": record.tp.partition,
            **_value(record.value),
            "acks": record.acks,
            "idempotent": config.idempotent,
            "retries": config.retries,
            "attempts": record.attempts,
            "sent_us": max(record.deadline - config.delivery_timeout_ms, 0) * 1000,
            "settled_us": None if at is None else at * 1000,
            "outcome": outcome.value,
            "offset": None if record.offset == UNKNOWN_OFFSET else record.offset,
            **(_error(record) if outcome is not Outcome.OK else {}),
        }
        counts[record.producer] += 1


def _error(record: Sent) -> Row:
    """By name and code, or by the client's own name where no broker answered."""
    if isinstance(record.error, ErrorCode):
        return {"error": record.error.name, "error_code": int(record.error)}
    return {"error": record.error}


def _heard(run: Run) -> Iterator[tuple[int, Acknowledged | SendFailed]]:
    for played in run.played:
        for at, event in played.events:
            if isinstance(event, Acknowledged | SendFailed):
                yield at, event


def _reads(run: Run) -> Iterator[Row]:
    zones = {client.name: client.zone for client in run.scenario.clients}
    positions: dict[tuple[str, str, int], int] = {}
    polls: Counter[str] = Counter()
    for played in run.played:
        readers = set()
        for at, event in played.events:
            if not isinstance(event, RecordRead):
                continue
            place = (event.consumer, event.tp.topic, event.tp.partition)
            yield {
                "consumer": event.consumer,
                "zone": zones.get(event.consumer),
                "topic": event.tp.topic,
                "partition": event.tp.partition,
                "offset": event.offset,
                "leader_epoch": event.epoch if event.epoch >= 0 else None,
                **_value(event.value),
                "read_us": at * 1000,
                "poll": polls[event.consumer],
                "position_before": positions.get(place, 0),
                "position_after": event.offset + 1,
            }
            positions[place] = event.offset + 1
            readers.add(event.consumer)
        polls.update(sorted(readers))


# ---------------------------------------------------------------- brokers


def _events(run: Run) -> Iterator[Row]:
    sequences: Counter[int] = Counter()
    for played in run.played:
        for at, event in played.events:
            if type(event) not in KINDS:
                continue  # what clients heard is in the ledger and the reads
            broker = _teller(event)
            row = to_row(event, at, broker, sequence=sequences[broker])  # type: ignore[arg-type]
            sequences[broker] += 1
            yield {name: list(v) if isinstance(v, tuple) else v for name, v in row.items()}


def _faults(run: Run) -> Iterator[Row]:
    """The steps that did harm, each at the time at which the step before it ended."""
    done = [
        (before.after.at_ms * 1000, played.step)
        for before, played in pairwise(run.played)
        if played.step is not None and played.step.verb in FAULT_VERBS
    ]
    for number, (at_us, step) in enumerate(done):
        yield {
            "number": number,
            "kind": FAULT_VERBS[step.verb].name,
            "targets": [str(arg) for arg in step.args],
            "began_us": at_us,
        }


def _teller(event: object) -> int:
    for name in ("broker", "controller", "writer"):
        found = getattr(event, name, None)
        if found is not None:
            return int(found)
    raise ValueError(f"no broker reports {event}")


def _records(partition: PartitionSnapshot) -> Iterator[Row]:
    for replica in partition.replicas:
        for offset, epoch, value in replica.records:
            yield {
                "broker": replica.broker,
                "topic": partition.topic,
                "partition": partition.partition,
                "offset": offset,
                "leader_epoch": epoch,
                "control": value is None,
                **_value(value),
            }


def _replicas(partition: PartitionSnapshot) -> Iterator[Row]:
    for replica in partition.replicas:
        yield {
            "broker": replica.broker,
            "topic": partition.topic,
            "partition": partition.partition,
            "base_offset": 0,
            "log_start_offset": 0,
            "role": replica.role,
            "log_end_offset": replica.leo,
            "high_watermark": replica.hw,
            "epochs": [epoch for epoch, _ in replica.epochs],
            "epoch_starts": [start for _, start in replica.epochs],
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "isr": list(partition.isr),
        }
