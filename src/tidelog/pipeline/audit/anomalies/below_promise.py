"""**Acknowledged below promise**: an acks=all send was acknowledged with fewer copies than
`min.insync.replicas`.

Judged: the leader's own account of each advance of its high watermark says who had to have the records. A
send is found whose offset was committed by fewer replicas than promised, if none of the states of the
partition between then and the acknowledgement had more in sync (one who asks again later is answered when
enough have it), and if no leader before had committed it with enough of them (a new leader comes to know of
it once more, alone if need be, while the answer of the old one is on its way). Severity: a violation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import VIOLATION, anomalies
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.tables.final_log import promised_copies
from tidelog.pipeline.audit.tables.stretches import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    from pyspark.sql import functions as f

    least = f.broadcast(promised_copies(inputs))
    told = inputs.events.where("isr is not null and topic is not null").join(least, "topic")
    advances = told.where("event = 'high_watermark_advanced' and size(isr) < min_insync").selectExpr(
        *PLACE,
        "previous_high_watermark as from_offset",
        "high_watermark as to_offset",
        "isr",
        "min_insync",
        "leader_epoch as committed_epoch",
        "broker as committed_by",
        "time_ms * 1000 as committed_us",
    )
    if advances.isEmpty():
        return None
    enough = told.where(
        "event in ('isr_changed', 'partition_state_written', 'high_watermark_advanced', 'became_leader') "
        "and size(isr) >= min_insync"
    ).selectExpr(*PLACE, "time_ms * 1000 as enough_us")
    promised = inputs.ledger.where("outcome = 'ok' and acks = -1 and offset is not null").selectExpr(
        *PLACE,
        "offset",
        "value",
        "producer",
        "sequence",
        "acks",
        "sent_us as time_us",
        "settled_us as until_us",
    )
    # The record at that offset is the acknowledged one only if it was sent by then.
    below = promised.join(f.broadcast(advances), PLACE).where(
        "offset >= from_offset and offset < to_offset "
        "and time_us <= committed_us and committed_us <= until_us"
    )
    covered = below.join(f.broadcast(enough), PLACE).where("enough_us between committed_us and until_us")
    kept = told.where("event = 'high_watermark_advanced' and size(isr) >= min_insync").selectExpr(
        *PLACE,
        "previous_high_watermark as kept_from",
        "high_watermark as kept_to",
        "time_ms * 1000 as kept_us",
    )
    # Events have milliseconds, sends have microseconds.
    met = below.join(kept, PLACE).where(
        "offset >= kept_from and offset < kept_to and kept_us + 1000 > time_us and kept_us <= until_us"
    )
    found = below.join(
        covered.select("producer", "sequence").union(met.select("producer", "sequence")).distinct(),
        ["producer", "sequence"],
        "left_anti",
    )
    return anomalies(
        found,
        "acknowledged below promise",
        VIOLATION,
        broker="committed_by",
        leader_epoch="committed_epoch",
        count="size(isr)",
        detail="""concat('committed by [', array_join(isr, ', '), '] alone; min.insync.replicas is ',
            min_insync)""",
    )
