"""A disk that fails: any call into the file system may be the one that is refused.

Wraps the functions of ``os`` through which storage reaches its files, counts them, and lets those fail that a
``Fault`` names. Unlike ``power`` nothing is lost: what was written is there when the process is killed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from traceback import extract_stack
from typing import Any, NamedTuple

import pytest

WRITES = ("pwrite", "write")
NAMES = ("rename", "replace", "mkdir")
OTHERS = (
    *("pread", "ftruncate", "fsync", "fdatasync", "unlink", "rmdir", "utime", "dup", "fstat", "stat"),
    *("listdir", "scandir"),
)


class Kind(Enum):
    ONE_CALL = "one call fails"
    FULL = "nothing that needs room succeeds"
    BROKEN = "no call succeeds"


class Fault(NamedTuple):
    kind: Kind
    first_call: int
    """The number of the first call that fails; the others follow until the disk is repaired."""


class Step(NamedTuple):
    """What calls are made for, as the test says, and their numbers."""

    name: str
    calls: list[int]


class FaultyDisk:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._calls = 0
        self.failed = 0
        self.fault: Fault | None = None
        self.first_failure = ""
        """Which call it was, and from where."""
        self._watching = False

    @contextmanager
    def installed(self) -> Iterator[FaultyDisk]:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("open", *WRITES, *NAMES, *OTHERS):
                patch.setattr(os, name, self._wrapped(name, getattr(os, name)))
            yield self

    def begin(self, step: str) -> None:
        self.steps.append(Step(step, []))

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Only what happens in here is counted, and fails."""
        self._watching = True
        try:
            yield
        finally:
            self._watching = False

    @contextmanager
    def repaired(self) -> Iterator[None]:
        """Nothing in here is counted, and nothing fails."""
        watching, self._watching = self._watching, False
        try:
            yield
        finally:
            self._watching = watching

    def repair(self) -> None:
        """From now on nothing fails, if anything has."""
        if self.failed:
            self.fault = None

    def _wrapped(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if not self._watching:
                return original(*arguments, **options)
            number, self._calls = self._calls, self._calls + 1
            self.steps[-1].calls.append(number)
            if self._fails(name, number, arguments):
                self._note(name)
                if name in WRITES and self.fault is not None and self.fault.kind is Kind.FULL:
                    half = len(arguments[1]) // 2
                    if half and self.failed == 1:
                        return original(arguments[0], arguments[1][:half], *arguments[2:])
                raise OSError(self._error(name, arguments), "the disk failed", arguments[0])
            return original(*arguments, **options)

        return call

    def _fails(self, name: str, number: int, arguments: tuple[Any, ...]) -> bool:
        fault = self.fault
        if fault is None or number < fault.first_call:
            return False
        if fault.kind is Kind.ONE_CALL:
            return number == fault.first_call
        if fault.kind is Kind.FULL:
            return _needs_room(name, arguments)
        return True

    def _error(self, name: str, arguments: tuple[Any, ...]) -> int:
        return errno.ENOSPC if _needs_room(name, arguments) else errno.EIO

    def _note(self, name: str) -> None:
        self.failed += 1
        if self.failed == 1:
            ours = [
                f"{Path(frame.filename).stem}.{frame.name}:{frame.lineno}"
                for frame in extract_stack()
                if "tidelog" in frame.filename
            ]
            self.first_failure = f"{name} from {' > '.join(ours[-4:])}"


def _needs_room(name: str, arguments: tuple[Any, ...]) -> bool:
    return name in WRITES or name in NAMES or (name == "open" and bool(arguments[1] & os.O_CREAT))
