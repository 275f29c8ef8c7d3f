"""A cluster without clients is quiet."""

import time
from pathlib import Path
from urllib.request import urlopen

from bench.processes import PATIENCE_SECONDS
from prometheus_client.parser import text_string_to_metric_families
from tests.broker.running import create

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec

WAIT_SECONDS = 0.5
"""replica.fetch.wait.max.ms: for so long a follower's fetch waits at its leader."""
WINDOW_SECONDS = 2.0


def fetches(cluster: Cluster) -> float:
    """The fetch requests that all brokers have answered so far."""
    total = 0.0
    for broker in cluster.brokers:
        with urlopen(f"http://{broker.host}:{broker.metrics_port}/metrics", timeout=PATIENCE_SECONDS) as page:
            families = text_string_to_metric_families(page.read().decode())
        total += sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == "tidelog_request_latency_seconds_count"
            and sample.labels["api"].lower() == "fetch"
        )
    return total


def test_followers_that_have_everything_only_wait(tmp_path: Path):
    """One fetch a follower and leader waits for its time, however the partitions came together: those of a
    topic that is created while it waits must not make two requests of it that release each other."""
    with Cluster(ClusterSpec(), tmp_path) as cluster:
        for topic in ("a", "b", "c", "d"):
            create(cluster, topic, partitions=3)
        for topic in ("a", "b", "c", "d"):
            cluster.wait_isr(topic, 3)
        before, began = fetches(cluster), time.monotonic()
        time.sleep(WINDOW_SECONDS)  # a slow machine answers fewer in it, never more
        answered, seconds = fetches(cluster) - before, time.monotonic() - began
    lines = 6  # each of three brokers follows two others
    assert 0 < answered <= 2 * lines * (seconds / WAIT_SECONDS + 1)
