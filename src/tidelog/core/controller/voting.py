"""Votes under the ``majority`` rules: the longest log of a majority that has left the old leader wins.

A vote is a promise (the voter no longer follows a leader of an earlier epoch) and a report (the epoch of its
last record, and its log end). A committed record is on a majority; any two majorities share a replica; so the
best report of a majority holds every committed record.
"""

from __future__ import annotations

from tidelog.core.controller.broker_channels import ControlChannels
from tidelog.core.messages import VoteResponse
from tidelog.core.types import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from tidelog.wire.errors import ErrorCode


class _Ballot:
    __slots__ = ("asked", "leader_epoch", "votes")

    def __init__(self, leader_epoch: LeaderEpoch) -> None:
        self.leader_epoch = leader_epoch
        self.asked: dict[BrokerId, BrokerEpoch] = {}
        self.votes: dict[BrokerId, VoteResponse] = {}


class Ballots:
    __slots__ = ("_channels", "_open")

    def __init__(self, channels: ControlChannels) -> None:
        self._channels = channels
        self._open: dict[TopicPartition, _Ballot] = {}

    def is_open(self, tp: TopicPartition) -> bool:
        return tp in self._open

    def open(self, tp: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        self._open[tp] = _Ballot(leader_epoch)

    def close(self, tp: TopicPartition) -> None:
        self._open.pop(tp, None)

    def ask(self, tp: TopicPartition, brokers: list[BrokerId]) -> None:
        """Ask each registration of a broker once: the channel itself repeats a lost request."""
        ballot = self._open[tp]
        for broker in brokers:
            incarnation = self._channels.incarnations.get(broker, NO_BROKER_EPOCH)
            if ballot.asked.get(broker) != incarnation:
                ballot.asked[broker] = incarnation
                self._channels.vote(broker, tp, ballot.leader_epoch)

    def cast(self, broker: BrokerId, vote: VoteResponse) -> bool:
        """Count a vote. False if it is not valid."""
        ballot = self._open.get(vote.tp)
        if ballot is None or vote.error is not ErrorCode.NONE or vote.leader_epoch != ballot.leader_epoch:
            return False
        ballot.votes[broker] = vote
        return True

    def withdraw(self, broker: BrokerId) -> None:
        """A voter died, and its promise and report with it."""
        for tp in self._open:
            self.withdraw_from(tp, broker)

    def withdraw_from(self, tp: TopicPartition, broker: BrokerId) -> None:
        """A voter cannot use its log: its vote does not count, and it is asked again when the log is back."""
        ballot = self._open.get(tp)
        if ballot is not None:
            ballot.votes.pop(broker, None)
            ballot.asked.pop(broker, None)

    def winner(self, tp: TopicPartition, assignment: tuple[BrokerId, ...]) -> BrokerId | None:
        """The best report once a majority has voted; on a tie, the first in the assignment."""
        ballot = self._open.get(tp)
        if ballot is None or len(ballot.votes) <= len(assignment) // 2:
            return None
        voters = [broker for broker in assignment if broker in ballot.votes]
        return max(voters, key=lambda b: (ballot.votes[b].last_epoch, ballot.votes[b].end_offset))
