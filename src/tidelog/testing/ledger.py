"""`kafka_ledger`: what a test's producers were promised, and whether the topic kept it.

    producer = kafka_ledger.wrap(Producer(…))     # confluent-kafka, kafka-python or aiokafka
    …
    kafka_ledger.assert_nothing_lost()

Every send is written down before it is made, and its outcome when that is known: the folder of a ledger is
evidence, which `tidelog audit` takes. The assertions need no audit: they compare the sends with what the
topic holds now.

A send is *ok* (acknowledged), *failed* (certainly not written) or *unknown* (perhaps written: a time-out, or
an error that may follow a write, see `evidence.outcomes`). What a transaction delivered is *ok* when it
commits, *failed* when it is aborted.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from zlib import crc32

from tidelog._version import __version__
from tidelog.cluster.active_fault import ActiveFault
from tidelog.evidence.folder import COMPLETE, EvidenceFolder, Manifest
from tidelog.evidence.journals.clients import FAILED, OK, OUTCOMES, UNKNOWN
from tidelog.evidence.journals.lines import LineJournal
from tidelog.kafka_client.reading import ReadRecord, TopicContents, read_topic
from tidelog.ledger import acks_level, known_settings
from tidelog.ledger.producers import wrapped

FINAL_READER: Final = "final"
_SHOWN_MAX: Final = 5
_FOLLOWERS_SECONDS: Final = 3.0

Wrapped = TypeVar("Wrapped")


@dataclass(slots=True)
class Send:
    ledger: Ledger
    producer: str
    acks: int
    sequence: int
    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    sent_us: int
    outcome: int = 0
    """0 until it is known."""
    offset: int | None = None
    error: str = ""
    transaction: Transaction | None = None

    @property
    def header(self) -> None:
        """Records of a test are recognized by their values."""

    @property
    def id(self) -> str:
        """Its name in the evidence."""
        return f"{self.producer}-{self.sequence}"

    def settle(
        self, outcome: int, partition: int | None, offset: int | None, code: int = 0, error: str = ""
    ) -> None:
        self.ledger.settle(self, outcome, partition, offset, code, error)

    def __str__(self) -> str:
        place = f"{self.topic}-{'?' if self.partition is None else self.partition}"
        where = place if self.offset is None else f"{place}@{self.offset}"
        what = OUTCOMES[self.outcome] or "unsettled"
        return f"{self.id} {where} {self.value!r:.60} ({what}{f', {self.error}' if self.error else ''})"


@dataclass(slots=True)
class Transaction:
    """What was delivered in it has its outcome."""

    name: str
    outcome: int = 0
    """0 while it goes on."""
    delivered: list[Send] = field(default_factory=list)


class _Recorder:
    """What one wrapped producer does."""

    def __init__(self, ledger: Ledger, name: str, acks: int) -> None:
        self._ledger = ledger
        self._name = name
        self._acks = acks
        self._transactions = 0
        self._transaction: Transaction | None = None

    def intend(self, topic: str, partition: int, key: Any, value: Any) -> Send:
        place = None if partition < 0 else partition
        send = Send(
            *(self._ledger, self._name, self._acks, -1, topic, place, _bytes(key), _bytes(value)),
            sent_us=_now_us(),
            transaction=self._transaction,
        )
        self._ledger.intend(send)
        return send

    def begin(self) -> None:
        self._transactions += 1
        self._transaction = Transaction(f"{self._name}-t{self._transactions}")

    def end(self, outcome: int) -> None:
        ended, self._transaction = self._transaction, None
        if ended is not None:
            self._ledger.end(ended, outcome)

    def miss(self, what: str) -> None: ...
    def close(self) -> None: ...


class Ledger:
    def __init__(self, servers: Callable[[], str], folder: Path) -> None:
        """`servers`: the brokers that can be asked now. `folder`: where the evidence goes, a new one."""
        self.folder = folder
        self.sends: list[Send] = []
        self._servers = servers
        self._lock = threading.Lock()
        self._journals: dict[str, LineJournal] = {}
        self._next: Counter[str] = Counter()
        self._contents: dict[str, TopicContents] = {}
        """The topics as they were read last."""
        self._flushes: list[Callable[[], None]] = []
        self._evidence = EvidenceFolder.create(folder, Manifest("foreign"))
        self._evidence.manifest.started_us = _now_us()
        self._evidence.manifest.versions = {"tidelog": __version__}

    # ------------------------------------------------------------ sends

    def wrap(self, producer: Wrapped, name: str = "", *, acks: int | str | None = None) -> Wrapped:
        """A producer that behaves as this one, and whose sends are written down. `acks`: as a producer of
        confluent-kafka is set, if it is not `all`; of the others it is known. Raises `Refusal` for what is
        no producer of a library that it knows."""
        name = name or f"p{len(self._journals) + 1}"
        recorder = _Recorder(self, name, acks_level(known_settings(producer)[0] if acks is None else acks))
        made, flush = wrapped(producer, recorder)
        self._journals[name] = LineJournal(self._evidence.journal / f"ledger-{name}.jsonl")
        self._flushes.append(flush)
        return cast(Wrapped, made)

    def intend(self, send: Send) -> None:
        """A send of a wrapped producer is to be made: it gets its number."""
        with self._lock:
            send.sequence = self._next[send.producer]
            self._next[send.producer] += 1
            self.sends.append(send)
            self._journals[send.producer].write(
                {
                    "producer": send.producer,
                    "sequence": send.sequence,
                    "zone": "",
                    "topic": send.topic,
                    "partition": send.partition,
                    "key": _text(send.key),
                    "value": send.id,
                    "value_bytes": len(send.value or b""),
                    "value_crc32": crc32(send.value or b""),
                    "acks": send.acks,
                    "idempotent": send.transaction is not None,
                    "sent_us": send.sent_us,
                    "outcome": OUTCOMES[UNKNOWN],
                    "transaction": None if send.transaction is None else send.transaction.name,
                }
            )

    def settle(  # noqa: PLR0917
        self, send: Send, outcome: int, partition: int | None, offset: int | None, code: int, error: str
    ) -> None:
        """Its outcome is known. A second one changes nothing. In a transaction what was delivered waits for
        its end."""
        with self._lock:
            if send.outcome:
                return
            send.offset, send.error = offset, error
            if partition is not None:
                send.partition = partition
            transaction = send.transaction
            if transaction is not None and outcome == OK:
                outcome = transaction.outcome
                if not outcome:
                    transaction.delivered.append(send)
            send.outcome = outcome
            self._write_outcome(send, code)

    def end(self, transaction: Transaction, outcome: int) -> None:
        """It has committed (OK), was aborted (FAILED), or that is not known (UNKNOWN)."""
        with self._lock:
            transaction.outcome = outcome
            for send in transaction.delivered:
                send.outcome = outcome
                self._write_outcome(send, 0)

    def _write_outcome(self, send: Send, code: int) -> None:
        self._journals[send.producer].write(
            {
                "producer": send.producer,
                "sequence": send.sequence,
                "partition": send.partition,
                "settled_us": _now_us(),
                "outcome": OUTCOMES[send.outcome or UNKNOWN],
                "offset": send.offset,
                "error_code": code or None,
                "error": send.error or None,
            }
        )

    def counts(self) -> dict[str, int]:
        """How many sends have each outcome."""
        names = [OUTCOMES[send.outcome] or "unsettled" for send in self.sends]
        return {name: names.count(name) for name in ("ok", "failed", "unknown", "unsettled")}

    # ------------------------------------------------------------ assertions

    def assert_nothing_lost(self) -> None:
        """Every acknowledged record is in its topic."""
        __tracebackhide__ = True
        found = {id(send) for _, send in self._matched() if send is not None}
        lost = [send for send in self.sends if send.outcome == OK and id(send) not in found]
        acknowledged = sum(send.outcome == OK for send in self.sends)
        _none(lost, f"{len(lost)} of {acknowledged} acknowledged records are lost")

    def assert_exactly_once(self, values: Iterable[bytes | str]) -> None:
        """What the application made of the records, as a list of their values, has every acknowledged one
        exactly once, every one whose outcome is unknown at most once, and nothing else."""
        __tracebackhide__ = True
        self._flush()
        left = Counter(value.encode() if isinstance(value, str) else bytes(value) for value in values)
        missing: list[Send] = []
        for send in sorted(self.sends, key=lambda send: send.outcome != OK):
            value = send.value or b""
            if left[value] and send.outcome != FAILED:
                left[value] -= 1
            elif send.outcome == OK:
                missing.append(send)
        sent = {send.value or b"" for send in self.sends}
        twice = [value for value in left.elements() if value in sent]
        strange = [value for value in left.elements() if value not in sent]
        _none(missing, f"acknowledged, and missing from the result: {_counted(missing, 'record')}")
        _none(twice, f"in the result more often than sent: {_counted(twice, 'value')}")
        _none(strange, f"in the result, and never sent: {_counted(strange, 'value')}")

    def assert_order(self) -> None:
        """In every partition the records of each producer are in the order in which they were sent."""
        __tracebackhide__ = True
        latest: dict[tuple[str, str, int], Send] = {}
        wrong = []
        for record, send in self._matched():
            if send is None:
                continue
            place = (send.producer, record.topic, record.partition)
            before = latest.get(place)
            if before is not None and before.sequence > send.sequence:
                wrong.append(
                    f"{send.id} at {record.topic}-{record.partition}@{record.offset} after {before.id}"
                )
            latest[place] = send
        _none(wrong, f"out of order: {_counted(wrong, 'record')}")

    def _flush(self) -> None:
        for flush in self._flushes:
            flush()

    def _read(self, topic: str) -> TopicContents:
        """What the topic holds. What the leader alone acknowledged (acks=1) can be read when its followers
        have it: for that this waits a little."""
        until = time.monotonic() + _FOLLOWERS_SECONDS
        early = [send for send in self.sends if send.topic == topic and send.outcome == OK and send.acks == 1]
        while True:
            contents = read_topic(self._servers(), topic)
            ends = contents.ends
            if all((send.offset or 0) < ends.get(send.partition or 0, 0) for send in early):
                return contents
            if time.monotonic() > until:
                return contents
            time.sleep(0.05)

    def _matched(self) -> list[tuple[ReadRecord, Send | None]]:
        """Every record of the topics that were written to, with the send that it comes from."""
        self._flush()
        for topic in dict.fromkeys(send.topic for send in self.sends):
            self._contents[topic] = self._read(topic)
        records = [record for contents in self._contents.values() for record in contents.records]
        by_place = {
            (send.topic, send.partition, send.offset): send for send in self.sends if send.outcome == OK
        }
        by_content: dict[tuple[str, bytes | None, bytes | None], list[Send]] = {}
        for send in self.sends:
            by_content.setdefault((send.topic, send.key, send.value), []).append(send)
        matched: list[tuple[ReadRecord, Send | None]] = []
        taken: set[int] = set()
        for record in records:
            at = by_place.get((record.topic, record.partition, record.offset))
            if at is not None and (at.key, at.value) == (record.key, record.value):
                taken.add(id(at))
                matched.append((record, at))
            else:
                matched.append((record, None))
        for number, (record, known) in enumerate(matched):
            if known is None:
                same = by_content.get((record.topic, record.key, record.value), [])
                chosen = next((each for each in same if id(each) not in taken), same[0] if same else None)
                taken.add(id(chosen))
                matched[number] = (record, chosen)
        return matched

    # ------------------------------------------------------------ evidence

    def close(self, faults: Iterable[ActiveFault] = ()) -> None:
        """Write what the topics hold at the end, and the faults: from now on the folder is complete."""
        manifest = self._evidence.manifest
        manifest.load_started_us = manifest.started_us
        manifest.load_ended_us = _now_us()
        try:
            self._write_reads(self._matched())
            manifest.final_reader = FINAL_READER
        except Exception as error:
            manifest.lacks("the final read", str(error).splitlines()[0] if str(error) else repr(error))
        lines = LineJournal(self._evidence.journal / "faults.jsonl")
        for number, fault in enumerate(faults):
            lines.write(_fault_row(number, fault, manifest.started_us))
        lines.close()
        for journal in self._journals.values():
            journal.close()
        manifest.topics = [
            {
                "name": topic,
                "partitions": len(contents.ends),
                "starts": {str(number): start for number, start in contents.starts.items()},
                "ends": {str(number): end for number, end in contents.ends.items()},
            }
            for topic, contents in self._contents.items()
        ]
        manifest.lacks("replicas", "the cluster goes on, so the logs of its brokers are not collected")
        manifest.state = COMPLETE
        manifest.ended_us = _now_us()
        self._evidence.write_manifest()
        self._evidence.release()

    def _write_reads(self, matched: list[tuple[ReadRecord, Send | None]]) -> None:
        journal = LineJournal(self._evidence.journal / f"reads-{FINAL_READER}.jsonl")
        now_us = _now_us()
        for record, send in matched:
            value = record.value or b""
            journal.write(
                {
                    "consumer": FINAL_READER,
                    "zone": "",
                    "topic": record.topic,
                    "partition": record.partition,
                    "offset": record.offset,
                    "leader_epoch": record.leader_epoch,
                    "key": _text(record.key),
                    "value": send.id if send is not None else f"unsent-{crc32(value):08x}",
                    "value_bytes": len(value),
                    "value_crc32": crc32(value),
                    "timestamp_ms": record.timestamp_ms,
                    "read_us": now_us,
                    "poll": 0,
                    "position_before": record.offset,
                    "position_after": record.offset + 1,
                }
            )
        journal.close()


def _fault_row(number: int, fault: ActiveFault, started_us: int) -> dict[str, Any]:
    until_us = fault.ended_us or _now_us()
    return {
        "number": number,
        "kind": fault.kind,
        "targets": list(fault.targets),
        "planned_ms": (fault.began_us - started_us) // 1000,
        "planned_duration_ms": (until_us - fault.began_us) // 1000,
        "began_us": fault.began_us,
        "ended_us": fault.ended_us,
    }


def _none(found: list[Any], what: str) -> None:
    """Raise an assertion error that shows the first few."""
    __tracebackhide__ = True  # pytest shows the line of the test
    if found:
        shown = "\n".join(f"  {each}" for each in found[:_SHOWN_MAX])
        more = f"\n  … and {len(found) - _SHOWN_MAX} more" if len(found) > _SHOWN_MAX else ""
        raise AssertionError(f"{what}:\n{shown}{more}")


def _counted(found: list[Any], noun: str) -> str:
    return f"{len(found)} {noun}" if len(found) == 1 else f"{len(found)} {noun}s"


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _text(key: bytes | None) -> str | None:
    return None if key is None else json.dumps(key.decode("utf-8", "replace"))[1:-1]


def _now_us() -> int:
    return time.time_ns() // 1000
