"""**Reordered** (non-monotonic send): two acknowledged records of one producer stand in the opposite order.

Judged: of each producer and partition, the acknowledged sends that are in the final log, in the order of
their sequence; one whose first copy stands before that of the send preceding it. Values that were sent
twice are left out.

Severity: a violation if the producer is idempotent, which keeps order, or if it had the earlier send
acknowledged before it made this one. Otherwise both were in flight together and one was sent again: a notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, anomalies
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.tables.fates import few, overtaken, overtaken_count
from tidelog.pipeline.audit.tables.stretches import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    if not overtaken_count(inputs):
        return None
    from pyspark.sql import functions as f

    sends = inputs.ledger.selectExpr(
        *PLACE,
        *("value", "producer", "sequence", "acks", "idempotent", "leader_epoch"),
        "sent_us as time_us",
        "settled_us as until_us",
        "xxhash64(topic, partition) as place",
        "xxhash64(producer) as lane",
    )
    late = few(overtaken(inputs), overtaken_count(inputs))
    found = sends.join(late, ["place", "lane", "sequence"])
    one_by_one = "coalesce(previous_settled_us <= time_us, false)"
    return anomalies(
        found,
        "reordered",
        f.when(f.expr(f"idempotent or {one_by_one}"), VIOLATION).otherwise(NOTICE),
        offset="first_offset",
        detail=f"""concat('sent after number ', previous_sequence, ', which stands at offset ',
            previous_offset,
            if({one_by_one}, ' and had been acknowledged before', ''))""",
    )
