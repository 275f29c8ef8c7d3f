"""**Non-monotonic poll**: a consumer was given an offset that it had passed already.

Judged: a read whose offset lies before the one that its consumer waited for. `detail` says whether it came in
one poll with what it contradicts, or in a later one.

Severity: a violation; a notice if the consumer had been told that its place no longer exists, or if it is
known to belong to a group that may have moved it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.anomalies import NOTICE, VIOLATION, anomalies
from tidelog.pipeline.audits.polls import moved, moves
from tidelog.pipeline.audits.stretches import PLACE
from tidelog.pipeline.inputs import Inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    if not moves(inputs)["back"]:
        return None
    from pyspark.sql import functions as f

    back = moved(inputs, "offset < position_before")
    same_poll = ["consumer", "poll", *PLACE, "position_before"]
    companions = inputs.reads.selectExpr(
        "consumer", "poll", *PLACE, "position_after as position_before", "true as inside"
    )
    found = back.join(
        companions.join(back.select(*same_poll), same_poll, "left_semi").distinct(), same_poll, "left"
    )
    return anomalies(
        found,
        "non-monotonic poll",
        f.when(f.col("told"), NOTICE).otherwise(VIOLATION),
        time_us="read_us",
        detail="""concat(consumer, ' waited for offset ', position_before, ' and was given ', offset,
            if(coalesce(inside, false), ', inside one poll', ''), why)""",
    )
