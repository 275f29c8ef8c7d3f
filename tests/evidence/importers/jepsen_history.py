"""Histories of Jepsen's Kafka workload, written down step by step and printed as EDN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Record = tuple[int, str]


def send(key: str, value: str, offset: int | None = None) -> str:
    return f"[:send :{key} {value if offset is None else f'[{offset} {value}]'}]"


def poll(**records: Sequence[Record]) -> str:
    if not records:
        return "[:poll]"
    polled = " ".join(
        f":{key} [{' '.join(f'[{offset} {value}]' for offset, value in found)}]"
        for key, found in records.items()
    )
    return f"[:poll {{{polled}}}]"


class History:
    """`scope` is put before each key, and `first_process` added to each process, so that many histories fit
    into one. An operation takes a millisecond."""

    def __init__(self, scope: str = "", first_process: int = 0) -> None:
        self.lines: list[str] = []
        self._scope = scope
        self._first_process = first_process
        self._time_ms = 0

    def ok(self, process: int, *steps: str, f: str | None = None, **more: Any) -> History:
        return self.op(process, "ok", steps, f, **more)

    def fail(self, process: int, *steps: str, f: str | None = None, **more: Any) -> History:
        return self.op(process, "fail", steps, f, **more)

    def info(self, process: int, *steps: str, f: str | None = None, **more: Any) -> History:
        return self.op(process, "info", steps, f, **more)

    def assign(self, process: int, *keys: str, kind: str = "ok", f: str = "assign", **more: Any) -> History:
        return self.op(process, kind, [f":{key}" for key in keys], f, **more)

    def op(self, process: int, kind: str, steps: Sequence[str], f: str | None = None, **more: Any) -> History:
        """An operation from beginning to end: what was asked for is what it did, without the offsets."""
        return self.invoke(process, *steps, f=f).complete(process, kind, steps, f, **more)

    def invoke(self, process: int, *steps: str, f: str | None = None) -> History:
        return self._line(process, "invoke", [_asked(step) for step in steps], f)

    def complete(
        self, process: int, kind: str, steps: Sequence[str], f: str | None = None, **more: Any
    ) -> History:
        return self._line(process, kind, steps, f, **more)

    def _line(self, process: int, kind: str, steps: Sequence[str], f: str | None, **more: Any) -> History:
        self._time_ms += 1
        value = " ".join(steps)
        if self._scope:
            value = value.replace(":send :", f":send :{self._scope}.").replace("{:", f"{{:{self._scope}.")
            value = value.replace("] :", f"] :{self._scope}.")
            if steps and steps[0].startswith(":"):
                value = " ".join(f":{self._scope}.{step[1:]}" for step in steps)
        extra = "".join(f", :{name} {told}" for name, told in more.items())
        self.lines.append(
            f"{{:type :{kind}, :f :{f or _kind(steps)}, :value [{value}], "
            f":process {self._first_process + process}, :time {self._time_ms * 1_000_000}{extra}}}"
        )
        return self


def _kind(steps: Sequence[str]) -> str:
    kinds = {step[2:6] for step in steps}
    return kinds.pop() if len(kinds) == 1 else "txn"


def _asked(step: str) -> str:
    if step.startswith("[:poll"):
        return "[:poll]"
    if step.startswith("[:send") and step.endswith("]]"):
        head, _, pair = step.rpartition("[")
        return f"{head}{pair.rstrip(']').split()[1]}]"
    return step
