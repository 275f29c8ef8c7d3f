"""A ledger that an application keeps of its Kafka: what it sent, what was answered, what it read.

    from tidelog import ledger
    producer = ledger.wrap(Producer(…), folder="/var/lib/orders/ledger")
    consumer = ledger.watch(Consumer(…), folder="/var/lib/orders/ledger")

The wrapped objects behave as before; any Kafka will do. The folder is evidence: `tidelog audit FOLDER`.

`identity.py` says how a record is named, and its header; `sends.py` records sends, `producers.py` has the
proxies of producers, `confluent.py` and `direct.py` the fast ones; `reads.py` and `consumers.py` do the
same for consumers, `proxy.py` is what they share; `serializing.py` calls serializers once; `continuity.py`
checks headers; `sampling.py` chooses keys; `folder.py` is the folder that processes share.
"""

from __future__ import annotations

import weakref
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from tidelog.errors import Refusal
from tidelog.ledger.confluent import DirectConfluent
from tidelog.ledger.consumers import Consumer, check_consumer, watched
from tidelog.ledger.continuity import Continuity, Flaw, Flawed, Stream
from tidelog.ledger.direct import DirectAiokafka, DirectKafkaPython
from tidelog.ledger.folder import checked_name
from tidelog.ledger.producers import library_of
from tidelog.ledger.proxy import Library
from tidelog.ledger.reads import ReadRecorder
from tidelog.ledger.sends import LedgerError, SendRecorder

__all__ = ["Continuity", "Flaw", "Flawed", "LedgerError", "Stream", "continuity", "watch", "wrap"]

P = TypeVar("P")
C = TypeVar("C")

_ROWS: Final = 65_536
_SECONDS: Final = 3600.0
_ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 0}


def wrap(
    producer: P,
    *,
    folder: str | PathLike[str],
    name: str = "producer",
    header: bool = False,
    sample: float = 1.0,
    acks: int | str | None = None,
    idempotent: bool | None = None,
    on_delivery: Any = None,
    strict: bool = False,
    rows: int = _ROWS,
    seconds: float = _SECONDS,
) -> P:
    """A producer that behaves as this one, and whose sends are recorded in the folder: the intent before the
    library gets a record, the outcome when the library reports it.

    `header`: give each record a header of 20 bytes by which it is recognized anywhere. `sample`: record only
    the sends of this share of the keys. `acks` and `idempotent`: as the producer is set, for the audit; of
    kafka-python and aiokafka they are known. `on_delivery`: the callback that the settings of a
    confluent-kafka producer name, if they do. `strict`: raise `LedgerError` instead of sending what cannot be
    recorded; otherwise recording stops with a warning and the application goes on. A new file begins after
    `rows` sends to a topic, or after `seconds`.

    Raises `Refusal` for what is no producer of a library that it knows, and for a folder that holds something
    else.
    """
    library_of(producer)
    _check(rows, seconds)
    known_acks, known_idempotent = known_settings(producer)
    recorder = SendRecorder(
        Path(folder),
        name=checked_name(name),
        header=header,
        sample=sample,
        strict=strict,
        rows=rows,
        seconds=seconds,
        acks=acks_level(known_acks if acks is None else acks),
        idempotent=known_idempotent if idempotent is None else idempotent,
    )
    made: Any
    match library_of(producer):
        case Library.CONFLUENT:
            made = DirectConfluent(producer, recorder, on_delivery)
        case _ if on_delivery is not None:
            raise Refusal("on_delivery is for a producer of confluent-kafka")
        case Library.KAFKA_PYTHON:
            made = DirectKafkaPython(producer, recorder)
        case Library.AIOKAFKA:
            made = DirectAiokafka(producer, recorder)
    weakref.finalize(made, recorder.close)
    return cast(P, made)


def watch(
    consumer: C,
    *,
    folder: str | PathLike[str],
    name: str = "consumer",
    group: str | None = None,
    rows: int = _ROWS,
    seconds: float = _SECONDS,
) -> C:
    """A consumer that behaves as this one, and whose reads are recorded in the folder. What it reads of
    producers that were wrapped with `header=True` is checked on the way: see `continuity`.

    `group`: the group of the consumer, for the evidence. If the folder cannot be written, recording stops
    with a warning and the application goes on. A new file begins after `rows` reads, or after `seconds`.

    Raises `Refusal` for what is no consumer of a library that it knows, or does not return bytes, and for a
    folder that holds something else.
    """
    check_consumer(consumer)
    _check(rows, seconds)
    recorder = ReadRecorder(Path(folder), name=checked_name(name), group=group, rows=rows, seconds=seconds)
    made = watched(consumer, recorder)
    weakref.finalize(made, recorder.close)
    return cast(C, made)


def continuity(consumer: Any) -> Continuity:
    """What a watched consumer has seen so far of every stream. Raises `Refusal` for another object."""
    if Consumer not in type(consumer).__mro__:
        raise Refusal("continuity takes a consumer that watch returned")
    found: Continuity = consumer._recorder.continuity
    return found


def _check(rows: int, seconds: float) -> None:
    if rows < 8 or rows % 8 or seconds <= 0:
        raise Refusal("rows is a multiple of 8, and seconds is above 0")


def acks_level(acks: int | str) -> int:
    """Raises `Refusal`."""
    if str(acks) not in _ACKS:
        raise Refusal(f"acks={acks!r}: one of all, 1, 0")
    return _ACKS[str(acks)]


def known_settings(producer: Any) -> tuple[int | str, bool]:
    """`acks` and idempotence as the producer tells them; librdkafka tells neither."""
    config = getattr(producer, "config", None)
    if isinstance(config, dict):  # kafka-python
        return config.get("acks", "all"), bool(config.get("enable_idempotence", False))
    sender = getattr(producer, "_sender", None)  # aiokafka
    found = getattr(sender, "_acks", "all")
    return found, getattr(producer, "_txn_manager", None) is not None
