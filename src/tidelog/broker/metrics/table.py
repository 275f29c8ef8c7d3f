"""Every metric of a broker by name: its description and its reading.

``http.py`` answers scrapes from this table, and ``docs/reference/make_metrics.py`` generates
``docs/reference/metrics.md`` from it. Names follow Prometheus's conventions: base units, counters end in
``_total``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from tidelog.broker.metrics import readings
from tidelog.broker.metrics.readings import Reader, counted, of_groups, one, over_leaders, per_replica
from tidelog.core.replication.leader import LeaderRole


@dataclass(slots=True, frozen=True)
class Definition:
    """``kind`` is gauge, counter or histogram."""

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
        _gauge(
            "broker_info",
            "Identity of the broker; always 1.",
            readings.info,
            "broker",
            "generation",
            "version",
        ),
        _gauge(
            "broker_registered",
            "1 while this broker is registered at the keeper; otherwise it is not elected.",
            counted("registered"),
        ),
        _gauge("keeper_connected", "1 while connected to the keeper.", one(readings.keeper_connected)),
        _counter(
            "keeper_sessions_lost",
            "Sessions that the keeper expired: the broker was disconnected or paused for too long.",
            counted("keeper_sessions_lost"),
        ),
        _gauge(
            "live_brokers",
            "Live brokers in this broker's metadata.",
            one(lambda sources: len(sources.core.metadata.live_brokers)),
        ),
        _gauge(
            "active_controller",
            "1 on the broker that considers itself the controller.",
            one(lambda sources: sources.core.controller.active),
        ),
        _gauge(
            "controller_epoch",
            "The epoch of the controller that this broker follows, -1 before the first.",
            one(lambda sources: sources.core.controller_epoch),
        ),
        _counter(
            "controller_elections",
            "Times that this broker became controller.",
            counted("controller_elections"),
        ),
        _counter(
            "controller_resignations",
            "Times that this broker stopped being controller.",
            counted("controller_resignations"),
        ),
        _counter(
            "control_requests_refused",
            "Refused requests of an old controller, or for a previous registration of this broker.",
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
            "Elected leaders, by kind: new, clean, preferred, majority, shutdown, reassigned, eligible; or "
            "unclean and last_known_leader, which may lose acknowledged records.",
            readings.elections,
            "kind",
        ),
        _counter("election_failures", "Elections without an eligible leader.", counted("election_failures")),
    ),
    "Replicas of this broker": (
        _gauge("replicas", "Partitions with a replica on this broker.", one(lambda s: len(s.core.replicas))),
        _gauge(
            "offline_replicas",
            "Partitions whose log this broker cannot use.",
            one(lambda sources: len(sources.core.offline)),
        ),
        _gauge("leaders", "Partitions that this broker leads.", over_leaders(lambda _: 1)),
        _gauge(
            "under_replicated_partitions",
            "Led partitions whose ISR lacks a replica.",
            over_leaders(readings.lacks_replicas),
        ),
        _gauge(
            "at_min_isr_partitions",
            "Led partitions whose ISR lacks a replica and is exactly min.insync.replicas: one more failure "
            "makes acks=all fail.",
            over_leaders(readings.is_at_min_isr),
        ),
        _gauge(
            "under_min_isr_partitions",
            "Led partitions whose ISR is below min.insync.replicas: acks=all fails.",
            over_leaders(readings.is_under_min_isr),
        ),
        _gauge(
            "pending_isr_changes",
            "Proposed ISR changes that are not confirmed yet.",
            over_leaders(lambda role: role.proposal is not None),
        ),
        _gauge(
            "stalled_followers",
            "Replicas that are fenced by their leader and wait for the controller.",
            one(readings.stalled_followers),
        ),
        _counter("isr_shrinks", "ISR changes that removed a member.", counted("isr_shrinks")),
        _counter("isr_expands", "ISR changes that added a member.", counted("isr_expands")),
        _counter(
            "isr_changes_refused",
            "ISR changes that were refused.",
            readings.by_error("isr_refusals"),
            "error",
        ),
        _counter(
            "leaderships",
            "Times that this broker became leader of a partition, or of a new epoch.",
            counted("leaderships"),
        ),
        _counter(
            "followings", "Times that this broker became follower of a partition.", counted("followings")
        ),
        _counter(
            "follower_stalls",
            "Times that a follower paused: refused by the leader or by its own disk.",
            readings.by_error("follower_stalls"),
            "error",
        ),
        _counter(
            "storage_failures",
            "Times that the disk refused to create, write, read, truncate or delete a log.",
            counted("storage_failures"),
        ),
        _counter("truncations", "Truncations of logs.", counted("truncations")),
        _counter("truncated_records", "Records dropped by truncations.", counted("truncated_records")),
        _counter(
            "records_committed",
            "Records committed while this broker led their partition.",
            counted("records_committed"),
        ),
    ),
    "Each partition of this broker": (
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
            "The leader epoch of this replica.",
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
            "The leader known to this replica: itself if it leads, -1 if it has none.",
            per_replica(readings.leader_of),
            *_PARTITION,
        ),
        _gauge(
            "partition_isr_size",
            "In-sync replicas. Only on the leader.",
            per_replica(readings.isr_size),
            *_PARTITION,
        ),
        _gauge(
            "partition_follower_lag_records",
            "Records that a follower has not fetched yet. Only on the leader, after its first fetch.",
            readings.follower_lag,
            *_PARTITION,
            "follower",
        ),
        _gauge(
            "partition_recovery_point",
            "Records below it are synced on this broker and survive a power cut.",
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
    "Consumer groups of this coordinator": (
        _gauge(
            "groups",
            "Groups by state, named as in DescribeGroups. A group is counted by its coordinator only.",
            readings.groups_by_state,
            "state",
        ),
        _gauge("group_members", "Members of all groups.", of_groups(lambda g: g.members_count())),
        _gauge(
            "group_partitions_loading",
            "Led partitions of __consumer_offsets that are still being loaded: their groups wait.",
            of_groups(lambda g: g.loading_count),
        ),
        _counter(
            "group_rebalances",
            "Generations that began with at least one member.",
            of_groups(lambda g: g.tally.rebalances),
        ),
        _counter(
            "group_members_expired",
            "Members whose session expired.",
            of_groups(lambda g: g.tally.members_expired),
        ),
        _counter(
            "offset_commits",
            "Commit requests that succeeded for all their partitions.",
            of_groups(lambda g: g.tally.commits),
        ),
        _counter("offsets_committed", "Offsets in these commits.", of_groups(lambda g: g.tally.positions)),
        Definition(
            "tidelog_group_write_latency_seconds",
            "histogram",
            (),
            "Time from a coordinator's write (concurrent commits are one write) to its commit. "
            "For the latency of clients see tidelog_request_latency_seconds, api OffsetCommit.",
            readings.group_writes,
        ),
    ),
    "Requests": (
        Definition(
            "tidelog_request_latency_seconds",
            "histogram",
            ("api",),
            "Time from a request to its answer, including waiting (long polls, acks=all).",
            readings.requests,
        ),
        _counter("requests_failed", "Requests answered with an error.", readings.failed_requests, "api"),
        _counter(
            "errors_answered",
            "Error codes in answers, one for each partition.",
            readings.errors,
            "api",
            "error",
        ),
        _gauge(
            "parked_produces",
            "Produce requests that wait for followers (acks=all), per partition.",
            over_leaders(readings.parked_produces),
        ),
        _gauge(
            "parked_fetches",
            "Fetch requests that wait for records, per partition.",
            over_leaders(readings.parked_fetches),
        ),
        _counter("received_bytes", "Bytes from clients and other brokers.", counted("bytes_in")),
        _counter("sent_bytes", "Bytes of answers.", counted("bytes_out")),
        _gauge(
            "incoming_request_bytes",
            "Memory of incomplete requests, limited by queued.max.request.bytes.",
            counted("incoming_bytes"),
        ),
        _gauge("connections", "Open connections.", counted("connections")),
        _counter(
            "connections_refused",
            "Connections refused because of max.connections or max.connections.per.ip.",
            counted("connections_refused"),
        ),
        _counter(
            "protocol_errors",
            "Connections closed because the bytes were not a Kafka request.",
            counted("protocol_errors"),
        ),
        _gauge(
            "loop_held_seconds_max",
            "The longest time that the event loop was blocked since the start, by one piece of work or by "
            "lack of processor time.",
            counted("loop_held_seconds_max"),
        ),
        _gauge(
            "loop_worked_seconds_max",
            "The same in processor time: only the broker's own work. Too low by up to 0.05 s.",
            counted("loop_worked_seconds_max"),
        ),
        _counter(
            "loop_holds", "Times that the event loop was blocked for more than 0.1 s.", counted("loop_holds")
        ),
        _counter(
            "unexpected_errors",
            "Unexpected exceptions, each with a traceback in the log; each lost one input, task or timer.",
            counted("unexpected_errors"),
        ),
    ),
    "Storage and evidence": (
        _gauge(
            "memory_blocks",
            "Blocks of memory in use by Python objects. Unlike resident memory, they do not include what "
            "allocators keep for later.",
            one(lambda _: sys.getallocatedblocks()),
        ),
        _gauge("tail_bytes", "Recent batches kept in memory for readers.", one(readings.tail_bytes)),
        _gauge(
            "storage_trouble",
            "1 after a checkpoint could not be written or a deleted log not be removed.",
            one(readings.storage_trouble),
        ),
        _gauge(
            "clean_start",
            "1 if the previous process shut down cleanly.",
            one(readings.clean_start),
        ),
        _gauge(
            "recovery_seconds",
            "How long opening the logs took at the last start.",
            one(readings.recovery_seconds),
        ),
        _counter(
            "stray_replicas",
            "Logs found at the start that belong to no partition of this broker; they were kept.",
            counted("stray_replicas"),
        ),
        _counter("logs_repaired", "Damaged logs found at the start.", counted("logs_repaired")),
        _counter(
            "recovery_truncated_bytes",
            "Bytes truncated from damaged logs at the start.",
            counted("recovery_truncated_bytes"),
        ),
        _counter(
            "recovery_missing_offsets",
            "Offsets in the checkpoints that the logs lacked at the start: files were removed, or a power "
            "cut lost unsynced records.",
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
