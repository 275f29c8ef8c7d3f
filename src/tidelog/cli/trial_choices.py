"""Options of ``tidelog trial``, checked, and the plan made from them. Bad combinations are refused first."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from tidelog.cli.options import one_of
from tidelog.cli.show.output import counted
from tidelog.cluster.network.namespaces import require_namespaces
from tidelog.cluster.spec import DIRECT, NETNS, RELAYS, ClusterSpec, Profile
from tidelog.errors import Refusal, unknown
from tidelog.evidence.folder import EvidenceFolder, Manifest
from tidelog.faults import TRIAL_FAULTS
from tidelog.faults import schedule as schedules
from tidelog.faults.schedule import FaultSettings, PlannedFault
from tidelog.faults.sequences import STALE_REPLICA_RETURNS, TWO_LEADERS_DIE
from tidelog.faults.testbed import Ability
from tidelog.settings.broker import BROKER
from tidelog.settings.loading import gather
from tidelog.trials.aftermath import ended_leftovers
from tidelog.trials.load.workload import Idempotence, Workload
from tidelog.trials.targets import ForeignVenue, OwnVenue, Venue
from tidelog.trials.trial import TrialPlan

_ACKS: Final = {"0": 0, "1": 1, "all": -1, "-1": -1}
_SEEDS: Final = 1_000_000_000

# Shorter than Kafka's defaults, so that a minute has room for many fail-overs.
_SESSION: Final = "zookeeper.session.timeout.ms"
_PACE: Final = {_SESSION: "3000", "replica.lag.time.max.ms": "5000"}


@dataclass(slots=True, frozen=True)
class Choices:
    """The options. Each is valid by itself; `check` looks at combinations."""

    seconds: float
    rate: float
    brokers: int
    partitions: int
    replication_factor: int | None
    min_insync: int | None
    generation: str
    unclean: bool
    acks: str
    idempotence: str
    producers: int
    consumers: int
    value_bytes: int
    delivery_timeout: float
    faults: str
    network: str
    every: float
    down_max: int | None
    schedule: Path | None
    seed: int | None
    evidence: Path | None
    bootstrap_servers: str | None
    broker_settings: list[str]
    client_settings: list[str]

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
        return tuple(one_of("fault", kind.strip(), tuple(TRIAL_FAULTS)) for kind in self.faults.split(","))

    def workload(self) -> Workload:
        wanted = [one_of("acks", word.strip(), tuple(_ACKS)) for word in self.acks.split(",")]
        zones = ("here",) if self.foreign else self._zones()
        return Workload(
            rate=self.rate,
            producers=self.producers,
            consumers=self.consumers,
            zones=zones,
            acks=tuple(_ACKS[word] for word in wanted),
            idempotence=cast(Idempotence, self.idempotence),
            value_bytes=self.value_bytes,
            delivery_timeout_ms=int(self.delivery_timeout * 1000),
            client=_assignments(self.client_settings, "--client"),
        )

    def _zones(self) -> tuple[str, ...]:
        return tuple(f"az{number}" for number in range(1, min(3, self.brokers) + 1))

    def cluster_spec(self, folder: EvidenceFolder) -> ClusterSpec:
        given = _assignments(self.broker_settings, "--set")
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
            settings=_PACE | given | {"tidelog.evidence.dir": str(folder.events_journal)},
        )

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
        if not self.foreign and self.replicas > self.brokers:
            raise Refusal(f"{self.replicas} replicas on {self.brokers} brokers: give more --brokers")
        if (self.min_insync or 0) > self.replicas:
            raise Refusal(
                f"--min-insync {self.min_insync}: each partition has {counted(self.replicas, 'replica')}, "
                "so every send with acks=all would fail"
            )
        if self.foreign and self.network == NETNS:
            raise Refusal("--network netns: not available on an existing Kafka cluster")
        if self.network == NETNS:
            require_namespaces()
        self.kinds()
        self.workload()

    # ------------------------------------------------------------ the plan

    @contextmanager
    def opened(self) -> Iterator[tuple[EvidenceFolder, Venue]]:
        """The evidence folder and the cluster of the trial."""
        self.check()
        path = self.evidence or Path(time.strftime("trial-%Y%m%d-%H%M%S"))
        folder = EvidenceFolder.create(path, Manifest("foreign" if self.foreign else "cluster"))
        for left in ended_leftovers(path.absolute().parent):
            print(
                f"stopped brokers of a killed trial; to get its evidence: tidelog evidence recover {left}",
                file=sys.stderr,
            )
        try:
            yield folder, self._venue(folder)
        except BaseException:
            if folder.manifest.load_started_us is None:
                folder.discard()
            raise
        finally:
            folder.release()

    def _venue(self, folder: EvidenceFolder) -> Venue:
        if self.bootstrap_servers is not None:
            return ForeignVenue(self.bootstrap_servers)
        return OwnVenue(self.cluster_spec(folder), folder)

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


def _needed(ability: Ability, kinds: set[str]) -> bool:
    return any(ability in TRIAL_FAULTS[kind].needs for kind in kinds)


def _assignments(given: list[str], option: str) -> dict[str, Any]:
    return {entry.name: entry.value for entry in gather(None, given, option=option)}
