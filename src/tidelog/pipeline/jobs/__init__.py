"""Streaming jobs that ``tidelog trial --through`` brings: two that hold, and two with a known flaw.

Each copies a topic into a table with Spark Structured Streaming. The flaws are those that pipelines really
have, so that a trial shows what an audit finds of them.
"""

from __future__ import annotations

from typing import Final

JOBS: Final = {
    "parquet": "Parquet file sink with its own commit log; stops if records have left the topic",
    "delta": "Delta table, whose log knows which batches it has; stops likewise",
    "foreachbatch": "foreachBatch that appends: a batch that is repeated is appended twice",
    "skipping": "Parquet file sink with failOnDataLoss=false: records that have left the topic are skipped",
}
