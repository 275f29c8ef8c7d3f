"""``majority``: commit on a majority, elect the longest log.

Raft's rules on the same messages: a record is committed when a majority of the *assigned* replicas has it;
the controller elects, among a majority that has promised to ignore earlier leaders, the replica with the
newest last epoch and then the longest log, so every committed record survives; followers truncate by
epoch as under ``epoch``, hence only entries that were never committed are overwritten.

A leader opens its epoch with a control record and exposes nothing as committed before that record is
(Raft §5.4.2, KIP-595's LeaderChange): counting replicas of an older epoch's record is not enough.
``min.insync.replicas`` and unclean election have no meaning here; the ISR stays the assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.generations.epoch import LeaderEpochs
from tidelog.core.guards import ALL_GUARDS
from tidelog.core.types import Millis, Offset

if TYPE_CHECKING:
    from tidelog.core.replication.leader import LeaderRole


class Majority(LeaderEpochs):
    name = "majority"
    summary = "Raft-like: commit on a majority, elect the longest log"
    guards = ALL_GUARDS
    commits_by_isr = False

    def begin_leading(self, leader: LeaderRole) -> None:
        super().begin_leading(leader)
        leader.log.append_leader_change(leader.epoch)

    def committed_offset(self, leader: LeaderRole, now: Millis) -> Offset:
        ends = [follower.log_end_offset for follower in leader.followers.values()]
        ends.append(leader.log.end_offset)
        ends.sort(reverse=True)
        held_by_majority = ends[len(ends) // 2]
        if leader.ctx.guards.own_epoch_commit and held_by_majority <= leader.epoch_start:
            return leader.replica.high_watermark
        return held_by_majority
