"""Why a record stands twice, why replicas differ, why order or place changed: causes other than removal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.events import TruncationRule
from tidelog.pipeline.audit.causes.rules import CauseRule, kept_cause
from tidelog.pipeline.audit.causes.words import moment, said
from tidelog.pipeline.audit.findings import Circumstance
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.spark.spelling import quoted, spelled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    kept = " ".join(f"when '{rule}' then {quoted(kept_cause(rule))}" for rule in TruncationRule)
    by_group = f"circumstance = '{Circumstance.MOVED_BY_GROUP}'"
    return f"""case anomaly
        when 'duplicated' then case
            when circumstance = '{Circumstance.NEW_IDENTITY}' then '{CauseRule.NEW_IDENTITY}'
            when change is not null then '{CauseRule.RETRY_ACROSS}'
            when severity = 'notice' then '{CauseRule.RETRY_IN_EPOCH}' end
        when 'diverged' then case
            when severity = 'notice' then '{CauseRule.NOT_CUT_YET}'
            when last_cut.after > offset then case last_cut.rule {kept} end
            when lost_power is not null then '{CauseRule.UNSYNCED}'
            when last_cut is not null and writer is not null then '{CauseRule.OVERWRITTEN}'
            when writer is not null then '{CauseRule.NEVER_CUT}' end
        when 'reordered' then case
            when change is not null then '{CauseRule.RETRY_ACROSS}'
            when severity = 'notice' then '{CauseRule.OVERTAKEN}' end
        when 'poll skip' then case when severity != 'notice' then null
            when {by_group} then '{CauseRule.MOVED_BY_GROUP}' else '{CauseRule.PLACE_GONE}' end
        when 'non-monotonic poll' then case
            when severity = 'notice' and {by_group} then '{CauseRule.MOVED_BY_GROUP}'
            when severity = 'notice' then '{CauseRule.PLACE_GONE}'
            when exists(cuts, c -> c.after <= offset and c.at_us <= time_us) then '{CauseRule.PLACE_GONE}'
            when exists(elections, e -> e.end <= offset and e.at_us <= time_us)
                then '{CauseRule.PLACE_GONE}' end
        when 'aborted read' then '{CauseRule.AFTER_APPEND}'
        when 'acknowledged below promise' then '{CauseRule.TOO_FEW}'
        when 'unknown arrived' then '{CauseRule.ANSWER_LOST}'
        when 'write cycle' then '{CauseRule.INTERLEAVED}'
        when 'circular information' then if(severity = 'notice', '{CauseRule.INTERLEAVED}', null)
        when 'unavailable' then case circumstance
            when '{Circumstance.NO_LEADER}' then '{CauseRule.NO_LEADER}'
            when '{Circumstance.TOO_FEW_IN_SYNC}' then '{CauseRule.TOO_FEW}'
            when '{Circumstance.LEADER_DOWN}' then '{CauseRule.LEADER_DEAD}'
            when '{Circumstance.SILENCE}' then '{CauseRule.SILENT}' end
        end"""


def words(inputs: Inputs) -> str:
    """SQL for the story of such a finding."""
    meanwhile = spelled(
        "cause.elected_meanwhile",
        broker="change.broker",
        epoch="change.epoch",
        at=moment(inputs, "change.at_us"),
    )
    change = f"if(anomaly in ('duplicated', 'reordered'), {meanwhile}, null)"
    retry = f"""case when anomaly = 'duplicated' and rule = '{CauseRule.NEW_IDENTITY}'
            then {spelled("cause.new_identity")}
        when anomaly = 'duplicated' and rule = '{CauseRule.RETRY_IN_EPOCH}'
            then {spelled("cause.sent_again")} end"""
    wrote = spelled(
        "cause.wrote",
        broker="writer.broker",
        epoch="writer.epoch",
        offset="writer.end",
        since=moment(inputs, "writer.at_us"),
    )
    truncated = spelled(
        "cause.truncated_last",
        broker="broker",
        before="last_cut.before",
        after="last_cut.after",
        why="last_cut.why",
        at=moment(inputs, "last_cut.at_us"),
    )
    last_cut = f"if(last_cut is null, {spelled('cause.never_truncated', broker='broker')}, {truncated})"
    began = spelled("cause.fault", fault="fault.words", at=moment(inputs, "fault.began_us"))
    since = spelled("cause.since", at=moment(inputs, "time_us"))
    return said(
        "detail",
        f"if(anomaly = 'unavailable', {since}, null)",
        change,
        retry,
        f"if(anomaly = 'diverged', concat_ws('', {wrote}, {last_cut}), null)",
        f"if(anomaly = 'unavailable', {began}, null)",
    )
