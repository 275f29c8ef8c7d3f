"""What a step of a scenario has to say for itself: what a read brought, or that there was nothing to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tidelog.scenario.clients.events import ClientError


class RemarkKind(StrEnum):
    """Beside each: the fields of such a remark."""

    READ = "read"
    """``client``, ``records`` like ``a@0 b@1``"""
    READ_NOTHING = "read_nothing"
    """``client``"""
    READ_FAILED = "read_failed"
    """``client``, ``error``"""
    TIMED_OUT = "timed_out"
    """A wait: ``seconds``, ``condition`` as in the file"""
    ALREADY_DOWN = "already_down"
    """``broker``, like the next three"""
    ALREADY_RUNNING = "already_running"
    NOT_RUNNING = "not_running"
    NOT_PAUSED = "not_paused"
    NOTHING_ARRIVES = "nothing_arrives"
    """``channel`` as in the file, like the next"""
    NOTHING_IN_FLIGHT = "nothing_in_flight"
    NO_TIMER = "no_timer"
    NO_CONTROLLER = "no_controller"
    NO_SUCH_NODE = "no_such_node"
    """``path`` of a node that the keeper does not have"""
    CORE_STOPPED = "core_stopped"
    """``violation``: the invariant of the core that did not hold"""


@dataclass(slots=True, frozen=True)
class Remark:
    kind: RemarkKind
    fields: dict[str, str | int | ClientError] = field(default_factory=dict)
