"""``tidelog trial``: load on a cluster while faults happen, and what became of every promise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.errors import Refusal
from tidelog.cli.options import JsonOption, generation_named, one_of
from tidelog.cli.paths import absolute

if TYPE_CHECKING:
    from tidelog.cli.audit_run import Auditor
    from tidelog.cli.show.trial_progress import Quiet
    from tidelog.cli.trial_choices import Choices
    from tidelog.evidence.folder import EvidenceFolder
    from tidelog.trials.targets import Venue

EXAMPLES = """\b
Examples:
  tidelog trial                                 a minute of load and faults, then the audit
  tidelog trial --generation hw --acks 1,all    the rules of Kafka 0.10
  tidelog trial --minutes 10 --faults kill,zone --seed 7
  tidelog trial --schedule trial-1/trial.json   the same faults again
  sudo tidelog trial --network netns            packets are lost, by the kernel
  tidelog trial -b kafka:9092 --seconds 30      load only, on a Kafka of yours

\b
Exit code: 0 every promise held, 1 one was broken, 2 it cannot be said.
"""

Seconds = Annotated[
    float | None,
    typer.Option(min=1.0, metavar="S", help="How long the load lasts.", show_default="60"),
]
Minutes = Annotated[
    float | None, typer.Option(min=0.01, metavar="M", help="The same in minutes.", show_default=False)
]
Rate = Annotated[float, typer.Option(min=0.1, metavar="R", help="Records a second, at most.")]
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
    str, typer.Option("--generation", "-g", metavar="G", help="Rules: hw, kip101, epoch or majority.")
]
Unclean = Annotated[bool, typer.Option("--unclean", help="Allow unclean leader election.")]
Acks = Annotated[str, typer.Option(metavar="LIST", help="What producers wait for, in turn: 0, 1, all.")]
Idempotence = Annotated[
    str, typer.Option(metavar="I", help="Producers with acks=all are idempotent: on, off or mixed.")
]
Producers = Annotated[int, typer.Option(min=1, max=500, metavar="N", help="Producers.")]
Consumers = Annotated[
    int, typer.Option(min=0, max=100, metavar="N", help="Consumers; each reads everything.")
]
ValueBytes = Annotated[
    int, typer.Option("--value-bytes", min=1, max=1_000_000, metavar="N", help="The size of a value.")
]
DeliveryTimeout = Annotated[
    float,
    typer.Option(
        "--delivery-timeout", min=1.0, metavar="S", help="A send without an answer is given up then."
    ),
]
FaultList = Annotated[
    str,
    typer.Option(
        "--faults",
        metavar="LIST",
        help="Out of kill, power, pause, restart, cut, delay, hold, zone, keeper, full, slow, clock, elect; "
        "or all, or none.",
    ),
]
Every = Annotated[float, typer.Option(min=0.1, metavar="S", help="A fault in so many seconds, on average.")]
Network = Annotated[
    str,
    typer.Option(metavar="N", help="How links are cut: relays, or netns (packets, by the kernel; root)."),
]
DownMax = Annotated[
    int | None,
    typer.Option(
        "--down-max", min=1, metavar="N", help="Brokers that may be away at once.", show_default="1"
    ),
]
Schedule = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        callback=absolute,
        help="Do the faults of an earlier trial.json again.",
        show_default=False,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Draws the faults.", show_default="a random one, printed"),
]
Evidence = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", callback=absolute, help="Where to leave the evidence.", show_default="trial-DATE-TIME"
    ),
]
Servers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers", "-b", metavar="H:P,…", help="Use this Kafka instead.", show_default=False
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A setting of every broker; repeatable.", show_default=False
    ),
]
ClientOption = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        metavar="NAME=VALUE",
        help="A setting of all clients (librdkafka's names).",
        show_default=False,
    ),
]
NoAudit = Annotated[
    bool, typer.Option("--no-audit", help="Only look for losses, without Spark; audit it later.")
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
    """Drive load through a cluster while faults happen, then judge every promise that was made.

    Evidence of everything is kept, and a report of it. Ctrl-C ends the load early: what was broken is healed,
    and what there is is judged.
    """
    if seconds is not None and minutes is not None:
        raise Refusal("choose one of --seconds and --minutes")
    from tidelog.cli.trial_choices import Choices

    choices = Choices(
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
        broker_settings=settings or [],
        client_settings=client or [],
    )
    return _run(choices, audit=not no_audit, as_json=as_json)


def _run(choices: Choices, *, audit: bool, as_json: bool) -> int:
    from tidelog.cli.audit_run import Auditor
    from tidelog.cli.show.audit import exit_code, present
    from tidelog.cli.show.trial import check_quickly
    from tidelog.cli.show.trial_progress import watched
    from tidelog.pipeline.errors import PipelineError

    with choices.opened() as (folder, venue):
        notes: list[str] = []
        with watched(quiet=as_json) as watcher:
            auditor = Auditor(watcher) if audit else None
            notes += _perform(choices, folder, venue, watcher, auditor)
            try:
                audited = None if auditor is None else auditor.audit(folder.path)
            except PipelineError as error:
                notes.append(f"no audit, only a quick look at the final log: {error}")
                audited = None
            except KeyboardInterrupt:
                notes.append(f"the audit was interrupted; to begin it anew: tidelog audit {folder.path}")
                audited = None
        if audited is None:
            return check_quickly(folder, notes, as_json=as_json)
        present(audited, notes=notes, as_json=as_json)
        return exit_code(audited)


def _perform(
    choices: Choices, folder: EvidenceFolder, venue: Venue, watcher: Quiet, auditor: Auditor | None
) -> list[str]:
    """The trial itself; what did not go as it should."""
    from tidelog.trials.trial import Trial, TrialFailed

    running = Trial(choices.plan(folder), venue, folder, _Early(watcher, auditor, folder.path))
    with watcher.interrupts(running.interrupt):
        try:
            running.run()
        except TrialFailed as failure:
            if folder.manifest.load_started_us is None:
                folder.discard()
                raise Refusal(str(failure)) from None
            raise Refusal(f"{failure} (evidence so far in {folder.path})") from None
    return running.notes


class _Early:
    """Passes everything on, and has Spark started as soon as the load is over: it would take from the load
    what the load is there to measure, and what comes after the load is mostly waiting."""

    def __init__(self, watcher: Quiet, auditor: Auditor | None, folder: Path) -> None:
        self._auditor = auditor
        self._folder = folder
        self._phase = watcher.phase
        self.numbers = watcher.numbers
        self.said = watcher.said

    def phase(self, name: str, seconds: float | None) -> None:
        if name == "heal" and self._auditor is not None:
            self._auditor.warm_up(self._folder)
        self._phase(name, seconds)
