"""Faults that this machine does not allow: the test is skipped, and the reason says what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.cluster.errors import NotPossibleHere
from tidelog.testing.faults import Faults


class SkippingFaults(Faults):
    """As `Faults`; where a right is missing, the test is skipped."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or name in ("cluster", "controller", "end_schedule") or not callable(found):
            return found

        def done(*args: Any, **kwargs: Any) -> Any:
            try:
                return found(*args, **kwargs)
            except NotPossibleHere as error:
                pytest.skip(str(error))

        return done
