"""One event of every kind, as a broker might have lived it."""

from typing import get_args

from tidelog.core import events as e
from tidelog.core.machine_phases import PartitionPhase, ReplicaPhase
from tidelog.core.reasons import (
    ElectionFailure,
    ElectionKind,
    IsrChange,
    ResignReason,
    StrayReason,
    TruncationRule,
    WatermarkMoment,
)
from tidelog.core.types import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicPartition,
)
from tidelog.evidence import process_events as p
from tidelog.evidence.process_events import ProcessEvent, RecordedEvent
from tidelog.wire.errors import ErrorCode

CLASSES: tuple[type, ...] = (*get_args(e.Event), *get_args(ProcessEvent))

ME = BrokerId(3)
OTHER = BrokerId(1)
TP = TopicPartition("orders", 7)
ISR = (ME, OTHER)

SPECIMENS: tuple[RecordedEvent, ...] = (
    e.BecameLeader(ME, TP, LeaderEpoch(5), ISR, 100, 99),
    e.BecameFollower(ME, TP, LeaderEpoch(6), OTHER),
    e.Truncated(ME, TP, 103, 100, TruncationRule.EPOCH_UNKNOWN, LeaderEpoch(5), 100, LeaderEpoch(4)),
    e.HighWatermarkAdvanced(ME, TP, LeaderEpoch(5), 90, 100, ISR, WatermarkMoment.FOLLOWER_FETCHED),
    e.HighWatermarksCheckpointed(ME, {TP: 100}),
    e.EpochEndAsked(ME, TP, OTHER, LeaderEpoch(5)),
    e.EpochEndAnswered(ME, TP, OTHER, LeaderEpoch(5), LeaderEpoch(4), 100),
    e.IsrChangeProposed(ME, TP, LeaderEpoch(5), ISR, (ME,), IsrChange.CAUGHT_UP_TIME),
    e.IsrChangeRefused(ME, TP, LeaderEpoch(5), ISR, ErrorCode.INVALID_UPDATE_VERSION),
    e.IsrChanged(ME, TP, LeaderEpoch(5), (ME,)),
    e.PartitionStateWritten(
        ME, TP, PartitionState(OTHER, LeaderEpoch(6), (OTHER,), ControllerEpoch(2), 9), ElectionKind.UNCLEAN
    ),
    e.PartitionPhaseChanged(ME, (TP,), PartitionPhase.ONLINE, PartitionPhase.OFFLINE),
    e.ReplicaPhaseChanged(ME, OTHER, (TP,), ReplicaPhase.OFFLINE, ReplicaPhase.ONLINE),
    e.ElectionFailed(ME, TP, ElectionFailure.NO_ELECTABLE_REPLICA),
    e.ControllerElected(ME, ControllerEpoch(2)),
    e.ControllerResigned(ME, ControllerEpoch(2), ResignReason.SUCCEEDED, OTHER),
    e.BrokerRegistered(ME, BrokerEpoch(4_294_967_297)),
    e.ControlRequestRefused(ME, "LeaderAndIsrRequest", ErrorCode.STALE_CONTROLLER_EPOCH),
    e.FollowerStalled(ME, TP, ErrorCode.FENCED_LEADER_EPOCH),
    e.BrokerExited(ME, TP, OTHER, 103, 100),
    e.StorageFailed(ME, TP, "cannot write 00000000000000000000.log: no space left on device"),
    e.ReplicaWentOffline(ME, TP, "cannot create orders-7: No space left on device"),
    e.ReplicaCameOnline(ME, TP),
    e.TopicConfigured(ME, "orders", {"min.insync.replicas": "2"}),
    e.TopicDeletionStarted(ME, "orders"),
    e.TopicDeleted(ME, "orders"),
    e.ReassignmentStarted(ME, TP, ISR, (ME,), (OTHER,)),
    e.ReassignmentCompleted(ME, TP, (ME,), (OTHER,), ISR),
    e.ReassignmentCancelled(ME, TP, (OTHER,)),
    e.ReplicaDeleted(ME, TP),
    e.StrayReplicaFound(ME, TP, StrayReason.LIVES_ELSEWHERE, ISR),
    p.ProcessStarted("0.1.0", "epoch", 4711, "127.0.0.1", 9092, "az1"),
    p.LogRecovered(TP, 100, 2_112, 7, "the batch at offset 100 is cut off"),
    p.StorageRecovered(False, 12, 1, 340),
    p.KeeperSessionStarted(72_057_594_037_927_936),
    p.KeeperReconnected(72_057_594_037_927_936),
    p.KeeperSessionLost(72_057_594_037_927_936, "it expired"),
    p.ControlledShutdownBegun("SIGTERM"),
    p.ControlledShutdownFinished(0, 120),
    p.ProcessStopped("asked to"),
)
