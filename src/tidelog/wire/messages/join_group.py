"""JoinGroup (11): join a consumer group, or rejoin it during a rebalance.

The group's leader receives the metadata of all members and assigns the partitions (SyncGroup). Versions: 1 a
separate rebalance timeout, 4 the client must first ask for a member id (KIP-394), 5 static members (KIP-345).
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Bytes, Int16, Int32, String, field, struct


@struct
class JoinGroupRequestProtocol:
    name: String
    metadata: Bytes


@struct
class JoinGroupRequest:
    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field(-1, since=1)
    member_id: String
    group_instance_id: String | None = field(None, since=5)
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol]


@struct
class JoinGroupResponseMember:
    member_id: String
    group_instance_id: String | None = field(None, since=5)
    metadata: Bytes


@struct
class JoinGroupResponse:
    throttle_time_ms: Int32 = field(0, since=2)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = field(None, since=7)
    protocol_name: String | None = field(nullable_since=7)
    leader: String
    member_id: String
    members: list[JoinGroupResponseMember]


describes(Api.JOIN_GROUP, JoinGroupRequest, JoinGroupResponse, versions=(0, 7), flexible_since=6)
