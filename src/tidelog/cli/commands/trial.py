"""``tidelog trial``: run load on a cluster while faults happen, then audit every acknowledged record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.options import JsonOption, generation_named, one_of
from tidelog.cli.paths import absolute
from tidelog.errors import Refusal
from tidelog.faults import TRIAL_FAULTS

if TYPE_CHECKING:
    from tidelog.cli.show.trial_progress import Quiet
    from tidelog.pipeline.audit.run import Auditor
    from tidelog.trials.plan import TrialOptions

EXAMPLES = """\b
Examples:
  tidelog trial                                 load and faults for a minute, then audit
  tidelog trial --generation hw --acks 1,all    use the rules of Kafka 0.10
  tidelog trial --minutes 10 --faults kill,zone --seed 7
  tidelog trial --schedule trial-1/trial.json   repeat the faults of a trial
  sudo tidelog trial --network netns            let the kernel drop packets
  tidelog trial -b kafka:9092 --seconds 30      load an existing Kafka cluster

\b
Exit code: 0 every promise held, 1 a promise was broken, 2 inconclusive or wrong usage.
"""

Seconds = Annotated[
    float | None,
    typer.Option(min=1.0, metavar="S", help="Duration of the load in seconds.", show_default="60"),
]
Minutes = Annotated[
    float | None,
    typer.Option(min=0.01, metavar="M", help="Duration of the load in minutes.", show_default=False),
]
Rate = Annotated[float, typer.Option(min=0.1, metavar="R", help="Maximum records per second.")]
Brokers = Annotated[int, typer.Option(min=1, max=100, metavar="N", help="Brokers in the cluster.")]
Partitions = Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Partitions of the topic.")]
Replicas = Annotated[
    int | None,
    typer.Option(
        "--replication-factor", min=1, metavar="N", help="Replicas of each partition.", show_default="up to 3"
    ),
]
MinInsync = Annotated[
    int | None,
    typer.Option(
        "--min-insync", min=1, metavar="N", help="min.insync.replicas of the topic.", show_default="2"
    ),
]
Generation = Annotated[
    str,
    typer.Option(
        "--generation", "-g", metavar="G", help="Replication rules: hw, kip101, epoch, elr or majority."
    ),
]
Unclean = Annotated[bool, typer.Option("--unclean", help="Allow unclean leader election.")]
Acks = Annotated[
    str, typer.Option(metavar="LIST", help="acks of the producers, assigned in turn: 0, 1, all.")
]
Idempotence = Annotated[
    str, typer.Option(metavar="I", help="Idempotence of producers with acks=all: on, off or mixed.")
]
Producers = Annotated[int, typer.Option(min=1, max=500, metavar="N", help="Number of producers.")]
Consumers = Annotated[
    int, typer.Option(min=0, max=100, metavar="N", help="Number of consumers; each reads all partitions.")
]
ValueBytes = Annotated[
    int, typer.Option("--value-bytes", min=1, max=1_000_000, metavar="N", help="Size of a value.")
]
DeliveryTimeout = Annotated[
    float,
    typer.Option("--delivery-timeout", min=1.0, metavar="S", help="Delivery timeout of a send in seconds."),
]


def _not_in_all() -> str:
    named = [name for name, fault in TRIAL_FAULTS.items() if not fault.by_default]
    return f" (all is without {', '.join(named)})" if named else ""


FaultList = Annotated[
    str,
    typer.Option(
        "--faults",
        metavar="LIST",
        help=f"Faults to inject: all, none, or a list of {', '.join(TRIAL_FAULTS)}.{_not_in_all()}",
    ),
]
Every = Annotated[float, typer.Option(min=0.1, metavar="S", help="Average seconds between faults.")]
Network = Annotated[
    str,
    typer.Option(
        metavar="N", help="Network faults by relays (TCP proxies) or netns (network namespaces; needs root)."
    ),
]
DownMax = Annotated[
    int | None,
    typer.Option("--down-max", min=1, metavar="N", help="Maximum brokers down at once.", show_default="1"),
]
Schedule = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        callback=absolute,
        help="Replay the faults of a trial.json.",
        show_default=False,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Random seed for the faults.", show_default="random, printed"),
]
Evidence = Annotated[
    Path | None,
    typer.Option(metavar="DIR", callback=absolute, help="Output directory.", show_default="trial-DATE-TIME"),
]
Servers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        metavar="H:P,…",
        help="Run against an existing Kafka cluster, without faults.",
        show_default=False,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Setting of every broker; repeatable.", show_default=False
    ),
]
ClientOption = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        metavar="NAME=VALUE",
        help="Setting of all clients, with librdkafka's names; repeatable.",
        show_default=False,
    ),
]
NoAudit = Annotated[
    bool, typer.Option("--no-audit", help="Skip the audit; only check for lost records, without Spark.")
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
    generation: Generation = "epoch",
    unclean: Unclean = False,
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
    no_audit: NoAudit = False,
    as_json: JsonOption = False,
) -> int:
    """Run load and faults on a cluster, then audit every record.

    Writes the evidence and an HTML report. Ctrl-C ends the load early: the trial then heals the faults and
    audits what it has.
    """
    if seconds is not None and minutes is not None:
        raise Refusal("choose one of --seconds and --minutes")
    from tidelog.trials.plan import TrialOptions

    options = TrialOptions(
        seconds=minutes * 60 if minutes is not None else 60.0 if seconds is None else seconds,
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
    )
    return _run(options, audit=not no_audit, as_json=as_json)


def _run(options: TrialOptions, *, audit: bool, as_json: bool) -> int:
    from tidelog.cli.show.audit import exit_code, present
    from tidelog.cli.show.trial import check_quickly
    from tidelog.cli.show.trial_progress import watched
    from tidelog.pipeline.audit.run import Auditor
    from tidelog.trials.plan import prepared

    with watched(quiet=as_json) as watcher:
        auditor = Auditor(watcher) if audit else None
        early = _Early(watcher, auditor)
        with prepared(options, early) as trial:
            with watcher.interrupts(trial.interrupt):
                trial.run()
            audited, folder, notes = None, trial.folder, trial.notes
            try:
                audited = None if auditor is None else auditor.audit(folder.path)
            except Refusal as error:
                notes.append(f"no audit, only a check for lost records: {error}")
            except KeyboardInterrupt:
                notes.append(f"the audit was interrupted; to run it again: tidelog audit {folder.path}")
    if audited is None:
        return check_quickly(folder, notes, as_json=as_json)
    present(audited, notes=notes, as_json=as_json)
    return exit_code(audited)


class _Early:
    """Forwards to the watcher, and starts Spark when the load is over.

    During the load Spark would take processor time from it. After the load the trial mostly waits.
    """

    def __init__(self, watcher: Quiet, auditor: Auditor | None) -> None:
        self._auditor = auditor
        self._phase = watcher.phase
        self.numbers = watcher.numbers
        self.said = watcher.said

    def phase(self, name: str, seconds: float | None) -> None:
        if name == "heal" and self._auditor is not None:
            self._auditor.warm_up()
        self._phase(name, seconds)
