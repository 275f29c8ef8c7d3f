"""The consumers of a trial: a process of its own that follows all partitions and writes down what it sees.

    python -m tidelog.trials.load.consumers          # plan and orders on stdin, see `worker`

Rules of the file:

* Each consumer reads every partition from its beginning, in its own time, without a group.
* A position that the log no longer has (it was cut off behind the consumer) is noticed, written down, and
  left for the end of the log, as a consumer with `auto.offset.reset=latest` does unnoticed.
* After the order to drain a consumer is done when it has reached the given end of every partition.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, Message, TopicPartition

from tidelog.evidence.journals.clients import ReadsJournal, Seal
from tidelog.evidence.journals.lines import LineJournal
from tidelog.evidence.parquet.sealing import Sealer
from tidelog.trials.load.librdkafka import consumer_settings, error_name
from tidelog.trials.load.worker import Noticed, Orders, Speaker, main, no_journal
from tidelog.trials.load.workload import ConsumerPlan
from tidelog.wire.errors import ErrorCode

_POLL_MESSAGES = 1_000
_IDLE_SECONDS = 0.005
_PATIENCE_SECONDS = 20.0
"""After this long without an answer the consumer is created again."""

_VANISHED = (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, int(ErrorCode.OFFSET_OUT_OF_RANGE))


class Reader:
    """One consumer and its reads."""

    def __init__(self, plan: ConsumerPlan, journal: Path, seal: Seal, noticed: Noticed) -> None:
        self.plan = plan
        self._noticed = noticed
        self._topics = sorted(plan.topics)
        self._numbers = {topic: number for number, topic in enumerate(self._topics)}
        self._reads = ReadsJournal(journal, seal, consumer=plan.name, topics=self._topics, zone=plan.zone)
        self._places = [(topic, part) for topic in self._topics for part in range(plan.topics[topic])]
        self._positions = {
            (topic, part): plan.starts.get(topic, {}).get(str(part), 0) for topic, part in self._places
        }
        self._vanished: set[tuple[str, int]] = set()
        self._last_heard = time.monotonic()
        self._consumer = self._connect()

    @property
    def count(self) -> int:
        return self._reads.count

    def reached(self, ends: dict[str, dict[str, int]]) -> bool:
        return all(
            self._positions[topic, int(part)] >= end
            for topic, offsets in ends.items()
            for part, end in offsets.items()
        )

    def read(self) -> int:
        """Take what has arrived; how much that was."""
        messages = self._consumer.consume(_POLL_MESSAGES, 0.0)
        if not messages:
            if time.monotonic() - self._last_heard > _PATIENCE_SECONDS:
                self._reopen()
            return 0
        self._last_heard = time.monotonic()
        self._reads.polled(time.time_ns() // 1000)
        watermarks: dict[tuple[str, int], int] = {}
        for message in messages:
            error = message.error()
            if error is not None:
                self._met(message, error)
                continue
            topic, part, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            place = (topic, part)
            if place not in watermarks:
                watermarks[place] = self._watermark(topic, part)
            epoch = message.leader_epoch()
            self._reads.record(
                self._numbers[topic],
                part,
                offset,
                epoch=-1 if epoch is None else epoch,
                timestamp_ms=max(message.timestamp()[1], -1),
                key=_bytes(message.key()),
                value=_bytes(message.value()),
                position=self._positions[place],
                high_watermark=watermarks[place],
            )
            self._positions[place] = offset + 1
        if self._vanished:
            # All are assigned again: to seek in a partition that failed is refused.
            self._assign(self._consumer)
        return len(messages)

    def close(self) -> None:
        self._reads.close()
        self._consumer.close()

    def _watermark(self, topic: str, part: int) -> int:
        place = TopicPartition(topic, part)
        known: tuple[int, int] | None = self._consumer.get_watermark_offsets(place, cached=True)
        return -1 if known is None else max(known[1], -1)

    def _met(self, message: Message, error: KafkaError) -> None:
        topic, part = message.topic() or "", message.partition()
        if part is None or (topic, part) not in self._positions:
            self._on_error(error)
            return
        if error.code() == KafkaError._PARTITION_EOF:
            # Batches of the protocol itself are skipped without a word, so this may be further than known.
            self._positions[topic, part] = message.offset() or 0
            return
        vanished = error.code() in _VANISHED
        self._noticed.note(
            self.plan.name,
            self.plan.zone,
            "out_of_range" if vanished else "error",
            topic=topic,
            partition=part,
            offset=self._positions[topic, part],
            error_code=error.code(),
            error=error_name(error.code()),
            detail=error.str(),
        )
        if vanished:
            self._vanished.add((topic, part))

    def _on_error(self, error: KafkaError) -> None:
        code = error.code()
        self._noticed.note(
            self.plan.name,
            self.plan.zone,
            "error",
            error_code=code,
            error=error_name(code),
            detail=error.str(),
        )

    # ------------------------------------------------------------ the library

    def _connect(self) -> Consumer:
        self._last_heard = time.monotonic()
        consumer = Consumer(consumer_settings(self.plan) | {"error_cb": self._on_error})
        self._assign(consumer)
        return consumer

    def _assign(self, consumer: Consumer) -> None:
        """Read on where we are, or at the end where our place has vanished."""
        consumer.assign(
            [
                TopicPartition(*place, OFFSET_END if place in self._vanished else position)
                for place, position in self._positions.items()
            ]
        )
        self._vanished.clear()

    def _reopen(self) -> None:
        """librdkafka at times finds no way back to the brokers. Applications create it again."""
        self._consumer.close()
        self._consumer = self._connect()
        self._noticed.note(
            self.plan.name,
            self.plan.zone,
            "reopened",
            detail=f"nothing was heard for {_PATIENCE_SECONDS:.0f} s",
        )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def run(orders: Orders) -> int:
    evidence = Path(orders.plan["evidence"])
    name = orders.plan["worker"]
    speaker = Speaker()
    trouble: list[str] = []
    sealer = Sealer(evidence, lambda path, error: trouble.append(f"{path.name}: {error}"))
    lines = LineJournal(evidence / "journal" / f"client_events-{name}.jsonl")
    noticed = Noticed(lines)
    readers = [
        Reader(ConsumerPlan(**plan), evidence / "journal", sealer.seal, noticed)
        for plan in orders.plan["clients"]
    ]

    def status(**more: Any) -> None:
        reads = sum(reader.count for reader in readers)
        behind = [r.plan.name for r in readers if orders.ends is not None and not r.reached(orders.ends)]
        speaker.say(reads=reads, behind=behind, trouble=trouble, **more)

    try:
        while not orders.stop:
            if not sum(reader.read() for reader in readers):
                if orders.ends is not None and all(reader.reached(orders.ends) for reader in readers):
                    break
                orders.wait(_IDLE_SECONDS)
            if speaker.is_due():
                status()
    except OSError as error:
        trouble.append(no_journal(name, error))
    for reader in readers:
        reader.close()
    sealer.close()
    lines.close()
    status(done=True)
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main(run))
