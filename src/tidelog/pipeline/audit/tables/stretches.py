"""A log in stretches of 4096 offsets, whose sums show that two logs are equal without laying them side by
side.

The sum of a stretch is how many records there are and the sum of a hash of each with its offset. Replicas
that agree, consumers that read what the log holds and producers that were told the truth have equal sums;
only where sums differ is the stretch looked at record by record. So what is right costs one pass and a small
table, and what is wrong costs as much as there is of it.

Different sums are a suspicion, never a finding: a log that is shorter than another, or a consumer that had
not read everything, has different sums and nothing is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.stored import Spans, spans_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACE: Final = ["topic", "partition"]
STRETCH: Final = 4096
STRETCH_OF_OFFSET: Final = f"offset div {STRETCH} as stretch"
STRETCHES: Final = [*PLACE, "stretch"]
SPOT: Final = "xxhash64(offset, value) as spot"
CONTENT: Final = "xxhash64(spot, value_crc32)"


def hash_sum(hashes: str) -> str:
    """SQL for a sum of hashes: of their upper 40 bits, eight million of which do not overflow."""
    return f"coalesce(sum(shiftright({hashes}, 24)), 0)"


def spans_of_stretches(inputs: Inputs, stretches: DataFrame) -> Spans | None:
    """The offsets in which these stretches lie, where it helps to know that beforehand."""
    if inputs.stored is None:
        return None
    return spans_of(stretches, f"stretch * {STRETCH}", f"(stretch + 1) * {STRETCH}")


def within(found: DataFrame, stretches: DataFrame, by: list[str] | None = None) -> DataFrame:
    """The rows of `found` that lie in one of the stretches."""
    from pyspark.sql import functions as f

    keys = [*STRETCHES, *(by or [])]
    placed = found.selectExpr("*", STRETCH_OF_OFFSET)
    return placed.join(f.broadcast(stretches.select(*keys).distinct()), keys, "left_semi").drop("stretch")


def reader_sums(inputs: Inputs) -> DataFrame:
    """topic, partition, stretch, consumer: values, value_sum and content_sum of what it read; first and last
    offset; and how many reads were not where their consumer waited: moved_on behind it, moved_back before
    it, and unplaced, of which nobody wrote down where it waited."""
    return inputs.once("reader_sums", lambda: _reader_sums(inputs))


def _reader_sums(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as f

    return (
        inputs.reads.selectExpr("*", STRETCH_OF_OFFSET, SPOT)
        .groupBy(*STRETCHES, "consumer")
        .agg(
            f.count("*").alias("values"),
            f.expr(hash_sum("spot")).alias("value_sum"),
            f.expr(hash_sum(CONTENT)).alias("content_sum"),
            f.min("offset").alias("first"),
            f.max("offset").alias("last"),
            f.expr("count_if(offset > position_before)").alias("moved_on"),
            f.expr("count_if(offset < position_before)").alias("moved_back"),
            f.expr("count_if(position_before is null)").alias("unplaced"),
        )
    )
