"""Records of KRaft's metadata log that say who leads what, with the field names of Kafka's schemas.

The value of a record begins with a frame version, the kind of record and its version, each an unsigned
varint. Kinds that are not listed here say nothing about replicas and are passed over.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.wire.codec import decode
from tidelog.wire.errors import ProtocolError
from tidelog.wire.primitives import read_uvarint
from tidelog.wire.schema import Bool, Int8, Int16, Int32, Int64, String, UInt16, Uuid, field, struct

UNCHANGED: Final = -2
"""The leader in a change that leaves it as it is."""
RECOVERING: Final = 1
TOPIC_CONFIG: Final = 2
BROKER_CONFIG: Final = 4


@struct
class BrokerEndpoint:
    name: String
    host: String
    port: UInt16
    security_protocol: Int16


@struct
class BrokerFeature:
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


@struct
class RegisterBroker:
    broker_id: Int32
    is_migrating_zk_broker: Bool = field(False, since=2)
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: String | None
    fenced: Bool
    in_controlled_shutdown: Bool = field(False, since=1)
    log_dirs: list[Uuid] = field([], since=3, tag=0)


@struct
class Topic:
    name: String
    topic_id: Uuid


@struct
class Partition:
    partition_id: Int32
    topic_id: Uuid
    replicas: list[Int32]
    isr: list[Int32]
    removing_replicas: list[Int32]
    adding_replicas: list[Int32]
    leader: Int32
    leader_recovery_state: Int8 = field(0, tag=0)
    leader_epoch: Int32
    partition_epoch: Int32
    directories: list[Uuid] = field([], since=1)
    eligible_leader_replicas: list[Int32] | None = field(None, since=2, tag=1)
    last_known_elr: list[Int32] | None = field(None, since=2, tag=2)


@struct
class Config:
    resource_type: Int8
    resource_name: String
    name: String
    value: String | None


@struct
class PartitionChange:
    partition_id: Int32
    topic_id: Uuid
    isr: list[Int32] | None = field(None, tag=0)
    leader: Int32 = field(UNCHANGED, tag=1)
    replicas: list[Int32] | None = field(None, tag=2)
    removing_replicas: list[Int32] | None = field(None, tag=3)
    adding_replicas: list[Int32] | None = field(None, tag=4)
    leader_recovery_state: Int8 = field(-1, tag=5)
    eligible_leader_replicas: list[Int32] | None = field(None, since=2, tag=6)
    last_known_elr: list[Int32] | None = field(None, since=2, tag=7)


@struct
class RemoveTopic:
    topic_id: Uuid


@struct
class ClearElr:
    topic_name: String


KINDS: Final[dict[int, type[Any]]] = {
    0: RegisterBroker,
    2: Topic,
    3: Partition,
    4: Config,
    5: PartitionChange,
    9: RemoveTopic,
    28: ClearElr,
}


def read_record(value: bytes) -> Any:
    """The record, or None if its kind is none of these. Raises `ProtocolError`."""
    try:
        _, position = read_uvarint(value, 0)
        kind, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError:
        raise ProtocolError("a metadata record is cut off") from None
    known = KINDS.get(kind)
    return None if known is None else decode(known, version, True, value[position:])
