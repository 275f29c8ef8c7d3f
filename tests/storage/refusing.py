"""A disk that refuses certain calls, for as long as the test says."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def refusing(call: str, concerns: Callable[[Path], bool]) -> Iterator[None]:
    """The system refuses ``os.<call>`` of such paths."""
    true_call = getattr(os, call)

    def refuse(path: Any, *args: Any, **options: Any) -> Any:
        if concerns(Path(path)):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return true_call(path, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, refuse)
        yield
