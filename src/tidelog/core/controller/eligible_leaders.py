"""Who may lead a partition, and who stays eligible (KIP-966), as arithmetic on lists.

The controller of Kafka 4 changes a partition in one step (its ``PartitionChangeBuilder``): given the ISR that
it wants, it computes the eligible replicas, elects, and leaves the rest as it was. Rules of this file:

* While the ISR has ``min.insync.replicas`` members, no other replica is eligible. Below, every one that was
  in sync or eligible before, and is not in the new ISR, is eligible; but no broker after an unclean shutdown.
* The leader stays if it may. Otherwise the first *assigned* replica leads that is alive and in sync; if the
  ISR is empty, one that is eligible; if none is eligible either, the last known leader; and only if the
  topic allows it, any replica.
* The leader epoch is raised by a change of the leader (also to no leader) and by nothing else.
* Without eligible replicas (``tracked`` is false) an ISR is never empty: its last member stays.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from tidelog.core.controller.leader_election import Brokers, LeaderChoice
from tidelog.core.reasons import ElectionKind
from tidelog.core.types import NO_LEADER, BrokerId, LeaderEpoch, PartitionState


class Circumstances(NamedTuple):
    assignment: Brokers
    acceptable: Collection[BrokerId]
    """Brokers that may lead now."""
    min_isr: int
    """min.insync.replicas, at most the number of replicas."""
    tracked: bool = True
    """Whether the cluster tracks eligible replicas."""
    unclean: bool = False
    """Whether a replica may lead that is neither in sync nor eligible."""


class NextState(NamedTuple):
    state: PartitionState
    kind: ElectionKind | None
    """How the leader was chosen; None if it stays, or there is none now."""


def next_state(
    state: PartitionState,
    isr: Brokers,
    given: Circumstances,
    unclean_shutdown: BrokerId | None = None,
) -> NextState | None:
    """The state with this ISR, and a leader for it. None if nothing changes."""
    elr = eligible(state, isr, given, unclean_shutdown)
    choice = elect(state, isr, elr, given)
    outcome = NextState(_settled(state, choice, elr, given), choice.kind)
    return outcome if outcome.state != state else None


def with_leader(state: PartitionState, choice: LeaderChoice, given: Circumstances) -> NextState:
    """The same with a leader that was chosen elsewhere."""
    elr = eligible(state, choice.isr, given)
    return NextState(_settled(state, choice, elr, given), choice.kind)


def eligible(
    state: PartitionState, isr: Brokers, given: Circumstances, unclean_shutdown: BrokerId | None = None
) -> Brokers:
    if not given.tracked or len(isr) >= given.min_isr:
        return ()
    candidates = {*state.elr, *state.isr}.difference(isr, (unclean_shutdown,))
    return tuple(sorted(candidates))


def elect(state: PartitionState, isr: Brokers, elr: Brokers, given: Circumstances) -> LeaderChoice:
    """The leader for this ISR and these eligible replicas, and the ISR with which it begins."""
    source = isr or elr
    electable = [broker for broker in given.assignment if broker in source and broker in given.acceptable]
    if state.leader in electable:
        return LeaderChoice(state.leader, isr, None)
    if electable and isr:
        return LeaderChoice(electable[0], isr, ElectionKind.CLEAN)
    if electable:
        return LeaderChoice(electable[0], (electable[0],), ElectionKind.ELIGIBLE)
    if given.tracked and not source and len(state.last_known_elr) == 1:
        last = state.last_known_elr[0]
        if last in given.acceptable:
            return LeaderChoice(last, (last,), ElectionKind.LAST_KNOWN_LEADER)
    if given.unclean:
        for broker in given.assignment:
            if broker in given.acceptable:
                return LeaderChoice(broker, (broker,), ElectionKind.UNCLEAN)
    return LeaderChoice(NO_LEADER, isr, None)


def recovered(state: PartitionState) -> PartitionState:
    """The leader has changed the ISR: whatever an unclean election cost is known by now (KIP-704)."""
    return replace(state, recovering=False) if state.recovering else state


def cleared(state: PartitionState) -> PartitionState:
    return replace(state, elr=(), last_known_elr=())


_RISKY = (ElectionKind.LAST_KNOWN_LEADER, ElectionKind.UNCLEAN)
"""The new leader may lack committed records."""


def _settled(
    state: PartitionState, choice: LeaderChoice, elr: Brokers, given: Circumstances
) -> PartitionState:
    leader, isr, kind = choice
    risky = kind in _RISKY
    if not isr and not given.tracked:
        isr = state.isr
    last_known = state.last_known_elr
    if given.tracked:
        if leader != NO_LEADER:
            last_known = ()
        elif not isr and state.isr:
            last_known = (state.leader,) if state.leader != NO_LEADER else last_known or state.isr
    return replace(
        state,
        leader=leader,
        leader_epoch=LeaderEpoch(state.leader_epoch + (leader != state.leader)),
        isr=isr,
        elr=() if risky else tuple(broker for broker in elr if broker != leader),
        last_known_elr=last_known,
        recovering=risky or state.recovering,
    )
