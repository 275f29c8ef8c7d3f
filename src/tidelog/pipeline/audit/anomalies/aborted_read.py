"""**Aborted read**: the value of a send that certainly failed is there all the same.

Judged: a value whose only send has the outcome `failed`, in the final log or in what a consumer read. A send
with an unknown outcome may have arrived, so it is never one. Severity: a violation, because an application
that was told so may have sent it again, or told its user that nothing happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import VIOLATION, anomalies, together
from tidelog.pipeline.audit.inputs import READ, Inputs
from tidelog.pipeline.audit.tables.fates import VALUE, of_kind, tally, with_sends
from tidelog.pipeline.audit.tables.strays import sent_strays, strays_count, with_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    in_log = None
    if tally(inputs)["aborted"]:
        in_log = anomalies(
            with_sends(inputs, of_kind(inputs, "aborted").select(*VALUE, "first_offset", "copies")),
            "aborted read",
            VIOLATION,
            offset="first_offset",
            count="copies",
            detail="concat('it stands in the final log; its producer was told ', "
            "coalesce(error, 'that it failed'))",
        )
    if READ not in inputs.facts or not strays_count(inputs):
        return in_log
    failed = sent_strays(inputs).where("outcome = 'failed'")
    read = with_value(inputs).join(failed, VALUE)
    if in_log is not None:
        read = read.join(of_kind(inputs, "aborted").select(*VALUE), VALUE, "left_anti")
    return together(
        in_log,
        anomalies(
            read,
            "aborted read",
            VIOLATION,
            time_us="read_us",
            detail="concat(consumer, ' read it; its producer was told ', coalesce(error, 'that it failed'))",
        ),
    )
