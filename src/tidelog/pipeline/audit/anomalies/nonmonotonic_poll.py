"""**Non-monotonic poll**: a consumer was given an offset that it had passed already.

Judged: a read whose offset lies before the one that its consumer waited for. `detail` says whether it came in
one poll with what it contradicts, or in a later one.

Severity: a violation; a notice if the consumer had been told that its place no longer exists, or if it is
known to belong to a group that may have moved it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, anomalies
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.tables.polls import moved, moves
from tidelog.pipeline.audit.tables.stretches import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    if not moves(inputs)["back"]:
        return None
    from pyspark.sql import functions as f

    back = moved(inputs, "offset < position_before")
    # A poll leads from place to place. Where it went back from is a place of its own if it came there as
    # often as it left. If it left once more, it began there, and the record contradicts an earlier poll.
    same_poll = ["consumer", "poll", *PLACE]
    polled = inputs.reads.join(back.select(*same_poll), same_poll, "left_semi")
    came = polled.groupBy(*same_poll, f.col("position_after").alias("position_before"))
    left = polled.groupBy(*same_poll, "position_before")
    found = back.join(came.agg(f.count("*").alias("came")), [*same_poll, "position_before"], "left").join(
        left.agg(f.count("*").alias("left")), [*same_poll, "position_before"]
    )
    return anomalies(
        found,
        "non-monotonic poll",
        f.when(f.col("told"), NOTICE).otherwise(VIOLATION),
        time_us="read_us",
        detail="""concat(consumer, ' waited for offset ', position_before, ' and was given ', offset,
            if(coalesce(came, 0) - if(offset + 1 = position_before, 1, 0) >= left, ', inside one poll', ''),
            why)""",
    )
