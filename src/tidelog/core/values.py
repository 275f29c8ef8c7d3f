"""Values: objects that never change after their creation.

For the type checker they are frozen dataclasses. At run time that is not enforced, because it is slow: a
frozen dataclass sets each attribute through ``object.__setattr__`` and takes three to four times as long to
create, and the simulator creates some 130 of them in a trial of a few milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def immutable(cls: type[T]) -> type[T]:
    """Make a class a slotted dataclass, equal and hashed by its fields. Instances must not be changed."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
