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

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tidelog.core.events import ElectionKind, TruncationRule
from tidelog.pipeline.audit.causes.rules import CauseRule, truncation_cause
from tidelog.pipeline.audit.causes.words import because, moment, said
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.spark.spelling import quoted, spelled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    unclean = f"'{ElectionKind.UNCLEAN}'"
    watermark = f"'{TruncationRule.OWN_HIGH_WATERMARK}'"
    by_taker = " ".join(f"when '{rule}' then {quoted(truncation_cause(rule))}" for rule in TruncationRule)
    return f"""case
        when uncommitted then '{CauseRule.NOT_COMMITTED}'
        when acks = 0 and offset is null then '{CauseRule.UNCONFIRMED}'
        when taker_cut.rule = {watermark} then '{CauseRule.TO_WATERMARK}'
        when taker_repair is not null or taker_power is not null then '{CauseRule.UNSYNCED}'
        when taker_cut is not null then case taker_cut.rule {by_taker} end
        when taker.rule = {unclean} and size(committed.isr) = 1 then '{CauseRule.ONLY_ONE}'
        when taker.rule = {unclean} then '{CauseRule.UNCLEAN}'
        when taker is not null and {copied} then '{CauseRule.UNSYNCED}'
        when taker is not null and (committed is null or acks = 1) then '{CauseRule.NOT_COPIED}'
        when taker is not null then '{CauseRule.OUT_OF_STEP}'
        when cut is not null and incumbent.broker != cut.broker
            and incumbent.epoch > coalesce(cut_term.epoch, -1) then '{CauseRule.STALE}'
        when heir is not null and heir.rule = {unclean} then '{CauseRule.UNCLEAN}'
        when heir is not null then '{CauseRule.OTHER_BRANCH}'
        when cut.rule = {watermark} then '{CauseRule.TO_WATERMARK}'
        when cut is not null then '{CauseRule.OVERWRITTEN}'
        end"""


def words(inputs: Inputs) -> str:
    """SQL for the story of the record."""

    def at(us: str) -> str:
        return moment(inputs, us)

    stale = f"rule <=> '{CauseRule.STALE}'"
    acknowledged_us = at("coalesce(until_us, time_us)")
    known = f"""case when consumer is not null
            then {spelled("cause.read", consumer="consumer", at=at("time_us"))}
        when anomaly = 'lost' and (incumbent is null or {stale})
            then {spelled("cause.acknowledged", at=acknowledged_us)}
        when anomaly = 'lost'
            then {spelled("cause.acknowledged_by", broker="incumbent.broker", at=acknowledged_us)}
        else {spelled("cause.told", at=at("time_us"))} end"""
    counted = spelled("cause.in_sync", isr="array_join(committed.isr, ', ')")
    repair = spelled(
        "cause.damaged", broker="taker.broker", at=at("taker_repair.at_us"), end="taker_repair.end"
    )
    taker_log = f"""case
        when taker_cut is not null then {_truncated("taker_cut", at)}
        when taker_repair is not null then concat({repair}, {because("taker_repair.why")})
        when taker_power is not null
            then {spelled("cause.lost_power", broker="taker.broker", at=at("taker_power.at_us"))}
        when rule = '{CauseRule.UNSYNCED}' then {spelled("cause.came_back_without", broker="taker.broker")}
        end"""
    elected = spelled(
        "cause.elected", broker="taker.broker", epoch="taker.epoch", at=at("taker.at_us"), end="taker.end"
    )
    takes = f"concat({elected}, {because('taker.why')})"
    led = spelled(
        "cause.led", broker="incumbent.broker", epoch="incumbent.epoch", since=at("incumbent.at_us")
    )
    unaware = spelled(
        "cause.stale", broker="cut.broker", before="cut.before", after="cut.after", at=at("cut.at_us")
    )
    other = spelled("cause.elected_other", broker="heir.broker", epoch="heir.epoch", at=at("heir.at_us"))
    heir = f"""if(rule in ('{CauseRule.OTHER_BRANCH}', '{CauseRule.UNCLEAN}') and taker is null,
        concat({other}, {because("heir.why")}), null)"""
    cut = f"if(taker is null and cut is not null and not ({stale}), {_truncated('cut', at)}, null)"
    special = f"""case rule when '{CauseRule.NOT_COMMITTED}' then {spelled("cause.uncommitted")}
        when '{CauseRule.UNCONFIRMED}' then {spelled("cause.unconfirmed")} end"""
    offset, value = spelled("cause.offset", offset="offset"), spelled("cause.value", value="value")
    name = f"concat_ws(' ', {offset}, {value})"
    return said(
        name,
        known,
        counted,
        taker_log,
        takes,
        f"if({stale}, concat({led}, {unaware}), null)",
        heir,
        cut,
        special,
    )


def _truncated(cut: str, at: Callable[[str], str]) -> str:
    return spelled(
        "cause.truncated",
        broker=f"{cut}.broker",
        before=f"{cut}.before",
        after=f"{cut}.after",
        why=f"{cut}.why",
        at=at(f"{cut}.at_us"),
    )
