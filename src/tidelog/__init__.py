"""A Kafka-compatible replicated log that can tell whether a promised record can be lost, and show how.

The packages form layers and import downwards only; the contracts are in pyproject.toml. `Cluster`,
`AsyncCluster` and `ClusterSpec` run brokers from Python; they are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog._version import __version__

if TYPE_CHECKING:
    from tidelog.cluster.async_cluster import AsyncCluster
    from tidelog.cluster.cluster import Cluster
    from tidelog.cluster.spec import ClusterSpec

__all__ = ("AsyncCluster", "Cluster", "ClusterSpec", "__version__")

_HOMES = {
    "AsyncCluster": "tidelog.cluster.async_cluster",
    "Cluster": "tidelog.cluster.cluster",
    "ClusterSpec": "tidelog.cluster.spec",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
