"""The nodes that every cluster has, whoever is alive: made by whichever keeper or broker comes first."""

from __future__ import annotations

import base64
import uuid

from tidelog.core.coordination import Create
from tidelog.core.paths import PERSISTENT
from tidelog.core.types import Millis
from tidelog.keeper.values import encode

CLUSTER_ID = "/cluster/id"


def standard_nodes(now: Millis) -> list[Create]:
    """Parents first, values as bytes. The cluster's id is new each time; the first one stored counts."""
    nodes: dict[str, Create] = {}
    for path in (*PERSISTENT, CLUSTER_ID):
        names = path.split("/")[1:]
        for depth in range(1, len(names) + 1):
            ancestor = "/" + "/".join(names[:depth])
            nodes[ancestor] = Create(ancestor, b"")
    nodes[CLUSTER_ID] = Create(CLUSTER_ID, encode(CLUSTER_ID, _new_cluster_id(), now))
    return list(nodes.values())


def _new_cluster_id() -> str:
    """As Kafka does it: a random UUID in 22 characters that are safe in a URL."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
