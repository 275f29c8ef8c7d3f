"""A trial from its first process to its last file: load on a cluster while faults happen.

The phases, in order: *start* the cluster and its topic; *load*, with faults; *heal* all faults and wait until
every replica is in sync; *settle*: wait for outstanding sends; *drain*: consumers read to the end, and a
final reader reads everything from the beginning; *stop*; *collect*.

A trial that fails or is interrupted ends alike: faults are healed, processes are stopped, and the journals
become tables. `interrupt` ends the load early; the second call skips the waits.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any, Final, Protocol

from tidelog._version import __version__
from tidelog.cluster.errors import ClusterError
from tidelog.errors import Refusal, reason
from tidelog.evidence.folder import COMPLETE, FAILED, INTERRUPTED, EvidenceFolder
from tidelog.evidence.journals.lines import LineJournal
from tidelog.evidence.parquet.recovery import seal_journals
from tidelog.faults import schedule
from tidelog.faults.schedule import PlannedFault
from tidelog.trials.job import Job, JobPlan, wait_for_job
from tidelog.trials.load.topic import Topic, TopicError
from tidelog.trials.load.workers import Role, Worker
from tidelog.trials.load.workload import FINAL_READER, ConsumerPlan, ProducerPlan, Workload, dealt
from tidelog.trials.nemesis import Nemesis
from tidelog.trials.targets import LoadTarget

PHASES: Final = ("start", "load", "heal", "settle", "drain", "stop", "collect")

_TICK_SECONDS: Final = 0.1
_HEAL_SECONDS: Final = 60.0
_ENDS_SECONDS: Final = 30.0
_DRAIN_SECONDS: Final = 60.0
_JOB_SECONDS: Final = 240.0
"""How long faults wait for a streaming job, and then its last batch: each start of a Spark takes a while."""
_EARLIER_RECORDS: Final = 5_000
"""In each partition of a topic that is deleted under a job: more than its successor has when the job is back,
at the rates at which a job can follow."""
_DRAIN_RECORDS_PER_SECOND: Final = 20_000
"""A slow machine reads at least this fast; it limits the duration of a drain."""


Client = ProducerPlan | ConsumerPlan


class TrialFailed(Refusal):
    """The trial could not run, or not to its end. The message is one line."""


@dataclass(slots=True, frozen=True)
class TrialPlan:
    seconds: float
    seed: int
    workload: Workload
    topic: str
    partitions: int = 6
    replication_factor: int = 3
    topic_configs: dict[str, str] = field(default_factory=dict)
    schedule: list[PlannedFault] = field(default_factory=list)
    job: JobPlan | None = None
    """Copies the topic into a table."""


class Watcher(Protocol):
    """Receives the progress of a trial, from its own thread and the nemesis's."""

    def phase(self, name: str, seconds: float | None) -> None:
        """One of `PHASES` begins. `seconds`: its duration, if that is known."""

    def numbers(self, facts: dict[str, int]) -> None:
        """Counts so far: sent, ok, unknown, reads, faults."""

    def said(self, text: str) -> None:
        """A fault, in words."""

    def waits(self, text: str) -> None:
        """What the phase waits for: ``partition 3 has no leader``."""


class Silent:
    """A watcher that ignores everything."""

    def phase(self, name: str, seconds: float | None) -> None: ...
    def numbers(self, facts: dict[str, int]) -> None: ...
    def said(self, text: str) -> None: ...
    def waits(self, text: str) -> None: ...


class LoadTrial:
    def __init__(self, plan: TrialPlan, target: LoadTarget, folder: EvidenceFolder, watcher: Watcher) -> None:
        self._plan = plan
        self._target = target
        self.folder = folder
        self._watcher = watcher
        self._topic: Topic | None = None
        self._nemesis: Nemesis | None = None
        self._fault_lines: LineJournal | None = None
        self._producers: list[Worker] = []
        self._consumers: list[Worker] = []
        self.job: Job | None = None
        self._interrupts = 0
        self.notes: list[str] = []
        """Problems that did not end the trial, in words."""

    def interrupt(self) -> None:
        """End early. May be called from a signal handler."""
        self._interrupts += 1

    # ------------------------------------------------------------ the whole

    def run(self) -> None:
        """Raises `TrialFailed` after everything has been stopped and collected."""
        failure: TrialFailed | None = None
        try:
            self._start()
            self._load()
            self._heal()
            self._settle()
            self._drain()
        except (TrialFailed, TopicError, ClusterError) as error:
            failure = TrialFailed(str(error))
        except OSError as error:
            failure = TrialFailed(f"{self.folder.path}: {reason(error)}")
        finally:
            self._end(failure)
        if failure is not None:
            raise failure

    def _phase(self, name: str, seconds: float | None = None) -> None:
        self._watcher.phase(name, seconds)

    # ------------------------------------------------------------ start

    def _start(self) -> None:
        self._phase("start")
        plan, manifest = self._plan, self.folder.manifest
        manifest.seed = plan.seed
        manifest.started_us = _now_us()
        manifest.versions = _versions()
        manifest.settings = {"seconds": plan.seconds, "workload": asdict(plan.workload)}
        manifest.schedule = schedule.as_json(plan.schedule)
        self._target.start()
        self._target.describe(self.folder)
        self._create_topic()
        if plan.job is not None and plan.job.has_earlier_topic:
            self._live_before(plan.job)
        manifest.topics = [
            {
                "name": plan.topic,
                "partitions": plan.partitions,
                "replication_factor": plan.replication_factor,
                "configs": plan.topic_configs,
            }
        ]
        self.folder.write_manifest()

    def _create_topic(self) -> None:
        plan = self._plan
        self._topic = Topic.create(
            self._target.servers(),
            plan.topic,
            partitions=plan.partitions,
            replication_factor=plan.replication_factor,
            configs=plan.topic_configs,
            client=plan.workload.client,
        )

    def _live_before(self, job: JobPlan) -> None:
        """The job reads a topic of the same name, which is deleted then."""
        assert self._topic is not None
        self._watcher.said("the job reads a topic that will be deleted")
        self._topic.fill(_EARLIER_RECORDS, self._plan.workload.client)
        self.job = Job(job, self.folder.path / "job", self._watcher.said)
        ends = self._topic.ends(_ENDS_SECONDS)
        try:
            self.job.read_earlier(self._target.servers(), self._plan.topic, ends, _JOB_SECONDS)
        except Refusal as error:
            raise TrialFailed(str(error)) from None
        if (complaint := self._topic.delete()) is not None:
            raise TrialFailed(f"the topic cannot be deleted: {complaint}")
        deadline = time.monotonic() + _ENDS_SECONDS
        while True:
            try:
                return self._create_topic()
            except TopicError:  # it takes brokers a moment to delete the other
                if time.monotonic() > deadline or self._interrupts:
                    raise
                time.sleep(_TICK_SECONDS)

    # ------------------------------------------------------------ load

    def _load(self) -> None:
        plan, manifest = self._plan, self.folder.manifest
        self._start_workers()
        self._wait_for(lambda: all(worker.status for worker in self._workers()), seconds=60.0)
        manifest.load_started_us = _now_us()
        self.folder.write_manifest()
        self._phase("load", plan.seconds)
        self._start_nemesis()
        if plan.job is not None:
            self.job = self.job or Job(plan.job, self.folder.path / "job", self._watcher.said)
            self.job.start(self._target.servers(), plan.topic)
        self._wait_for(lambda: False, seconds=plan.seconds)
        if self.job is not None:
            self._wait_for(lambda: self.job is None or self.job.suffered, _JOB_SECONDS)

    def _start_workers(self) -> None:
        work, topics = self._plan.workload, {self._plan.topic: self._plan.partitions}
        begin = self._target.bootstrap_for
        producers = work.producer_plans(self._plan.topic, self._plan.partitions, begin)
        consumers = work.consumer_plans(topics, begin)
        self._producers += self._started("producers", producers, work.producer_processes())
        self._consumers += self._started("consumers", consumers, work.consumer_processes())
        self.folder.manifest.clients = [
            {"role": role} | {name: value for name, value in asdict(client).items() if name != "client"}
            for role, clients in (("producer", producers), ("consumer", consumers))
            for client in clients
        ]

    def _started(self, role: Role, clients: Sequence[Client], processes: int) -> list[Worker]:
        """Clients dealt out to processes. Clients in different network namespaces cannot share one."""
        machines: dict[tuple[str, ...], list[Client]] = {}
        for client in clients:
            machines.setdefault(tuple(self._target.command_in(client.name)), []).append(client)
        dealt_out = [
            (command, plans)
            for command, there in machines.items()
            for plans in dealt(there, min(max(processes // len(machines), 1), len(there)))
        ]
        return [
            Worker(role, f"{role}-{number}", plans, self.folder.path, command=command)
            for number, (command, plans) in enumerate(dealt_out, 1)
        ]

    def _start_nemesis(self) -> None:
        zones = {client["name"]: client["zone"] for client in self.folder.manifest.clients}
        faults = self._target.faults(zones)
        if faults is None:
            return
        self._fault_lines = LineJournal(self.folder.journal / "faults.jsonl")
        self._nemesis = Nemesis(faults, self._plan.schedule, self._fault_lines, say=self._watcher.said)
        self._nemesis.start()

    def _workers(self) -> list[Worker]:
        return [*self._producers, *self._consumers]

    def _wait_for(self, is_so: Callable[[], bool], seconds: float, patience: int = 1) -> bool:
        """Wait until it is so, the time is over or the trial is interrupted (for the `patience`th time), and
        report numbers meanwhile. Raises `TrialFailed` if a worker fails."""
        deadline = time.monotonic() + seconds
        while True:
            if is_so():
                return True
            left = deadline - time.monotonic()
            if left <= 0 or self._interrupts >= patience:
                return False
            self._look_after_workers()
            time.sleep(min(_TICK_SECONDS, left))

    def _look_after_workers(self) -> None:
        for worker in self._workers():
            failure = worker.failure()
            if failure is not None:
                raise TrialFailed(failure)
        if self._nemesis is not None and self._nemesis.failure is not None:
            raise TrialFailed(self._nemesis.failure)
        self._watcher.numbers(self._totals())

    def _totals(self) -> dict[str, int]:
        totals: dict[str, int] = {}
        for worker in self._workers():
            for name, value in worker.status.items():
                if isinstance(value, int) and not isinstance(value, bool):
                    totals[name] = totals.get(name, 0) + value
        return totals | {"faults": self._nemesis.done if self._nemesis is not None else 0}

    # ------------------------------------------------------------ heal, settle, drain

    def _heal(self) -> None:
        self._phase("heal")
        if self._nemesis is not None:
            self.notes += self._nemesis.heal()
        self._wait_until_whole()

    def _wait_until_whole(self) -> None:
        assert self._topic is not None
        given_up, said = (lambda: self._interrupts >= 2), self._watcher.waits
        complaint = self._topic.wait_until_whole(_HEAL_SECONDS, given_up, said)
        if complaint is not None:
            self.notes.append(f"{complaint}, {_HEAL_SECONDS:g} s after the last fault")

    def _settle(self) -> None:
        """Stop the producers, and wait for their outstanding sends."""
        self._phase("settle")
        for worker in self._producers:
            worker.stop()
        # Only now: producers send while faults heal.
        self.folder.manifest.load_ended_us = _now_us()
        patience = self._plan.workload.delivery_timeout_ms / 1000 + 15.0
        if not self._wait_for(lambda: all(w.is_done for w in self._producers), patience, patience=2):
            self.notes.append("not every producer could finish: its last sends are unknown")

    def _drain(self) -> None:
        assert self._topic is not None
        self._phase("drain")
        manifest = self.folder.manifest
        if self._interrupts >= 2:
            manifest.lacks("the final read", "the trial was interrupted twice")
            return
        ends = self._topic.ends(_ENDS_SECONDS)
        manifest.topics[0]["ends"] = ends
        if self.job is not None:
            complaint = wait_for_job(self.job, ends, _JOB_SECONDS, lambda: self._interrupts >= 2)
            self.notes += [] if complaint is None else [complaint]
        wanted = {self._plan.topic: {str(part): end for part, end in ends.items()}}
        final = self._plan.workload.final_reader(
            {self._plan.topic: self._plan.partitions}, self._target.bootstrap_for, self._starts()
        )
        where = self._target.command_in(final.name)
        reader = Worker("consumers", FINAL_READER, [final], self.folder.path, ends=wanted, command=where)
        for worker in self._consumers:
            worker.drain(wanted)
        self._consumers.append(reader)
        # Long enough for a consumer that has to make a new connection first.
        seconds = _DRAIN_SECONDS + sum(ends.values()) * len(self._consumers) / _DRAIN_RECORDS_PER_SECOND
        self._wait_for(lambda: all(w.is_done for w in self._consumers), seconds, patience=2)
        if reader.is_done:
            manifest.final_reader = FINAL_READER
        else:
            manifest.lacks("the final read", "not every partition could be read to its end in time")
        for worker in self._consumers:
            for name in worker.status.get("behind", ()):
                if name != FINAL_READER:
                    manifest.lacks(f"the last reads of {name}", "it did not reach the end in time")

    def _starts(self) -> dict[str, dict[str, int]]:
        """Where the final read begins. Only a fault of a job lets records expire."""
        if self.job is None or self._topic is None:
            return {}
        starts = self._topic.starts(_ENDS_SECONDS)
        self.folder.manifest.topics[0]["starts"] = starts
        return {self._plan.topic: {str(part): start for part, start in starts.items()}}

    # ------------------------------------------------------------ the end, whatever came before

    def _end(self, failure: TrialFailed | None) -> None:
        self._phase("stop")
        manifest = self.folder.manifest
        if self._nemesis is not None:
            for trouble in self._nemesis.heal():
                if trouble not in self.notes:
                    self.notes.append(trouble)
        if self.job is not None:
            self.job.close()
        for worker in self._workers():
            worker.close()
        if self._fault_lines is not None:
            self._fault_lines.close()
        self.notes += self._target.trouble()
        loaded = manifest.load_started_us is not None
        self._target.stop(self.folder, self._topic if loaded else None)
        self._phase("collect")
        if loaded and manifest.load_ended_us is None:
            manifest.load_ended_us = _now_us()
        sealed = seal_journals(self.folder)
        self.notes += sealed.trouble.values()
        if failure is not None:
            manifest.state = FAILED
            manifest.lacks("the rest of the trial", str(failure))
        else:
            manifest.state = INTERRUPTED if self._interrupts else COMPLETE
        manifest.settings["notes"] = self.notes
        manifest.ended_us = _now_us()
        try:
            self.folder.write_manifest()
        except OSError as error:
            self.notes.append(f"{self.folder.path}: {reason(error)}")


def _versions() -> dict[str, Any]:
    import confluent_kafka

    return {
        "tidelog": __version__,
        "python": platform.python_version(),
        "confluent-kafka": version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
        "platform": platform.platform(),
    }


def _now_us() -> int:
    return time.time_ns() // 1000
