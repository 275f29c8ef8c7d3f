"""What became of each value: the producers' ledger and the final log, brought together.

Rules of the file:

* Almost every send was acknowledged, and its value stands where its producer was told, once. Sums of
  stretches show that without a look at values. Looked at are the values of sends that were told nothing, and
  in stretches whose sums differ the values that do not stand exactly where they were told: `candidates`.
* Of each candidate all sends and all copies are brought together, wherever they are, and summed where they
  meet, so a value that was sent twice or stands in the log twice multiplies nothing. `suspects` are the
  candidates of which there is something to say; only for them the rest of their row is looked up.
* Order is a matter of numbers: every acknowledged send by the place where it stands, producer by producer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.stored import spans_of
from tidelog.pipeline.audit.tables.final_log import committed_values
from tidelog.pipeline.audit.tables.stretches import (
    PLACE,
    STRETCH_OF_OFFSET,
    STRETCHES,
    spans_of_stretches,
    within,
)
from tidelog.pipeline.audit.tables.sums import final_sums, ledger_sums, placed_sends

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VALUE = [*PLACE, "value"]
_FEW: Final = 500_000
"""So many values are sent to everybody, rather than everything to where they are."""

KINDS = {
    "lost": "sends = 1 and ok = 1 and copies = 0",
    "duplicated": "sends <= 1 and copies > 1",
    "phantom": "sends = 0",
    "aborted": "sends = 1 and failed = 1 and copies > 0",
    "damaged": "damaged",
    "unknown": "sends = 1 and unknown = 1 and copies > 0",
    "repeated": "sends > 1",
    "misplaced": "told_offset is not null and not (told_offset <=> first_offset)",
    "moved": "sends = 1 and copies = 1 and told_offset != first_offset",
}
"""What makes a value suspicious."""


def suspects(inputs: Inputs) -> DataFrame:
    """Values of which something has to be said, with:

    sends, ok, failed, unknown: how many sends of it there were, by outcome;
    copies, first_offset, last_offset: how often it stands in the final log, and where first and last;
    told_offset: where the broker said it stands;
    damaged: a copy's bytes are not those that were sent."""
    return fates(inputs).where(" or ".join(f"({kind})" for kind in KINDS.values()))


def tally(inputs: Inputs) -> dict[str, int]:
    """How many suspects there are of each kind."""
    from pyspark.sql import functions as f

    if not _candidates_count(inputs):
        return dict.fromkeys(KINDS, 0)
    return inputs.counted(
        "suspects",
        lambda: fates(inputs).select(
            *(f.sum(f.expr(f"cast({kind} as bigint)")).alias(name) for name, kind in KINDS.items())
        ),
    )


def few(found: DataFrame, count: int) -> DataFrame:
    """For a join with something large: a table that is known to be small goes to where the large one is."""
    from pyspark.sql import functions as f

    return f.broadcast(found) if count <= _FEW else found


# ---------------------------------------------------------------- whom to look at


def _differing(inputs: Inputs) -> DataFrame:
    """Stretches in which the log does not hold just what producers were told that it holds."""
    told, held = ledger_sums(inputs).where("stretch is not null").alias("t"), final_sums(inputs).alias("l")
    return inputs.summary(
        "told otherwise",
        lambda: (
            told.join(held, STRETCHES, "full_outer")
            .where("not (t.values <=> l.values and t.content_sum <=> l.content_sum)")
            .select(*STRETCHES)
        ),
    )


def _candidates(inputs: Inputs) -> DataFrame:
    return inputs.once("candidates", lambda: _make_candidates(inputs))


def _candidates_count(inputs: Inputs) -> int:
    untold = inputs.counted(
        "untold", lambda: ledger_sums(inputs).selectExpr("sum(if(stretch is null, values, 0)) as n")
    )
    if not untold["n"] and _differing(inputs).isEmpty():
        return 0
    return inputs.counted("candidates", lambda: _candidates(inputs).selectExpr("count(*) as n"))["n"]


def _make_candidates(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as f

    differing = _differing(inputs)
    sends = placed_sends(inputs)
    spot = [*VALUE, "offset", "value_crc32"]
    told = within(sends.where("told").select(*spot), differing).withColumn("sent", f.lit(1))
    apart = (
        told.unionByName(_held(inputs).select(*spot).withColumn("sent", f.lit(-1)))
        .groupBy(*spot)
        .agg(f.sum("sent").alias("over"), f.count("*").alias("seen"))
        .where("over != 0 or seen != 2")
    )
    return sends.where("not told").select(*VALUE).unionByName(apart.select(*VALUE)).distinct()


def _held(inputs: Inputs) -> DataFrame:
    """What the final log holds in stretches that differ."""
    differing = _differing(inputs)
    return within(committed_values(inputs, spans_of_stretches(inputs, differing)), differing)


def fates(inputs: Inputs) -> DataFrame:
    """All sends and all copies of each candidate, summed up."""
    return inputs.once("fates", lambda: _fates(inputs))


def _fates(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as f

    candidates = few(_candidates(inputs), _candidates_count(inputs))
    both = _sends(inputs).unionByName(_copies(inputs)).join(candidates, VALUE, "left_semi")
    return (
        both.groupBy(*VALUE)
        .agg(
            *(f.sum(name).alias(name) for name in ("sends", "ok", "failed", "copies")),
            f.max("sent_crc").alias("sent_crc"),
            f.min("stored_crc").alias("stored_crc_min"),
            f.max("stored_crc").alias("stored_crc_max"),
            f.max("told_offset").alias("told_offset"),
            f.min("offset").alias("first_offset"),
            f.max("offset").alias("last_offset"),
        )
        .withColumn("unknown", f.expr("sends - ok - failed"))
        .selectExpr(
            *VALUE,
            *("sends", "ok", "failed", "unknown", "copies", "told_offset", "first_offset", "last_offset"),
            "coalesce(sends = 1 and copies > 0 "
            "and (stored_crc_min != sent_crc or stored_crc_max != sent_crc), false) as damaged",
        )
    )


def _sends(inputs: Inputs) -> DataFrame:
    return placed_sends(inputs).selectExpr(
        *VALUE,
        "1 as sends",
        "cast(outcome = 'ok' as int) as ok",
        "cast(outcome = 'failed' as int) as failed",
        "0 as copies",
        "value_crc32 as sent_crc",
        "cast(null as bigint) as stored_crc",
        "if(outcome = 'ok', offset, null) as told_offset",
        "cast(null as bigint) as offset",
    )


def _copies(inputs: Inputs) -> DataFrame:
    """Where sums agree, the log holds exactly what producers were told, and need not be read again."""
    from pyspark.sql import functions as f

    spot = [*VALUE, "offset", "value_crc32"]
    as_told = (
        placed_sends(inputs)
        .where("told")
        .selectExpr(*spot, STRETCH_OF_OFFSET)
        .join(f.broadcast(_differing(inputs)), STRETCHES, "left_anti")
    )
    return (
        _held(inputs)
        .select(*spot)
        .unionByName(as_told.select(*spot))
        .selectExpr(
            *VALUE,
            "0 as sends",
            "0 as ok",
            "0 as failed",
            "1 as copies",
            "cast(null as bigint) as sent_crc",
            "value_crc32 as stored_crc",
            "cast(null as bigint) as told_offset",
            "offset",
        )
    )


def of_kind(inputs: Inputs, kind: str) -> DataFrame:
    """The suspects of one kind, for joins with something larger."""
    return few(fates(inputs).where(KINDS[kind]), tally(inputs)[kind])


# ---------------------------------------------------------------- order


def overtaken(inputs: Inputs) -> DataFrame:
    """Sends that stand before the one which their producer had sent before them to the same partition: place,
    lane (the producer), sequence, first_offset; previous_sequence, previous_offset, previous_settled_us. Only
    sends whose order means something: acknowledged, of a value that was sent once, and it is known where they
    stand."""
    return inputs.once("overtaken", lambda: _overtaken(inputs))


def overtaken_count(inputs: Inputs) -> int:
    return inputs.counted("overtaken", lambda: overtaken(inputs).selectExpr("count(*) as n"))["n"]


def _overtaken(inputs: Inputs) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    # A name is too wide to be carried a hundred million times.
    line = standing(inputs, placed_sends(inputs).where("outcome = 'ok'")).selectExpr(
        "xxhash64(topic, partition) as place", "xxhash64(producer) as lane", "sequence", "settled_us",
        "stands as offset",
    ).where("offset is not null")  # fmt: skip
    before = f.lag(f.struct("sequence", "offset", "settled_us")).over(
        Window.partitionBy("place", "lane").orderBy("sequence")
    )
    return (
        line.withColumn("previous", before)
        .where("previous.offset > offset")
        .selectExpr(
            *("place", "lane", "sequence", "offset as first_offset"),
            "previous.sequence as previous_sequence",
            "previous.offset as previous_offset",
            "previous.settled_us as previous_settled_us",
        )
    )


def standing(inputs: Inputs, sends: DataFrame) -> DataFrame:
    """Acknowledged sends out of `placed_sends`, with `stands`: the offset of the first copy in the final log;
    null if there is none, or if nothing tells the sends of its value apart. Behind the last record that
    anybody read it is where the broker said, because nothing else shows it."""
    from pyspark.sql import functions as f

    if not _candidates_count(inputs):
        return sends.withColumn("stands", f.expr("if(told, offset, null)"))
    looked_at = fates(inputs).selectExpr(
        *VALUE, "sends = 1 as alone", "if(sends = 1, first_offset, null) as seen_at"
    )
    said = "null" if inputs.manifest.reads_to_end else "if(alone and offset >= end, offset, null)"
    return (
        sends.join(few(looked_at, _candidates_count(inputs)), VALUE, "left")
        .withColumn(
            "stands",
            f.expr(f"case when alone is not null then coalesce(seen_at, {said}) when told then offset end"),
        )
        .drop("alone", "seen_at")
    )


# ---------------------------------------------------------------- the rest of their rows


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
    copied = (
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
    )
    return few(copied.join(found, VALUE), tally(inputs)[kind])
