"""How much memory an action takes at most."""

import tracemalloc
from collections.abc import Callable


def peak_bytes(action: Callable[[], object], *, limit: float) -> int:
    """The least of several measurements, if one is above the limit: threads that run clusters for other tests
    allocate, too."""
    peaks: list[int] = []
    while not peaks or (min(peaks) > limit and len(peaks) < 6):
        tracemalloc.start()
        try:
            action()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks)
