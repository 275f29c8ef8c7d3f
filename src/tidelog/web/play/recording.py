"""A scenario played from beginning to end, as plain data for the page.

A recording holds what the page needs to show any moment of the play without asking again: who takes part,
the steps with their words, the scene after each step as changes to the one before, the beats within a step,
and the verdict. It is the same data on the server and in an exported file.
"""

from __future__ import annotations

from typing import Any

from tidelog.lab.play import run
from tidelog.lab.world.world import Observer
from tidelog.narrate.clients import remark_phrase
from tidelog.narrate.events import is_inner, notable, phrase, place
from tidelog.scenario.clients.events import Acknowledged
from tidelog.scenario.narration import print_narration
from tidelog.scenario.run import Played, Run
from tidelog.scenario.scenario import ClientSetup, Scenario, print_head
from tidelog.scenario.setup import Setup
from tidelog.web.play.watched_world import Beat, Notes, WatchedWorld
from tidelog.web.rules import most_telling

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
        "title_holds": scenario.title_holds and not played.surprises(),
        "source": scenario.source,
        "generation": scenario.setup.generation,
        "head": print_head(scenario),
        "cast": _cast(scenario, world),
        "steps": [_step(played, number, notes) for number, notes in enumerate(world.notes)],
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
        "clients": [_client(client, scenario) for client in scenario.clients],
        "topics": [
            {
                "name": topic.name,
                "replicas": list(topic.hosts),
                "min_insync": topic.config.min_insync_replicas,
                "unclean": topic.config.unclean_leader_election,
            }
            for topic in setup.topics
        ],
    }


def _client(client: ClientSetup, scenario: Scenario) -> Json:
    config = client.producer
    found: Json = {
        "name": client.name,
        "zone": client.zone,
        "kind": "consumer" if config is None else "producer",
        "topic": scenario.partition_of(client.name).topic,
    }
    if config is None:
        return found
    return {
        **found,
        "acks": "all" if config.acks == -1 else str(config.acks),
        "retries": config.retries,
        "idempotent": config.idempotent,
    }


# ---------------------------------------------------------------- steps


def _step(run: Run, number: int, notes: Notes) -> Json:
    played = run.played[number]
    step = played.step
    found: Json = {"command": "" if step is None else str(step), "changed": notes.changed}
    narration = run.narration(number)
    if narration and run.scenario.is_vouched_for:
        found["comment"] = narration
    if step is not None and step.narration:
        found["source"] = print_narration(step.narration)
    if played.remarks:
        found["remarks"] = [remark_phrase(remark).as_json() for remark in played.remarks]
    shown = [event for _, event in played.events[:EVENTS_PER_STEP_MAX]]
    if shown:
        several = len(played.after.partitions) > 1
        found["events"] = [event_json(event, several=several) for event in notable(shown, inner=True)]
    commits_by_isr = run.scenario.setup.rules.commits_by_isr
    rule = most_telling(shown, commits_by_isr=commits_by_isr)
    if rule is not None:
        found["rule"] = rule
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


def event_json(event: object, *, several: bool = False) -> Json:
    """An event as the phrase that it is: the page says it in the reader's language. Where there are several
    partitions it names its own."""
    found: Json = phrase(event).as_json()
    if several and (where := place(event)):
        found["place"] = where
    if is_inner(event):
        found["inner"] = True
    return found


# ---------------------------------------------------------------- losses


def _lost_at(played: Run, notes: list[Notes]) -> Json:
    """For each record that is lost in the end, the step since which it has been: until then a replica still
    had it who could have kept the promise."""
    if not played.verdict.lost:
        return {}
    holders = _holders(played, notes)
    found: Json = {}
    for loss in played.verdict.lost:
        value = loss["value"]
        at = len(holders) - 1
        while at > 0 and value not in holders[at - 1] and _was_acknowledged(played.played[:at], value):
            at -= 1
        found[value] = at
    return found


def _holders(played: Run, notes: list[Notes]) -> list[set[str]]:
    """After each step, the values that are not lost yet: in the log of the leader, or without a leader of a
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


def _was_acknowledged(steps: list[Played], value: str) -> bool:
    """Whether a producer had got ok for it by the end of these steps."""
    events = (event for step in steps for _, event in step.events)
    return any(isinstance(event, Acknowledged) and event.record.value == value for event in events)
