"""One file per Kafka API: each opens with its behaviour, its versions and what it does not do.

A handler is a function ``handle(node, request)``. It answers at once or leaves an object with the core that
answers later; it never waits. One that goes through what the client has counted is a generator, and yields
after each: how many there are is not ours to choose (``slices.py``). ``HANDLERS`` is the table of everything
that is served: a client is offered exactly these APIs, in the versions that ``wire.api`` speaks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.broker.apis import (
    alter_configs,
    alter_isr,
    api_versions,
    controlled_shutdown,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leader_and_isr,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    relieve_replica,
    stop_replica,
    sync_group,
    update_metadata,
    vote,
)
from tidelog.broker.connection import Request
from tidelog.storage.background import StepsAndJobs
from tidelog.wire.api import Api

if TYPE_CHECKING:
    from tidelog.broker.node import Node

HANDLERS: dict[int, Callable[[Node, Request], StepsAndJobs[None] | None]] = {
    Api.PRODUCE: produce.handle,
    Api.FETCH: fetch.handle,
    Api.LIST_OFFSETS: list_offsets.handle,
    Api.METADATA: metadata.handle,
    Api.LEADER_AND_ISR: leader_and_isr.handle,
    Api.STOP_REPLICA: stop_replica.handle,
    Api.UPDATE_METADATA: update_metadata.handle,
    Api.CONTROLLED_SHUTDOWN: controlled_shutdown.handle,
    Api.OFFSET_COMMIT: offset_commit.handle,
    Api.OFFSET_FETCH: offset_fetch.handle,
    Api.FIND_COORDINATOR: find_coordinator.handle,
    Api.JOIN_GROUP: join_group.handle,
    Api.HEARTBEAT: heartbeat.handle,
    Api.LEAVE_GROUP: leave_group.handle,
    Api.SYNC_GROUP: sync_group.handle,
    Api.DESCRIBE_GROUPS: describe_groups.handle,
    Api.LIST_GROUPS: list_groups.handle,
    Api.API_VERSIONS: api_versions.handle,
    Api.CREATE_TOPICS: create_topics.handle,
    Api.DELETE_TOPICS: delete_topics.handle,
    Api.DELETE_RECORDS: delete_records.handle,
    Api.INIT_PRODUCER_ID: init_producer_id.handle,
    Api.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
    Api.DESCRIBE_ACLS: describe_acls.handle,
    Api.CREATE_ACLS: create_acls.handle,
    Api.DELETE_ACLS: delete_acls.handle,
    Api.DESCRIBE_CONFIGS: describe_configs.handle,
    Api.ALTER_CONFIGS: alter_configs.handle,
    Api.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
    Api.CREATE_PARTITIONS: create_partitions.handle,
    Api.DELETE_GROUPS: delete_groups.handle,
    Api.ELECT_LEADERS: elect_leaders.handle,
    Api.INCREMENTAL_ALTER_CONFIGS: alter_configs.handle_incremental,
    Api.OFFSET_DELETE: offset_delete.handle,
    Api.ALTER_ISR: alter_isr.handle,
    Api.VOTE: vote.handle,
    Api.RELIEVE_REPLICA: relieve_replica.handle,
}
