"""From the words of a command line to the plan of a trial; what cannot be is refused before it starts."""

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

from tidelog.broker.loading import gather
from tidelog.broker.settings import SettingsError, table
from tidelog.cli.choices import one_of
from tidelog.cli.errors import Refusal, unknown
from tidelog.evidence.folder import EvidenceError, EvidenceFolder, Manifest
from tidelog.trials import schedule as schedules
from tidelog.trials.aftermath import ended_leftovers
from tidelog.trials.arena import ArenaPlan
from tidelog.trials.faults import NETWORK_KINDS
from tidelog.trials.schedule import Fault, FaultSettings, ScheduleError
from tidelog.trials.trial import TrialPlan
from tidelog.trials.venues import ForeignVenue, OwnVenue, Venue
from tidelog.trials.workload import Idempotence, Workload, WorkloadError

_ACKS: Final = {"0": 0, "1": 1, "all": -1, "-1": -1}
_SEEDS: Final = 1_000_000_000

# Shorter than Kafka's, so that in a minute there is time for many fail-overs.
_SESSION: Final = "zookeeper.session.timeout.ms"
_PACE: Final = {_SESSION: "3000", "replica.lag.time.max.ms": "5000"}


@dataclass(slots=True, frozen=True)
class Choices:
    """What was asked for, checked as far as one option alone can be."""

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
    every: float
    down_max: int
    schedule: Path | None
    seed: int | None
    evidence: Path | None
    bootstrap_servers: str | None
    broker_settings: list[str]
    client_settings: list[str]

    # ------------------------------------------------------------ what follows from them

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
            return schedules.USUAL
        return tuple(
            one_of("fault", kind.strip(), tuple(schedules.WEIGHTS)) for kind in self.faults.split(",")
        )

    def workload(self) -> Workload:
        wanted = [one_of("acks", word.strip(), tuple(_ACKS)) for word in self.acks.split(",")]
        zones = ("here",) if self.foreign else self._zones()
        try:
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
        except WorkloadError as error:
            raise Refusal(str(error)) from None

    def _zones(self) -> tuple[str, ...]:
        return tuple(f"az{number}" for number in range(1, min(3, self.brokers) + 1))

    def arena(self, folder: EvidenceFolder) -> ArenaPlan:
        given = _assignments(self.broker_settings, "--set")
        for name in given:
            if name not in table():
                raise unknown("setting", name, tuple(table()))
        network = bool(NETWORK_KINDS.intersection(self.kinds())) or self.schedule is not None
        return ArenaPlan(
            brokers=self.brokers,
            zones=self._zones(),
            generation=self.generation,
            network=network,
            settings=_PACE | given | {"tidelog.evidence.dir": str(folder.events_journal)},
        )

    def topic_configs(self) -> dict[str, str]:
        """A foreign cluster's defaults are left alone unless somebody asks."""
        configs = {}
        if self.min_insync is not None or not self.foreign:
            configs["min.insync.replicas"] = str(self.min_insync or min(2, self.replicas))
        if self.unclean:
            configs["unclean.leader.election.enable"] = "true"
        return configs

    def check(self) -> None:
        if self.foreign and self.faults not in ("all", "none"):
            raise Refusal("--faults: nothing is done to a Kafka of yours; leave it out")
        if self.foreign and (self.schedule is not None or self.broker_settings):
            raise Refusal("--schedule and --set are for clusters that the trial starts itself")
        if not self.foreign and self.replicas > self.brokers:
            raise Refusal(f"{self.replicas} replicas on {self.brokers} brokers: give more --brokers")
        if (self.min_insync or 0) > self.replicas:
            raise Refusal(
                f"--min-insync {self.min_insync}: each partition has {self.replicas} replicas, "
                "so nothing could ever be written with acks=all"
            )
        self.kinds()
        self.workload()

    # ------------------------------------------------------------ the plan

    @contextmanager
    def opened(self) -> Iterator[tuple[EvidenceFolder, Venue]]:
        """The folder for the evidence and the place where the trial plays."""
        self.check()
        path = self.evidence or Path(time.strftime("trial-%Y%m%d-%H%M%S"))
        try:
            folder = EvidenceFolder.create(path, Manifest("foreign" if self.foreign else "cluster"))
        except EvidenceError as error:
            raise Refusal(str(error)) from None
        for left in ended_leftovers(path.absolute().parent):
            print(
                f"ended brokers of a killed trial; to save its evidence: tidelog evidence recover {left}",
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
        try:
            return OwnVenue(self.arena(folder), folder)
        except SettingsError as error:
            raise Refusal(str(error)) from None

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
            schedule=[] if self.foreign else self._schedule(seed, self.arena(folder)),
        )

    def _schedule(self, seed: int, arena: ArenaPlan) -> list[Fault]:
        zones = {broker: arena.zone_of(broker) for broker in arena.broker_ids()}
        if self.schedule is not None:
            try:
                return schedules.from_file(self.schedule, zones)
            except ScheduleError as error:
                raise Refusal(str(error)) from None
        faults = FaultSettings(
            self.kinds(),
            every_ms=int(self.every * 1000),
            down_max=self.down_max,
            session_ms=int(arena.settings[_SESSION]),
        )
        return schedules.draw(seed, faults, zones, int(self.seconds * 1000))


def _assignments(given: list[str], option: str) -> dict[str, Any]:
    try:
        return {entry.name: entry.value for entry in gather(None, given, option=option)}
    except SettingsError as error:
        raise Refusal(str(error)) from None
