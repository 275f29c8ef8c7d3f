"""A scenario played from beginning to end, as plain data for the page.

A recording holds what the page needs to show any moment of the play without asking again: who takes part,
the steps with their words, the scene after each step as changes to the one before, the beats within a step,
and the verdict. It is the same data on the server and in an exported file.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from tidelog.core import events as e
from tidelog.lab.runner import Played, Run, run
from tidelog.lab.scenario import ClientSetup, Scenario, print_head
from tidelog.lab.setup import Setup
from tidelog.lab.world import Observer
from tidelog.narrate.clients import error_words, remark_words, told
from tidelog.narrate.events import narrate
from tidelog.narrate.phrasebook import say
from tidelog.narrate.reasons import why
from tidelog.scenario.client_events import Acknowledged, RecordRead, SendFailed, Sent
from tidelog.web.journal import Beat, Notes, WatchedWorld
from tidelog.web.travels import error_name, leader_name, numbers

Json = dict[str, Any]

EVENTS_PER_STEP_MAX = 60


def record(scenario: Scenario) -> tuple[Run, Json]:
    """Play a scenario and take it all down. Raises ``PlayTooLong``."""
    worlds: list[WatchedWorld] = []

    def make_world(setup: Setup, observer: Observer) -> WatchedWorld:
        worlds.append(WatchedWorld(setup, observer))
        return worlds[0]

    played = run(scenario, make_world=make_world, after_step=lambda world: worlds[0].end_step())
    return played, _recording(played, worlds[0])


def _recording(played: Run, world: WatchedWorld) -> Json:
    scenario = played.scenario
    return {
        "name": scenario.name,
        "title": scenario.title,
        "source": scenario.source,
        "generation": scenario.setup.generation,
        "head": print_head(scenario),
        "cast": _cast(scenario, world),
        "steps": [_step(p, notes) for p, notes in zip(played.played, world.notes, strict=True)],
        "verdict": played.verdict.as_json(),
        "lost_at": _lost_at(played, world.notes),
        "broken": [
            {"invariant": broken.name, "message": broken.message, "step": at}
            for broken, at in zip(played.broken, played.broken_at, strict=True)
        ],
        "surprises": played.surprises(),
    }


# ---------------------------------------------------------------- who takes part


def _cast(scenario: Scenario, world: WatchedWorld) -> Json:
    setup = scenario.setup
    return {
        "zones": world.zones(),
        "brokers": [{"id": broker, "zone": world.zone_of(broker)} for broker in world.broker_ids()],
        "keepers": [{"name": member, "zone": world.zone_of(member)} for member in world.quorum.members],
        "clients": [_client(client) for client in scenario.clients],
        "topics": [
            {
                "name": topic.name,
                "replicas": list(topic.replicas),
                "min_insync": topic.config.min_insync_replicas,
                "unclean": topic.config.unclean_leader_election,
            }
            for topic in setup.topics
        ],
    }


def _client(client: ClientSetup) -> Json:
    config = client.producer
    if config is None:
        return {"name": client.name, "zone": client.zone, "kind": "consumer"}
    return {
        "name": client.name,
        "zone": client.zone,
        "kind": "producer",
        "acks": "all" if config.acks == -1 else str(config.acks),
        "retries": config.retries,
        "idempotent": config.idempotent,
    }


# ---------------------------------------------------------------- steps


def _step(played: Played, notes: Notes) -> Json:
    step = played.step
    found: Json = {"command": "" if step is None else str(step), "changed": notes.changed}
    if step is not None and step.comment:
        found["comment"] = step.comment
    if played.remarks:
        found["remark"] = remark_words(played.remarks)
    if played.events:
        found["events"] = [event_json(at, event) for at, event in played.events[:EVENTS_PER_STEP_MAX]]
    if notes.beats:
        found["beats"] = [_beat(beat) for beat in notes.beats]
    return found


def _beat(beat: Beat) -> Json:
    found: Json = {"at": beat.at}
    if beat.messages:
        found["messages"] = beat.messages
    if beat.changed:
        found["changed"] = beat.changed
    return found


def event_json(at: int, event: object) -> Json:
    """An event in English words, and in fields for any other language."""
    return {"at": at, "kind": type(event).__name__, "text": narrate(event), **_event_fields(event)}


def _event_fields(event: object) -> Json:
    if isinstance(event, (Acknowledged, SendFailed)):
        return _sent_fields(event.record)
    if isinstance(event, RecordRead):
        return {"consumer": event.consumer, "value": event.value, "offset": event.offset}
    if isinstance(event, e.PartitionStateWritten):
        state = event.state
        return {
            "tp": str(event.tp),
            "broker": event.writer,
            "leader": leader_name(state.leader),
            "epoch": state.leader_epoch,
            "isr": numbers(state.isr),
            "reason": say(why(event)),
        }
    found: Json = {}
    for name in getattr(type(event), "__slots__", ()):
        value = getattr(event, name)
        if name in ("rule", "reason") and isinstance(value, StrEnum):
            found["reason"] = say(why(event))  # type: ignore[arg-type]
        elif name in ("isr", "before") and isinstance(value, tuple):
            found[name] = numbers(value)
        elif name == "error":
            found[name] = error_name(value)
        else:
            found[name] = value if isinstance(value, (int, str)) else str(value)
    return found


def _sent_fields(sent: Sent) -> Json:
    return {
        "producer": sent.producer,
        "value": sent.value,
        "offset": sent.offset,
        "told": say(told(sent)),
        "error": error_words(sent.error),
    }


# ---------------------------------------------------------------- losses


def _lost_at(played: Run, notes: list[Notes]) -> Json:
    """For each record that is lost in the end, the step since which it has been: until then somebody still
    had it who could have kept the promise."""
    if not played.verdict.lost:
        return {}
    holders = _holders(played, notes)
    found: Json = {}
    for loss in played.verdict.lost:
        value = loss["value"]
        at = len(holders) - 1
        while at > 0 and value not in holders[at - 1] and _was_told(played.played[:at], value):
            at -= 1
        found[value] = at
    return found


def _holders(played: Run, notes: list[Notes]) -> list[set[str]]:
    """After each step, the values that are not lost yet: in the log of the leader, or where nobody leads of a
    member of the ISR, committed or not; or on their way to a broker."""
    found: list[set[str]] = []
    flight: list[Json] = []
    for step, note in zip(played.played, notes, strict=True):
        flight = note.changed.get("flight", flight)
        held = {message["value"] for message in flight if message["kind"] == "ProduceRequest"}
        for partition in step.after.partitions:
            leaders = (partition.leader,) if partition.leader >= 0 else partition.isr
            for replica in partition.replicas:
                if replica.broker in leaders:
                    held.update(value for _, _, value in replica.records if value is not None)
        found.append(held)
    return found


def _was_told(steps: list[Played], value: str) -> bool:
    """Whether a producer had heard ok by the end of these steps."""
    events = (event for step in steps for _, event in step.events)
    return any(isinstance(event, Acknowledged) and event.record.value == value for event in events)
