"""**Reordered** (non-monotonic send): two acknowledged records of one producer stand in the opposite order.

Judged: of each producer and partition, the acknowledged sends that are in the final log, in the order of
their sequence; one whose first copy stands before that of the send preceding it. Values that were sent
twice are left out.

Severity: a violation if the producer is idempotent, which keeps order, or if it had the earlier send
acknowledged before it made this one. Otherwise both were in flight together and one was sent again: a notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.anomalies import NOTICE, VIOLATION, anomalies, none
from tidelog.pipeline.audits.fates import VALUE, of_kind, tally, with_sends
from tidelog.pipeline.inputs import Inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame:
    if not tally(inputs)["reordered"]:
        return none(inputs.spark)
    from pyspark.sql import functions as f

    late = of_kind(inputs, "reordered")
    found = with_sends(
        inputs,
        late.select(*VALUE, "first_offset", "previous_sequence", "previous_offset", "previous_settled_us"),
    )
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
