"""**Rewritten**: a consumer read one value at an offset, and the log holds another there now.

Judged: every read against the final log at its offset, values compared by their ids; a control record that
stands there now is another value as well. A read at an offset that the log does not reach any more is not one
(the record may be lost, which is told as such). Severity: a violation: what was readable was committed, and
what is committed does not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import VIOLATION, anomalies
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.tables.strays import strays, strays_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    if not strays_count(inputs):
        return None
    return anomalies(
        strays(inputs).where("held"),
        "rewritten",
        VIOLATION,
        time_us="read_us",
        detail="""concat(consumer, ' read ', coalesce(value, 'a record without a value'),
            ', the log now holds ',
            case when now_control then 'a control record' else coalesce(now, 'a record without a value') end,
            if(now_epoch is null, '', concat(' of epoch ', now_epoch)))""",
    )
