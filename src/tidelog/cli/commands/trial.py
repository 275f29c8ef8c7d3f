"""``tidelog trial``: run load on a cluster while faults happen, then audit every acknowledged record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tidelog.cli import completion
from tidelog.cli.options import (
    GenerationChoice,
    JsonOption,
    UncleanOption,
    flag,
    generation_named,
    one_of,
    value,
)
from tidelog.cli.paths import absolute
from tidelog.errors import Refusal
from tidelog.extras import require
from tidelog.faults import TRIAL_FAULTS
from tidelog.pipeline.jobs import JOBS

if TYPE_CHECKING:
    from tidelog.trials.job import JobPlan

EXAMPLES = """\b
Examples:
  tidelog trial                                 load and faults for a minute, then audit
  tidelog trial --generation hw --acks 1,all    use the rules of Kafka 0.10
  tidelog trial --minutes 10 --faults kill,zone --seed 7
  tidelog trial --schedule trial-1/trial.json   repeat the faults of a trial
  sudo tidelog trial --network netns            let the kernel drop packets
  tidelog trial --through parquet               and through a Spark job into a table
  tidelog trial -b kafka:9092 --seconds 30      load an existing Kafka cluster

\b
Exit code: 0 every promise held, 1 a promise was broken, 2 inconclusive or wrong usage.
"""

LOAD, CLUSTER, FAULTS, OUTPUT = "Load", "Cluster and topic", "Faults", "Output"
JOB = "Streaming job"

Seconds = Annotated[
    float | None,
    value("S", "Duration of the load in seconds.", default="60", min=1.0, rich_help_panel=LOAD),
]
Minutes = Annotated[
    float | None,
    value("M", "Duration of the load in minutes.", default=False, min=0.01, rich_help_panel=LOAD),
]
Rate = Annotated[float, value("R", "Maximum records per second.", min=0.1, rich_help_panel=LOAD)]
Brokers = Annotated[int, value("N", "Brokers in the cluster.", min=1, max=100, rich_help_panel=CLUSTER)]
Partitions = Annotated[
    int, value("N", "Partitions of the topic.", min=1, max=10_000, rich_help_panel=CLUSTER)
]
Replicas = Annotated[
    int | None,
    value(
        "N",
        "Replicas of each partition.",
        "--replication-factor",
        default="up to 3",
        min=1,
        rich_help_panel=CLUSTER,
    ),
]
MinInsync = Annotated[
    int | None,
    value(
        "N", "min.insync.replicas of the topic.", "--min-insync", default="2", min=1, rich_help_panel=CLUSTER
    ),
]
Acks = Annotated[
    str,
    value(
        "LIST",
        "acks of the producers, assigned in turn: 0, 1, all.",
        rich_help_panel=LOAD,
        autocompletion=completion.lists(lambda: ("0", "1", "all")),
    ),
]
Idempotence = Annotated[
    str,
    value(
        "I",
        "Idempotence of producers with acks=all: on, off or mixed.",
        rich_help_panel=LOAD,
        autocompletion=completion.words("on", "off", "mixed"),
    ),
]
Producers = Annotated[int, value("N", "Number of producers.", min=1, max=500, rich_help_panel=LOAD)]
Consumers = Annotated[
    int, value("N", "Number of consumers; each reads all partitions.", min=0, max=100, rich_help_panel=LOAD)
]
ValueBytes = Annotated[
    int, value("N", "Size of a value.", "--value-bytes", min=1, max=1_000_000, rich_help_panel=LOAD)
]
DeliveryTimeout = Annotated[
    float,
    value("S", "Delivery timeout of a send in seconds.", "--delivery-timeout", min=1.0, rich_help_panel=LOAD),
]


def _not_in_all() -> str:
    named = [name for name, fault in TRIAL_FAULTS.items() if not fault.by_default]
    return f" (all is without {', '.join(named)})" if named else ""


FaultList = Annotated[
    str,
    value(
        "LIST",
        f"Faults to inject: all, none, or a list of {', '.join(TRIAL_FAULTS)}.{_not_in_all()}",
        "--faults",
        rich_help_panel=FAULTS,
        autocompletion=completion.lists(completion.trial_faults),
    ),
]
Every = Annotated[float, value("S", "Average seconds between faults.", min=0.1, rich_help_panel=FAULTS)]
Network = Annotated[
    str,
    value(
        "N",
        "Network faults by relays (TCP proxies) or netns (network namespaces; needs root).",
        rich_help_panel=FAULTS,
        autocompletion=completion.words("relays", "netns"),
    ),
]
DownMax = Annotated[
    int | None,
    value("N", "Maximum brokers down at once.", "--down-max", default="1", min=1, rich_help_panel=FAULTS),
]
Schedule = Annotated[
    Path | None,
    value(
        "FILE", "Replay the faults of a trial.json.", default=False, callback=absolute, rich_help_panel=FAULTS
    ),
]
Seed = Annotated[
    int | None,
    value("N", "Random seed for the faults.", default="random, printed", min=0, rich_help_panel=FAULTS),
]
Evidence = Annotated[
    Path | None,
    value("DIR", "Output directory.", default="trial-DATE-TIME", callback=absolute, rich_help_panel=OUTPUT),
]
Servers = Annotated[
    str | None,
    value(
        "H:P,…",
        "Run against an existing Kafka cluster, without faults.",
        "--bootstrap-servers",
        "-b",
        default=False,
        rich_help_panel=CLUSTER,
    ),
]
SetOption = Annotated[
    list[str] | None,
    value(
        "NAME=VALUE",
        "Setting of every broker; repeatable.",
        "--set",
        default=False,
        rich_help_panel=CLUSTER,
        autocompletion=completion.broker_settings,
    ),
]
ClientOption = Annotated[
    list[str] | None,
    value(
        "NAME=VALUE",
        "Setting of all clients, with librdkafka's names; repeatable.",
        "--client",
        default=False,
        rich_help_panel=LOAD,
    ),
]
NoAudit = Annotated[
    bool,
    flag("Skip the audit; only check for lost records, without Spark.", "--no-audit", rich_help_panel=OUTPUT),
]
Through = Annotated[
    str | None,
    value(
        "JOB",
        "Also copy the topic into a table with a streaming job that is killed meanwhile, and compare: "
        f"{', '.join(JOBS)}, or a Python script of your own.",
        default=False,
        rich_help_panel=JOB,
        autocompletion=completion.words(*JOBS),
    ),
]
JobFaults = Annotated[
    str,
    value(
        "LIST",
        "What happens to the job, in order: kill (between rows and commit), expire (kill it, and let records "
        "expire before it is back), or none.",
        "--job-faults",
        rich_help_panel=JOB,
        autocompletion=completion.lists(lambda: ("kill", "expire")),
    ),
]


def trial(
    *,
    seconds: Seconds = None,
    minutes: Minutes = None,
    rate: Rate = 10_000.0,
    brokers: Brokers = 3,
    partitions: Partitions = 6,
    replication_factor: Replicas = None,
    min_insync: MinInsync = None,
    generation: GenerationChoice = "epoch",
    unclean: UncleanOption = False,
    acks: Acks = "all",
    idempotence: Idempotence = "mixed",
    producers: Producers = 6,
    consumers: Consumers = 2,
    value_bytes: ValueBytes = 128,
    delivery_timeout: DeliveryTimeout = 60.0,
    faults: FaultList = "all",
    every: Every = 4.0,
    down_max: DownMax = None,
    network: Network = "relays",
    schedule: Schedule = None,
    seed: Seed = None,
    evidence: Evidence = None,
    bootstrap_servers: Servers = None,
    settings: SetOption = None,
    client: ClientOption = None,
    through: Through = None,
    job_faults: JobFaults = "kill",
    no_audit: NoAudit = False,
    as_json: JsonOption = False,
) -> int:
    """Run load and faults on a cluster, then audit every record.

    Writes the evidence and an HTML report. Ctrl-C ends the load early: the trial then heals the faults and
    audits what it has.
    """
    require("spark", "tidelog trial")
    from tidelog.trials.plan import TrialOptions

    options = TrialOptions(
        seconds=_seconds(seconds, minutes),
        rate=rate,
        brokers=brokers,
        partitions=partitions,
        replication_factor=replication_factor,
        min_insync=min_insync,
        generation=generation_named(generation),
        unclean=unclean,
        acks=acks,
        idempotence=one_of("idempotence", idempotence, ("on", "off", "mixed")),
        producers=producers,
        consumers=consumers,
        value_bytes=value_bytes,
        delivery_timeout=delivery_timeout,
        faults=faults,
        every=every,
        down_max=down_max,
        network=one_of("network", network, ("relays", "netns")),
        schedule=schedule,
        seed=seed,
        evidence=evidence,
        bootstrap_servers=bootstrap_servers,
        broker_settings=settings or (),
        client_settings=client or (),
        job=_job(through, job_faults, audited=not no_audit),
    )
    from tidelog.cli.commands.trial_audited import run

    return run(options, audit=not no_audit, as_json=as_json)


def _seconds(seconds: float | None, minutes: float | None) -> float:
    if seconds is not None and minutes is not None:
        raise Refusal("choose one of --seconds and --minutes")
    return minutes * 60 if minutes is not None else 60.0 if seconds is None else seconds


def _job(through: str | None, faults: str, *, audited: bool) -> JobPlan | None:
    if through is None:
        return None
    if not audited:
        raise Refusal("--through needs the audit: leave out --no-audit")
    from tidelog.cli.commands.trial_through import job_plan

    return job_plan(through, faults)
