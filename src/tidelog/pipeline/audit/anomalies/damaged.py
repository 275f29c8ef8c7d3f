"""**Damaged**: a record arrived with other bytes than it was sent with.

Judged: a value that is known by its id, whose CRC-32 in the final log is not the one in the ledger.
Severity: a violation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import VIOLATION, anomalies
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.tables.fates import of_kind, tally, with_copies, with_sends
from tidelog.pipeline.audit.tables.stretches import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    if not tally(inputs)["damaged"]:
        return None
    from pyspark.sql import functions as f

    found = with_sends(inputs, of_kind(inputs, "damaged").select(*PLACE, "value"))
    bad = with_copies(inputs, "damaged", found).withColumn(
        "bad", f.expr("try_element_at(filter(copied, c -> c.value_crc32 != sent_crc), 1)")
    )
    return anomalies(
        bad,
        "damaged",
        VIOLATION,
        offset="bad.offset",
        leader_epoch="bad.leader_epoch",
        detail="concat('sent with CRC-32 ', sent_crc, ', stands there with ', bad.value_crc32)",
    )
