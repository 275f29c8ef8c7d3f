"""``elr``: Kafka since 4.1. Leader epochs as under ``epoch``, with eligible leader replicas (KIP-966).

The high watermark does not advance while fewer than ``min.insync.replicas`` replicas are in sync. Hence a
replica that leaves the ISR at that moment holds every committed record, and stays *eligible*: when the ISR is
empty, it may lead. A broker that returns after an unclean shutdown is no longer eligible, because it may have
lost its tail. When no replica is in sync or eligible, only the last known leader may lead. The price: records
with acks=1 that the last leader took alone are lost when an eligible replica is elected before it is back.

The controller's part is in ``controller/eligible_leaders.py`` (who may lead, as arithmetic) and
``controller/partition_changes.py``. Without the guard ``eligible_leader_replicas`` this is Kafka 4 with
``eligible.leader.replicas.version=0``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.generations.epoch import LeaderEpochs
from tidelog.core.types import BrokerId, Millis, Offset

if TYPE_CHECKING:
    from tidelog.core.replication.leader import LeaderRole


class EligibleLeaders(LeaderEpochs):
    name = "elr"
    summary = "Kafka ≥ 4.1: eligible leader replicas (KIP-966)"
    tracks_eligible_leaders = True
    names_only_insync_replicas = True
    deletes_without_dead_brokers = True
    proposes_sorted_isr = True
    advances_on_confirmed_isr = True
    elects_when_unclean_allowed = False

    def insync_replicas_needed(self, configured: int, replicas: int) -> int:
        """Never more than there are replicas."""
        return min(configured, replicas)

    def committed_offset(self, leader: LeaderRole, now: Millis) -> Offset:
        """Nothing new while the ISR, as the controller has confirmed it, is too small."""
        if leader.ctx.guards.strict_min_isr and leader.too_few_in_sync():
            return leader.replica.high_watermark
        return super().committed_offset(leader, now)

    def may_join_isr(self, leader: LeaderRole, broker: BrokerId) -> bool:
        return leader.ctx.is_alive(broker)
