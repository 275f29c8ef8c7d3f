"""**Unknown arrived**: a send whose outcome nobody knows is in the log.

Judged: a value whose only send has the outcome `unknown`, in the final log. That is what `unknown` means,
so it breaks no promise; but a producer that sends such a record again makes a duplicate. Sends of
transactions are not among them: one that was seen settles them all. Severity: a notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import NOTICE, anomalies
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.tables.fates import VALUE, of_kind, tally, with_sends

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    if not tally(inputs)["unknown"]:
        return None
    arrived = of_kind(inputs, "unknown")
    return anomalies(
        with_sends(inputs, arrived.select(*VALUE, "first_offset", "copies")),
        "unknown arrived",
        NOTICE,
        offset="first_offset",
        count="copies",
        detail="concat('its producer was told ', coalesce(error, 'nothing'))",
    )
