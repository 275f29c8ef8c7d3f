"""What can go wrong with a cluster, each said in one line."""

from __future__ import annotations

from tidelog.errors import Refusal


class ClusterError(Refusal):
    """The cluster cannot do what was asked. The message is one line that says why."""


class NotPossibleHere(ClusterError):
    """This machine does not allow it: a right, or a feature of the system, is missing."""


class TrialError(ClusterError):
    """The trial cannot be played here. The message is one line that says why, and what to do."""
