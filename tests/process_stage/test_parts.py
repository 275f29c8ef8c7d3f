"""Parts of the cluster stage that need no cluster: topology, disks, folders, clock, events, comparison."""

import asyncio
import json
import selectors
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.cluster.holding import held

from tidelog.broker.translation.clients import to_wire
from tidelog.cluster.disks import Disks
from tidelog.cluster.errors import TrialError
from tidelog.cluster.network.relays.switchboard import Switchboard
from tidelog.core import events as e
from tidelog.core.machine_phases import PartitionPhase, ReplicaPhase
from tidelog.core.messages import FetchRequest, MetadataRequest, ProduceRequest
from tidelog.core.reasons import (
    ElectionFailure,
    ElectionKind,
    IsrChange,
    ResignReason,
    StateWriteReason,
    StrayReason,
    TruncationRule,
    WatermarkMoment,
)
from tidelog.core.types import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicPartition,
)
from tidelog.evidence.event_schema import to_row
from tidelog.evidence.journals.recorder import EventRecorder
from tidelog.faults.places import KEEPER
from tidelog.faults.step import Step
from tidelog.lab.play import run
from tidelog.process_stage import folders
from tidelog.process_stage.clock import Pace, ScenarioClock
from tidelog.process_stage.compare import compare
from tidelog.process_stage.events import NARRATED, BrokerEventReader, event_of
from tidelog.process_stage.folders import TrialFolder, clean_up
from tidelog.process_stage.observation import Observation
from tidelog.process_stage.processes import Processes
from tidelog.process_stage.sessions import Sessions
from tidelog.process_stage.topology import Topology
from tidelog.scenario import catalogue
from tidelog.scenario.clients.events import ClientFailure, Outcome
from tidelog.scenario.remarks import Remark, RemarkKind
from tidelog.scenario.run import Run
from tidelog.scenario.setup import Setup
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.lock_file import start_time
from tidelog.storage.log_folder import LOCK
from tidelog.storage.memory import MemoryBatch
from tidelog.wire.batch import RecordBatch
from tidelog.wire.errors import ErrorCode
from tidelog.wire.records import Record, build_batch, read_records

TP = TopicPartition("t", 0)

# ---------------------------------------------------------------- topology


@pytest.fixture
def topology() -> Iterator[Topology]:
    with Switchboard() as board:
        yield Topology(Setup(), board)


def test_a_broker_that_is_cut_off_with_its_member_loses_the_keeper(topology: Topology) -> None:
    """By the lab's rule: its member has no majority. The other two members still serve."""
    others = [node for zone in ("az2", "az3") for node in topology.nodes_in(zone)]
    pairs = [(a, b) for a in topology.nodes_in("az1") for b in others]
    assert topology.cut(pairs + [(b, a) for a, b in pairs]).lost == [0]
    assert topology.keeper_has_quorum
    assert [topology.reaches_keeper(broker) for broker in range(3)] == [False, True, True]
    assert topology.heal(None) == ([], [0])
    assert topology.reaches_keeper(0)


def test_without_a_majority_nobody_reaches_the_keeper(topology: Topology) -> None:
    assert topology.keeper_member("keeper-0", running=False) == ([], [])
    assert topology.keeper_member("keeper-2", running=False) == ([0, 1, 2], [])
    assert not topology.keeper_has_quorum
    assert topology.keeper_member("keeper-0", running=True) == ([], [0, 1, 2])
    assert topology.reaches_keeper(2)


def test_a_client_that_appears_in_a_zone_that_is_cut_off_is_cut_off(topology: Topology) -> None:
    topology.cut([(0, 1), (1, 0)])
    topology.add_client("p", "az1")
    assert not topology.linked("p", 1)
    assert topology.linked("p", 2)
    assert topology.zone_of("p") == "az1"
    assert KEEPER not in topology.nodes_in("az1")


# ---------------------------------------------------------------- disks


def _appended(folder: Path, *values: str) -> None:
    """A broker's folder after these records were appended and the process was killed without a sync."""
    storage = FileStorage(folder, broker_id=0)
    log = storage.open(TP)
    for value in values:
        log.append_as_leader(
            RecordBatch.parse(bytearray(build_batch([Record(value=value.encode())]))), LeaderEpoch(0)
        )
    for appended in (log,):
        appended.release()
    storage._folder.release()


def _values(folder: Path) -> list[str]:
    storage = FileStorage(folder, broker_id=0)
    try:
        log = storage.open(TP)
        found = [r for batch in log.read(0, log.end_offset) for r in read_records(batch)]
        return [record.value.decode() for record in found if record.value is not None]
    finally:
        storage.close()


def test_a_power_cut_takes_what_was_not_synced(tmp_path: Path) -> None:
    """Records that were synced from outside survive, later ones do not."""
    disks = Disks()
    _appended(tmp_path, "a", "b")
    disks.sync(tmp_path)
    _appended(tmp_path, "c")
    disks.lose_power(tmp_path, {})
    assert _values(tmp_path) == ["a", "b"]


def test_a_power_cut_leaves_what_the_broker_itself_synced(tmp_path: Path) -> None:
    _appended(tmp_path, "a", "b", "c")
    Disks().lose_power(tmp_path, {TP: 2})
    assert _values(tmp_path) == ["a", "b"]


def test_what_replaced_synced_records_is_not_synced(tmp_path: Path) -> None:
    """After a truncation other records are at the offsets of synced ones."""
    disks = Disks()
    _appended(tmp_path, "a", "b")
    disks.sync(tmp_path)
    storage = FileStorage(tmp_path, broker_id=0)
    storage.open(TP).truncate_to(1)
    storage.close()
    _appended(tmp_path, "x", "y")
    disks.lose_power(tmp_path, {})
    assert _values(tmp_path) == ["a"]


# ---------------------------------------------------------------- folders


def test_what_a_dead_trial_left_running_is_ended(tmp_path: Path) -> None:
    """Its folder is not locked any more; its brokers are found by the locks on their data."""
    folder = TrialFolder(tmp_path)
    with held(folder.path / "play-1") as left:
        folder._lock.release()  # as the end of the process does
        clean_up(tmp_path)
        assert left.wait(PATIENCE_SECONDS) == -9
        assert not folder.path.exists()


def test_only_a_process_that_holds_a_lock_is_a_leftover(tmp_path: Path) -> None:
    """A killed process leaves its name in the lock file; the id may be that of another process by now."""
    folder = TrialFolder(tmp_path)
    with held(folder.path / "play-1") as left:
        pass
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        lock = folder.path / "play-1" / "broker-1" / LOCK
        assert lock.read_text().split()[0] == str(left.pid)
        lock.write_text(f"{other.pid} {start_time(other.pid)}\n")
        folder._lock.release()
        clean_up(tmp_path)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_trial_that_runs_is_left_alone(tmp_path: Path) -> None:
    first = TrialFolder(tmp_path)
    second = TrialFolder(tmp_path)
    assert first.path.exists()
    assert first.path != second.path
    first.close()
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "ROOM_BYTES_MIN", 1 << 60)
    with pytest.raises(TrialError, match=r"MB are free .* set TMPDIR"):
        TrialFolder(tmp_path)


def test_a_place_that_cannot_be_written_is_one_line() -> None:
    with pytest.raises(TrialError, match=r"/proc/.*; set TMPDIR"):
        TrialFolder(Path("/proc/trials"))


# ---------------------------------------------------------------- time


class _TimeJumps(selectors.DefaultSelector):
    """Where an event loop would wait, its time jumps instead: how busy the machine is makes no difference."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


def run_in_jumps(play: Coroutine[Any, Any, None]) -> None:
    def loop() -> asyncio.AbstractEventLoop:
        selector = _TimeJumps()
        made = asyncio.SelectorEventLoop(selector)
        made.time = lambda: selector.now  # type: ignore[method-assign]
        return made

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(play)


def test_the_scenario_clock_stops_while_the_stage_looks() -> None:
    """A timer fires at its scenario time."""

    async def play() -> None:
        clock = ScenarioClock(asyncio.get_running_loop(), Pace(0.1))
        clock.start()
        woken: list[int] = []
        clock.call_at(clock.now + 800, lambda: woken.append(clock.now))
        with clock.stopped():
            at = clock.now
            await asyncio.sleep(0.1)
            assert clock.now == at
            assert woken == []
        await clock.pass_time(1_000)
        assert clock.now >= at + 1_000
        assert len(woken) == 1
        clock.stop()

    run_in_jumps(play())


# ---------------------------------------------------------------- sessions


class _Kept:
    """The part of an embedded keeper that `Sessions` uses."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.expired: list[list[int]] = []

    def keep(self, session: int) -> None:
        self.kept.append(session)

    def let_go(self, session: int, heard_at: float) -> None:
        self.kept.remove(session)

    def expire(self, sessions: list[int]) -> None:
        if sessions:
            self.expired.append(sessions)


async def _sessions(keeper: _Kept) -> tuple[Sessions, ScenarioClock]:
    clock = ScenarioClock(asyncio.get_running_loop(), Pace(0.05))
    clock.start()
    return Sessions(keeper, clock, 1_000), clock  # type: ignore[arg-type]


def test_sessions_that_fall_silent_in_one_step_end_together() -> None:
    """The order of the kills does not matter; a new process does not revive the session of the old one."""

    async def play() -> None:
        keeper = _Kept()
        sessions, clock = await _sessions(keeper)
        began = clock.now
        for session in (5, 3, 5, None, 4):
            sessions.silent(session, began)
        sessions.expire_after_restart(3)
        sessions.heard(3, 0.0)
        sessions.heard(4, 0.0)
        assert keeper.kept == [5, 3]
        await clock.pass_time(900 - (clock.now - began))
        assert keeper.expired == []
        await clock.pass_time(200)
        assert keeper.expired == [[3, 5]]
        clock.stop()

    run_in_jumps(play())


def test_without_a_majority_no_session_ends() -> None:
    """When there is one again, every session gets the full time-out."""

    async def play() -> None:
        keeper = _Kept()
        sessions, clock = await _sessions(keeper)
        sessions.silent(1, clock.now)
        sessions.majority(exists=False, now=clock.now)
        await clock.pass_time(1_100)
        formed = clock.now
        sessions.majority(exists=True, now=formed)
        await clock.pass_time(900 - (clock.now - formed))
        assert keeper.expired == []
        await clock.pass_time(200)
        assert keeper.expired == [[1]]
        clock.stop()

    run_in_jumps(play())


# ---------------------------------------------------------------- what brokers and clients say


STATE = PartitionState(BrokerId(1), LeaderEpoch(4), (BrokerId(1), BrokerId(2)), ControllerEpoch(3), 7)
EVENTS = (
    e.BecameLeader(BrokerId(1), TP, LeaderEpoch(4), (BrokerId(1), BrokerId(2)), 9, 8),
    e.BecameFollower(BrokerId(1), TP, LeaderEpoch(4), BrokerId(2)),
    e.Truncated(BrokerId(1), TP, 9, 7, TruncationRule.EPOCH_END_ON_LEADER, LeaderEpoch(3), 8),
    e.HighWatermarkAdvanced(
        BrokerId(1), TP, LeaderEpoch(4), 2, 3, (BrokerId(1),), WatermarkMoment.FOLLOWER_FETCHED
    ),
    e.HighWatermarksCheckpointed(BrokerId(1), {TP: 3}),
    e.EpochEndAsked(BrokerId(1), TP, BrokerId(2), LeaderEpoch(4)),
    e.EpochEndAnswered(BrokerId(1), TP, BrokerId(2), LeaderEpoch(4), LeaderEpoch(3), 8),
    e.IsrChangeProposed(
        BrokerId(1), TP, LeaderEpoch(4), (BrokerId(1), BrokerId(2)), (BrokerId(1),), IsrChange.MESSAGE_LAG
    ),
    e.IsrChangeRefused(BrokerId(1), TP, LeaderEpoch(4), (BrokerId(1),), ErrorCode.NOT_CONTROLLER),
    e.IsrChanged(BrokerId(1), TP, LeaderEpoch(4), (BrokerId(1),)),
    e.PartitionStateWritten(BrokerId(1), TP, STATE, StateWriteReason.REPLICA_OFFLINE, BrokerId(0)),
    e.PartitionStateWritten(BrokerId(1), TP, STATE, ElectionKind.CLEAN),
    e.PartitionPhaseChanged(BrokerId(1), (TP,), PartitionPhase.NEW, PartitionPhase.ONLINE),
    e.ReplicaPhaseChanged(BrokerId(1), BrokerId(2), (TP,), ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE),
    e.ElectionFailed(BrokerId(1), TP, ElectionFailure.NO_LIVE_REPLICA),
    e.ControllerElected(BrokerId(1), ControllerEpoch(3)),
    e.ControllerResigned(BrokerId(1), ControllerEpoch(3), ResignReason.SUCCEEDED, BrokerId(2)),
    e.BrokerRegistered(BrokerId(1), BrokerEpoch(17)),
    e.ControlRequestRefused(BrokerId(1), "LeaderAndIsr", ErrorCode.STALE_CONTROLLER_EPOCH),
    e.FollowerStalled(BrokerId(1), TP, ErrorCode.FENCED_LEADER_EPOCH),
    e.BrokerExited(BrokerId(1), TP, BrokerId(2), 9, 7),
    e.ReassignmentStarted(BrokerId(1), TP, (BrokerId(2), BrokerId(0)), (BrokerId(2),), (BrokerId(0),)),
    e.ReassignmentCompleted(BrokerId(1), TP, (BrokerId(2),), (BrokerId(0),), (BrokerId(0), BrokerId(2))),
    e.ReassignmentCancelled(BrokerId(1), TP, (BrokerId(0),)),
    e.ReplicaDeleted(BrokerId(1), TP),
    e.TopicDeletionStarted(BrokerId(1), TP.topic),
    e.TopicDeleted(BrokerId(1), TP.topic),
    e.StrayReplicaFound(BrokerId(1), TP, StrayReason.LIVES_ELSEWHERE, (BrokerId(0),)),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_row_of_evidence_becomes_the_event_it_was_made_of(event: object) -> None:
    row = json.loads(json.dumps(to_row(event, 1_000, BrokerId(1))))  # type: ignore[arg-type]
    assert event_of(row) == event


def test_every_event_that_is_told_is_tried() -> None:
    assert {type(event) for event in EVENTS} == set(NARRATED)


def test_events_are_read_once_and_in_the_order_of_time(tmp_path: Path) -> None:
    happenings = BrokerEventReader(tmp_path / "events")
    assert happenings.new() == []
    clock = iter(range(100, 1_000, 10))
    recorders = [EventRecorder(tmp_path / "events", BrokerId(b), lambda: next(clock)) for b in (0, 1)]
    recorders[1].record(e.BrokerRegistered(BrokerId(1), BrokerEpoch(1)), 0)
    recorders[0].record(e.BrokerRegistered(BrokerId(0), BrokerEpoch(2)), 0)
    assert [event for _, event in happenings.new()] == [
        e.BrokerRegistered(BrokerId(1), BrokerEpoch(1)),
        e.BrokerRegistered(BrokerId(0), BrokerEpoch(2)),
    ]
    assert happenings.new() == []
    recorders[0].record(e.ControllerElected(BrokerId(0), ControllerEpoch(1)), 0)
    assert [event for _, event in happenings.new()] == [e.ControllerElected(BrokerId(0), ControllerEpoch(1))]
    for recorder in recorders:
        recorder.close()


def test_clients_speak_kafka() -> None:
    """One record a batch, with its sequence number; the time-out is scaled; a consumer does not wait."""
    batch = MemoryBatch("a", producer_id=1_000, producer_epoch=2, base_sequence=3)
    _, _, body = to_wire(ProduceRequest(TP, -1, batch, 3_000), Pace(0.5).ms)
    assert (body.acks, body.timeout_ms) == (-1, 1_500)
    sent = RecordBatch.parse(body.topic_data[0].partition_data[0].records)
    assert (sent.producer_id, sent.producer_epoch, sent.base_sequence) == (1_000, 2, 3)
    assert [record.value for record in read_records(sent)] == [b"a"]
    _, _, body = to_wire(FetchRequest(TP, BrokerId(-1), 5, LeaderEpoch(2), 0), Pace().ms)
    part = body.topics[0].partitions[0]
    assert (body.replica_id, body.max_wait_ms, part.fetch_offset, part.current_leader_epoch) == (-1, 0, 5, 2)
    _, _, body = to_wire(MetadataRequest(), Pace().ms)
    assert body.topics is None
    assert not body.allow_auto_topic_creation


def test_a_log_is_read_up_to_the_first_byte_that_is_no_record(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.begin_play(1)
        folder = processes.brokers[0].folder
        _appended(folder, "a", "b")
        observation = Observation(Setup(brokers=1), processes, None, None, int)  # type: ignore[arg-type]
        assert observation.records(0, TP) == ((0, 0, "a"), (1, 0, "b"))
        file = next(observation.log_folder(0, TP).glob("*.log"))
        file.write_bytes(file.read_bytes()[:-1])
        assert observation.records(0, TP) == ((0, 0, "a"),)


# ---------------------------------------------------------------- comparison


@pytest.fixture(scope="module")
def end() -> Run:
    return run(catalogue.load("isolate-leader-zone"))


def _kinds(first: Run, second: Run) -> set[str]:
    return {difference.kind for difference in compare(first, second).differences}


def _with_partition(of: Run, **changes: object) -> Run:
    last = of.played[-1]
    partition = replace(last.after.partitions[0], **changes)  # type: ignore[arg-type]
    after = replace(last.after, partitions=(partition,))
    return replace(of, played=[*of.played[:-1], replace(last, after=after)])


def test_a_run_is_the_same_as_itself(end: Run) -> None:
    compared = compare(end, end)
    assert compared.same
    assert compared.as_json()["differences"] == []


def test_every_difference_of_the_partition_is_found(end: Run) -> None:
    replicas = end.final.partitions[0].replicas
    other = replace(replicas[1], records=replicas[1].records[:-1], hw=0, epochs=())
    assert _kinds(end, _with_partition(end, leader=2)) == {"leader", "expectation"}
    assert _kinds(end, _with_partition(end, leader_epoch=7)) == {"epoch", "expectation"}
    assert _kinds(end, _with_partition(end, isr=(0, 1, 2))) == {"isr", "expectation"}
    changed = _with_partition(end, replicas=(replicas[0], other, replicas[2]))
    assert _kinds(end, changed) == {"records", "epochs", "high watermark"}


def test_the_order_of_the_isr_counts_only_where_it_is_expected() -> None:
    """Which of two followers catches up first is a race."""
    of = run(catalogue.load("kip-966-last-replica-standing"))
    isr = of.final.partitions[0].isr
    assert _kinds(of, _with_partition(of, isr=isr[::-1])) == set()
    assert _kinds(of, _with_partition(of, isr=isr[:1])) == {"isr"}


def test_what_clients_were_told_is_compared(end: Run) -> None:
    first, *rest = end.ledger
    assert _kinds(end, replace(end, ledger=[replace(first, offset=9), *rest])) == {"answer"}
    assert _kinds(end, replace(end, ledger=[replace(first, attempts=9), *rest])) == {"attempts"}
    lost = replace(first, outcome=Outcome.UNKNOWN, error=ClientFailure.NO_ANSWER)
    gone = replace(first, outcome=Outcome.UNKNOWN, error=ClientFailure.CONNECTION_LOST)
    assert _kinds(replace(end, ledger=[lost, *rest]), replace(end, ledger=[gone, *rest])) == set()
    refused = replace(first, outcome=Outcome.FAILED, error=ClientFailure.NO_ANSWER)
    assert _kinds(replace(end, ledger=[lost, *rest]), replace(end, ledger=[refused, *rest])) == {"answer"}


def test_remarks_are_compared_except_those_of_drop(end: Run) -> None:
    steps = {"heal": {"remark"}, "drop": set(), "read": {"read"}}
    for verb, kinds in steps.items():
        ran = replace(end, played=[replace(end.played[0], step=Step(verb)), *end.played[1:]])
        remarked = replace(
            ran, played=[replace(ran.played[0], remarks=(Remark(RemarkKind.NO_TIMER),)), *ran.played[1:]]
        )
        assert _kinds(ran, remarked) == kinds
