"""What an object holds: the length of every container that can be reached from it, by the way to it."""

from __future__ import annotations

import asyncio
import functools
import logging
import types
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

_LEAVES = (
    asyncio.AbstractEventLoop,
    # Its handlers are those of the test runner, which keep what the broker logs.
    logging.Logger,
    *(str, bytes, bytearray, memoryview, int, float, complex, type(None)),
    *(type, types.ModuleType, types.BuiltinFunctionType, types.FrameType),
)
_CONTAINERS = (dict, list, set, frozenset, deque, tuple)


def sizes(root: object) -> Counter[str]:
    """All containers of one place count together: `.core.replicas` and `.core.replicas[].log._batches`."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    ahead: deque[tuple[str, object]] = deque([("", root)])
    while ahead:
        place, each = ahead.popleft()
        if id(each) in seen or isinstance(each, _LEAVES):
            continue
        seen.add(id(each))
        if isinstance(each, _CONTAINERS):
            found[place] += len(each)
        ahead.extend((place + step, part) for step, part in _parts(each))
    return found


def _parts(each: Any) -> Iterator[tuple[str, object]]:
    if isinstance(each, dict):
        yield from (("[]", part) for part in (*each.values(), *each.keys()))
    elif isinstance(each, _CONTAINERS):
        yield from (("[]", part) for part in each)
    elif isinstance(each, types.MethodType):
        yield "()", each.__self__
    elif isinstance(each, types.FunctionType):
        yield from (("()", cell.cell_contents) for cell in each.__closure__ or () if _is_filled(cell))
    elif isinstance(each, functools.partial):
        yield from (("()", part) for part in (each.func, *each.args, *each.keywords.values()))
    elif isinstance(each, types.GeneratorType):
        yield from (("()", part) for part in (each.gi_frame.f_locals.values() if each.gi_frame else ()))
    else:
        names = {name for kind in type(each).__mro__ for name in _slots(kind)}
        for name in (*sorted(names), *getattr(each, "__dict__", ())):
            yield f".{name}", getattr(each, name, None)


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
