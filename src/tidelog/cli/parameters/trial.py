"""The options of ``tidelog trial``, in groups."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from tidelog.cli import completion
from tidelog.cli.options import flag, value
from tidelog.cli.paths import absolute
from tidelog.faults import TRIAL_FAULTS
from tidelog.pipeline.jobs import JOBS

_load = partial(value, rich_help_panel="Load")
_cluster = partial(value, rich_help_panel="Cluster and topic")
_faults = partial(value, rich_help_panel="Faults")
_output = partial(value, rich_help_panel="Output")
_job = partial(value, rich_help_panel="Streaming job")

Seconds = Annotated[
    float | None,
    _load("S", "Duration of the load in seconds.", default="60", min=1.0),
]
Minutes = Annotated[
    float | None,
    _load("M", "Duration of the load in minutes.", default=False, min=0.01),
]
Rate = Annotated[float, _load("R", "Maximum records per second.", min=0.1)]
Brokers = Annotated[int, _cluster("N", "Brokers in the cluster.", min=1, max=100)]
Partitions = Annotated[int, _cluster("N", "Partitions of the topic.", min=1, max=10_000)]
Replicas = Annotated[
    int | None,
    _cluster("N", "Replicas of each partition.", "--replication-factor", default="up to 3", min=1),
]
MinInsync = Annotated[
    int | None,
    _cluster("N", "min.insync.replicas of the topic.", "--min-insync", default="2", min=1),
]
Acks = Annotated[
    str,
    _load(
        "LIST",
        "acks of the producers, assigned in turn: 0, 1, all.",
        autocompletion=completion.lists(lambda: ("0", "1", "all")),
    ),
]
Idempotence = Annotated[
    str,
    _load(
        "I",
        "Idempotence of producers with acks=all: on, off or mixed.",
        autocompletion=completion.words("on", "off", "mixed"),
    ),
]
Producers = Annotated[int, _load("N", "Number of producers.", min=1, max=500)]
Consumers = Annotated[int, _load("N", "Number of consumers; each reads all partitions.", min=0, max=100)]
ValueBytes = Annotated[int, _load("N", "Size of a value.", "--value-bytes", min=1, max=1_000_000)]
DeliveryTimeout = Annotated[
    float,
    _load("S", "Delivery timeout of a send in seconds.", "--delivery-timeout", min=1.0, max=86_400.0),
]


def _not_in_all() -> str:
    named = [name for name, fault in TRIAL_FAULTS.items() if not fault.by_default]
    return f"; all leaves out {', '.join(named)}" if named else ""


FaultList = Annotated[
    str,
    _faults(
        "LIST",
        f"Faults to inject: all, none, or a list of {', '.join(TRIAL_FAULTS)}{_not_in_all()}.",
        "--faults",
        autocompletion=completion.lists(completion.trial_faults),
    ),
]
Every = Annotated[float, _faults("S", "Average seconds between faults.", min=0.1)]
Network = Annotated[
    str,
    _faults(
        "N",
        "Network faults by relays (TCP proxies) or netns (network namespaces; needs root).",
        autocompletion=completion.words("relays", "netns"),
    ),
]
DownMax = Annotated[
    int | None,
    _faults("N", "Maximum brokers down at once.", "--down-max", default="1", min=1),
]
Schedule = Annotated[
    Path | None,
    _faults("FILE", "Replay the faults of a trial.json.", default=False, callback=absolute),
]
Seed = Annotated[
    int | None,
    _faults("N", "Random seed for the faults.", default="random, printed", min=0),
]
Evidence = Annotated[
    Path | None,
    _output("DIR", "Output directory.", default="trial-DATE-TIME", callback=absolute),
]
Servers = Annotated[
    str | None,
    _cluster(
        "H:P,…",
        "Run against an existing Kafka cluster, without faults.",
        "--bootstrap-servers",
        "-b",
        default=False,
    ),
]
SetOption = Annotated[
    list[str] | None,
    _cluster(
        "NAME=VALUE",
        "Setting of every broker; repeatable.",
        "--set",
        default=False,
        autocompletion=completion.broker_settings,
    ),
]
ClientOption = Annotated[
    list[str] | None,
    _load(
        "NAME=VALUE",
        "Setting of all clients, with librdkafka's names; repeatable.",
        "--client",
        default=False,
    ),
]
NoAudit = Annotated[
    bool,
    flag(
        "Skip the audit; only check for lost records, without Spark.", "--no-audit", rich_help_panel="Output"
    ),
]
Through = Annotated[
    str | None,
    _job(
        "JOB",
        "Also copy the topic into a table with a streaming job that is killed meanwhile, and compare: "
        f"{', '.join(JOBS)}, or a Python script of your own.",
        default=False,
        autocompletion=completion.words(*JOBS),
    ),
]
JobFaults = Annotated[
    str | None,
    _job(
        "LIST",
        "What happens to the job, in order: kill (between rows and commit), expire (kill it, and let records "
        "expire before it is back), forget (kill it, and delete its checkpoint), recreate (first in the "
        "list: before the load its topic is deleted and created again), or none.",
        "--job-faults",
        default="kill",
        autocompletion=completion.lists(lambda: ("kill", "expire", "forget", "recreate")),
    ),
]
