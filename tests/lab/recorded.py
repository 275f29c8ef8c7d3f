"""Schedules that were played on clusters of Apache Kafka 0.10.1.0, 2.7.1 and 4.3.1, and what was recorded.

``tests/recordings`` holds the recordings. A schedule has the commands of each recorded step in the language
of scenarios, so it can be played in the simulator and on processes. The state after each of these steps is
compared value by value: the keeper's, every log and its epochs, high watermarks, what brokers believe, and
what clients were answered; of 4.3.1 also every single write of the controller.

4.3.1 was recorded with eligible leader replicas (``-elr``) and with the feature at level 0 (``-noelr``).
The recordings in ``PLAYED`` have the commands in them: they were played from the schedule itself.
"""

import itertools
import json
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

from tidelog.core.events import PartitionStateWritten
from tidelog.scenario.clients.events import ClientFailure, Outcome
from tidelog.scenario.run import Run
from tidelog.scenario.scenario import Scenario, parse
from tidelog.scenario.snapshot import ReplicaState, Snapshot
from tidelog.wire.errors import ErrorCode

RECORDINGS = Path(__file__).parents[1] / "recordings"


class Schedule(NamedTuple):
    generation: str
    head: str
    steps: tuple[str, ...]
    """The commands of each recorded step, separated by semicolons."""


UNCLEAN = """
    scenario recorded
    cluster brokers=3 controller=2
    topic t replicas=0,1
    producer all zone=az3 acks=all
    producer one zone=az3 acks=1
"""
TRUNCATION = """
    scenario recorded
    cluster brokers=3 controller=2 replica.lag.time.max.ms=120000
    topic t replicas=0,1
    producer all zone=az1 acks=all
    producer later zone=az2 acks=all
"""
ISOLATED = """
    scenario recorded
    cluster brokers=3 controller=1 replica.lag.time.max.ms=10000
    topic t replicas=0,1,2
    producer one0 zone=az1 acks=1
    producer all0 zone=az1 acks=all request.timeout.ms=3000 delivery.timeout.ms=3000
    producer one1 zone=az2 acks=1
    producer all1 zone=az2 acks=all
"""
LAST_STANDING = """
    scenario recorded
    cluster brokers=4 controller=3 replica.lag.time.max.ms=5000 zookeeper.session.timeout.ms=18000
    topic t replicas=0,1,2 min.insync.replicas=2
    producer all zone=az4 acks=all request.timeout.ms=25000
    producer one zone=az4 acks=1
"""
"""The recorded clusters had a broker 9, without replicas, for the controller: here it is broker 3."""
KRAFT = """
    scenario recorded
    cluster brokers=4 controller=3 replica.lag.time.max.ms=5000 zookeeper.session.timeout.ms=8000{off}
    topic t replicas=0,1,2 min.insync.replicas=2
    producer all zone=az4 acks=all request.timeout.ms=25000
    producer one zone=az4 acks=1
"""
"""The recorded clusters had a controller that never dies and is no broker: here it is broker 3."""

TRUNCATION_STEPS = (
    "produce all a b; wait knows 1 b; advance 5s",
    "hold fetch 1->0; send all c; wait holds 1 c; deliver fetch 1->0; crash 1; release fetch 1->0",
    "advance 5s; pause 2; wait unregistered 1; restart 1; wait registered 1; pause 0; crash 2",
    "wait controller 1; delete /controller; wait follows 1 0",
    "crash 0; wait leader 1; advance 1s",
    "produce later d; advance 5s",
    "restart 0; wait isr 0,1; advance 8s",
)

REFUSED = "x"
"""This record was sent only to brokers that did not lead."""


def _kraft() -> dict[str, Schedule]:
    steps = {
        "e1": (
            "produce all->0 a; advance 1s",
            "stop 1; wait isr 0,2; produce all->0 b",
            "stop 2; wait isr 0",
            "produce one->0 c; produce all->0 d; advance 6s",
            "stop 0; wait leader none",
            "restart 2; advance 2s",
            "restart 0; advance 2s",
            "restart 1; advance 2s",
            "produce all z; advance 2s",
        ),
        "e2a": (
            "produce all->0 a; advance 1s",
            "crash 1; wait isr 0,2; produce all->0 b",
            "crash 2; wait isr 0; produce one->0 c; produce all->0 d; advance 6s",
            "crash 0; wait leader none",
            "restart 2; advance 2s",
            "restart 1; advance 2s",
            "restart 0; advance 4s",
            "produce all z; advance 2s",
        ),
        "e3": (
            "produce all->0 a; advance 1s",
            "pause 1 2; send all->0 b; advance 2s",
            "wait isr 0; wait answered",
            "produce all->0 c; produce one->0 d; advance 6s",
            "resume 1 2; wait isr 0,1,2; advance 2s",
        ),
        "e5a": (
            "produce all->0 a; advance 1s; sync 0; produce all->0 b; advance 200ms",
            "stop 1; wait isr 0,2; advance 2s; stop 2; wait isr 0; produce one->0 c; advance 6s",
            "power-off 0; wait leader none",
            "restart 0; advance 2s",
            "restart 2; advance 2s",
            "restart 1; advance 2s",
            "produce all z; advance 2s",
        ),
    }
    kinds = {"elr": "", "noelr": " without=eligible_leader_replicas"}
    return {
        name: Schedule("elr", KRAFT.format(off=off), _with_refused(name, commands))
        for schedule, commands in steps.items()
        for kind, off in kinds.items()
        for name in (f"{schedule}-{kind}",)
    }


def _with_refused(name: str, steps: tuple[str, ...]) -> tuple[str, ...]:
    """Without a leader the recorded client sent one record more."""
    return tuple(
        "; ".join(
            [commands]
            + [
                f"produce one->{client['to']} {REFUSED}"
                for client in recorded.get("client", ())
                if client.get("produce") == [REFUSED]
            ]
        )
        for commands, recorded in zip(steps, recording_of(name)["steps"], strict=True)
    )


COMPARED = {
    "step": "client described_by controller controller_epoch live_brokers unfenced_brokers leader"
    " leader_epoch partition_epoch isr elr last_known_elr recovering assigned replicas",
    "client": "produce values acks err base_offset consume_from hw sees to broker",
    "replica": "alive log epochs believes as_leader hw_as_leader hw_checkpoint clean_shutdown_file",
}
"""The fields of a recording that are compared, or say where a request went."""
TOLD = {"step": "step action t", "client": "s", "replica": ""}
"""And those that are not: numbers of steps, words, and seconds."""


def recording_of(name: str) -> Any:
    return json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))


def name_of_error(told: str) -> str:
    """Some recordings have its number too."""
    return told.rsplit(maxsplit=1)[-1]


PLAYED = {
    name: generation
    for generation, names in {
        "hw": (
            "clean-stops-010",
            "isolated-leader-010",
            "kills-010",
            "unclean-by-default-010",
        ),
        "epoch": (
            "clean-stops-27",
            "controller-follower-27",
            "drawn-27",
            "isolated-controller-27",
            "kills-together-27",
            "leader-deaths-27",
            "min-insync-27",
            "reassigned-27",
            "removed-by-controller-27",
            "stopped-leader-27",
            "unclean-allowed-27",
        ),
        "elr": (
            "clean-stops-elr",
            "kills-elr",
            "leader-deaths-elr",
            "leader-deaths-noelr",
            "min-insync-elr",
            "min-insync-lowered-elr",
            "min-insync-noelr",
            "paused-leader-elr",
            "quick-restarts-elr",
            "reassigned-elr",
            "recreated-elr",
            "removed-by-controller-elr",
            "removed-by-controller-noelr",
            "settings-elr",
            "unclean-allowed-elr",
            "unclean-allowed-noelr",
            "waiting-sends-elr",
        ),
    }.items()
    for name in names
}


def _played(name: str, generation: str) -> Schedule:
    recording = recording_of(name)
    head = "\n".join(["scenario recorded", *recording["head"], ""])
    return Schedule(generation, head, tuple(step["action"] for step in recording["steps"]))


SCHEDULES = {
    "b-unclean-loss-27": Schedule(
        "epoch",
        UNCLEAN,
        (
            "advance 1s",
            "produce all a b; wait knows 1 b; advance 5s",
            "crash 1; wait isr 0; advance 1s",
            "produce all c; advance 5s",
            "crash 0; wait leader none; advance 1s",
            "restart 1; advance 2s; produce one->1 x",
            "configure t unclean.leader.election.enable=true; wait leader 1; advance 1s",
            "produce all d; advance 5s",
            "restart 0; wait isr 0,1; advance 6s",
            "elect-preferred; wait leader 0; advance 1s",
        ),
    ),
    "c-hw-truncation-010": Schedule("hw", TRUNCATION, TRUNCATION_STEPS),
    "c-hw-truncation-27": Schedule("epoch", TRUNCATION, TRUNCATION_STEPS),
    "d-isolated-leader-ctl1": Schedule(
        "epoch",
        ISOLATED,
        (
            "advance 1s",
            "produce all0 a b; wait knows 1 b; wait knows 2 b",
            "isolate az1; produce one0 c",
            "wait leads 1; advance 1s",
            "produce one0 d; produce one1 x y; produce all1 z; produce all0 e",
            "advance 15s; produce one0 f; produce all0 g",
            "heal; wait isr 0,1,2; wait converged within 30s",
            "elect-preferred; wait leads 0; wait converged within 30s",
            "produce all0 h; wait converged within 30s",
        ),
    ),
    "e1-27": Schedule(
        "epoch",
        LAST_STANDING,
        (
            "produce all->0 a; advance 200ms",
            "stop 1; wait isr 0,2; produce all->0 b; advance 200ms",
            "stop 2; wait isr 0",
            "produce one->0 c; produce all->0 d; advance 6s",
            "stop 0; wait leader none",
            "restart 2; advance 2s; produce one->2 x",
            "restart 0; wait isr 0,2; advance 2s",
            "restart 1; wait isr 0,1,2; advance 2s",
            "produce all->0 z; advance 2s",
        ),
    ),
    "e2a-27": Schedule(
        "epoch",
        LAST_STANDING,
        (
            "produce all->0 a; advance 200ms",
            "crash 1; wait isr 0,2; produce all->0 b; advance 200ms",
            "crash 2; wait isr 0; produce one->0 c; produce all->0 d; advance 6s",
            "crash 0; wait leader none",
            "restart 2; advance 2s; produce one->2 x",
            "restart 1; advance 2s; produce one->1 x",
            "restart 0; wait isr 0,1,2; advance 2s",
            "produce all->0 z; advance 2s",
        ),
    ),
    "e3-27": Schedule(
        "epoch",
        LAST_STANDING,
        (
            "produce all->0 a; advance 200ms",
            "pause 1 2; send all->0 b; advance 2s",
            "wait isr 0; wait answered; advance 1s",
            "produce all->0 c; produce one->0 d; advance 6s",
            "resume 1 2; wait isr 0,1,2; advance 2s",
        ),
    ),
    "e5a-27": Schedule(
        "epoch",
        LAST_STANDING,
        (
            "produce all->0 a; advance 1s; sync 0; produce all->0 b; advance 200ms",
            "stop 1; wait isr 0,2; advance 2s; stop 2; wait isr 0; produce one->0 c; advance 6s",
            "power-off 0; wait leader none",
            "restart 0; wait leader 0; advance 2s",
            "restart 2; wait isr 0,2; advance 2s",
            "restart 1; wait isr 0,1,2; advance 2s",
            "produce all->0 z; advance 2s",
        ),
    ),
    **_kraft(),
    **{name: _played(name, generation) for name, generation in PLAYED.items()},
}


def scenario_of(name: str, then: str = "") -> Scenario:
    """``then``: one command more, after the last recorded step."""
    schedule = SCHEDULES[name]
    commands = "\n".join(command.strip() for step in (*schedule.steps, then) for command in step.split(";"))
    return parse(dedent(schedule.head) + commands).under(schedule.generation)


def check(name: str, run: Run) -> None:
    """Every recorded step, value by value."""
    recording = recording_of(name)
    steps = recording["steps"]
    assert len(steps) == len(SCHEDULES[name].steps)
    first = steps[0].get("controller_epoch", 0) - 1
    any_order = recording.get("isr_order") == "chance"
    for number, recorded in zip(end_of_steps(name), steps, strict=True):
        where = f"{name}, step {recorded['step']}: {recorded['action']}"
        _check_keeper(run.played[number].after, recorded, first, where, any_order=any_order)
        _check_assigned(run.played[number].after, recorded, where)
        _check_replicas(run.played[number].after, recorded, where, any_order=any_order)
        if run.stage == "sim":  # on processes it is chance when the last five seconds ended
            _check_checkpoints([played.after for played in run.played[: number + 1]], recorded, where)
    _check_sends(run, steps, name)
    if "partition_history" in recording:
        _check_history(run, recording["partition_history"], name)


def end_of_steps(name: str) -> list[int]:
    """The number of the last command of each recorded step, from 1."""
    return list(itertools.accumulate(len(commands.split(";")) for commands in SCHEDULES[name].steps))


def _check_keeper(
    now: Snapshot, recorded: dict[str, Any], first_epoch: int, where: str, *, any_order: bool
) -> None:
    if "leader" not in recorded:
        return  # there was no broker to ask, or no topic
    partition = now.partitions[0]
    assert (partition.leader, partition.leader_epoch) == (recorded["leader"], recorded["leader_epoch"]), where
    if "controller" in recorded:
        in_order = sorted if any_order else list
        assert in_order(partition.isr) == in_order(recorded["isr"]), where
        assert list(now.live_brokers) == recorded["live_brokers"], where
        epoch = recorded["controller_epoch"] - first_epoch
        assert (now.controller, now.controller_epoch) == (recorded["controller"], epoch), where
    elif "elr" in recorded:
        assert list(partition.isr) == recorded["isr"], where
    else:  # which of two followers enters first is chance
        assert sorted(partition.isr) == sorted(recorded["isr"]), where
    if "unfenced_brokers" in recorded:
        assert [b for b in now.live_brokers if b != 3] == recorded["unfenced_brokers"], where
    if "partition_epoch" in recorded:
        assert partition.partition_epoch == recorded["partition_epoch"], where
    if "elr" in recorded:
        assert list(partition.elr) == recorded["elr"], where
        assert list(partition.last_known_elr) == recorded["last_known_elr"], where
        assert partition.recovering == bool(recorded.get("recovering", partition.recovering)), where
    elif "controller" not in recorded:
        assert [b for b in now.live_brokers if b != 3] == [b for b in recorded["live_brokers"] if b != 9], (
            where
        )


def _check_assigned(now: Snapshot, recorded: dict[str, Any], where: str) -> None:
    if "assigned" in recorded:
        used = [r.broker for r in now.partitions[0].replicas if r.process == "up" and r.role != "-"]
        up = [int(name) for name, then in recorded["replicas"].items() if "believes" in then]
        assert used == [broker for broker in up if broker in recorded["assigned"]], where


def _check_replicas(now: Snapshot, recorded: dict[str, Any], where: str, *, any_order: bool) -> None:
    for replica in now.partitions[0].replicas:
        then = recorded["replicas"][str(replica.broker)]
        place = f"{where}; broker {replica.broker}"
        assert (replica.process != "down") == then["alive"], place
        if "log" in then:
            assert [list(record) for record in replica.records] == then["log"], place
        if "epochs" in then:
            assert [list(entry) for entry in replica.epochs] == then["epochs"], place
        if replica.process == "up":
            _check_claims(replica, then, place, any_order=any_order)
        if then.get("clean_shutdown_file"):
            assert replica.checkpoint == then["hw_checkpoint"], place
    for client in recorded.get("client", ()):
        if "consume_from" in client:  # since 2.4 a follower answers, too
            asked = next(r for r in now.partitions[0].replicas if r.broker == client["consume_from"])
            assert asked.hw == client["hw"], where
            seen = [value for offset, _, value in asked.records if offset < asked.hw]
            assert seen == client["sees"], where


CHECKPOINT_MS = 6_000
"""A checkpoint is no older than this: they are written every five seconds."""


def _check_checkpoints(snapshots: list[Snapshot], recorded: dict[str, Any], where: str) -> None:
    """The high watermark on disk is of some moment between the last time when it must have been written and
    now."""
    now = snapshots[-1]
    before = [each for each in snapshots if each.at_ms <= now.at_ms - CHECKPOINT_MS][-1:]
    lately = before + [each for each in snapshots if each.at_ms > now.at_ms - CHECKPOINT_MS]
    for place, replica in enumerate(now.partitions[0].replicas):
        then = recorded["replicas"][str(replica.broker)]
        if replica.process == "up" and "hw_checkpoint" in then and "log" in then:
            known = [each.partitions[0].replicas[place] for each in lately]
            written = [mark for each in known for mark in (each.checkpoint, each.hw)]
            assert min(written) <= then["hw_checkpoint"] <= max(written), f"{where}; broker {replica.broker}"


def _check_claims(replica: ReplicaState, then: dict[str, Any], place: str, *, any_order: bool) -> None:
    # A new leader that does not know yet what is committed refuses to tell.
    leads = "hw_as_leader" in then or name_of_error(then["as_leader"]) == "OFFSET_NOT_AVAILABLE"
    assert (replica.role == "leader") == leads, place
    if "hw_as_leader" in then:
        assert replica.hw == then["hw_as_leader"], place
    if "believes" in then:
        believes = replica.believes or {}
        assert {key: believes[key] for key in then["believes"] if key != "isr"} == {
            key: value for key, value in then["believes"].items() if key != "isr"
        }, place
        in_order = sorted if any_order else list
        assert in_order(believes.get("isr", ())) == in_order(then["believes"].get("isr", [])), place


def _check_sends(run: Run, steps: list[dict[str, Any]], name: str) -> None:
    """What each producer was told, in the order of the sends of one value."""
    left = list(run.ledger)
    for recorded in steps:
        for client in recorded.get("client", ()):
            values = client.get("values", client.get("produce", ()))
            for index, value in enumerate(values):
                sent = next((record for record in left if record.value == value), None)
                if sent is None:  # the topic that it was sent to is deleted
                    assert any("delete-topic" in step["action"] for step in steps), f"{name}: {value}"
                    continue
                left.remove(sent)
                error = name_of_error(client["err"])
                if error == "NONE":
                    told: tuple[object, ...] = (Outcome.OK, client["base_offset"] + index)
                    assert (sent.outcome, sent.offset) == told, f"{name}: {value}"
                elif error in ClientFailure.__members__:
                    assert sent.error is ClientFailure[error], f"{name}: {value}"
                else:
                    assert isinstance(sent.error, ErrorCode), f"{name}: {value}"
                    assert (sent.error.name, sent.base_offset) == (error, client["base_offset"]), (
                        f"{name}: {value}"
                    )
    # Some recordings begin after the first sends.
    assert all(sent.outcome is Outcome.OK for sent in left), name


def _check_history(run: Run, history: list[Any], name: str) -> None:
    """The controller writes the states that Kafka's metadata log holds, and no others. (Which of two
    followers that wait joins the ISR first is chance.)"""
    written = [
        event.state
        for played in run.played
        for _, event in played.events
        if isinstance(event, PartitionStateWritten)
    ]
    if len(written) < len(history):
        history = history[1:]  # the stage does not tell what happened before the first step
    assert [
        (s.leader, s.leader_epoch, s.version, len(s.isr), list(s.elr), list(s.last_known_elr), s.recovering)
        for s in written
    ] == [
        (
            then["leader"],
            then["leader_epoch"],
            then["partition_epoch"],
            len(then["isr"]),
            then["elr"],
            then["last_known_elr"],
            bool(then["recovering"]),
        )
        for then in history
    ], name
