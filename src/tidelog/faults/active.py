"""What is broken now, and the steps that mend it."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.faults import FAULT_VERBS, MENDING_VERBS
from tidelog.faults.damage import CUT, DAMAGES, DOWN, KEEPER_DOWN, PAUSED, Damage
from tidelog.faults.step import Step
from tidelog.faults.targets import Takes

_RECOVERED = (DOWN, PAUSED, CUT, KEEPER_DOWN)
"""What a search may mend on its way, in the order of its options."""
_HEALED = (CUT, KEEPER_DOWN, PAUSED, DOWN)
"""The same, in the order in which everything is mended at the end."""
_ONE_BY_ONE = frozenset((Takes.BROKER, Takes.BROKERS, Takes.MEMBER))


class Active:
    """The only book of what is broken. It is kept by steps: every fault and every repair is one."""

    __slots__ = ("_broken",)

    def __init__(self) -> None:
        self._broken: dict[Damage, dict[object, None]] = {damage: {} for damage in DAMAGES}

    def __getitem__(self, damage: Damage) -> dict[object, None]:
        """What suffers from it, in the order in which it began: brokers, members, or arguments of a step."""
        return self._broken[damage]

    def note(self, verb: str, args: tuple[object, ...]) -> None:
        """A step is done. (One that is neither a fault nor a repair changes nothing.)"""
        fault = FAULT_VERBS.get(verb)
        if fault is not None:
            if fault.leaves is not None:
                for place in args if fault.takes in _ONE_BY_ONE else (args,):
                    for ended in fault.ends:
                        self._broken[ended].pop(place, None)
                    self._broken[fault.leaves][place] = None
            return
        mended = MENDING_VERBS.get(verb)
        if mended is not None:
            if mended.takes in _ONE_BY_ONE:
                for place in args:
                    self._broken[mended].pop(place, None)
            else:
                self._broken[mended].clear()

    def recoveries(self, *, links_cut: bool) -> list[Step]:
        """Everything that could be mended now, one by one. Which links are cut is the network's to say."""
        return list(self._steps(_RECOVERED, links_cut))

    def heal_steps(self, *, links_cut: bool) -> list[Step]:
        """Mends everything, in an order in which that works."""
        return list(self._steps(_HEALED, links_cut))

    def _steps(self, order: tuple[Damage, ...], links_cut: bool) -> Iterator[Step]:
        for damage in order:
            if damage is CUT:
                if links_cut:
                    yield Step(damage.verb)
            else:
                for place in self._broken[damage]:
                    yield Step(damage.verb, (place,))

    def needed(self, step: Step) -> Step | None:
        """A repair, reduced to what is broken; None if nothing is. Any other step as it is."""
        mended = MENDING_VERBS.get(step.verb)
        if mended is None:
            return step
        broken = self._broken[mended]
        if mended.takes is Takes.BROKERS:
            return Step(step.verb, tuple(broken)) if broken else None
        if mended.takes is Takes.MEMBER:
            return step if step.args[0] in broken else None
        return step if broken else None
