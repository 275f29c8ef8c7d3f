"""Waiting for Spark in a way that hears Ctrl-C.

pyspark's own handler of the signal calls Java from wherever the main thread happens to be; if that is another
call to Java, or a second Ctrl-C comes during the first, the answer is pages of trace. So Spark is called from
a thread of its own, the main thread only waits, and as long as it does the signal is ours: the first one
cancels the jobs, further ones change nothing.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

_LOOK_S = 0.2
_LEAVE_S = 20.0
"""How long a cancelled job may take to notice."""

T = TypeVar("T")


def interruptible(spark: Any, action: Callable[[], T]) -> T:
    """What ``action`` returns or raises; `KeyboardInterrupt` after Ctrl-C."""
    results: list[T] = []
    failures: list[BaseException] = []

    def act() -> None:
        try:
            results.append(action())
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=act, name="sweep", daemon=True)
    with _interrupted_once():
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_LOOK_S)
        except KeyboardInterrupt:
            _cancel(spark)
            thread.join(_LEAVE_S)
            raise
    if failures:
        raise failures[0]
    return results[0]


def _cancel(spark: Any) -> None:
    with suppress(Exception):  # a Spark that is gone has nothing to cancel
        if hasattr(spark, "_jsparkSession"):
            spark.sparkContext.cancelAllJobs()
        else:
            spark.interruptAll()


@contextmanager
def _interrupted_once() -> Iterator[None]:
    """Ctrl-C raises `KeyboardInterrupt` the first time, and nothing afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal heard
        if not heard:
            heard = True
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
