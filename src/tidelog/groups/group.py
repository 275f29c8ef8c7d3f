"""The data of one group: members, generation, committed offsets.

``membership.py`` changes it. Members are in the order of their joins, so that every choice among them is
deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

from tidelog.core.effects import ReplyTo
from tidelog.core.timers import Timer
from tidelog.core.types import InvariantViolation, Millis, TopicPartition
from tidelog.groups.messages import JoinedMember, ProtocolChoice
from tidelog.groups.records import CommittedPosition, StoredGroup, StoredMember
from tidelog.groups.subscription import CONSUMER, subscribed_topics


class State(Enum):
    """The values are the names that clients see."""

    EMPTY = "Empty"
    """No members; perhaps committed offsets."""
    PREPARING = "PreparingRebalance"
    """Waiting for all members to rejoin."""
    COMPLETING = "CompletingRebalance"
    """A new generation: the coordinator waits for the leader's assignment, or for its write."""
    STABLE = "Stable"
    DEAD = "Dead"
    """Being deleted."""


class Member:
    __slots__ = (
        "assignment",
        "awaits_join",
        "awaits_sync",
        "client_host",
        "client_id",
        "deadline",
        "id",
        "instance_id",
        "is_new",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "session_timer",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: Millis,
        rebalance_timeout_ms: Millis,
        protocols: tuple[ProtocolChoice, ...],
    ) -> None:
        self.id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.awaits_join: ReplyTo | None = None
        self.awaits_sync: ReplyTo | None = None
        self.is_new = False
        """The member has not been in a generation yet, so it cannot send heartbeats."""
        self.deadline: Millis = 0
        """When the session expires, unless the member sends something before."""
        self.session_timer: Timer | None = None

    def metadata_for(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    @property
    def protocol_names(self) -> dict[str, None]:
        """Without repetitions, in order of preference."""
        return dict.fromkeys(name for name, _ in self.protocols)


class Group:
    __slots__ = (
        "assigning",
        "gathering",
        "generation",
        "id",
        "leader",
        "members",
        "new_member_joined",
        "pending_ids",
        "pending_positions",
        "positions",
        "protocol",
        "protocol_type",
        "rebalance_timer",
        "since",
        "state",
        "static_ids",
        "subscribed",
    )

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.state = State.EMPTY
        self.since: Millis = -1
        """Wall-clock time at which it entered its state."""
        self.generation = 0
        self.assigning = -1
        """The generation of the last assignment that the leader sent."""
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        """The current member id of each instance id."""
        self.pending_ids: dict[str, Timer] = {}
        """Member ids given out but not used yet, with their expiry timers."""
        self.gathering = False
        """The group was empty and waits for more members before its first generation."""
        self.new_member_joined = False
        """A member joined since the last check, while gathering."""
        self.rebalance_timer: Timer | None = None
        """Ends the wait for members."""
        self.subscribed: frozenset[str] | None = None
        self.positions: dict[TopicPartition, CommittedPosition] = {}
        self.pending_positions: Counter[TopicPartition] = Counter()
        """Written but not committed yet."""

    # ------------------------------------------------------------ members

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.id] = member
        if self.leader is None:
            self.leader = member.id
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.id

    def remove(self, member: Member) -> None:
        del self.members[member.id]
        if member.session_timer is not None:
            member.session_timer.cancel()  # it would keep the member, with its metadata, in memory
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member.id:
            del self.static_ids[member.instance_id]
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def end_pending_id(self, member_id: str) -> bool:
        """Remove a pending id. False if it was not pending."""
        timer = self.pending_ids.pop(member_id, None)
        if timer is not None:
            timer.cancel()
        return timer is not None

    def rename(self, member: Member, new_id: str) -> None:
        """A static member rejoined: the same member under a new id, in the same position."""
        old_id = member.id
        member.id = new_id
        self.members = {each.id: each for each in self.members.values()}
        if self.leader == old_id:
            self.leader = new_id
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = new_id

    def is_fenced(self, member_id: str, instance_id: str | None) -> bool:
        """Whether another process has taken over this instance id."""
        return instance_id is not None and self.static_ids.get(instance_id, member_id) != member_id

    @property
    def all_joined(self) -> bool:
        return not self.pending_ids and all(each.awaits_join is not None for each in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> Millis:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # ------------------------------------------------------------ protocols

    def supports(self, protocol_type: str, protocols: Iterable[ProtocolChoice]) -> bool:
        """Whether a member with these protocols can join: all members must share at least one protocol."""
        names = [name for name, _ in protocols]
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(names)
        common = self._common_protocols()
        return self.protocol_type == protocol_type and any(name in common for name in names)

    def _common_protocols(self) -> set[str]:
        known = Counter(name for member in self.members.values() for name in member.protocol_names)
        return {name for name, count in known.items() if count == len(self.members)}

    def chosen_protocol(self) -> str:
        """Of the protocols that all members support, the one that most members prefer."""
        common = self._common_protocols()
        votes = Counter(
            next((name for name in member.protocol_names if name in common), None)
            for member in self.members.values()
        )
        name = votes.most_common(1)[0][0]
        if name is None:
            raise InvariantViolation(f"the members of group {self.id} have no protocol in common")
        return name

    # ------------------------------------------------------------ generations

    def begin_generation(self) -> None:
        self.generation += 1
        self.protocol = self.chosen_protocol() if self.members else None
        self.note_subscriptions()

    def note_subscriptions(self) -> None:
        self.subscribed = None
        if self.protocol_type == CONSUMER and (self.protocol is not None or not self.members):
            self.subscribed = subscribed_topics(
                member.metadata_for(self.protocol) for member in self.members.values()
            )

    def is_subscribed_to(self, topic: str) -> bool:
        return self.subscribed is None or topic in self.subscribed

    def joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(member.id, member.instance_id, member.metadata_for(self.protocol))
            for member in self.members.values()
        )

    # ------------------------------------------------------------ stored form

    def stored(self, assignments: dict[str, bytes], since: Millis) -> StoredGroup:
        members = tuple(
            StoredMember(
                member.id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata_for(self.protocol),
                assignments.get(member.id, b""),
            )
            for member in self.members.values()
        )
        return StoredGroup(
            self.protocol_type or "", self.generation, self.protocol, self.leader, since, members
        )

    def restore(self, stored: StoredGroup) -> None:
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type or None
        self.protocol = stored.protocol
        self.leader = stored.leader
        self.since = stored.since
        self.members = {}
        self.static_ids = {}
        for each in stored.members:
            member = Member(
                each.member_id,
                instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                session_timeout_ms=each.session_timeout_ms,
                rebalance_timeout_ms=each.rebalance_timeout_ms,
                protocols=((stored.protocol or "", each.subscription),),
            )
            member.assignment = each.assignment
            self.members[member.id] = member
            if member.instance_id is not None:
                self.static_ids[member.instance_id] = member.id
        if self.leader not in self.members:
            self.leader = next(iter(self.members), None)
        self.state = State.STABLE if self.members else State.EMPTY
        self.note_subscriptions()
