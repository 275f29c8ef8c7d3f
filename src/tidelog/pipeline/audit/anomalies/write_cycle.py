"""**Write cycle** (G0): transactions that wrote in a circle, each right before the next in some partition.

Judged: transactions that committed, in the order of their records in every partition; records of no
transaction between them do not matter. All transactions that are tied up with each other are one finding,
with one of their shortest cycles. The smallest is a transaction between two of whose records another wrote.

Severity: a notice. Kafka promises that a transaction becomes visible as a whole, and never that transactions
do not interleave in a partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import NOTICE, anomalies
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.tables.cycles import WRITES
from tidelog.pipeline.audit.tables.transactions import circles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    found = circles(inputs)
    if found is None:
        return None
    return anomalies(found.where(f"kind = '{WRITES}'"), "write cycle", NOTICE, count="members")
