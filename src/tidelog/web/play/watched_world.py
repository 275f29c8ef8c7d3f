"""A world that takes notes: every message that arrives, and what it changed, beat by beat.

A *beat* is the least that is worth a look: messages that arrive at the same moment and what they change. The
steps of a scenario often take thousands of them, most alike; the notes of a step are bounded, and so is the
whole play, because the text may come from any user.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from tidelog.core.keeper_paths import CONTROLLER, broker_path
from tidelog.core.types import TopicPartition
from tidelog.faults.places import KEEPER, Channel, Node
from tidelog.lab.world.world import Observer, World
from tidelog.scenario.clients.producer import Producer
from tidelog.scenario.setup import Setup
from tidelog.web.play.messages import is_worth_showing, travel
from tidelog.web.play.scene import Scene, changes, scene, small_scene

BEATS_PER_STEP_MAX = 48
ALIKE_MAX = 2
"""How often the same message on the same link is shown in one step: clients ask again and again."""
MOVES_MAX = 80_000
SECONDS_MAX = 15.0
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
    """The simulated cluster, which records each move. Its behaviour is the same."""

    def __init__(self, setup: Setup, observer: Observer) -> None:
        self.notes: list[Notes] = []
        self._watching = False
        self._began = time.monotonic()
        self._moves = 0
        self._start_step()
        self._drawn: Scene = {}
        self._known: Scene = {}
        self._marks: dict[Node, tuple[object, ...]] = {}
        super().__init__(setup, observer)
        self._watching = True
        self._partitions = [TopicPartition(topic.name, 0) for topic in setup.topics]

    def _start_step(self) -> None:
        self._beats: list[Beat] = []
        self._seen: dict[tuple[object, ...], int] = {}
        self._fresh = True

    # ------------------------------------------------------------ what moves the world

    def deliver(self, channel: Channel) -> None:
        self._count()
        if not self._is_noting():
            super().deliver(channel)
            return
        if self._fresh:
            self._note_all()  # what the step itself did comes before what follows from it
        payload = self.network.active[channel][0][2]
        worth_showing = self._is_new(channel, payload)
        super().deliver(channel)
        changed = self._differs(channel.target)
        if worth_showing or changed:
            self._note([travel(channel, payload)], changed=changed)

    def tick(self) -> None:
        self._count()
        super().tick()
        if self._is_noting():
            self._note_all()

    def _is_noting(self) -> bool:
        return self._watching and len(self._beats) < BEATS_PER_STEP_MAX

    def _count(self) -> None:
        self._moves += 1
        if self._moves > MOVES_MAX:
            raise PlayTooLong(f"it takes more than {MOVES_MAX:,} messages and timers")
        if self._moves % MOVES_BETWEEN_LOOKS_AT_THE_CLOCK == 0 and self._seconds() > SECONDS_MAX:
            raise PlayTooLong(f"it takes more than {SECONDS_MAX:.0f} seconds to play")

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    # ------------------------------------------------------------ what has changed

    def _differs(self, node: Node) -> bool:
        """Whether a node is not as it was when last asked. Says so once."""
        mark = self._mark_of(node)
        if self._marks.get(node) == mark:
            return False
        self._marks[node] = mark
        return True

    def _mark_of(self, node: Node) -> tuple[object, ...]:
        """Differs whenever what is drawn of a node would, and costs little."""
        if isinstance(node, int):
            return self._broker_mark(node)
        if node == KEEPER:
            tree = self.quorum.tree
            nodes = (tree.get(broker_path(process.id)) for process in self.processes)
            return (tree.get(CONTROLLER), *map(self.partition_state, self._partitions), *nodes)
        client = self.clients.get(node)
        if isinstance(client, Producer):
            return tuple((sent.outcome, sent.attempts) for sent in client.ledger)
        return () if client is None else (len(client.reads),)

    def _broker_mark(self, broker: int) -> tuple[object, ...]:
        core = self.processes[broker].core
        if core is None:
            return ()
        found: list[object] = [broker in self.paused, core.controller.active]
        for tp in self._partitions:
            replica = core.replicas.get(tp)
            if replica is not None:
                found += (replica.log.end_offset, replica.high_watermark, replica.role)
        return tuple(found)

    # ------------------------------------------------------------ notes

    def _is_new(self, channel: Channel, payload: Any) -> bool:
        if not is_worth_showing(channel, payload):
            return False
        key = tuple(travel(channel, payload).values())
        times = self._seen.get(key, 0)
        self._seen[key] = times + 1
        return times < ALIKE_MAX

    def _note_all(self) -> None:
        """Note what has changed without a message, anywhere."""
        self._fresh = False
        nodes: list[Node] = [*self._brokers, KEEPER, *self.clients]
        differing = [node for node in nodes if self._differs(node)]
        if differing:
            self._note([], changed=True)

    def _note(self, messages: list[dict[str, Any]], *, changed: bool) -> None:
        difference: Scene = {}
        if changed:
            drawn = small_scene(self)
            difference = changes(self._drawn, drawn)
            self._drawn = drawn
            difference.pop("now", None)
        if not messages and not difference:
            return
        last = self._beats[-1] if self._beats else None
        if last is not None and last.at == self.now and messages and last.messages:
            last.messages += messages
            last.changed.update(difference)
        else:
            self._beats.append(Beat(self.now, messages, difference))

    def end_step(self) -> None:
        """Close the notes of a step. The beginning of a run counts as one."""
        drawn = scene(self)
        self.notes.append(Notes(self._beats, changes(self._known, drawn)))
        self._known = self._drawn = drawn
        self._start_step()
