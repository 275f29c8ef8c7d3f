"""The operations of a history of Jepsen's Kafka workload, whether it is written in EDN or as JSON lines.

Rules of the file:

* Only operations of clients count: sends, polls, transactions of both, and the keys that a consumer chose.
  Operations of the nemesis and of other kinds are skipped.
* A key is a number or a name; a value is identified by its text.
* In a completion the value of a send is ``[offset value]``, or the bare value if the offset is unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

from tidelog.errors import reason
from tidelog.evidence.folder import EvidenceError
from tidelog.evidence.importers.jepsen.edn import EdnError, Keyword, Tagged, read_forms, written

Key = int | str

NUMBERED: Final = "jepsen"
"""The topic whose partitions are the numeric keys. Other keys are topics themselves."""
INVOKE: Final = "invoke"
OK: Final = "ok"
FAIL: Final = "fail"
INFO: Final = "info"
ASSIGN: Final = "assign"
SUBSCRIBE: Final = "subscribe"
TXN: Final = "txn"
_TYPES: Final = (INVOKE, OK, FAIL, INFO)
_DATA: Final = ("send", "poll", TXN)
_CHOICES: Final = (ASSIGN, SUBSCRIBE)
_JSON: Final = re.compile(r'\s*\{\s*"')
_ERROR_CHARACTERS: Final = 200
_PARTITION_MAX: Final = 2**31 - 1
_INT64: Final = 2**63 - 1


class HistoryError(EvidenceError):
    """The file is not a history of the Kafka workload. The message names the place."""


@dataclass(slots=True, frozen=True)
class SendOp:
    key: Key
    value: str | None
    offset: int | None


@dataclass(slots=True, frozen=True)
class Poll:
    records: dict[Key, list[tuple[int | None, str | None]]]
    """The polled records of each key, in order: offset and value."""


@dataclass(slots=True)
class Op:
    number: int
    """Its index in the history, from 0."""
    process: int
    type: str
    f: str
    time_us: int
    steps: list[SendOp | Poll] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    """The keys that were assigned or subscribed to."""
    from_beginning: bool = False
    rebalanced: set[Key] = field(default_factory=set)
    """Keys that were reassigned meanwhile."""
    error: str | None = None

    @property
    def is_choice(self) -> bool:
        return self.f in _CHOICES

    @property
    def is_transaction(self) -> bool:
        """Jepsen combines several steps in one operation only if they are a transaction. Single steps may be
        transactions too, but they are atomic anyway."""
        return self.f == TXN or len(self.steps) > 1


def read_ops(path: Path) -> Iterator[Op]:
    """One operation after the other. Raises `HistoryError`."""
    try:
        with path.open(encoding="utf-8") as stream:
            first = stream.read(4096)
            stream.seek(0)
            source = _json_lines(stream) if _JSON.match(first) else _edn(stream)
            for number, (where, form) in enumerate(source):
                try:
                    op = _op(number, form)
                except (TypeError, ValueError, LookupError) as error:
                    raise HistoryError(f"{path}: {where} is not understood: {error}") from None
                if op is not None:
                    yield op
    except EdnError as error:
        raise HistoryError(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise HistoryError(f"{path}: this is no text in UTF-8: give the file history.edn") from None
    except OSError as error:
        raise HistoryError(f"{path}: {reason(error)}") from None


def _edn(stream: TextIO) -> Iterator[tuple[str, Any]]:
    for number, form in enumerate(read_forms(stream)):
        yield f"operation {number}", form


def _json_lines(stream: TextIO) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(stream, start=1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except json.JSONDecodeError as error:
                raise EdnError(f"line {number}, column {error.colno}: this is not JSON") from None
            except RecursionError:
                raise EdnError(f"line {number}: nested too deeply") from None


# ---------------------------------------------------------------- parsing an operation


def _op(number: int, form: Any) -> Op | None:
    if isinstance(form, Tagged):
        form = form.form
    if not isinstance(form, Mapping):
        raise ValueError("an operation is a map")
    said = {_name(key): value for key, value in form.items()}
    process, f = said.get("process"), _name(said.get("f"))
    if type(process) is not int or f not in _DATA + _CHOICES:
        return None
    kind = _name(said.get("type"))
    if kind not in _TYPES:
        raise ValueError(f"its type is {kind or 'missing'}, and not one of {', '.join(_TYPES)}")
    op = Op(number, process, kind, f, _time_us(said.get("time"), number))
    value = said.get("value")
    if f in _CHOICES:
        op.keys = [_key(key) for key in _listed(value)]
        op.from_beginning = said.get("seek-to-beginning?") is True
    else:
        op.steps = [_step(step, completed=kind != INVOKE) for step in _listed(value)]
    for change in _listed(said.get("rebalance-log")):
        op.rebalanced.update(_key(key) for key in _listed(_keys_of(change)))
    if said.get("error") is not None:
        op.error = written(said["error"])[:_ERROR_CHARACTERS]
    return op


def _time_us(nanoseconds: Any, number: int) -> int:
    """The time of an operation. Without a time the index in the history is used."""
    if nanoseconds is None:
        return number
    if not isinstance(nanoseconds, int | float) or not abs(nanoseconds) < _INT64:
        raise ValueError(f"{written(nanoseconds)} is no time in nanoseconds")
    return int(nanoseconds) // 1000


def _step(step: Any, *, completed: bool) -> SendOp | Poll:
    what, *rest = _listed(step)
    match _name(what), rest:
        case "send", [key, value]:
            if completed and isinstance(value, tuple | list):
                offset, value = value
                return SendOp(_key(key), _text(value), _offset(offset))
            return SendOp(_key(key), _text(value), None)
        case "poll", []:
            return Poll({})
        case "poll", [found]:
            return Poll(
                {_key(key): [_record(pair) for pair in pairs] for key, pairs in (found or {}).items()}
            )
    raise ValueError(f"{written(_frozen(step))} is neither [:send key value] nor [:poll records]")


def _record(pair: Any) -> tuple[int | None, str | None]:
    offset, value = pair
    return _offset(offset), _text(value)


def _offset(form: Any) -> int | None:
    if form is None or (type(form) is int and 0 <= form < _INT64):
        return form
    raise ValueError(f"{written(form)} is no offset")


def _text(form: Any) -> str | None:
    return None if form is None else written(_frozen(form))


def _key(form: Any) -> Key:
    """JSON object keys are strings, so a number in quotes counts as that number."""
    text = _name(form)
    number = form if type(form) is int else int(text) if text.isdecimal() and text.isascii() else None
    if number is not None and not 0 <= number <= _PARTITION_MAX:
        raise ValueError(f"key {number} is no number of a partition")
    if text == NUMBERED:
        raise ValueError(f"a key named {NUMBERED} cannot be distinguished from keys that are numbers")
    return text if number is None else number


def _name(form: Any) -> str:
    if isinstance(form, Keyword):
        return form.name
    return form.removeprefix(":") if isinstance(form, str) else written(_frozen(form))


def _listed(form: Any) -> Sequence[Any]:
    if form is None:
        return ()
    if isinstance(form, frozenset):
        return sorted(form, key=written)
    if not isinstance(form, tuple | list):
        raise ValueError(f"{written(_frozen(form))} is no vector")
    return form


def _keys_of(change: Any) -> Any:
    return {_name(key): value for key, value in change.items()}.get("keys")


def _frozen(form: Any) -> Any:
    return tuple(map(_frozen, form)) if isinstance(form, list) else form
