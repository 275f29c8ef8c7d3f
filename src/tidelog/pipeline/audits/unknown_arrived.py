"""**Unknown arrived**: a send whose outcome nobody knows is in the log.

Judged: a value whose only send has the outcome `unknown`, in the final log. That is what `unknown` means, so it
breaks no promise; but a producer that sends such a record again makes a duplicate. Severity: a notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.anomalies import NOTICE, anomalies
from tidelog.pipeline.audits.fates import VALUE, suspects, with_sends
from tidelog.pipeline.inputs import Inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame:
    arrived = suspects(inputs).where("sends = 1 and unknown = 1 and copies > 0")
    return anomalies(
        with_sends(inputs, arrived.select(*VALUE, "first_offset", "copies")),
        "unknown arrived",
        NOTICE,
        offset="first_offset",
        count="copies",
        detail="concat('its producer was told ', coalesce(error, 'nothing'))",
    )
