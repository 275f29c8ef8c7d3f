"""**Circular information** (G1c): transactions that committed and whose effects each other could see, in a
circle: one read what another wrote, which itself read, or was written behind, what the first had written.

Judged: as write cycles, with a further dependency: a transaction read a value that another one wrote. Only
cycles with at least one of these.

Severity: a violation if the cycle is made of reads alone. Each of its transactions then read, before it
committed, what another had not committed before it; and Kafka shows a consumer of committed records nothing
before its transaction is committed. If the cycle needs the order of writes in a partition, a notice: Kafka
lets transactions interleave there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, anomalies
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.tables.cycles import READS, WRITES
from tidelog.pipeline.audit.tables.transactions import circles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    found = circles(inputs)
    if found is None:
        return None
    from pyspark.sql import functions as f

    return anomalies(
        found.where(f"kind != '{WRITES}'"),
        "circular information",
        f.when(f.col("kind") == READS, VIOLATION).otherwise(NOTICE),
        count="members",
    )
