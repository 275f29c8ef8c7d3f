"""The states of partitions and replicas in the controller's machines, as Kafka names them.

They are written to evidence: once released, a value keeps its meaning.
"""

from __future__ import annotations

from enum import StrEnum


class PartitionPhase(StrEnum):
    """A partition's state in the controller's partition machine."""

    NON_EXISTENT = "non_existent"
    """Never stored: such a partition is not listed."""
    NEW = "new"
    """It has replicas, but no leader and no ISR yet."""
    ONLINE = "online"
    OFFLINE = "offline"
    """Its leader failed, and no other has been elected."""


class ReplicaPhase(StrEnum):
    """A replica's state in the controller's replica machine."""

    NON_EXISTENT = "non_existent"
    """Never stored: such a replica is not listed."""
    NEW = "new"
    """It may only become a follower."""
    ONLINE = "online"
    OFFLINE = "offline"
    """Its broker failed."""
    DELETION_STARTED = "deletion_started"
    """Its broker has not yet answered the request to delete it."""
    DELETION_SUCCESSFUL = "deletion_successful"
    DELETION_INELIGIBLE = "deletion_ineligible"
    """It cannot be deleted now: its broker is down."""
