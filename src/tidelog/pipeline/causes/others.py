"""Why a record stands twice, why replicas differ, why order or place changed: causes other than removal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.pipeline.causes.removal import OVERWRITTEN, TO_EPOCH, TO_WATERMARK, UNSYNCED
from tidelog.pipeline.causes.words import moment, said
from tidelog.pipeline.inputs import Inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RETRY_IN_EPOCH: Final = "sent again after a lost answer"
RETRY_ACROSS: Final = "sent again after a change of leader"
NEW_IDENTITY: Final = "sent again under a new producer epoch"
NOT_CUT_YET: Final = "a replica has not truncated yet"
NEVER_CUT: Final = "a replica was never made to truncate"
KEPT_BY: Final = "{} kept another record"
OVERTAKEN: Final = "overtaken by later sends while it was sent again"
PLACE_GONE: Final = "the log was cut off behind the consumer"
AFTER_APPEND: Final = "refused after it was appended"
TOO_FEW: Final = "too few replicas in sync"
NO_LEADER: Final = "no leader"
LEADER_DEAD: Final = "the leader was down"
SILENT: Final = "nothing was acknowledged"
ANSWER_LOST: Final = "its answer was lost"
MOVED_BY_GROUP: Final = "its group may have moved the consumer"
INTERLEAVED: Final = "transactions interleave"


def with_circumstances(found: DataFrame) -> DataFrame:
    """Findings beside their partition's history, with what bears on the rest:

    change: the first to take office while a send waited
    writer: the last leader whose term began at or before the offset: it wrote what stands there
    last_cut: how the replica that differs was last cut; lost_power: whether it lost power since
    fault: what was being done to the cluster at that time"""
    from pyspark.sql import functions as f

    steps = {
        "change": "try_element_at(filter(elections, e -> e.at_us >= time_us "
        "and (until_us is null or e.at_us <= until_us)), 1)",
        "writer": "try_element_at(filter(elections, e -> e.end <= offset), -1)",
        "last_cut": "try_element_at(filter(cuts, c -> c.broker = broker), -1)",
        "lost_power": "try_element_at(filter(deaths, d -> d.kind = 'power'), -1)",
        "fault": "try_element_at(filter(faults, w -> w.began_us <= coalesce(until_us, time_us) "
        "and (w.ended_us is null or w.ended_us >= time_us)), 1)",
    }
    for name, sql in steps.items():
        found = found.withColumn(name, f.expr(sql))
    return found


def rule() -> str:
    """SQL for the rule behind a finding; null if nothing shows one."""
    return f"""case anomaly
        when 'duplicated' then case
            when severity = 'notice' and detail like '%producer ids%' then '{NEW_IDENTITY}'
            when change is not null then '{RETRY_ACROSS}'
            when severity = 'notice' then '{RETRY_IN_EPOCH}' end
        when 'diverged' then case
            when severity = 'notice' then '{NOT_CUT_YET}'
            when last_cut.after > offset and last_cut.cause like '%high watermark%'
                then '{KEPT_BY.format(TO_WATERMARK)}'
            when last_cut.after > offset then '{KEPT_BY.format(TO_EPOCH)}'
            when lost_power is not null then '{UNSYNCED}'
            when last_cut is not null and writer is not null then '{OVERWRITTEN}'
            when writer is not null then '{NEVER_CUT}' end
        when 'reordered' then case
            when change is not null then '{RETRY_ACROSS}'
            when severity = 'notice' then '{OVERTAKEN}' end
        when 'poll skip' then case when severity != 'notice' then null
            when detail like '%its group%' then '{MOVED_BY_GROUP}' else '{PLACE_GONE}' end
        when 'non-monotonic poll' then case
            when severity = 'notice' and detail like '%its group%' then '{MOVED_BY_GROUP}'
            when severity = 'notice' then '{PLACE_GONE}'
            when exists(cuts, c -> c.after <= offset and c.at_us <= time_us) then '{PLACE_GONE}'
            when exists(elections, e -> e.end <= offset and e.at_us <= time_us) then '{PLACE_GONE}' end
        when 'aborted read' then '{AFTER_APPEND}'
        when 'acknowledged below promise' then '{TOO_FEW}'
        when 'unknown arrived' then '{ANSWER_LOST}'
        when 'write cycle' then '{INTERLEAVED}'
        when 'circular information' then if(severity = 'notice', '{INTERLEAVED}', null)
        when 'unavailable' then case when detail like '%no leader' then '{NO_LEADER}'
            when detail like 'fewer than%' then '{TOO_FEW}'
            when detail like 'broker%' then '{LEADER_DEAD}' else '{SILENT}' end
        end"""


def words(inputs: Inputs) -> str:
    """SQL for the story of such a finding."""
    change = f"""if(anomaly in ('duplicated', 'reordered') and change is not null,
        concat('; while it waited, broker ', change.broker, ' became leader of epoch ', change.epoch, ' at ',
            {moment(inputs, "change.at_us")}), null)"""
    retry = f"""case when anomaly = 'duplicated' and rule = '{NEW_IDENTITY}'
            then '; its producer gave up its place in the order and sent it again as new'
        when anomaly = 'duplicated' and rule = '{RETRY_IN_EPOCH}'
            then '; its first answer did not arrive, so it was sent again' end"""
    writer = f"""if(anomaly = 'diverged' and writer is not null, concat('; broker ', writer.broker,
        ' led epoch ',
        writer.epoch, ' from offset ', writer.end, ' since ', {moment(inputs, "writer.at_us")}), null)"""
    last_cut = f"""if(anomaly = 'diverged', if(last_cut is null, concat('; broker ', broker,
        ' never truncated'),
        concat('; broker ', broker, ' truncated last from ', last_cut.before, ' to ', last_cut.after,
            ' (', last_cut.cause, ') at ', {moment(inputs, "last_cut.at_us")})), null)"""
    fault = f"""if(anomaly = 'unavailable' and fault is not null, concat('; ', fault.words, ' began at ',
        {moment(inputs, "fault.began_us")}), null)"""
    when = f"if(anomaly = 'unavailable', concat(' from ', {moment(inputs, 'time_us')}), null)"
    return said("detail", when, change, retry, writer, last_cut, fault)
