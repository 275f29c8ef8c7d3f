"""Checks without which replication loses records, each with the bug report behind it.

A generation has the guards of its time (``generations/``). A test switches one off and lets the search find
the violation. All of them are on in a correct system.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Guards:
    truncate_on_every_epoch: bool = True
    """A new leader epoch sends a follower through truncation even if the leader's name is unchanged
    (KAFKA-7164). Without it a follower that missed an epoch keeps a stale suffix."""

    reset_followers_on_new_leadership: bool = True
    """A new leader forgets what it knew of its followers from an earlier leadership: they may have
    truncated since."""

    count_unknown_followers: bool = True
    """An ISR member whose log end is not known yet holds the high watermark back."""

    isr_entry_above_high_watermark: bool = True
    """A follower enters the ISR only when it holds everything that is committed."""

    isr_entry_above_epoch_start: bool = True
    """... and everything the leader held when its epoch began: the high watermark of a new leader is
    stale, records above it may be committed (KAFKA-7128)."""

    match_fetch_offset: bool = True
    """A follower appends a fetch response only if it is for the requested offset."""

    match_fetch_epoch: bool = True
    """... and for the current epoch: an answer from before the last leader change is void."""

    fence_fetch_by_epoch: bool = True
    """A leader refuses fetches of another epoch (KIP-320): a zombie follower must not be counted, nor fed
    (KAFKA-6880, KAFKA-7395)."""

    maximal_isr: bool = True
    """Members of an ISR expansion that is still under way already hold the high watermark back (KIP-497,
    KAFKA-8836): it may be in the keeper already, and an election may use it."""

    isr_write_lock: bool = True
    """Where leaders write their ISR to the keeper themselves, the partition waits for the keeper's answer: no
    client writes to it, and no follower's fetch counts (KAFKA-8836)."""

    partition_version: bool = True
    """An ISR write names the version it was based on: a deposed leader's write fails."""

    broker_epoch: bool = True
    """A control request names the broker epoch it is meant for; a rebooted broker refuses older ones."""

    incarnation_in_isr: bool = True
    """An ISR proposal names the members' broker epochs; it is refused if one has rebooted since (KIP-903,
    KAFKA-14140)."""

    eligible_leader_replicas: bool = True
    """``elr`` only: a replica that leaves an ISR below min.insync.replicas stays electable (KIP-966). Without
    it (Kafka's ``eligible.leader.replicas.version=0``) only the last ISR member may lead again, also after it
    has lost its tail in a power cut."""

    strict_min_isr: bool = True
    """``elr`` only: the high watermark does not advance while the ISR is below min.insync.replicas.
    Otherwise an eligible replica lacks records that were committed without it."""

    unclean_shutdown: bool = True
    """``elr`` only: a broker that returns without a clean shutdown is removed from the ISR and the eligible
    replicas first: it may have lost the tail of its log."""

    topic_ids: bool = True
    """A topic has an id (KIP-516, 2.8). A broker puts a log of another id aside, and a leader refuses a fetch
    for another id: both are of an earlier topic of the same name, whose leader epochs mean nothing here."""

    target_in_sync: bool = True
    """A reassignment removes replicas only when every replica of its target is in the ISR (KIP-455)."""

    in_sync_replica_stays: bool = True
    """A reassignment is not cancelled or replaced if no replica that stays is in sync. 2.7 removes the others
    all the same, and with them the only copies; KRaft refuses."""

    own_epoch_commit: bool = True
    """Majority only: a leader exposes nothing as committed before a record of its own epoch is
    (Raft §5.4.2, KAFKA-12619)."""


ALL_GUARDS = Guards()

EARLY_GUARDS = Guards(
    truncate_on_every_epoch=False,
    isr_entry_above_epoch_start=False,
    match_fetch_epoch=False,
    fence_fetch_by_epoch=False,
    maximal_isr=False,
    broker_epoch=False,
    incarnation_in_isr=False,
    topic_ids=False,
)
"""The guards of Kafka before 2.0, when the bugs behind the others were not known yet."""
