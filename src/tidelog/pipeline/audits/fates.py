"""What became of each value: the producers' ledger and the final log, brought together once.

Rules of the file:

* One pass over both, one row per value and partition out of it, numbers only: sends and copies are summed
  where they meet, so a value that was sent twice or stands in the log twice multiplies nothing.
* Almost every value was sent once, acknowledged once and stands in the log once, in order. `suspects` are
  the others. Only they are kept, and only for them the rest of their row is looked up.
* Producers are compared by a hash of their name here; a name is too wide to be carried a hundred million
  times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audits.final_log import PLACE, committed_values, ends
from tidelog.pipeline.inputs import Inputs
from tidelog.pipeline.stored import spans_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VALUE = [*PLACE, "value"]

KINDS = {
    "lost": "sends = 1 and ok = 1 and copies = 0",
    "duplicated": "sends <= 1 and copies > 1",
    "phantom": "sends = 0",
    "aborted": "sends = 1 and failed = 1 and copies > 0",
    "damaged": "damaged",
    "reordered": "reordered",
    "unknown": "sends = 1 and unknown = 1 and copies > 0",
    "repeated": "sends > 1",
    "misplaced": "told_offset is not null and not (told_offset <=> first_offset)",
}
"""What makes a value suspicious."""


def suspects(inputs: Inputs) -> DataFrame:
    """Values of which something has to be said, with:

    sends, ok, failed, unknown: how many sends of it there were, by outcome;
    copies, first_offset, last_offset: how often it stands in the final log, and where first and last;
    told_offset: where the broker said it stands;
    damaged: a copy's bytes are not those that were sent;
    previous_sequence, previous_offset, previous_settled_us: the send before it of the same producer to the
    same partition that was acknowledged and is there, if that one stands *behind* it."""
    return inputs.once("suspects", lambda: _suspects(inputs))


def tally(inputs: Inputs) -> dict[str, int]:
    """How many suspects there are of each kind."""
    from pyspark.sql import functions as f

    return inputs.counted(
        "suspects",
        lambda: suspects(inputs).select(
            *(f.sum(f.expr(f"cast({kind} as bigint)")).alias(name) for name, kind in KINDS.items())
        ),
    )


def _suspects(inputs: Inputs) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    both = _sends(inputs).unionByName(_copies(inputs))
    fates = both.groupBy(*VALUE).agg(
        *(f.sum(name).alias(name) for name in ("sends", "ok", "failed", "copies")),
        *(f.max(name).alias(name) for name in ("producer_key", "sequence", "settled_us")),
        f.max("sent_crc").alias("sent_crc"),
        f.min("stored_crc").alias("stored_crc_min"),
        f.max("stored_crc").alias("stored_crc_max"),
        f.max("told_offset").alias("told_offset"),
        f.min("offset").alias("first_offset"),
        f.max("offset").alias("last_offset"),
    )
    # Only sends whose order means something are compared with each other; the rest is spread out.
    in_line = fates.withColumn("in_line", f.expr("sends = 1 and ok = 1 and copies > 0")).withColumn(
        "lane", f.expr("if(in_line, producer_key, xxhash64(value))")
    )
    before = Window.partitionBy(*PLACE, "in_line", "lane").orderBy("sequence")
    return (
        in_line.withColumn("previous", f.lag(f.struct("sequence", "first_offset", "settled_us")).over(before))
        .withColumn("unknown", f.expr("sends - ok - failed"))
        .withColumn("reordered", f.expr("in_line and coalesce(previous.first_offset > first_offset, false)"))
        .withColumn(
            "damaged",
            f.expr("sends = 1 and copies > 0 and (stored_crc_min != sent_crc or stored_crc_max != sent_crc)"),
        )
        .where(
            "sends != 1 or copies > 1 or (ok > 0 and copies = 0) or (ok = 0 and copies > 0) "
            "or coalesce(damaged, false) or reordered or (copies > 0 and told_offset != first_offset)"
        )
        .selectExpr(
            *VALUE,
            *("sends", "ok", "failed", "unknown", "copies", "told_offset", "reordered"),
            *("first_offset", "last_offset"),
            "coalesce(damaged, false) as damaged",
            "if(reordered, previous.sequence, null) as previous_sequence",
            "if(reordered, previous.first_offset, null) as previous_offset",
            "if(reordered, previous.settled_us, null) as previous_settled_us",
        )
    )


def _sends(inputs: Inputs) -> DataFrame:
    """Sends to partitions whose end is known."""
    from pyspark.sql import functions as f

    judged = f.broadcast(ends(inputs).select(*PLACE))
    return (
        inputs.ledger.where("value is not null")
        .join(judged, PLACE, "left_semi")
        .selectExpr(
            *VALUE,
            "1 as sends",
            "cast(outcome = 'ok' as int) as ok",
            "cast(outcome = 'failed' as int) as failed",
            "0 as copies",
            "xxhash64(producer) as producer_key",
            "sequence",
            "settled_us",
            "value_crc32 as sent_crc",
            "cast(null as bigint) as stored_crc",
            "if(outcome = 'ok', offset, null) as told_offset",
            "cast(null as bigint) as offset",
        )
    )


def _copies(inputs: Inputs) -> DataFrame:
    return committed_values(inputs).selectExpr(
        *VALUE,
        "0 as sends",
        "0 as ok",
        "0 as failed",
        "1 as copies",
        *(f"cast(null as bigint) as {name}" for name in ("producer_key", "sequence")),
        "cast(null as bigint) as settled_us",
        "cast(null as bigint) as sent_crc",
        "value_crc32 as stored_crc",
        "cast(null as bigint) as told_offset",
        "offset",
    )


def of_kind(inputs: Inputs, kind: str) -> DataFrame:
    """The suspects of one kind."""
    return suspects(inputs).where(KINDS[kind])


def with_sends(inputs: Inputs, found: DataFrame) -> DataFrame:
    """Values that were sent once, with what the ledger says about the send."""
    return found.join(
        inputs.ledger.selectExpr(
            *VALUE,
            "producer",
            "sequence",
            "acks",
            "idempotent",
            "outcome",
            "attempts",
            "offset as told_offset",
            "leader_epoch",
            "sent_us as time_us",
            "settled_us as until_us",
            "value_crc32 as sent_crc",
            "error",
        ),
        VALUE,
    )


def with_copies(inputs: Inputs, kind: str, found: DataFrame) -> DataFrame:
    """Suspects of a kind with the copies of each in the final log, in the order of offsets, as `copied`."""
    from pyspark.sql import functions as f

    spans = None
    if inputs.stored is not None:
        spans = spans_of(of_kind(inputs, kind), "first_offset", "last_offset + 1")
    return (
        committed_values(inputs, spans, with_producers=True)
        .join(found.select(*VALUE), VALUE, "left_semi")
        .groupBy(*VALUE)
        .agg(
            f.sort_array(
                f.collect_list(
                    f.struct("offset", "leader_epoch", "producer_id", "producer_epoch", "value_crc32")
                )
            ).alias("copied")
        )
        .join(found, VALUE)
    )
