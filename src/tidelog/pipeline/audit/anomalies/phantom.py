"""**Phantom**: a record that nobody sent.

Judged: a value in the final log, or in what a consumer read and the final log does not hold there, that is
not in the ledger for that partition. Needs the whole ledger. Control records belong to the protocol, not to
anybody's ledger, and are never phantoms. Severity: a violation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import VIOLATION, anomalies, together
from tidelog.pipeline.audit.inputs import READ, Inputs
from tidelog.pipeline.audit.tables.fates import VALUE, of_kind, tally
from tidelog.pipeline.audit.tables.strays import sent_strays, strays_count, with_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    in_log = None
    if tally(inputs)["phantom"]:
        in_log = anomalies(
            of_kind(inputs, "phantom"),
            "phantom",
            VIOLATION,
            offset="first_offset",
            count="copies",
            detail="'it stands in the final log, and nobody sent it'",
        )
    if READ not in inputs.facts or not strays_count(inputs):
        return in_log
    read = with_value(inputs).join(sent_strays(inputs).select(*VALUE), VALUE, "left_anti")
    if in_log is not None:
        # What stands in the log elsewhere was told above.
        read = read.join(of_kind(inputs, "phantom").select(*VALUE), VALUE, "left_anti")
    return together(
        in_log,
        anomalies(
            read,
            "phantom",
            VIOLATION,
            time_us="read_us",
            detail="concat(consumer, ' read it, nobody sent it, and the final log does not hold it there')",
        ),
    )
