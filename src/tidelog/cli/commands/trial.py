"""``tidelog trial``: run load on a cluster while faults happen, then audit every acknowledged record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.cli.options import (
    GenerationChoice,
    JsonOption,
    UncleanOption,
    generation_named,
    one_of,
)
from tidelog.cli.parameters import trial as given
from tidelog.errors import Refusal
from tidelog.extras import require

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


def trial(
    *,
    seconds: given.Seconds = None,
    minutes: given.Minutes = None,
    rate: given.Rate = 10_000.0,
    brokers: given.Brokers = 3,
    partitions: given.Partitions = 6,
    replication_factor: given.Replicas = None,
    min_insync: given.MinInsync = None,
    generation: GenerationChoice = "epoch",
    unclean: UncleanOption = False,
    acks: given.Acks = "all",
    idempotence: given.Idempotence = "mixed",
    producers: given.Producers = 6,
    consumers: given.Consumers = 2,
    value_bytes: given.ValueBytes = 128,
    delivery_timeout: given.DeliveryTimeout = 60.0,
    faults: given.FaultList = "all",
    every: given.Every = 4.0,
    down_max: given.DownMax = None,
    network: given.Network = "relays",
    schedule: given.Schedule = None,
    seed: given.Seed = None,
    evidence: given.Evidence = None,
    bootstrap_servers: given.Servers = None,
    settings: given.SetOption = None,
    client: given.ClientOption = None,
    through: given.Through = None,
    job_faults: given.JobFaults = None,
    no_audit: given.NoAudit = False,
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


def _job(through: str | None, faults: str | None, *, audited: bool) -> JobPlan | None:
    if through is None:
        if faults is not None:
            raise Refusal("--job-faults needs --through: name the job that they happen to")
        return None
    if not audited:
        raise Refusal("--through needs the audit: leave out --no-audit")
    from tidelog.cli.commands.trial_through import job_plan

    return job_plan(through, "kill" if faults is None else faults)
