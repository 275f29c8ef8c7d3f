"""Why brokers did what they did, as SQL over the events: `rule`, and `why`, the same in words.

Evidence of schema 1 has no column `rule`: it has the sentence of that time in `cause`. A sentence that schema
1 could hold stands for one rule, and for no other; that is what `_RULES_OF_SCHEMA_1` says.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tidelog.core.events import ElectionKind, StateWriteReason, TruncationRule
from tidelog.narrate.reasons import reason_key
from tidelog.pipeline.spark.spelling import quoted, spelled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RULES_OF_SCHEMA_1: Final[dict[str, dict[str, StrEnum]]] = {
    "truncated": {
        "to its own high watermark": TruncationRule.OWN_HIGH_WATERMARK,
        "epoch % ends at % on the leader": TruncationRule.EPOCH_END_ON_LEADER,
        "epoch % ends at % here": TruncationRule.EPOCH_END_HERE,
        "epoch % is unknown here: back to %": TruncationRule.EPOCH_UNKNOWN,
        "the leader's log is shorter": TruncationRule.LEADER_LOG_SHORTER,
        "the leader's log starts at %": TruncationRule.LEADER_LOG_STARTS_LATER,
    },
    "partition_state_written": {
        "first live in-sync replica": ElectionKind.CLEAN,
        "unclean election": ElectionKind.UNCLEAN,
        "preferred leader": ElectionKind.PREFERRED,
        "longest log of a majority": ElectionKind.MAJORITY,
        "% is shutting down": ElectionKind.CONTROLLED_SHUTDOWN,
        "the partition is new": StateWriteReason.CREATED,
        "replica % is offline": StateWriteReason.REPLICA_OFFLINE,
        "asked by the leader": StateWriteReason.ISR_ASKED,
        "written by the leader": StateWriteReason.ISR_WRITTEN,
        "election by majority opened": StateWriteReason.BALLOT_OPENED,
    },
}


def with_reasons(events: DataFrame, schema_version: int) -> DataFrame:
    """Events with `rule` whatever schema they were written in, and with `why`."""
    from pyspark.sql import functions as f

    if schema_version == 1:
        events = events.withColumn("rule", f.expr(f"coalesce(rule, {_rule_of_schema_1()})"))
    return events.withColumn("why", f.expr(f"coalesce(cause, {_why()})"))


def _rule_of_schema_1() -> str:
    cases = [
        f"when event = '{event}' and cause like {quoted(sentence)} then '{rule}'"
        for event, rules in _RULES_OF_SCHEMA_1.items()
        for sentence, rule in rules.items()
    ]
    return f"case {' '.join(cases)} end"


def _why() -> str:
    truncations = " ".join(
        f"when '{rule}' then "
        + spelled(
            reason_key(rule),
            after="log_end_offset",
            epoch="rule_epoch",
            epoch_end="rule_epoch_end",
            own_epoch="rule_own_epoch",
        )
        for rule in TruncationRule
    )
    writes = " ".join(
        f"when '{reason}' then {spelled(reason_key(reason), absent='rule_broker')}"
        for reason in (*ElectionKind, *StateWriteReason)
    )
    return (
        f"case event when 'truncated' then case rule {truncations} end "
        f"when 'partition_state_written' then case rule {writes} end end"
    )
