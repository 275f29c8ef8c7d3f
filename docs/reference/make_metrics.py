"""Print the page of all metrics from the table that brokers serve.

Run from the root of the tree:
``.venv/bin/python docs/reference/make_metrics.py > docs/reference/metrics.md``.
"""

from typing import NamedTuple

from tidelog.broker.metrics.table import GROUPS, Definition

HEAD = """\
# Metrics of a broker

With `tidelog.metrics.port=PORT` a broker answers `GET /metrics` there in Prometheus's text format (0 takes
any free port, which the broker prints when it serves; `tidelog up` does so for each of its brokers). There is
no encryption and no login: let only the scraper reach the port.

```yaml
scrape_configs:
  - job_name: tidelog
    static_configs:
      - targets: ["10.0.0.1:9404", "10.0.0.2:9404", "10.0.0.3:9404"]
```

What can be read off the broker's state is read when the scrape comes; only events and requests are counted.
A scrape costs about 50 ms of a core per 1,000 partitions, in slices of a few milliseconds between requests.

`GET /state` on the same port tells in JSON what a number with labels cannot: for each partition the role,
leader, epoch, log end and high watermark; at a leader the log end of each follower by its fetches
(`remote`) and when it last had everything, and the requests that wait, with their senders (`parked`); on
the controller its epoch (`controls`) and the states of its partition and replica machines. `curl -s
HOST:PORT/state | jq` answers "for whom does this acks=all wait?". `tidelog scenario run NAME --stage
cluster --detail` shows the same in words.

## What to alert on

*Page* means that data or availability is at stake now.

"""

AFTER_ALERTS = """
Under the generation `majority` the ISR is the assignment: watch the lag of followers instead of the ISR.

<!-- Written by docs/reference/make_metrics.py. -->
"""

FOOT = """
Besides, `process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_open_fds` and their like, as
from other programs.
"""


class Alert(NamedTuple):
    urgency: str
    expression: str
    hold: str
    means: str
    do: str


P99 = "histogram_quantile(0.99, sum by (le) (rate(tidelog_request_latency_seconds_bucket{%s}[5m])))"

ALERTS = (
    Alert(
        "page",
        'increase(tidelog_leader_elections_total{kind="unclean"}[10m]) > 0',
        "",
        "a replica that was not in sync was elected: acknowledged records may be gone",
        "turn `unclean.leader.election.enable` off; the [events](events.md) say what was cut off where",
    ),
    Alert(
        "page",
        "max(tidelog_offline_partitions) > 0",
        "1m",
        "no leader: no reads, no writes",
        "bring back a member of the ISR",
    ),
    Alert(
        "page",
        "sum(tidelog_active_controller) != 1",
        "1m",
        "no controller, or one that does not know yet that it was deposed",
        "see to the keeper and to the brokers' connections to it",
    ),
    Alert(
        "page",
        "sum(tidelog_under_min_isr_partitions) > 0",
        "1m",
        "acks=all is refused",
        "bring back followers",
    ),
    Alert(
        "page",
        "min(tidelog_keeper_connected) == 0",
        "30s",
        "a broker is losing its registration and its leaderships",
        "see to the keeper and the network",
    ),
    Alert(
        "soon",
        "sum(tidelog_at_min_isr_partitions) > 0",
        "5m",
        "one more failure and acks=all is refused",
        "bring back followers",
    ),
    Alert(
        "soon",
        "sum(tidelog_under_replicated_partitions) > 0",
        "10m",
        "a follower is down or too slow",
        "look at its lag, its disk, its log",
    ),
    Alert(
        "soon",
        "max by (topic, partition, follower) (tidelog_partition_follower_lag_records) > 10000",
        "10m",
        "a follower does not catch up",
        "the same",
    ),
    Alert(
        "soon",
        "rate(tidelog_isr_shrinks_total[10m]) > 0.01",
        "",
        "followers leave the ISR again and again",
        "network, disk, or too short a `replica.lag.time.max.ms`",
    ),
    Alert(
        "soon",
        "increase(tidelog_keeper_sessions_lost_total[1h]) > 0",
        "",
        "a broker was away for longer than `zookeeper.session.timeout.ms`",
        "network, or a process that was paused (swap, suspended machine)",
    ),
    Alert(
        "soon",
        "sum(tidelog_stalled_followers) > 0",
        "5m",
        "a replica waits for the controller to say who leads",
        "see to the controller",
    ),
    Alert(
        "soon",
        P99 % 'api="Produce"' + " > 1",
        "5m",
        "producers wait",
        "many `tidelog_parked_produces` wait for followers, few for the disk",
    ),
    Alert(
        "soon",
        'rate(tidelog_errors_answered_total{error="KAFKA_STORAGE_ERROR"}[5m]) > 0',
        "",
        "a disk is full or broken",
        "make room",
    ),
    Alert(
        "soon",
        "max(tidelog_storage_trouble) == 1",
        "",
        "a checkpoint could not be written: the next start will scan more, or begin lower than it could",
        "look at the disk",
    ),
    Alert(
        "soon",
        "increase(tidelog_loop_holds_total[10m]) > 0",
        "",
        "a broker did not answer for more than 0.1 s",
        "a machine with too little processor, or a request too large: see `tidelog_loop_worked_seconds_max`",
    ),
    Alert(
        "soon",
        "max(tidelog_recovery_missing_offsets_total) > 0",
        "",
        "a replica started without records that it had: files were removed, or a power cut took what was not "
        "synced; followers have them, if there were any in sync",
        "the broker's log names the offsets; see what removes files in its data directory",
    ),
    Alert(
        "note",
        "max(tidelog_recovery_truncated_bytes_total) > 0",
        "",
        "a crash tore the end of a log; followers have it, if there were any in sync",
        "look at `log_recovered` in the [events](events.md)",
    ),
    Alert(
        "note",
        "increase(tidelog_truncated_records_total[1h]) > 0",
        "",
        "a follower dropped what its leader does not have: normal after a fail-over, unless it was "
        "acknowledged with acks=all",
        "look at `truncated` in the [events](events.md)",
    ),
    Alert(
        "note",
        "min(tidelog_evidence_recording) == 0",
        "",
        "a broker does not record its events any more",
        "make room, restart it",
    ),
    Alert(
        "note",
        "rate(tidelog_protocol_errors_total[10m]) + rate(tidelog_connections_refused_total[10m]) > 0",
        "",
        "a client speaks TLS or HTTP to the port, or opens too many connections",
        "the broker's log names the address",
    ),
)


def alerts() -> str:
    lines = ["| urgency | expression | for | means | do |\n|---|---|---|---|---|\n"]
    lines += [f"| {a.urgency} | `{a.expression}` | {a.hold} | {a.means} | {a.do} |\n" for a in ALERTS]
    return "".join(lines)


def row(definition: Definition) -> str:
    labels = ", ".join(f"`{label}`" for label in definition.labels)
    return f"| `{definition.name}` | {definition.kind} | {labels} | {definition.doc} |\n"


def page() -> str:
    parts = [HEAD, alerts(), AFTER_ALERTS]
    for group, definitions in GROUPS.items():
        parts.append(f"\n## {group}\n\n| name | kind | labels | |\n|---|---|---|---|\n")
        parts += map(row, definitions)
    return "".join([*parts, FOOT])


if __name__ == "__main__":
    print(page(), end="")
