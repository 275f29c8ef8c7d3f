"""A process that is killed at a call into the file system."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CALLS = ("open", "pwrite", "write", "ftruncate", "fsync", "fdatasync", "rename", "replace", "unlink", "utime")


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def killed_at(call: int) -> Iterator[Callable[[], int]]:
    """The process ends instead of making the given call that could change a file. The value counts them."""
    made = 0

    def counting(original: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal made
            if original.__name__ != "open" or arguments[1] & os.O_CREAT:
                if made == call:
                    raise Killed
                made += 1
            return original(*arguments, **options)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            original = getattr(os, name)
            if not hasattr(original, "__name__"):
                original.__name__ = name
            patch.setattr(os, name, counting(original))
        yield lambda: made
