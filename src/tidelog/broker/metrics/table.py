"""Every metric of a broker by name: what it means, and which reading gives its value.

The table is the one truth: ``http.py`` answers scrapes from it, and ``docs/reference/metrics.md`` is
made from it (``docs/reference/make_metrics.py``). Names follow Prometheus's conventions: base units, counters
end in ``_total``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.broker.metrics import readings
from tidelog.broker.metrics.readings import Reader, counted, of_groups, one, over_leaders, per_replica
from tidelog.core.replication.leader import LeaderRole


@dataclass(slots=True, frozen=True)
class Definition:
    """``kind`` is Prometheus's word: gauge, counter or histogram."""

    name: str
    kind: str
    labels: tuple[str, ...]
    doc: str
    read: Reader


_PARTITION = ("topic", "partition")


def _gauge(name: str, doc: str, read: Reader, *labels: str) -> Definition:
    return Definition(f"tidelog_{name}", "gauge", labels, doc, read)


def _counter(name: str, doc: str, read: Reader, *labels: str) -> Definition:
    return Definition(f"tidelog_{name}_total", "counter", labels, doc, read)


GROUPS: Final[dict[str, tuple[Definition, ...]]] = {
    "The broker in its cluster": (
        _gauge("broker_info", "Who this is; always 1.", readings.info, "broker", "generation", "version"),
        _gauge(
            "broker_registered",
            "1 while the keeper has this broker's registration; without it nobody elects it.",
            counted("registered"),
        ),
        _gauge("keeper_connected", "1 while connected to the keeper.", one(readings.keeper_connected)),
        _counter(
            "keeper_sessions_lost",
            "Sessions that the keeper ended: cut off, or paused for too long.",
            counted("keeper_sessions_lost"),
        ),
        _gauge(
            "live_brokers",
            "Brokers that are alive, as the controller last told this one.",
            one(lambda sources: len(sources.core.metadata.live_brokers)),
        ),
        _gauge(
            "active_controller",
            "1 on the broker that believes to be the controller.",
            one(lambda sources: sources.core.controller.active),
        ),
        _gauge(
            "controller_epoch",
            "The epoch of the controller this broker obeys, -1 before the first.",
            one(lambda sources: sources.core.controller_epoch),
        ),
        _counter("controller_elections", "Times it became controller.", counted("controller_elections")),
        _counter(
            "controller_resignations",
            "Times it learnt that it is not the controller any more.",
            counted("controller_resignations"),
        ),
        _counter(
            "control_requests_refused",
            "Requests of a deposed controller, or for a former life of this broker.",
            readings.by_error("control_refusals"),
            "error",
        ),
    ),
    "Elections (on the controller)": (
        _gauge(
            "offline_partitions",
            "Partitions without a leader. Only the controller has this metric.",
            one(readings.offline_partitions),
        ),
        _counter(
            "leader_elections",
            "Leaders it elected, by kind: new, clean, preferred, shutdown, majority, or unclean, which loses "
            "acknowledged records.",
            readings.elections,
            "kind",
        ),
        _counter("election_failures", "Elections that found nobody.", counted("election_failures")),
    ),
    "Replicas of this broker": (
        _gauge("replicas", "Partitions it has a replica of.", one(lambda s: len(s.core.replicas))),
        _gauge(
            "offline_replicas",
            "Partitions it was given a replica of and whose log it cannot use: others lead them.",
            one(lambda sources: len(sources.core.offline)),
        ),
        _gauge("leaders", "Partitions it leads.", over_leaders(lambda _: 1)),
        _gauge(
            "under_replicated_partitions",
            "Partitions it leads whose ISR lacks a replica.",
            over_leaders(readings.lacks_replicas),
        ),
        _gauge(
            "at_min_isr_partitions",
            "Partitions it leads whose ISR lacks a replica and is just min.insync.replicas: after one more "
            "failure acks=all fails.",
            over_leaders(readings.is_at_min_isr),
        ),
        _gauge(
            "under_min_isr_partitions",
            "Partitions it leads whose ISR is below min.insync.replicas: acks=all fails.",
            over_leaders(readings.is_under_min_isr),
        ),
        _gauge(
            "pending_isr_changes",
            "ISR changes it asked for and that are not confirmed yet.",
            over_leaders(lambda role: role.proposal is not None),
        ),
        _gauge(
            "stalled_followers",
            "Replicas that cannot follow until the controller speaks: fenced by their leader.",
            one(readings.stalled_followers),
        ),
        _counter("isr_shrinks", "ISR changes that took a member out.", counted("isr_shrinks")),
        _counter("isr_expands", "ISR changes that took a member in.", counted("isr_expands")),
        _counter(
            "isr_changes_refused",
            "ISR changes that were refused.",
            readings.by_error("isr_refusals"),
            "error",
        ),
        _counter("leaderships", "Times it became leader, or leader of a new epoch.", counted("leaderships")),
        _counter("followings", "Times it became a follower.", counted("followings")),
        _counter(
            "follower_stalls",
            "Times following stopped for a while: refused by the leader or by the own disk.",
            readings.by_error("follower_stalls"),
            "error",
        ),
        _counter(
            "storage_failures",
            "Times its disk refused to make, write, read, cut or delete a log; who had asked was told so.",
            counted("storage_failures"),
        ),
        _counter("truncations", "Times it cut the tail of a log.", counted("truncations")),
        _counter("truncated_records", "Records it dropped that way.", counted("truncated_records")),
        _counter(
            "records_committed",
            "Records that became committed under its leadership.",
            counted("records_committed"),
        ),
    ),
    "Each partition it has": (
        _gauge(
            "partition_log_start_offset",
            "The first offset that can be read.",
            per_replica(lambda replica: replica.log.start_offset),
            *_PARTITION,
        ),
        _gauge(
            "partition_log_end_offset",
            "The offset that the next record will get.",
            per_replica(lambda replica: replica.log.end_offset),
            *_PARTITION,
        ),
        _gauge(
            "partition_high_watermark",
            "Records below it are committed, as far as this replica knows.",
            per_replica(lambda replica: replica.high_watermark),
            *_PARTITION,
        ),
        _gauge(
            "partition_leader_epoch",
            "The leader epoch this replica is in.",
            per_replica(lambda replica: replica.leader_epoch),
            *_PARTITION,
        ),
        _gauge(
            "partition_is_leader",
            "1 if this replica leads.",
            per_replica(lambda replica: isinstance(replica.role, LeaderRole)),
            *_PARTITION,
        ),
        _gauge(
            "partition_leader",
            "The broker this replica takes for the leader: itself if it leads, -1 if it follows nobody.",
            per_replica(readings.leader_of),
            *_PARTITION,
        ),
        _gauge(
            "partition_isr_size",
            "In-sync replicas. Only the leader has it.",
            per_replica(readings.isr_size),
            *_PARTITION,
        ),
        _gauge(
            "partition_follower_lag_records",
            "Records that a follower has not confirmed. Only the leader has it, once the follower fetched.",
            readings.follower_lag,
            *_PARTITION,
            "follower",
        ),
        _gauge(
            "partition_recovery_point",
            "Records below it survive a power cut, as far as this broker has synced them itself.",
            per_replica(readings.recovery_point),
            *_PARTITION,
        ),
        _gauge(
            "partition_size_bytes",
            "The size of its segment files.",
            per_replica(readings.log_bytes),
            *_PARTITION,
        ),
    ),
    "Consumer groups that it coordinates": (
        _gauge(
            "groups",
            "Groups by state, named as in DescribeGroups. A group is counted by its coordinator only.",
            readings.groups_by_state,
            "state",
        ),
        _gauge("group_members", "Members of all of them.", of_groups(lambda g: g.members_count())),
        _gauge(
            "group_partitions_loading",
            "Partitions of __consumer_offsets it has come to lead and not read yet: their groups wait.",
            of_groups(lambda g: g.loading_count),
        ),
        _counter(
            "group_rebalances",
            "Generations that began with members in them.",
            of_groups(lambda g: g.tally.rebalances),
        ),
        _counter(
            "group_members_expired",
            "Members that were silent for their session's timeout.",
            of_groups(lambda g: g.tally.members_expired),
        ),
        _counter(
            "offset_commits",
            "Commits that were answered with success for all their partitions.",
            of_groups(lambda g: g.tally.commits),
        ),
        _counter("offsets_committed", "Positions in them.", of_groups(lambda g: g.tally.positions)),
        Definition(
            "tidelog_group_write_latency_seconds",
            "histogram",
            (),
            "From a coordinator's wish to write (commits of one moment are one write) to its commit. "
            "What a client sees of it is in tidelog_request_latency_seconds, api OffsetCommit.",
            readings.group_writes,
        ),
    ),
    "Requests": (
        Definition(
            "tidelog_request_latency_seconds",
            "histogram",
            ("api",),
            "From a request to its answer, with all waiting (long polls, acks=all) included.",
            readings.requests,
        ),
        _counter(
            "requests_failed", "Requests whose answer carries an error.", readings.failed_requests, "api"
        ),
        _counter(
            "errors_answered",
            "Error codes in answers, one for each partition.",
            readings.errors,
            "api",
            "error",
        ),
        _gauge(
            "parked_produces",
            "Produce requests that wait for followers (acks=all), counted by partition.",
            over_leaders(readings.parked_produces),
        ),
        _gauge(
            "parked_fetches",
            "Fetch requests that wait for records, counted by partition.",
            over_leaders(readings.parked_fetches),
        ),
        _counter("received_bytes", "Bytes from clients and other brokers.", counted("bytes_in")),
        _counter("sent_bytes", "Bytes of answers.", counted("bytes_out")),
        _gauge(
            "incoming_request_bytes",
            "Memory of requests that are not complete; queued.max.request.bytes bounds it.",
            counted("incoming_bytes"),
        ),
        _gauge("connections", "Open connections.", counted("connections")),
        _counter(
            "connections_refused",
            "Connections beyond max.connections or max.connections.per.ip.",
            counted("connections_refused"),
        ),
        _counter(
            "protocol_errors",
            "Connections that were closed because of bytes that are no Kafka request.",
            counted("protocol_errors"),
        ),
        _gauge(
            "loop_held_seconds_max",
            "The longest time since the start in which one thing held the event loop, so that nothing else "
            "was answered; or in which the machine did not let it turn.",
            counted("loop_held_seconds_max"),
        ),
        _gauge(
            "loop_worked_seconds_max",
            "The same in processor time: what the broker's own work is to blame for. Short by up to 0.05 s.",
            counted("loop_worked_seconds_max"),
        ),
        _counter("loop_holds", "Times the event loop was held for more than 0.1 s.", counted("loop_holds")),
        _counter(
            "unexpected_errors",
            "Bugs that were met, each with a traceback in the log; each cost one input, task or timer.",
            counted("unexpected_errors"),
        ),
    ),
    "Storage and evidence": (
        _gauge("tail_bytes", "Recent batches kept in memory for readers.", one(readings.tail_bytes)),
        _gauge(
            "storage_trouble",
            "1 once a checkpoint could not be written or a deleted log not be removed.",
            one(readings.storage_trouble),
        ),
        _gauge(
            "clean_start",
            "1 if the process before this one shut down in order.",
            one(readings.clean_start),
        ),
        _gauge(
            "recovery_seconds",
            "How long opening the logs took at the last start.",
            one(readings.recovery_seconds),
        ),
        _counter(
            "stray_replicas",
            "Logs found at the start that belong to no partition of this broker; they were left alone.",
            counted("stray_replicas"),
        ),
        _counter("logs_repaired", "Logs that were found damaged at the start.", counted("logs_repaired")),
        _counter(
            "recovery_truncated_bytes",
            "Bytes cut off damaged logs at the start.",
            counted("recovery_truncated_bytes"),
        ),
        _counter(
            "recovery_missing_offsets",
            "Offsets that checkpoints knew of and the logs did not have at the start: files were removed, or "
            "a power cut took what was not synced.",
            counted("recovery_missing_offsets"),
        ),
        _gauge(
            "evidence_recording",
            "1 while events are recorded, 0 after a write failed. Absent without tidelog.evidence.dir.",
            one(readings.recording),
        ),
    ),
}

TABLE: Final = tuple(definition for group in GROUPS.values() for definition in group)
