"""Waiting for Spark in a way that hears Ctrl-C.

A signal that arrives while the main thread is inside a call to Java makes pyspark's handler call Java through
the same connection, which fails with pages of trace. So Spark is called from a thread of its own, and the
main thread only waits: the handler then cancels the jobs, and the interruption comes out here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

_LOOK_S = 0.2
_LEAVE_S = 20.0
"""How long a cancelled job may take to notice."""

T = TypeVar("T")


def patiently(spark: Any, action: Callable[[], T]) -> T:
    """What ``action`` returns or raises; `KeyboardInterrupt` if somebody has no more patience."""
    results: list[T] = []
    failures: list[BaseException] = []

    def act() -> None:
        try:
            results.append(action())
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=act, name="sweep", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_LOOK_S)
    except KeyboardInterrupt:
        if not hasattr(spark, "_jsparkSession"):
            with suppress(Exception):  # a server that is gone has nothing to cancel
                spark.interruptAll()
        thread.join(_LEAVE_S)
        raise
    if failures:
        raise failures[0]
    return results[0]
