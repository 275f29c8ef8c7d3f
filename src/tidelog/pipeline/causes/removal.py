"""Why a record that was acknowledged or read is not where it was.

A record goes when somebody takes office whose log lacks it: from then on that log is the truth, and all
others cut off what it does not have. So the cause is told by the first leader elected after the
acknowledgement whose log ended at or before the record's offset, and by why it did:

* it had **cut the record off** itself, to its high watermark (before KIP-101) or to the end of an epoch;
* it had lost its **unsynced tail** in a power cut (recovery found the damage, or it had been counted in sync
  and came back without the record);
* it was **not in sync** and elected all the same (unclean);
* it had **not copied it yet**, which acks=1 does not wait for.

If nobody was elected after the acknowledgement, whoever acknowledged it was no leader any more: a **stale
leader**, which cuts the record off when it learns of its successor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.pipeline.causes.words import moment, said
from tidelog.pipeline.inputs import Inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TO_WATERMARK: Final = "truncation to the high watermark"
TO_EPOCH: Final = "truncation to the end of an epoch"
UNSYNCED: Final = "unsynced tail lost"
UNCLEAN: Final = "unclean election"
ONLY_ONE: Final = "the only in-sync replica died"
NOT_COPIED: Final = "not replicated yet when its leader was replaced"
OUT_OF_STEP: Final = "an in-sync replica without the record was elected"
OTHER_BRANCH: Final = "a replica with another record there was elected"
STALE: Final = "stale leader"
OVERWRITTEN: Final = "follower overwritten"
NOT_COMMITTED: Final = "above the high watermark at the end"
UNCONFIRMED: Final = "acks=0"

_COVERS: Final = "c.after <= offset and offset < c.before"


def with_removal(found: DataFrame) -> DataFrame:
    """Findings beside their partition's history, with what bears on the removal of the record:

    since_us, known_us: when the record came to be, and when somebody was told or read it;
    taker: the first to take office after that without the record; incumbent: the leader at that time
    taker_cut, taker_repair, taker_power: what had happened to the taker's log
    committed: whose copies counted; cut, cut_term: who else cut it off, and its last term"""
    from pyspark.sql import functions as f

    steps = {
        "since_us": "time_us",
        "known_us": "if(anomaly in ('lost', 'aborted read'), coalesce(until_us, time_us), time_us)",
        "taker": "try_element_at(filter(elections, e -> e.at_us >= known_us and e.end <= offset), 1)",
        "incumbent": "try_element_at(filter(elections, e -> e.at_us <= known_us), -1)",
        "heir": "try_element_at(filter(elections, e -> e.at_us >= known_us "
        "and not (e.broker <=> incumbent.broker)), 1)",
        "taker_cut": f"try_element_at(filter(cuts, c -> c.broker = taker.broker and {_COVERS} "
        "and c.at_us >= since_us and c.at_us <= taker.at_us), -1)",
        "taker_repair": "try_element_at(filter(repairs, r -> r.broker = taker.broker and r.end <= offset "
        "and r.at_us >= since_us and r.at_us <= taker.at_us), -1)",
        "taker_power": "try_element_at(filter(deaths, d -> d.broker = taker.broker and d.kind = 'power' "
        "and d.at_us >= since_us and d.at_us <= taker.at_us), -1)",
        "committed": "try_element_at(filter(commits, c -> c.from_offset <= offset and offset < c.to_offset "
        "and (taker is null or c.epoch < taker.epoch)), -1)",
        "cut": f"try_element_at(filter(cuts, c -> {_COVERS} and c.at_us >= since_us), 1)",
        "cut_term": "try_element_at(filter(elections, "
        "e -> e.broker = cut.broker and e.at_us <= cut.at_us), -1)",
    }
    for name, sql in steps.items():
        found = found.withColumn(name, f.expr(sql))
    return found


def rule() -> str:
    """SQL for the rule that removed the record; null if nothing shows one."""
    copied = "coalesce(array_contains(committed.isr, taker.broker), false)"
    return f"""case
        when uncommitted then '{NOT_COMMITTED}'
        when acks = 0 and offset is null then '{UNCONFIRMED}'
        when taker_cut is not null and taker_cut.cause like '%high watermark%' then '{TO_WATERMARK}'
        when taker_repair is not null or taker_power is not null then '{UNSYNCED}'
        when taker_cut is not null then '{TO_EPOCH}'
        when taker.reason = 'unclean election' and size(committed.isr) = 1 then '{ONLY_ONE}'
        when taker.reason = 'unclean election' then '{UNCLEAN}'
        when taker is not null and {copied} then '{UNSYNCED}'
        when taker is not null and (committed is null or acks = 1) then '{NOT_COPIED}'
        when taker is not null then '{OUT_OF_STEP}'
        when cut is not null and incumbent.broker != cut.broker
            and incumbent.epoch > coalesce(cut_term.epoch, -1) then '{STALE}'
        when heir is not null and heir.reason = 'unclean election' then '{UNCLEAN}'
        when heir is not null then '{OTHER_BRANCH}'
        when cut is not null and cut.cause like '%high watermark%' then '{TO_WATERMARK}'
        when cut is not null then '{OVERWRITTEN}'
        end"""


def words(inputs: Inputs) -> str:
    """SQL for the story of the record."""
    known = f"""case when consumer is not null
            then concat(' read by ', consumer, ' at ', {moment(inputs, "time_us")})
        when anomaly = 'lost' then concat(' acknowledged',
            if(incumbent is null or rule = '{STALE}', '', concat(' by broker ', incumbent.broker)),
            ' at ', {moment(inputs, "coalesce(until_us, time_us)")})
        else concat(' told at ', {moment(inputs, "time_us")}) end"""
    taker_log = f"""case
        when taker_cut is not null then concat('; broker ', taker.broker, ' truncated from ',
            taker_cut.before, ' to ', taker_cut.after,
            ' (', taker_cut.cause, ') at ', {moment(inputs, "taker_cut.at_us")})
        when taker_repair is not null then concat('; broker ', taker.broker, ' found its log damaged at ',
            {moment(inputs, "taker_repair.at_us")}, ' and kept it up to ', taker_repair.end,
            coalesce(concat(' (', taker_repair.cause, ')'), ''))
        when taker_power is not null then concat('; broker ', taker.broker, ' lost power at ',
            {moment(inputs, "taker_power.at_us")})
        when rule = '{UNSYNCED}' then concat('; broker ', taker.broker,
            ' had been counted in sync with it and came back without it')
        end"""
    takes = f"""if(taker is null, null, concat('; broker ', taker.broker, ' became leader of epoch ',
        taker.epoch, ' at ', {moment(inputs, "taker.at_us")}, ', its log ending at ', taker.end,
        coalesce(concat(' (', taker.reason, ')'), '')))"""
    counted = "if(committed is null, null, concat('; in sync then: [', array_join(committed.isr, ', '), ']'))"
    stale = f"""if(rule = '{STALE}', concat('; broker ', incumbent.broker, ' led epoch ', incumbent.epoch,
        ' since ', {moment(inputs, "incumbent.at_us")},
        '; broker ', cut.broker, ', which did not know, cut its log from ', cut.before,
        ' to ', cut.after, ' at ', {moment(inputs, "cut.at_us")}), null)"""
    heir = f"""if(rule in ('{OTHER_BRANCH}', '{UNCLEAN}') and taker is null, concat('; broker ', heir.broker,
        ' became leader of epoch ', heir.epoch, ' at ', {moment(inputs, "heir.at_us")},
        ' with another record there', coalesce(concat(' (', heir.reason, ')'), '')), null)"""
    cut = f"""if(taker is null and cut is not null and coalesce(rule, '') != '{STALE}', concat(
        '; broker ', cut.broker, ' truncated from ', cut.before, ' to ', cut.after, ' (', cut.cause, ') at ',
        {moment(inputs, "cut.at_us")}), null)"""
    special = f"""case rule when '{NOT_COMMITTED}' then '; the leader holds it above its high watermark'
        when '{UNCONFIRMED}' then '; sent without waiting for an answer: nobody said that it arrived' end"""
    name = "concat_ws(' ', concat('offset ', offset), concat('(', value, ')'))"
    return said(name, known, counted, taker_log, takes, stale, heir, cut, special)
