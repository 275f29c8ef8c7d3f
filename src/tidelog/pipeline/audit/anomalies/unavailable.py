"""**Unavailable**: for a while a partition could not be written.

Judged, each for itself and with its reason in `detail`: the keeper knew no leader; fewer replicas were in
sync than `min.insync.replicas` (for acks=all); the leader's process was killed and nobody had taken over;
or, as the clients saw it, a send waited for a second or more in which the partition acknowledged nothing.
Only while the load lasted. Severity: a notice: Kafka prefers being unavailable to losing what it
acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.pipeline.audit.findings import NOTICE, Circumstance, anomalies
from tidelog.pipeline.audit.inputs import HAPPENINGS, SENDS, Inputs
from tidelog.pipeline.audit.tables.final_log import promised_copies
from tidelog.pipeline.audit.tables.stretches import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SILENCE_US: Final = 1_000_000
_SECOND_US: Final = 1_000_000


def find(inputs: Inputs) -> DataFrame | None:
    from pyspark.sql import functions as f

    windows = []
    if HAPPENINGS in inputs.facts:
        windows += [_by_state(inputs), _by_death(inputs)]
    if SENDS in inputs.facts:
        windows.append(_by_silence(inputs))
    if not windows:
        return None
    found = windows[0]
    for window in windows[1:]:
        found = found.unionByName(window)
    manifest = inputs.manifest
    if manifest.load_started_us is not None:
        found = found.where(f.col("until_us").isNull() | (f.col("until_us") > manifest.load_started_us))
    if manifest.load_ended_us is not None:
        found = found.where(f.col("time_us") < manifest.load_ended_us)
    return anomalies(found, "unavailable", NOTICE)


def _by_state(inputs: Inputs) -> DataFrame:
    """From what was written to the keeper; states that follow each other and are alike are one window."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    states = (
        inputs.events.where("event = 'partition_state_written'")
        .join(f.broadcast(promised_copies(inputs)), "topic", "left")
        .selectExpr(
            *PLACE,
            "time_ms * 1000 as time_us",
            "partition_version",
            "leader_epoch",
            f"""case when leader < 0 then '{Circumstance.NO_LEADER}'
                when size(isr) < min_insync then '{Circumstance.TOO_FEW_IN_SYNC}' end as circumstance""",
            "min_insync",
        )
    )
    in_order = Window.partitionBy(*PLACE).orderBy("partition_version", "time_us")
    islands = (
        states.withColumn("until_us", f.lead("time_us").over(in_order))
        .withColumn(
            "new", (~f.col("circumstance").eqNullSafe(f.lag("circumstance").over(in_order))).cast("int")
        )
        .withColumn("island", f.sum("new").over(in_order))
        .where("circumstance is not null")
    )
    return (
        islands.groupBy(*PLACE, "circumstance", "min_insync", "island")
        .agg(
            f.min("time_us").alias("time_us"),
            # A window that nothing ends has no end.
            f.expr("if(count(until_us) = count(*), max(until_us), null)").alias("until_us"),
            f.min("leader_epoch").alias("leader_epoch"),
        )
        .selectExpr(
            *PLACE,
            "time_us",
            "until_us",
            "leader_epoch",
            "cast(null as int) as broker",
            "circumstance",
            f"""if(circumstance = '{Circumstance.NO_LEADER}', 'the keeper knew no leader',
                concat('fewer than ', min_insync, ' replicas in sync')) as detail""",
        )
    )


def _by_death(inputs: Inputs) -> DataFrame:
    """Killed leaders, until somebody leads: the keeper learns of a death only when a session expires."""
    from pyspark.sql import functions as f

    deaths = (
        inputs.faults.where("kind in ('kill', 'power') and began_us is not null")
        .selectExpr("kind", "began_us", "explode(targets) as target")
        .selectExpr("kind", "began_us", "try_cast(target as int) as broker")
        .where("broker is not null")
    )
    elections = (
        inputs.events.where("event = 'became_leader'")
        .groupBy(*PLACE)
        .agg(
            f.array_sort(
                f.collect_list(f.expr("struct(time_ms * 1000 as at_us, broker, leader_epoch)"))
            ).alias("elections")
        )
    )
    led = inputs.events.where("event = 'became_leader'").select(*PLACE, "broker").distinct()
    return (
        led.join(f.broadcast(deaths), "broker")
        .join(elections, PLACE)
        .withColumn("last", f.expr("try_element_at(filter(elections, e -> e.at_us <= began_us), -1)"))
        .withColumn("next", f.expr("try_element_at(filter(elections, e -> e.at_us > began_us), 1)"))
        .where("last.broker = broker")
        .selectExpr(
            *PLACE,
            "began_us as time_us",
            "next.at_us as until_us",
            "last.leader_epoch as leader_epoch",
            "broker",
            f"'{Circumstance.LEADER_DOWN}' as circumstance",
            "concat('broker ', broker, ', the leader, was down (', kind, ')') as detail",
        )
    )


def _by_silence(inputs: Inputs) -> DataFrame:
    """From the acknowledgements: the first after a silence had waited through it, so it was not a lack of
    load. A silence of a second lies between two different seconds; so each second is summed up first."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    seconds = (
        inputs.ledger.where("outcome = 'ok' and acks != 0 and settled_us is not null")
        .groupBy(*PLACE, f.expr(f"settled_us div {_SECOND_US}").alias("second"))
        .agg(
            f.min("settled_us").alias("first_us"),
            f.max("settled_us").alias("last_us"),
            f.min_by("sent_us", "settled_us").alias("waited_since_us"),
        )
    )
    before = Window.partitionBy(*PLACE).orderBy("second")
    return (
        seconds.withColumn("before_us", f.lag("last_us").over(before))
        .where("before_us is not null")
        .withColumn("time_us", f.greatest("before_us", "waited_since_us"))
        .selectExpr(
            *PLACE,
            "time_us",
            "first_us as until_us",
            "cast(null as int) as leader_epoch",
            "cast(null as int) as broker",
            f"'{Circumstance.SILENCE}' as circumstance",
            "'nothing was acknowledged though somebody waited' as detail",
        )
        .where(f"until_us - time_us >= {SILENCE_US}")
    )
