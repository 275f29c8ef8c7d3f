"""The options of a trial, the plan made from them, and running it.

`run_trial` does all of it. `prepared` is for callers that handle interrupts or audit before another process
may use the evidence. Bad combinations of options are refused before anything starts.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from tidelog.cluster.network.namespaces import require_namespaces
from tidelog.cluster.spec import DIRECT, NETNS, RELAYS, ClusterSpec, Profile
from tidelog.errors import Refusal, unknown
from tidelog.evidence.folder import EvidenceFolder, Manifest
from tidelog.faults import TRIAL_FAULTS
from tidelog.faults import schedule as schedules
from tidelog.faults.schedule import FaultSettings, PlannedFault
from tidelog.faults.sequences import STALE_REPLICA_RETURNS, TWO_LEADERS_DIE
from tidelog.faults.testbed import Ability
from tidelog.kafka_client.blocking import parse_servers
from tidelog.narrate.numbers import counted
from tidelog.settings.broker import BROKER
from tidelog.settings.loading import gather
from tidelog.settings.properties import Property, assignment
from tidelog.trials.collection import stop_leftovers
from tidelog.trials.job import JobFault, JobPlan
from tidelog.trials.load.checks import check_clients
from tidelog.trials.load.workload import Idempotence, Workload
from tidelog.trials.targets import ExistingKafka, LoadTarget, OwnCluster
from tidelog.trials.trial import LoadTrial, Silent, TrialFailed, TrialPlan, Watcher

ACKS: Final = {"0": 0, "1": 1, "all": -1, "-1": -1}
_SEEDS: Final = 1_000_000_000

# Shorter than Kafka's defaults, so that a minute has room for many fail-overs.
_SESSION: Final = "zookeeper.session.timeout.ms"
_PACE: Final = {_SESSION: "3000", "replica.lag.time.max.ms": "5000"}


@dataclass(slots=True, frozen=True, kw_only=True)
class TrialOptions:
    """What ``tidelog trial`` can be asked for, with its defaults."""

    seconds: float = 60.0
    rate: float = 10_000.0
    brokers: int = 3
    partitions: int = 6
    replication_factor: int | None = None
    min_insync: int | None = None
    generation: str = "epoch"
    unclean: bool = False
    acks: str = "all"
    idempotence: str = "mixed"
    producers: int = 6
    consumers: int = 2
    value_bytes: int = 128
    delivery_timeout: float = 60.0
    faults: str = "all"
    network: str = RELAYS
    every: float = 4.0
    down_max: int | None = None
    schedule: Path | None = None
    """A trial.json whose faults to replay."""
    seed: int | None = None
    evidence: Path | None = None
    bootstrap_servers: str | None = None
    """An existing Kafka cluster, instead of one of our own."""
    broker_settings: Sequence[str] = ()
    client_settings: Sequence[str] = ()
    job: JobPlan | None = None
    """A streaming job that copies the topic into a table."""

    # ------------------------------------------------------------ derived values

    @property
    def foreign(self) -> bool:
        return self.bootstrap_servers is not None

    @property
    def replicas(self) -> int:
        if self.replication_factor is not None:
            return self.replication_factor
        return 3 if self.foreign else min(3, self.brokers)

    def kinds(self) -> tuple[str, ...]:
        if self.faults == "none" or self.foreign:
            return ()
        if self.faults == "all":
            # Network namespaces see packets, not messages, so they cannot hold one.
            lacks = {Ability.MESSAGES} if self.network == NETNS else set()
            usual = (fault for fault in TRIAL_FAULTS.values() if fault.by_default)
            return tuple(fault.name for fault in usual if not lacks & fault.needs)
        return tuple(_one_of("fault", kind, TRIAL_FAULTS) for kind in self.faults.split(","))

    def workload(self) -> Workload:
        wanted = [_one_of("acks", word, ACKS) for word in self.acks.split(",")]
        zones = ("here",) if self.foreign else self._zones()
        return Workload(
            rate=self.rate,
            producers=self.producers,
            consumers=self.consumers,
            zones=zones,
            acks=tuple(ACKS[word] for word in wanted),
            idempotence=cast(Idempotence, self.idempotence),
            value_bytes=self.value_bytes,
            delivery_timeout_ms=int(self.delivery_timeout * 1000),
            client=_assignments(assignment(text, "--client") for text in self.client_settings),
        )

    def _zones(self) -> tuple[str, ...]:
        return tuple(f"az{number}" for number in range(1, min(3, self.brokers) + 1))

    def cluster_spec(self, folder: EvidenceFolder) -> ClusterSpec:
        given = _assignments(gather(None, list(self.broker_settings)))
        for name in given:
            if name not in BROKER:
                raise unknown("setting", name, tuple(BROKER), listed_by="tidelog broker --settings")
        kinds = {fault.kind for fault in self.given_schedule()} or set(self.kinds())
        return ClusterSpec(
            brokers=self.brokers,
            zones=self._zones(),
            generation=self.generation,
            network=self._network(kinds),
            slow_disks=_needed(Ability.SLOW_DISK, kinds),
            profile=Profile.TRIAL,
            settings=_PACE
            | self._retention_pace()
            | given
            | {"tidelog.evidence.dir": str(folder.events_journal)},
        )

    def _retention_pace(self) -> dict[str, str]:
        expires = self.job is not None and JobFault.EXPIRE in self.job.faults
        return {"log.retention.check.interval.ms": "200"} if expires else {}

    def _network(self, kinds: set[str]) -> str:
        """Relays only if a fault needs them."""
        if self.network == NETNS:
            return NETNS
        return RELAYS if _needed(Ability.LINKS, kinds) else DIRECT

    @property
    def _min_insync(self) -> int:
        return self.min_insync or min(2, self.replicas)

    def topic_configs(self) -> dict[str, str]:
        """An existing cluster keeps its defaults unless an option changes them."""
        configs = {}
        if self.min_insync is not None or not self.foreign:
            configs["min.insync.replicas"] = str(self._min_insync)
        if self.unclean:
            configs["unclean.leader.election.enable"] = "true"
        return configs

    def check(self) -> None:
        if self.foreign and self.faults not in ("all", "none"):
            raise Refusal("--faults: not available on an existing Kafka cluster")
        if self.foreign and (self.schedule is not None or self.broker_settings):
            raise Refusal("--schedule and --set: not available on an existing Kafka cluster")
        if self.foreign and self.job is not None:
            raise Refusal("--through: not available on an existing Kafka cluster")
        if not self.foreign and self.replicas > self.brokers:
            few = f"{counted(self.replicas, 'replica')} on {counted(self.brokers, 'broker')}"
            raise Refusal(f"{few}: give more --brokers")
        if (self.min_insync or 0) > self.replicas:
            raise Refusal(
                f"--min-insync {self.min_insync}: each partition has {counted(self.replicas, 'replica')}, "
                "so every send with acks=all would fail"
            )
        if self.foreign and self.network == NETNS:
            raise Refusal("--network netns: not available on an existing Kafka cluster")
        if self.network == NETNS:
            require_namespaces()
        for kind in self.kinds():
            if why := TRIAL_FAULTS[kind].impossible(self._min_insync):
                raise Refusal(f"--faults {self.faults}: {why}")
        if self.bootstrap_servers is not None:
            parse_servers(self.bootstrap_servers)
        check_clients(self.workload())

    # ------------------------------------------------------------ the plan

    def target(self, folder: EvidenceFolder) -> LoadTarget:
        if self.bootstrap_servers is not None:
            return ExistingKafka(self.bootstrap_servers)
        return OwnCluster(self.cluster_spec(folder), folder)

    def plan(self, folder: EvidenceFolder) -> TrialPlan:
        seed = random.SystemRandom().randrange(_SEEDS) if self.seed is None else self.seed
        return TrialPlan(
            seconds=self.seconds,
            seed=seed,
            workload=self.workload(),
            topic=f"tidelog-trial-{time.time_ns() // 1_000_000}-{os.getpid()}" if self.foreign else "trial",
            partitions=self.partitions,
            replication_factor=self.replicas,
            topic_configs=self.topic_configs(),
            schedule=[] if self.foreign else self._schedule(seed, self.cluster_spec(folder)),
            job=self.job,
        )

    def given_schedule(self) -> list[PlannedFault]:
        """The faults of `--schedule`."""
        if self.schedule is None:
            return []
        zones = {
            number: self._zones()[(number - 1) % len(self._zones())] for number in range(1, self.brokers + 1)
        }
        return schedules.from_file(self.schedule, zones)

    def _schedule(self, seed: int, spec: ClusterSpec) -> list[PlannedFault]:
        if self.schedule is not None:
            return self.given_schedule()
        faults = FaultSettings(
            self.kinds(),
            every_ms=int(self.every * 1000),
            down_max=self.down_max or 1,
            session_ms=int(spec.settings[_SESSION]),
            min_insync=self._min_insync,
            sequence=self._sequence(),
        )
        return schedules.draw(seed, faults, spec.zones_of_brokers(), int(self.seconds * 1000))

    def _sequence(self) -> str | None:
        """A sequence of faults that provokes the losses of the chosen rules. None if the user chose the
        faults, or how many brokers may be down."""
        if self.faults != "all" or self.down_max is not None:
            return None
        if self.unclean:
            return STALE_REPLICA_RETURNS
        return TWO_LEADERS_DIE if self.generation == "hw" else None


@dataclass(slots=True)
class TrialResult:
    evidence: Path
    manifest: Manifest
    notes: list[str] = field(default_factory=list)
    """Problems that did not end the trial."""


def run_trial(options: TrialOptions, watcher: Watcher | None = None) -> TrialResult:
    """Run a trial and leave its evidence in a folder. Raises `Refusal`."""
    with prepared(options, watcher or Silent()) as trial:
        trial.run()
    return TrialResult(trial.folder.path, trial.folder.manifest, trial.notes)


@contextmanager
def prepared(options: TrialOptions, watcher: Watcher) -> Iterator[LoadTrial]:
    """A trial that is ready to run. Its evidence folder is locked inside the context, and removed if the
    trial fails before the load."""
    options.check()
    path = options.evidence or Path(time.strftime("trial-%Y%m%d-%H%M%S"))
    folder = EvidenceFolder.create(path, Manifest("foreign" if options.foreign else "cluster"))
    try:
        trial = LoadTrial(options.plan(folder), options.target(folder), folder, watcher)
        for left in stop_leftovers(path.absolute().parent):
            trial.notes.append(
                f"stopped brokers of a killed trial; to get its evidence: tidelog evidence recover {left}"
            )
        yield trial
    except BaseException as error:
        loaded = folder.manifest.load_started_us is not None
        if not loaded:
            folder.discard()
        if loaded and isinstance(error, TrialFailed):
            raise TrialFailed(f"{error} (evidence so far in {folder.path})") from None
        raise
    finally:
        folder.release()


def _one_of(what: str, given: str, known: Collection[str]) -> str:
    if given.strip() not in known:
        raise unknown(what, given.strip(), tuple(known))
    return given.strip()


def _needed(ability: Ability, kinds: set[str]) -> bool:
    return any(ability in TRIAL_FAULTS[kind].needs for kind in kinds)


def _assignments(entries: Iterable[Property]) -> dict[str, Any]:
    return {entry.name: entry.value for entry in entries}
