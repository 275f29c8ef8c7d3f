"""The verbs of `kafka_faults`: what tests do to a cluster, and undo.

Each returns an `ActiveFault` when its effect is there. It is healed at the end of its `with` block, by
`heal()`, or when the test ends; healing waits until all replicas are in sync.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from tidelog.cluster.active_fault import ActiveFault, Side
from tidelog.cluster.answers import ANSWER_SECONDS
from tidelog.cluster.broker_handle import BrokerHandle
from tidelog.cluster.cluster import Cluster
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.waits import WAIT_SECONDS, wait_until
from tidelog.kafka_client import groups
from tidelog.kafka_client.admin import Admin, PartitionView, TopicView
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.testing.requests import RequestFault, fail_next, hold
from tidelog.wire.api import Api
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

_TOPIC: Final = 2
_MIN_ISR: Final = "min.insync.replicas"
_UNCLEAN: Final = "unclean.leader.election.enable"
_RETENTION: Final = "retention.ms"


class UncleanElection(ActiveFault):
    """One replica of each partition is out of sync; it leads once the others are dead (`happen`)."""

    happen: Callable[[], None]
    """The replicas in sync die, and the stale one is elected: what was written since is lost."""


class Faults:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.end_schedule: Callable[[], list[str]] | None = None
        """Ends the schedule of faults that runs beside the test, if there is one."""

    # ------------------------------------------------------------ brokers

    def leader_of(self, topic: str, partition: int = 0) -> BrokerHandle:
        return self.cluster.leader_of(topic, partition)

    @property
    def controller(self) -> BrokerHandle:
        return self.cluster.controller

    def kill(self, *brokers: int) -> ActiveFault:
        """Their processes die, as by `kill -9`; their disks keep everything."""
        return self.cluster.kill(*brokers)

    def pause(self, broker: int) -> ActiveFault:
        """It does nothing, as in a long garbage collection; clients see a connection that does not answer."""
        return self.cluster.pause(broker)

    def stop(self, broker: int) -> ActiveFault:
        """It shuts down in order."""
        return self.cluster.stop_broker(broker)

    def power_loss(self, *brokers: int) -> ActiveFault:
        """Their machines lose power: what they had not synced is gone."""
        return self.cluster.power_loss(*brokers)

    def disk_full(self, broker: int) -> ActiveFault:
        return self.cluster.disk_full(broker)

    def slow_fsync(self, broker: int, ms: int = 300) -> ActiveFault:
        """Every sync of its disk takes so much longer."""
        return self.cluster.slow_fsync(broker, ms)

    def wrong_clock(self, broker: int, ms: int) -> ActiveFault:
        return self.cluster.wrong_clock(broker, ms)

    def stop_keeper(self) -> ActiveFault:
        """Leaders and in-sync replicas cannot change."""
        return self.cluster.stop_keeper()

    def inject(self, kind: str, *targets: object) -> ActiveFault:
        """Any fault of `tidelog trial`, by its name there."""
        return self.cluster.inject(kind, *targets)

    # ------------------------------------------------------------ links

    def cut(self, a: Side, b: Side, *, one_way: bool = False) -> ActiveFault:
        """Nothing passes between two sides: brokers, `keeper`, clients by their names."""
        return self.cluster.cut(a, b, one_way=one_way)

    def isolate(self, place: int | str) -> ActiveFault:
        """A zone, or a broker, is cut off from all others and the keeper."""
        return self.cluster.isolate(place)

    def delay(self, a: Side, b: Side, ms: int, *, one_way: bool = False) -> ActiveFault:
        """What passes between two sides takes so much longer."""
        return self.cluster.delay(a, b, ms, one_way=one_way)

    def hold_replication(self, follower: Side, leader: Side) -> ActiveFault:
        """The fetches of a follower wait on their way."""
        return self.cluster.hold_replication(follower, leader)

    def reset(self, a: Side, b: Side) -> ActiveFault:
        """Connections between two sides break; new ones can be made at once."""
        return self.cluster.reset(a, b)

    # ------------------------------------------------------------ requests of clients

    def hold(self, api: str, *, topic: str = "", client: str = "") -> RequestFault:
        """Requests of clients wait in the brokers until `release()`, and are carried out then."""
        return hold(self.cluster, api, topic=topic, client=client)

    def fail_next(
        self,
        api: str = "Produce",
        error: str = "NOT_ENOUGH_REPLICAS",
        times: int = 1,
        *,
        after_append: bool = False,
        topic: str = "",
        client: str = "",
    ) -> RequestFault:
        """The next requests of clients fail with this error of Kafka's, or `DISCONNECT`. Nothing was done
        then; with `after_append` everything was done, and only the answer says otherwise."""
        return fail_next(self.cluster, api, error, times, after=after_append, topic=topic, client=client)

    # ------------------------------------------------------------ topics

    def below_min_isr(self, topic: str, partition: int = 0) -> ActiveFault:
        """Kill replicas until fewer than `min.insync.replicas` are left: acks=all is refused."""
        view, needed = self._partition(topic, partition), self._min_isr(topic)
        if needed < 2:
            raise ClusterError(
                f"{topic} has {_MIN_ISR}={needed}: below that no leader is left; create it with at least 2"
            )
        leader = [view.leader] if view.leader in view.isr else []
        others = [broker for broker in view.isr if broker not in leader]
        left = [*leader, *others][: needed - 1]
        fault = self.cluster.inject("below_min_isr", *(b for b in view.isr if b not in left))
        self._wait_isr(topic, partition, set(left))
        return fault

    def unclean_election(self, topic: str) -> UncleanElection:
        """One broker dies and misses what is written from now on. At `happen()`, or at the end, all others
        die and it is elected: what was written meanwhile is lost, acknowledged or not."""
        stale = min(set(self._partition(topic, 0).isr) - {self._partition(topic, 0).leader})
        others = [number for number in self.cluster.spec.broker_ids() if number != stale]
        self._alter(topic, {_UNCLEAN: "true"})
        self.cluster.run(self.cluster.supervisor.kill(stale))
        self._wait_isr(topic, None, set(others))
        happened = False

        def happen() -> None:
            nonlocal happened
            if not happened:
                happened = True
                for number in others:
                    self.cluster.run(self.cluster.supervisor.kill(number))
                self.cluster.start_broker(stale)
                self.cluster.leader_of(topic, 0)

        def undo() -> None:
            happen()
            for number in self.cluster.spec.broker_ids():
                if number not in self.cluster.pids:
                    self.cluster.start_broker(number)
            self.cluster.wait_in_sync(timeout_s=ANSWER_SECONDS)
            self._alter(topic, {}, removed=[_UNCLEAN])

        fault = self.cluster.faults.begun("unclean_election", [topic], undo, made=UncleanElection)
        fault.happen = happen
        return fault

    def expire_retention(self, topic: str, *, timeout_s: float = WAIT_SECONDS) -> ActiveFault:
        """Everything in a topic gets too old and is deleted. Healed, new records live as long as before."""
        before = self._view(topic).settings.get(_RETENTION)
        time.sleep(0.005)  # the newest record must be older than one millisecond
        self._alter(topic, {_RETENTION: "1"})

        def seen() -> str:
            parts = self._view(topic, offsets=True).partitions
            left = {part.number: (part.start_offset, part.high_watermark) for part in parts}
            gone = all(start is not None and start == end for start, end in left.values())
            return "" if gone else f"start and end of each partition: {left}"

        try:
            wait_until(seen, f"all records of {topic} deleted", timeout_s)
        except ClusterError:
            self._restore(topic, before)
            raise
        return self.cluster.faults.begun("expire_retention", [topic], lambda: self._restore(topic, before))

    def recreate(self, topic: str) -> ActiveFault:
        """Delete a topic and create it again, empty: offsets start at 0 again."""
        view = self._view(topic)
        with self._admin() as admin:
            admin.delete(topic)

            def listed() -> str:
                found = [each.name for each in admin.metadata(None).topics if each.name == topic]
                return "it is still listed" if found else ""

            wait_until(listed, f"{topic} deleted", WAIT_SECONDS)
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                self.cluster.topic(
                    topic, len(view.partitions), len(view.partitions[0].replicas), view.settings
                )
                break
            except ClusterError:  # a broker still deletes the old one
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        fault: ActiveFault = self.cluster.faults.begun("recreate", [topic], lambda: None)
        fault.ended()
        return fault

    # ------------------------------------------------------------ groups

    def move_coordinator(self, group: str) -> ActiveFault:
        """Another broker coordinates a group: the one that does is stopped in order, and started again."""
        found = groups.coordinator(self.cluster.supervisor.reachable_servers, group)
        if found is None:
            raise ClusterError(f"group {group} has no coordinator now")
        fault = self.cluster.stop_broker(found[0])
        fault.heal()

        def seen() -> str:
            now = groups.coordinator(self.cluster.supervisor.reachable_servers, group)
            return "" if now is not None and now[0] != found[0] else f"coordinator {now and now[0]}"

        wait_until(seen, f"another coordinator of {group} than {found[0]}", WAIT_SECONDS)
        return fault

    def expire_session(self, group: str, member: str = "") -> ActiveFault:
        """The coordinator forgets a member, as when its session has expired: its partitions go to others, and
        its next heartbeat is refused. `member`: its member id, client id or instance id; empty: the only
        one."""
        found = groups.described(self.cluster.supervisor.reachable_servers, group)
        members = [] if found is None else found.members
        named = [
            each
            for each in members
            if not member or member in (each.member_id, each.client_id, each.group_instance_id)
        ]
        if len(named) != 1:
            known = ", ".join(f"{each.member_id} (client {each.client_id})" for each in members) or "none"
            raise ClusterError(f"group {group}: name one member instead of {member!r}; it has {known}")
        at = groups.coordinator(self.cluster.supervisor.reachable_servers, group)
        if at is None:
            raise ClusterError(f"group {group} has no coordinator now")
        leaving = MemberIdentity(member_id=named[0].member_id, group_instance_id=named[0].group_instance_id)
        with Client(*at[1], groups.TIMEOUT_SECONDS) as client:
            client.ask(
                Api.LEAVE_GROUP,
                LeaveGroupRequest(group_id=group, member_id=leaving.member_id, members=[leaving]),
            )
        fault: ActiveFault = self.cluster.faults.begun(
            "expire_session", [group, named[0].member_id], lambda: None
        )
        fault.ended()
        return fault

    # ------------------------------------------------------------ all of them

    def heal(self) -> None:
        """Undo everything, and wait until all replicas are in sync; a schedule of faults ends. Raises
        `ClusterError`."""
        trouble = self.end_schedule() if self.end_schedule is not None else []
        for fault in reversed(self.cluster.faults.active()):
            try:
                fault.heal()
            except ClusterError as error:
                trouble.append(str(error))
        trouble += self.cluster.heal()
        self.cluster.wait_in_sync(timeout_s=ANSWER_SECONDS)
        if trouble:
            raise ClusterError("; ".join(trouble))

    # ------------------------------------------------------------ what is known of topics

    def _admin(self) -> Admin:
        return Admin(self.cluster.supervisor.reachable_servers)

    def _view(self, topic: str, *, offsets: bool = False) -> TopicView:
        try:
            with self._admin() as admin:
                views = admin.topics([topic])
                admin.add_offsets(views) if offsets else admin.add_settings(views)
        except ClientError as error:
            raise ClusterError(str(error)) from None
        return views[0]

    def _partition(self, topic: str, number: int) -> PartitionView:
        for part in self._view(topic).partitions:
            if part.number == number:
                return part
        raise ClusterError(f"{topic} has no partition {number}")

    def _min_isr(self, topic: str) -> int:
        resource = DescribeConfigsResource(
            resource_type=_TOPIC, resource_name=topic, configuration_keys=[_MIN_ISR]
        )
        with Client.to(self.cluster.supervisor.reachable_servers) as client:
            answer: Any = client.ask(Api.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[resource]))
        return int(answer.results[0].configs[0].value)

    def _alter(self, topic: str, given: dict[str, str], removed: tuple[str, ...] | list[str] = ()) -> None:
        with self._admin() as admin:
            admin.alter(topic, given, removed)

    def _restore(self, topic: str, retention: str | None) -> None:
        if retention is None:
            self._alter(topic, {}, removed=[_RETENTION])
        else:
            self._alter(topic, {_RETENTION: retention})

    def _wait_isr(self, topic: str, partition: int | None, wanted: set[int]) -> None:
        def seen() -> str:
            parts = [
                part for part in self._view(topic).partitions if partition is None or part.number == partition
            ]
            wrong = {part.number: part.isr for part in parts if set(part.isr) != wanted & set(part.replicas)}
            return f"in sync: {wrong}" if wrong else ""

        wait_until(seen, f"only {sorted(wanted)} in sync for {topic}", WAIT_SECONDS)
