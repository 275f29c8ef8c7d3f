"""The producers of a trial: a process of its own that sends at a steady rate and writes down every outcome.

    python -m tidelog.trials.load.producers          # plan and orders on stdin, see `worker`

Rules of the file:

* A send is in the ledger before librdkafka gets it. Its outcome is stored when librdkafka reports it; what is
  never reported stays unknown.
* The rate is a ceiling. What could not be sent in time, because too much is in flight, is not made up for in
  a burst: a load that waits is what real producers have, and the ledger shows it.
* In flight is bounded for each partition. One partition without a leader does not stop the others.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidelog.evidence.journals.clients import FAILED, OK, LedgerJournal, Seal
from tidelog.evidence.journals.lines import LineJournal
from tidelog.evidence.outcomes import outcome_of
from tidelog.evidence.parquet.sealing import Sealer
from tidelog.trials.load.librdkafka import error_name, producer_settings
from tidelog.trials.load.worker import Noticed, Orders, Speaker, main, no_journal
from tidelog.trials.load.workload import ProducerPlan

_TICK_SECONDS = 0.005
_BURST_SECONDS = 2.0
"""What a busy machine kept us from sending is made up for, if it is no more than that."""
_PATIENCE_SECONDS = 30.0
"""A producer without an acknowledgement for this long is created again."""
_LAST_WORDS_SECONDS = 5.0
"""How long librdkafka may be late with the time-out of a send."""


class Sender:
    """One producer, its pace and its ledger."""

    def __init__(self, plan: ProducerPlan, journal: Path, seal: Seal, noticed: Noticed) -> None:
        self.plan = plan
        self.ok = self.failed = self.unknown = 0
        self._noticed = noticed
        self._ledger = LedgerJournal(
            journal,
            seal,
            producer=plan.name,
            zone=plan.zone,
            topic=plan.topic,
            acks=plan.acks,
            idempotent=plan.idempotent,
            retries=plan.retries,
        )
        self._prefix = f"{plan.name}-".encode()
        self._padding = b"." * plan.value_bytes
        self._keys = [f"k{number}".encode() for number in range(plan.keys)]
        self._in_flight = [0] * plan.partitions
        self._in_flight_max = max(plan.in_flight_max // plan.partitions, 1)
        self._turn = 0
        self._offered = 0.0
        self._started = time.monotonic()
        self._broken = False
        self._last_ok = time.monotonic()
        self._producer = self._connect()

    @property
    def sent(self) -> int:
        return self._ledger.next_sequence

    @property
    def in_flight(self) -> int:
        return sum(self._in_flight)

    # ------------------------------------------------------------ sending

    def send_due(self, now: float) -> None:
        """Send what is due by now, as far as there is room in flight."""
        rate = self.plan.rate
        due = (now - self._started) * rate - self._offered
        if due < 1:
            return
        ceiling = max(rate * _BURST_SECONDS, 1.0)
        if due > ceiling:  # not made up for
            self._offered += due - ceiling
            due = ceiling
        for _ in range(int(due)):
            partition, key = self._next_place()
            if partition < 0:
                break
            self._send(partition, key)
        self._offered += int(due)

    def _next_place(self) -> tuple[int, bytes]:
        """The next partition in turn that has room, with the key that leads there; -1 if none has."""
        for _ in range(self.plan.partitions):
            turn = self._turn
            self._turn = turn + 1
            key = self._keys[turn % len(self._keys)] if self._keys else b""
            partition = (turn % len(self._keys) if self._keys else turn) % self.plan.partitions
            if self._in_flight[partition] < self._in_flight_max:
                return partition, key
        return -1, b""

    def _send(self, partition: int, key: bytes) -> None:
        value_id = self._prefix + b"%d" % self._ledger.next_sequence
        value = value_id + b" " + self._padding[len(value_id) + 1 :]
        now_us = time.time_ns() // 1000
        sequence = self._ledger.intend(
            partition, key, value_id, size=len(value), crc=crc32(value), now_us=now_us
        )
        self._in_flight[partition] += 1
        try:
            self._producer.produce(
                self.plan.topic,
                value,
                key or None,
                partition,
                on_delivery=partial(self._settled, sequence, partition),
            )
        except (BufferError, KafkaException) as refusal:
            # The library did not take it, so it went nowhere.
            error = refusal.args[0] if refusal.args and isinstance(refusal.args[0], KafkaError) else None
            code = error.code() if error is not None else KafkaError._QUEUE_FULL
            self._in_flight[partition] -= 1
            self.failed += 1
            self._ledger.settle(sequence, FAILED, -1, now_us, code=code, error=error_name(code))

    def _settled(self, sequence: int, partition: int, error: KafkaError | None, message: Message) -> None:
        self._in_flight[partition] -= 1
        now_us = time.time_ns() // 1000
        if error is None:
            self.ok += 1
            self._last_ok = time.monotonic()
            offset = message.offset()  # None with acks=0
            self._ledger.settle(sequence, OK, -1 if offset is None else offset, now_us)
            return
        code = error.code()
        outcome = outcome_of(code)
        if outcome == FAILED:
            self.failed += 1
        else:
            self.unknown += 1
        self._ledger.settle(sequence, outcome, -1, now_us, code=code, error=error_name(code))

    def poll(self, seconds: float = 0.0) -> None:
        """Let librdkafka report. That a producer is broken for good it reports by raising."""
        try:
            self._producer.poll(seconds)
        except KafkaException as broken:
            self._on_error(broken.args[0])
        silence = time.monotonic() - self._last_ok
        if self._broken:
            self._reopen("it was broken for good")
        elif silence > _PATIENCE_SECONDS and self.in_flight:
            self._reopen(f"nothing was acknowledged for {silence:.0f} s")

    def close(self) -> None:
        """What is still in flight stays unknown."""
        self.unknown += self.in_flight
        self._ledger.close()

    # ------------------------------------------------------------ the library

    def _connect(self) -> Producer:
        return Producer(producer_settings(self.plan) | {"error_cb": self._on_error})

    def _on_error(self, error: KafkaError) -> None:
        self._broken |= error.fatal()
        self._noticed.note(
            self.plan.name,
            self.plan.zone,
            "fatal" if error.fatal() else "error",
            error_code=error.code(),
            error=error_name(error.code()),
            detail=error.str(),
        )

    def _reopen(self, why: str) -> None:
        """A new producer under the same name, as an application makes one that has lost hope in the old one:
        librdkafka gives one up when its sequence is lost, and at times finds no way back to the brokers."""
        self._broken = False
        self._last_ok = time.monotonic()
        with suppress(KafkaException):
            self._producer.purge()
            self._producer.flush(_LAST_WORDS_SECONDS)
        self._producer = self._connect()
        self._noticed.note(self.plan.name, self.plan.zone, "reopened", detail=why)


def run(orders: Orders) -> int:
    evidence = Path(orders.plan["evidence"])
    journal = evidence / "journal"
    name = orders.plan["worker"]
    speaker = Speaker()
    trouble: list[str] = []
    sealer = Sealer(evidence, lambda path, error: trouble.append(f"{path.name}: {error}"))
    lines = LineJournal(journal / f"client_events-{name}.jsonl")
    noticed = Noticed(lines)
    senders = [Sender(ProducerPlan(**plan), journal, sealer.seal, noticed) for plan in orders.plan["clients"]]

    def status(**more: Any) -> None:
        total = {
            what: sum(getattr(sender, what) for sender in senders)
            for what in ("sent", "ok", "failed", "unknown", "in_flight")
        }
        speaker.say(**total, trouble=trouble, **more)

    try:
        _load(orders, senders, speaker, status)
        _settle(orders, senders, speaker, status)
    except OSError as error:
        # A journal cannot be continued: without its row nothing is sent, so the load ends here.
        trouble.append(no_journal(name, error))
    for sender in senders:
        sender.close()
    sealer.close()
    lines.close()
    status(done=True)
    return 1 if trouble else 0


def _load(orders: Orders, senders: list[Sender], speaker: Speaker, status: Any) -> None:
    while not orders.stop:
        now = time.monotonic()
        for sender in senders:
            sender.send_due(now)
        for sender in senders:
            sender.poll()
        if speaker.is_due():
            status()
        orders.wait(_TICK_SECONDS - (time.monotonic() - now))


def _settle(orders: Orders, senders: list[Sender], speaker: Speaker, status: Any) -> None:
    """Until every send has an outcome; librdkafka gives each of them one in time."""
    patience = max(sender.plan.delivery_timeout_ms for sender in senders) / 1000 + _LAST_WORDS_SECONDS
    deadline = time.monotonic() + patience
    while any(sender.in_flight for sender in senders):
        if orders.abandoned or time.monotonic() > deadline:
            return
        for sender in senders:
            sender.poll(0.01)
        if speaker.is_due():
            status()


if __name__ == "__main__":
    sys.exit(main(run))
