"""Make a folder of evidence of brokers' log folders and log files.

1. Folders and log files are looked at, and refused before anything is written.
2. Replicas are brought in one by one (`replica.py`); a journal says which are done.
3. The metadata log, the coordinator's log and log files say what happened; tables are written from all of it.

Rules of the file: an import that was killed goes on when it is started again with the same folders. After a
refusal in step 1 nothing was written. Memory holds what is known of each replica, a few hundred bytes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import Any, Final

from tidelog._version import __version__
from tidelog.core.reasons import ElectionKind
from tidelog.core.types import TopicPartition
from tidelog.errors import reason
from tidelog.evidence.event_schema import Row
from tidelog.evidence.folder import COMPLETE, RUNNING, EvidenceError, EvidenceFolder, Manifest
from tidelog.evidence.importers.kafka import coordinator_log
from tidelog.evidence.importers.kafka.coordinators import Coordinators
from tidelog.evidence.importers.kafka.happenings import Happenings, State, event_rows, topic_settings
from tidelog.evidence.importers.kafka.journal import ImportJournal
from tidelog.evidence.importers.kafka.log_folders import METADATA, LogFolder, LogFolderError, find_log_folders
from tidelog.evidence.importers.kafka.metadata_log import end_of, read_metadata
from tidelog.evidence.importers.kafka.moments import Moments
from tidelog.evidence.importers.kafka.placing import Placing, copy
from tidelog.evidence.importers.kafka.replica import Replica, import_replica
from tidelog.evidence.importers.kafka.server_logs import log_files, read_server_logs
from tidelog.evidence.parquet.parts import PartWriter
from tidelog.evidence.tables import EVENTS, REPLICAS, TRANSACTIONS, Table
from tidelog.storage.checkpoints import CLEANED, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from tidelog.storage.log_folder import META

IMPORT: Final = "import_kafka"
"""The setting of the manifest that says what was imported."""
_MIN_IN_SYNC: Final = "min.insync.replicas"
_UNCLEAN: Final = {ElectionKind.UNCLEAN, ElectionKind.LAST_KNOWN_LEADER}
_COMPACTED: Final = {"__consumer_offsets", coordinator_log.TOPIC, "__share_group_state"}

Progress = Callable[[int, int, str], object]
"""Called with the bytes done, the bytes in all, and what is done now."""


@dataclass(slots=True)
class Source:
    """What is imported."""

    folders: Sequence[str]
    server_logs: Sequence[Path] = ()
    segments: Placing = Placing.REFERENCE
    zone: tzinfo | None = None
    """Of the times in log files; None: this machine's."""
    stopped: bool = False
    """Whether the brokers did not run when their folders were copied."""

    def as_setting(self) -> dict[str, Any]:
        return {
            "folders": [str(each) for each in self.folders],
            "server_logs": [str(path) for path in self.server_logs],
            "segments": str(self.segments),
            "stopped": self.stopped,
        }


@dataclass(slots=True)
class ImportedCluster:
    """What an import found."""

    brokers: list[int] = field(default_factory=list)
    topics: int = 0
    partitions: int = 0
    replicas: int = 0
    segments: int = 0
    bytes: int = 0
    events: int = 0
    open_transactions: int = 0
    unclean_elections: int = 0
    resumed: int = 0
    """Replicas that an import that was killed had brought in."""


def import_log_folders(
    source: Source, path: Path, progress: Progress = lambda done, total, words: None
) -> ImportedCluster:
    """Raises `EvidenceError`: before anything is written, or with the evidence left so that the same import
    goes on."""
    folders = find_log_folders(source.folders)
    files = log_files(source.server_logs)
    sizes = {(folder.broker, tp): _size(log) for folder in folders for tp, log in folder.logs.items()}
    if not any(tp != METADATA for _, tp in sizes):
        raise LogFolderError(f"{folders[0].path} holds no partition: give the log folders of brokers")
    # Log files are read first: one that cannot be read shall not be noticed after hours of copying.
    logged, strange = read_server_logs(files, source.zone)
    refused = [path for path in strange if path in source.server_logs or len(strange) == len(files)]
    if refused:
        raise LogFolderError(f"{refused[0]} has no line like [2026-01-01 12:00:00,000] INFO …: leave it out")
    evidence = _opened(source, path, folders)
    try:
        importer = _Importer(evidence, source, folders, progress)
        importer.bring_in(sizes)
        return importer.finish(logged)
    finally:
        evidence.release()


def _size(folder: Path) -> int:
    """The bytes of a partition's segments. Raises `LogFolderError` for what cannot be read."""
    total = 0
    try:
        for path in sorted(folder.glob("*.log")):
            if not path.exists() and not path.is_symlink():
                continue  # retention deletes files of a broker that runs
            total += path.stat().st_size
            if not path.is_file() or not os.access(path, os.R_OK):
                raise LogFolderError(f"{path} cannot be read: give a copy that can")
    except OSError as error:
        raise LogFolderError(f"{error.filename or folder} cannot be read: {reason(error)}") from None
    return total


def _opened(source: Source, path: Path, folders: Sequence[LogFolder]) -> EvidenceFolder:
    """A new folder, or that of the same import that was killed."""
    settings = source.as_setting()
    path = path.absolute()
    for folder in folders:
        if path == folder.path or folder.path in path.parents or path in folder.path.parents:
            raise LogFolderError(f"{path} and {folder.path} are inside each other: choose another folder")
    try:
        before = Manifest.read(path)
    except EvidenceError:
        before = None
    if before is None or before.state != RUNNING or IMPORT not in before.settings:
        manifest = Manifest(
            "foreign",
            versions={"tidelog": __version__},
            settings={IMPORT: settings},
            keeps_ledger=False,
            started_us=time.time_ns() // 1000,
        )
        return EvidenceFolder.create(path, manifest)
    if before.settings[IMPORT] != settings:
        raise EvidenceError(f"{path} holds an unfinished import of other folders: choose another folder")
    return EvidenceFolder.claim(path)


class _Importer:
    def __init__(
        self, evidence: EvidenceFolder, source: Source, folders: Sequence[LogFolder], progress: Progress
    ) -> None:
        self._evidence = evidence
        self._source = source
        self._folders = folders
        self._progress = progress
        self._journal = ImportJournal(evidence.journal)
        self._resumed = len(self._journal.done)
        self._counts = ImportedCluster()
        self._moments = Moments((), ())

    # ------------------------------------------------------------ replicas

    def bring_in(self, sizes: dict[tuple[int, TopicPartition], int]) -> None:
        done, total = 0, sum(sizes.values())
        for folder in self._folders:
            target = self._target(folder)
            target.mkdir(parents=True, exist_ok=True)
            for name in (META, HIGH_WATERMARKS, RECOVERY_POINTS, LOG_STARTS, CLEANED):
                if (folder.path / name).exists():
                    copy(folder.path / name, target / name)
            for tp in sorted(folder.logs):
                self._progress(done, total, f"broker {folder.broker}, {tp}")
                if (folder.broker, tp) not in self._journal.done:
                    self._bring_in(folder, tp, target / str(tp))
                done += sizes[folder.broker, tp]
        self._progress(total, total, "tables")

    def _bring_in(self, folder: LogFolder, tp: TopicPartition, target: Path) -> None:
        try:
            replica = import_replica(folder, tp, target, self._source.segments)
        except OSError as error:
            self._journal.close()
            raise LogFolderError(
                f"{error.filename or folder.logs[tp]}: {reason(error)}; "
                "repair that and repeat the command: it goes on from here"
            ) from None
        self._journal.write(folder.broker, tp, replica)

    def _target(self, folder: LogFolder) -> Path:
        """A broker with several disks has a folder for each."""
        mine = [each.path for each in self._folders if each.broker == folder.broker]
        base = self._evidence.cluster / f"broker-{folder.broker}"
        return base if len(mine) == 1 else base / f"disk-{mine.index(folder.path) + 1}"

    # ------------------------------------------------------------ tables

    def finish(self, logged: Happenings) -> ImportedCluster:
        everything = [replica for replica in self._journal.done.values() if replica is not None]
        replicas = sorted(
            (each for each in everything if each.tp != METADATA),
            key=lambda each: (each.tp, each.broker),
        )
        running = {f.broker for f in self._folders if not (f.stopped_cleanly or self._source.stopped)}
        self._moments = Moments(everything, {folder.broker for folder in self._folders} - running)
        found = self._happenings(everything, logged)
        states = found.last_states()
        alone = found.ruled_alone()
        for replica in replicas:
            # Its checkpoint is some seconds old, and it may have died since.
            if replica.epochs and replica.epochs[-1][0] == alone.get((replica.tp, replica.broker)):
                replica.high_watermark = replica.end
        epochs: dict[TopicPartition, dict[int, list[tuple[int, int]]]] = {}
        for replica in replicas:
            epochs.setdefault(replica.tp, {})[replica.broker] = replica.epochs
        gone = list(self._gone(replicas, states))
        self._write(REPLICAS, self._replica_rows([*replicas, *gone], states))
        events = list(event_rows(found, epochs))
        self._write(EVENTS, events)
        self._write(TRANSACTIONS, self._transaction_rows(replicas))
        self._describe(replicas, found, states, events)
        self._journal.remove()
        for empty in (self._evidence.events_journal, self._evidence.journal, self._evidence.logs):
            empty.rmdir()
        self._evidence.write_manifest()
        return self._counts

    def _write(self, table: Table, rows: Sequence[Row]) -> None:
        writer = PartWriter(self._evidence.path / table.name, table, seconds_max=float("inf"))
        for row in rows:
            writer.write(row)
        writer.close()

    def _happenings(self, replicas: Sequence[Replica], logged: Happenings) -> Happenings:
        """The longest metadata log there is, and what log files say beyond it."""
        copies = [replica.folder for replica in replicas if replica.tp == METADATA]
        found = Happenings()
        if copies:
            found, trouble = read_metadata(max(copies, key=end_of))
            found.in_kraft = True
            for words in trouble:
                self._evidence.manifest.lacks("a part of the metadata log", words)
        found.merge(logged)
        return found

    def _gone(self, replicas: Sequence[Replica], states: dict[TopicPartition, State]) -> Iterator[Replica]:
        """Replicas in sync of which nothing is left but a line in the checkpoint of their disk."""
        here = {(replica.tp, replica.broker) for replica in replicas}
        topics = {replica.tp for replica in replicas} | states.keys()
        for folder in self._folders:
            for tp, mark in folder.checkpoints.get(HIGH_WATERMARKS, {}).items():
                in_sync = tp not in states or folder.broker in (states[tp].isr or states[tp].elr)
                if mark and tp in topics and in_sync and (tp, folder.broker) not in here:
                    path = self._target(folder) / str(tp)
                    yield Replica(tp, folder.broker, path, 0, 0, mark, None, [], [])

    def _replica_rows(self, replicas: Sequence[Replica], states: dict[TopicPartition, State]) -> list[Row]:
        rows: list[Row] = []
        for replica in replicas:
            state = states.get(replica.tp)
            known: Row = {}
            if state is not None:
                known = {
                    "leader": state.leader,
                    "leader_epoch": state.leader_epoch,
                    # Those that may lead next: where none is in sync, the eligible ones.
                    "isr": list(state.isr or state.elr),
                    "role": "leader" if state.leader == replica.broker else "follower",
                }
            rows += [row | known for row in replica.rows(self._evidence.path)]
        return rows

    def _transaction_rows(self, replicas: Sequence[Replica]) -> list[Row]:
        coordinated = self._coordinated(replicas)
        rows: list[Row] = []
        for replica in replicas:
            for begun in replica.open_transactions:
                known = coordinated.of(replica, begun, self._moments)
                rows.append(
                    {
                        "broker": replica.broker,
                        "topic": replica.tp.topic,
                        "partition": replica.tp.partition,
                        "producer_id": begun.producer_id,
                        "producer_epoch": begun.producer_epoch,
                        "first_offset": begun.first_offset,
                        "last_offset": begun.last_offset,
                        "started_ms": begun.started_ms,
                        "last_ms": begun.last_ms,
                        **known,
                    }
                )
        self._counts.open_transactions = len({(r["topic"], r["partition"], r["producer_id"]) for r in rows})
        return rows

    def _coordinated(self, replicas: Sequence[Replica]) -> Coordinators:
        """Of each partition of the coordinator's log, the longest copy."""
        longest: dict[int, Replica] = {}
        for replica in replicas:
            if replica.tp.topic == coordinator_log.TOPIC:
                known = longest.get(replica.tp.partition)
                if known is None or replica.end > known.end:
                    longest[replica.tp.partition] = replica
        return Coordinators(longest)

    # ------------------------------------------------------------ the manifest

    def _describe(
        self,
        replicas: Sequence[Replica],
        found: Happenings,
        states: dict[TopicPartition, State],
        events: Sequence[Row],
    ) -> None:
        manifest, counts = self._evidence.manifest, self._counts
        manifest.topics = self._topics(replicas, found)
        manifest.brokers = [
            {
                "id": folder.broker,
                "data_dir": str(self._target(folder).relative_to(self._evidence.path)),
                "source": str(folder.path),
                "stopped_cleanly": folder.stopped_cleanly,
            }
            for folder in self._folders
        ]
        clusters = [folder.cluster_id for folder in self._folders if folder.cluster_id]
        manifest.settings["cluster_id"] = clusters[0] if clusters else None
        times = [row["time_ms"] for row in events] + [r.last_ms for r in replicas if r.last_ms > 0]
        manifest.load_started_us = min(times, default=0) * 1000
        manifest.load_ended_us = manifest.ended_us = max(times, default=0) * 1000
        manifest.state = COMPLETE
        self._name_what_is_missing(replicas, found, states)
        counts.brokers = sorted({folder.broker for folder in self._folders if set(folder.logs) - {METADATA}})
        counts.topics, counts.replicas = len(manifest.topics), len(replicas)
        counts.partitions = len({replica.tp for replica in replicas})
        counts.segments = sum(len(replica.segments) for replica in replicas)
        counts.bytes = sum(size for replica in replicas for _, _, size in replica.segments)
        counts.events = len(events)
        counts.unclean_elections = sum(row.get("rule") in _UNCLEAN for row in events)
        counts.resumed = self._resumed

    def _topics(self, replicas: Sequence[Replica], found: Happenings) -> list[dict[str, Any]]:
        cleaned = {tp.topic for folder in self._folders for tp in folder.checkpoints.get(CLEANED, {})}
        topics: dict[str, dict[str, Any]] = {}
        for replica in replicas:
            name, partition = replica.tp.topic, replica.tp.partition
            topic = topics.setdefault(name, {"name": name, "partitions": 0, "ends": {}, "open_ends": {}})
            topic["partitions"] = max(topic["partitions"], partition + 1)
            if replica.high_watermark is not None:
                end = topic["ends"].get(str(partition), 0)
                topic["ends"][str(partition)] = max(end, replica.high_watermark)
            if not self._moments.is_final(replica):
                topic["open_ends"].setdefault(str(partition), []).append(replica.broker)
        for name, topic in topics.items():
            topic["configs"] = topic_settings(found, name)
            topic["assigned"] = {
                str(tp.partition): list(brokers) for tp, brokers in found.replicas.items() if tp.topic == name
            }
            if found.in_kraft and _MIN_IN_SYNC in topic["configs"]:
                # Its brokers do not ask for more replicas than a partition has.
                copies = [len(brokers) for brokers in topic["assigned"].values()]
                wanted = min([int(topic["configs"][_MIN_IN_SYNC]), *copies])
                topic["configs"][_MIN_IN_SYNC] = str(wanted)
            if name in _COMPACTED or name in cleaned:
                topic["configs"].setdefault("cleanup.policy", "compact")
        return list(topics.values())

    def _name_what_is_missing(
        self, replicas: Sequence[Replica], found: Happenings, states: dict[TopicPartition, State]
    ) -> None:
        lacks = self._evidence.manifest.lacks
        if not found.states:
            lacks(
                "leaders, ISR and elections",
                "neither a metadata log (KRaft) nor log files of brokers were given (--server-logs)",
            )
        unsettled = sorted({r.tp.topic for r in replicas} - found.configs.keys() - _COMPACTED)
        if unsettled and not found.defaults:
            lacks(f"min.insync.replicas of {_listed(unsettled)}", "no source says it: taken as 1")
        given = {folder.broker for folder in self._folders}
        absent = sorted(
            {b for tp, assigned in found.replicas.items() if tp in states for b in assigned} - given
        )
        if absent:
            lacks(f"replicas of {_listed(map(str, absent), 'broker')}", "their log folders were not given")
        for folder in self._folders:
            for name, why in folder.trouble.items():
                lacks(f"{name} of broker {folder.broker}", why)
            absent_marks = HIGH_WATERMARKS not in folder.checkpoints | folder.trouble
            if absent_marks and set(folder.logs) - {METADATA}:
                lacks(f"high watermarks of broker {folder.broker}", f"{folder.path} has no {HIGH_WATERMARKS}")
            if folder.passed_over:
                lacks(f"{folder.passed_over} folders of broker {folder.broker}", "deleted, moved or stray")
        for broker, ends in sorted(self._open_ends(replicas).items()):
            lacks(
                f"the end of {_listed(ends, 'log')} of broker {broker}",
                "its high watermark is behind it: the folder was copied while the broker ran, or records are "
                "gone; if it did not run, import again with --stopped",
            )
        for replica in replicas:
            for what, why in replica.notes:
                lacks(what, why)

    def _open_ends(self, replicas: Sequence[Replica]) -> dict[int, list[TopicPartition]]:
        found: dict[int, list[TopicPartition]] = {}
        for replica in replicas:
            if (replica.high_watermark or 0) > replica.end and not self._moments.is_final(replica):
                found.setdefault(replica.broker, []).append(replica.tp)
        return found


def _listed(names: Any, noun: str = "topic", most: int = 3) -> str:
    listed = [str(name) for name in names]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return f"{noun}{'s' if len(listed) > 1 else ''} {', '.join(listed[:most])}{more}"
