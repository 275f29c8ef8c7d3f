"""The operations that a client may perform, as a set of bits (KIP-430).

The broker has no access control, so it reports all operations as allowed.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

NOT_ASKED: Final = -(1 << 31)


class Operation(IntEnum):
    """Kafka's operations, by the numbers of their bits."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


_SETTINGS = _bits(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)

ON_TOPIC: Final = _SETTINGS | _bits(
    Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE
)
ON_GROUP: Final = _bits(Operation.READ, Operation.DESCRIBE, Operation.DELETE)
ON_CLUSTER: Final = _SETTINGS | _bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.IDEMPOTENT_WRITE,
)
