"""KRaft's metadata log: leaders, ISR and eligible leaders of every partition over time.

The log is in the folder `__cluster_metadata-0` of every broker and controller. If its beginning was deleted,
the newest snapshot (`OFFSET-EPOCH.checkpoint`, the same records) before the rest of the log has the state.

Rules of the file: records are applied as Kafka does. A change that names a leader begins a leader epoch, any
change a partition epoch. What cannot be read ends the reading, and is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tidelog.core.types import TopicPartition
from tidelog.evidence.importers.kafka.happenings import Happenings, State, name_elections
from tidelog.evidence.importers.kafka.metadata_records import (
    BROKER_CONFIG,
    RECOVERING,
    TOPIC_CONFIG,
    UNCHANGED,
    ClearElr,
    Config,
    Partition,
    PartitionChange,
    RemoveTopic,
    Topic,
    read_record,
)
from tidelog.evidence.importers.kafka.segment_files import SegmentFile
from tidelog.storage.names import SEGMENT
from tidelog.wire.batch import CorruptBatch
from tidelog.wire.codec import decode
from tidelog.wire.errors import ProtocolError
from tidelog.wire.records import LeaderChangeMessage, read_records

_SNAPSHOT: Final = re.compile(r"(?P<end>\d{20})-\d{10}\.checkpoint")
_LEADER_CHANGE: Final = 2
_UNKNOWN_CONTROLLER: Final = -1


def read_metadata(folder: Path) -> tuple[Happenings, list[str]]:
    """What a metadata log says, and where it could not be read."""
    reader, trouble = _Reader(), []
    for path, skip_to in _files(folder):
        with ExitStack() as stack:
            segment = stack.enter_context(SegmentFile(path))
            for header in segment.headers():
                if header.next_offset <= skip_to:
                    continue
                try:
                    records = list(read_records(segment.batch(header)))
                    for record in records:
                        reader.take(record.key, record.value, record.timestamp, header.control)
                except (CorruptBatch, ProtocolError, ValueError) as error:
                    trouble.append(f"{path} at offset {header.base_offset}: {error}")
                    break
    name_elections(reader.found.states)
    return reader.found, trouble


def end_of(folder: Path) -> int:
    """The end of a metadata log, exclusive: the longest copy says most."""
    last = max((path for path in folder.iterdir() if SEGMENT.fullmatch(path.name)), default=None)
    if last is None:
        return -1
    with SegmentFile(last) as segment:
        return segment.end()[0]


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    """Files in the order in which they are read, each with the offset below which it is not needed."""
    logs = sorted(path for path in folder.iterdir() if SEGMENT.fullmatch(path.name))
    begin = int(logs[0].stem) if logs else 0
    covered = 0
    snapshots = sorted(
        (int(match["end"]), path)
        for path in folder.iterdir()
        if (match := _SNAPSHOT.fullmatch(path.name)) is not None
    )
    if begin and snapshots:
        reaching = [each for each in snapshots if each[0] >= begin]
        covered, path = reaching[0] if reaching else snapshots[-1]
        yield path, 0
    for path in logs:
        yield path, covered


class _Reader:
    def __init__(self) -> None:
        self.found = Happenings()
        self._names: dict[bytes, str] = {}
        self._now: dict[TopicPartition, State] = {}
        self._controller = _UNKNOWN_CONTROLLER

    def take(self, key: bytes | None, value: bytes | None, time_ms: int, control: bool) -> None:
        if control:
            if key is not None and value and int.from_bytes(key[2:4], "big") == _LEADER_CHANGE:
                self._controller = decode(LeaderChangeMessage, 0, True, value).leader_id
            return
        record = read_record(value or b"")
        match record:
            case Topic():
                self._names[record.topic_id] = record.name
                self.found.deleted.discard(record.name)
            case RemoveTopic():
                self._remove(record.topic_id)
            case Config():
                self._configure(record)
            case Partition():
                self._create(record, time_ms)
            case PartitionChange():
                self._change(record, time_ms)
            case ClearElr():
                for tp, state in self._now.items():
                    if tp.topic == record.topic_name or not record.topic_name:
                        self._now[tp] = replace(state, elr=(), last_known_elr=())

    def _remove(self, topic_id: bytes) -> None:
        name = self._names.pop(topic_id, None)
        if name is None:
            return
        self.found.deleted.add(name)
        self.found.configs.pop(name, None)
        for tp in [tp for tp in self._now if tp.topic == name]:
            del self._now[tp]
        # What happened to an earlier topic of the name is no part of the history of a later one.
        self.found.states = [state for state in self.found.states if state.tp.topic != name]

    def _configure(self, record: Any) -> None:
        if record.resource_type == TOPIC_CONFIG:
            configs = self.found.configs.setdefault(record.resource_name, {})
        elif record.resource_type == BROKER_CONFIG and not record.resource_name:
            configs = self.found.defaults
        else:
            return
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value

    def _create(self, record: Any, time_ms: int) -> None:
        name = self._names.get(record.topic_id)
        if name is None:
            return
        tp = TopicPartition(name, record.partition_id)
        self.found.replicas[tp] = tuple(record.replicas)
        self._write(
            State(
                time_ms,
                tp,
                record.leader,
                record.leader_epoch,
                tuple(record.isr),
                self._controller,
                record.partition_epoch,
                tuple(record.eligible_leader_replicas or ()),
                tuple(record.last_known_elr or ()),
                record.leader_recovery_state == RECOVERING,
            )
        )

    def _change(self, record: Any, time_ms: int) -> None:
        name = self._names.get(record.topic_id)
        before = self._now.get(TopicPartition(name or "", record.partition_id))
        if before is None:
            return
        named = record.leader != UNCHANGED
        if record.replicas is not None:
            self.found.replicas[before.tp] = tuple(record.replicas)
        recovery, elr, last_elr = (
            record.leader_recovery_state,
            record.eligible_leader_replicas,
            record.last_known_elr,
        )
        self._write(
            replace(
                before,
                time_ms=time_ms,
                writer=self._controller,
                leader=record.leader if named else before.leader,
                leader_epoch=before.leader_epoch + named,
                version=(before.version or 0) + 1,
                isr=before.isr if record.isr is None else tuple(record.isr),
                elr=before.elr if elr is None else tuple(elr),
                last_known_elr=before.last_known_elr if last_elr is None else tuple(last_elr),
                recovering=before.recovering if recovery < 0 else recovery == RECOVERING,
                reason=None,
            )
        )

    def _write(self, state: State) -> None:
        self._now[state.tp] = state
        self.found.states.append(state)
