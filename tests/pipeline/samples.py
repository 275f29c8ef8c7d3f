"""Verdicts, timelines and manifests of our own, for what only draws or prints them."""

from typing import Any

from tidelog.evidence.folder import COMPLETE, Manifest
from tidelog.pipeline.report import timeline as t

SPAN_MS = 60_000


def manifest(**changes: Any) -> Manifest:
    facts: dict[str, Any] = {
        "state": COMPLETE,
        "generation": "hw",
        "seed": 7,
        "load_started_us": 1_000_000,
        "load_ended_us": 61_000_000,
        "settings": {"seconds": 60.0, "workload": {"acks": [1, -1], "rate": 500.0, "producers": 6}},
        "topics": [
            {
                "name": "trial",
                "partitions": 6,
                "replication_factor": 3,
                "configs": {"min.insync.replicas": "2"},
            }
        ],
        "brokers": [{"id": n, "zone": f"az{n}"} for n in (1, 2, 3)],
        "schedule": [{"number": 0, "kind": "kill", "targets": ["1"], "at_ms": 1000, "duration_ms": 4000}],
    }
    return Manifest("cluster", **(facts | changes))


def verdict(**changes: Any) -> dict[str, Any]:
    """Of a trial in which 137 records were lost, most of them for a known reason."""
    rule = "truncated to its own high watermark"
    lost = {"severity": "violation", "topic": "trial", "partition": 2, "acks": -1, "producer": "p3"}
    facts: dict[str, Any] = {
        "held": False,
        "conclusive": True,
        "judged": ["lost", "duplicated"],
        "unjudged": ["unseen: there was no final read"],
        "totals": {
            "sends": {
                "total": 50_600,
                "ok": 50_500,
                "failed": 40,
                "unknown": 60,
                "by_acks": {"all": {"ok": 30_000}, "1": {"ok": 20_000}, "0": {"ok": 500}},
            },
            "records": {"1": 50_000},
            "reads": {"c1": 50_000, "final": 50_000},
            "faults": {"kill": 1},
        },
        "counts": {
            "lost": {"violation": 137, "notice": 0},
            "duplicated": {"violation": 0, "notice": 5},
        },
        "causes": [
            {"anomaly": "lost", "severity": "violation", "rule": rule, "explained": True, "count": 120},
            {
                "anomaly": "lost",
                "severity": "violation",
                "rule": "unexplained",
                "explained": False,
                "count": 17,
            },
            {
                "anomaly": "duplicated",
                "severity": "notice",
                "rule": "sent again",
                "explained": True,
                "count": 5,
            },
        ],
        "examples": {
            "lost": [
                lost
                | {
                    "value": f"p3-{n}",
                    "offset": n,
                    "rule": rule,
                    "cause": f"broker 2 cut off p3-{n}",
                    "detail": "gone",
                }
                for n in range(20)
            ]
        },
    }
    return facts | changes


def held() -> dict[str, Any]:
    return verdict(held=True, counts={"lost": {"violation": 0, "notice": 0}}, causes=[], examples={})


def story(topic: str = "trial", partition: int = 0, spans: int = 3) -> t.PartitionStory:
    """A partition whose leader changes so many times."""
    length = SPAN_MS // spans
    return t.PartitionStory(
        topic,
        partition,
        states=[
            t.StateSpan(
                n * length, (n + 1) * length, n % 4 - 1 if n % 4 == 0 else n % 3 + 1, n, (1, 2, 3)[: n % 4]
            )
            for n in range(spans)
        ],
        changes=spans,
        unavailable=[
            t.Window(n * length, n * length + 10, "the keeper knew no leader") for n in range(spans)
        ],
        offsets=[
            t.OffsetPoint(n * length, n % 3 + 1, n * 97 if n % 7 == 0 else None, n * 95) for n in range(spans)
        ],
        truncations=[
            t.Truncation(n * length, 2, n * 97, n * 90, "the leader's log is shorter") for n in range(spans)
        ],
        replicas=[t.ReplicaEnd(broker, 0, 100 - broker // 3, 90, broker < 3) for broker in (1, 2, 3)],
    )


def timeline(
    buckets: int = 20, partitions: int = 3, spans: int = 3, faults: int = 2, topic: str = "trial"
) -> t.Timeline:
    """As large as it is asked to be."""
    step = SPAN_MS // buckets
    at = [n * step for n in range(buckets)]
    return t.Timeline(
        SPAN_MS,
        SPAN_MS - 500,
        step,
        step,
        {"p50": 1.5, "p99": 80.0, "max": 4000.0},
        load=[
            t.Load(ms, acks, 100 + ms % 37, 1, 2, 1.5 + ms % 11, 99.1 + ms)
            for ms in at
            for acks in (-1, 0, 1)
        ],
        settled=[t.Settled(ms, acks, 90 + ms % 41) for ms in at for acks in (-1, 0, 1)],
        reads=[t.Reads(ms, f"c{n}", 95 + ms % 13) for ms in at for n in range(t.CONSUMERS_MAX)],
        consumers_left_out=3,
        found=[t.Found(ms, "lost", 5) for ms in at],
        faults=[
            t.FaultSpan(n, "kill", (str(n % 3 + 1),), n * SPAN_MS // faults, n * SPAN_MS // faults + 90, None)
            for n in range(faults)
        ],
        faults_left_out=4,
        partitions=[story(topic, n, spans) for n in range(partitions)],
        partitions_left_out=988,
    )
