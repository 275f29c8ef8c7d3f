"""**Duplicated**: one value at two or more offsets of the committed log.

Judged: a value that was sent once and stands in the final log of its partition more than once. Or it stands
elsewhere than its producer was told, and nothing stands there: then it was written twice, whatever became of
the other copy. (If another value stands there, that is an inconsistent offset.)

Severity: a violation if the producer is idempotent, because brokers must recognise a repeat within one
producer id and epoch. A notice if it is not (who sends again without idempotence takes that risk), or if the
log shows that the copies carry different producer ids or epochs: then the client itself began anew after a
send that had timed out, and no broker can know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, Circumstance, anomalies, together
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.stored import spans_of
from tidelog.pipeline.audit.tables.fates import of_kind, tally, with_copies, with_sends
from tidelog.pipeline.audit.tables.final_log import final_log
from tidelog.pipeline.audit.tables.stretches import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    counts = tally(inputs)
    return together(
        _in_the_log(inputs) if counts["duplicated"] else None, _elsewhere(inputs) if counts["moved"] else None
    )


def _elsewhere(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as f

    moved = of_kind(inputs, "moved").selectExpr(*PLACE, "value", "first_offset", "told_offset as offset")
    spans = None if inputs.stored is None else spans_of(moved, "offset", "offset + 1")
    held = final_log(inputs, spans).select(*PLACE, "offset")
    found = moved.join(held, [*PLACE, "offset"], "left_anti").drop("offset")
    return anomalies(
        with_sends(inputs, found),
        "duplicated",
        f.when(f.expr("coalesce(idempotent, false)"), VIOLATION).otherwise(NOTICE),
        offset="first_offset",
        count="2",
        detail="concat('its producer was told offset ', told_offset, ', and it stands at ', first_offset)",
    )


def _in_the_log(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as f

    twice = of_kind(inputs, "duplicated").select(*PLACE, "value", "sends")
    copied = with_copies(inputs, "duplicated", twice).select(*PLACE, "value", "copied", "sends")
    sent = with_sends(inputs, copied)
    nobodys = copied.where("sends = 0")
    found = sent.unionByName(nobodys, allowMissingColumns=True)
    apart = (
        "size(array_distinct(transform(copied, c -> struct(c.producer_id, c.producer_epoch)))) = size(copied)"
    )
    return anomalies(
        found,
        "duplicated",
        f.when(f.expr(f"coalesce(idempotent, false) and not ({apart})"), VIOLATION).otherwise(NOTICE),
        offset="try_element_at(copied, -1).offset",
        leader_epoch="try_element_at(copied, -1).leader_epoch",
        count="size(copied)",
        detail="""concat(
            'at offsets ', array_join(transform(slice(copied, 1, 10), c -> concat(
                c.offset,
                if(c.leader_epoch is null, '', concat(' (epoch ', c.leader_epoch, ')')))), ', '),
            if(size(copied) > 10, ', …', ''),
            case when idempotent and try_element_at(copied, 1).producer_id is not null
                then concat('; producer ids and epochs ', array_join(transform(slice(copied, 1, 10), c ->
                    concat(c.producer_id, '/', c.producer_epoch)), ', ')) else '' end)""",
        circumstance=f"""if(idempotent and try_element_at(copied, 1).producer_id is not null and {apart},
            '{Circumstance.NEW_IDENTITY}', null)""",
    )
