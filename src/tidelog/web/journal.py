"""A world that takes notes: every message that arrives, and what it changed, beat by beat.

A *beat* is the least that is worth a look: messages that arrive at the same moment and what they change. The
steps of a scenario often take thousands of them, most alike; the notes of a step are bounded, and so is the
whole play, because the text it plays comes from anybody.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from tidelog.core.paths import CONTROLLER, broker_path
from tidelog.core.types import TopicPartition
from tidelog.lab.clients import Producer
from tidelog.lab.network import Channel
from tidelog.lab.setup import Setup
from tidelog.lab.world import Observer, World
from tidelog.web.scene import Scene, changes, scene, small_scene
from tidelog.web.travels import is_worth_showing, travel

BEATS_PER_STEP_MAX = 48
ALIKE_MAX = 2
"""How often the same message on the same link is shown in one step: clients ask again and again."""
MOVES_MAX = 400_000
SECONDS_MAX = 20.0
MOVES_BETWEEN_LOOKS_AT_THE_CLOCK = 1_000


class PlayTooLong(Exception):
    """The play was stopped at a limit. The message says which."""


@dataclass(slots=True)
class Beat:
    at: int
    messages: list[dict[str, Any]]
    changed: Scene


@dataclass(slots=True)
class Notes:
    """What was seen of one step."""

    beats: list[Beat]
    changed: Scene
    """What is different after the step."""


class WatchedWorld(World):
    """The simulated cluster, with somebody looking on. What it does is the same, move by move."""

    def __init__(self, setup: Setup, observer: Observer) -> None:
        self.notes: list[Notes] = []
        self._watching = False
        self._began = time.monotonic()
        self._moves = 0
        self._start_step()
        self._drawn: Scene = {}
        self._known: Scene = {}
        self._mark: tuple[object, ...] = ()
        super().__init__(setup, observer)
        self._watching = True
        self._partitions = [TopicPartition(topic.name, 0) for topic in setup.topics]

    def _start_step(self) -> None:
        self._beats: list[Beat] = []
        self._seen: dict[tuple[object, ...], int] = {}

    # ------------------------------------------------------------ what moves the world

    def deliver(self, channel: Channel) -> None:
        self._count()
        if not self._watching or len(self._beats) >= BEATS_PER_STEP_MAX:
            super().deliver(channel)
            return
        self._note([])  # what the step itself did, or a client on its own
        payload = self.network.active[channel][0][2]
        worth_showing = self._is_new(channel, payload)
        super().deliver(channel)
        if worth_showing or self._fingerprint() != self._mark:
            self._note([travel(channel, payload)])

    def tick(self) -> None:
        self._count()
        super().tick()
        if self._watching and len(self._beats) < BEATS_PER_STEP_MAX:
            self._note([])

    def _count(self) -> None:
        self._moves += 1
        if self._moves > MOVES_MAX:
            raise PlayTooLong(f"it takes more than {MOVES_MAX:,} messages and timers")
        if self._moves % MOVES_BETWEEN_LOOKS_AT_THE_CLOCK == 0 and self._seconds() > SECONDS_MAX:
            raise PlayTooLong(f"it takes more than {SECONDS_MAX:.0f} seconds to play")

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    # ------------------------------------------------------------ notes

    def _is_new(self, channel: Channel, payload: Any) -> bool:
        if not is_worth_showing(channel, payload):
            return False
        key = tuple(travel(channel, payload).values())
        times = self._seen.get(key, 0)
        self._seen[key] = times + 1
        return times < ALIKE_MAX

    def _fingerprint(self) -> tuple[object, ...]:
        """Differs whenever a small scene would, apart from the time, and costs little."""
        tree = self.quorum.tree
        found: list[object] = [tree.get(CONTROLLER), self.quorum.leader]
        found += map(self.partition_state, self._partitions)
        for process in self.processes:
            core = process.core
            found += (tree.get(broker_path(process.id)), self.quorum.is_connected(process.id))
            found += (core is None, process.id in self.paused, core is not None and core.controller.active)
            for tp in self._partitions:
                replica = None if core is None else core.replicas.get(tp)
                if replica is not None:
                    role = replica.role
                    found += (replica.log.end_offset, replica.high_watermark, type(role), id(role))
        for client in self.clients.values():
            if isinstance(client, Producer):
                found += ((sent.outcome, sent.attempts) for sent in client.ledger)
            else:
                found.append(len(client.reads))
        return tuple(found)

    def _note(self, messages: list[dict[str, Any]]) -> None:
        mark = self._fingerprint()
        changed: Scene = {}
        if mark != self._mark:
            self._mark = mark
            drawn = small_scene(self)
            changed = changes(self._drawn, drawn)
            self._drawn = drawn
            changed.pop("now", None)
        if not messages and not changed:
            return
        last = self._beats[-1] if self._beats else None
        if last is not None and last.at == self.now and messages and last.messages:
            last.messages += messages
            last.changed.update(changed)
        else:
            self._beats.append(Beat(self.now, messages, changed))

    def end_step(self) -> None:
        """Close the notes of a step. The beginning of a run counts as one."""
        drawn = scene(self)
        self.notes.append(Notes(self._beats, changes(self._known, drawn)))
        self._known = self._drawn = drawn
        self._mark = self._fingerprint()
        self._start_step()
