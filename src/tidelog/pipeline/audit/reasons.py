"""Why brokers did what they did: the rule of an event, and the same in words.

Evidence of schema 1 has no column `rule`: it has the sentence of that time in `cause`. A sentence that schema
1 could hold means one rule and no other; that is what `_RULES_OF_SCHEMA_1` says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from tidelog.core.reasons import ElectionKind, StateWriteReason, TruncationRule
from tidelog.narrate.phrasebook import Phrase, say
from tidelog.narrate.reasons import reason_key

Why = Phrase | str
"""A reason; in English words, if the evidence has nothing else."""


_RULES_OF_SCHEMA_1: Final[dict[str, dict[str, StrEnum]]] = {
    "truncated": {
        "to its own high watermark": TruncationRule.OWN_HIGH_WATERMARK,
        "epoch .+ ends at .+ on the leader": TruncationRule.EPOCH_END_ON_LEADER,
        "epoch .+ ends at .+ here": TruncationRule.EPOCH_END_HERE,
        "epoch .+ is unknown here: back to .+": TruncationRule.EPOCH_UNKNOWN,
        "the leader's log is shorter": TruncationRule.LEADER_LOG_SHORTER,
        "the leader's log starts at .+": TruncationRule.LEADER_LOG_STARTS_LATER,
    },
    "partition_state_written": {
        "first live in-sync replica": ElectionKind.CLEAN,
        "unclean election": ElectionKind.UNCLEAN,
        "preferred leader": ElectionKind.PREFERRED,
        "longest log of a majority": ElectionKind.MAJORITY,
        ".+ is shutting down": ElectionKind.CONTROLLED_SHUTDOWN,
        "the partition is new": StateWriteReason.CREATED,
        "replica .+ is offline": StateWriteReason.REPLICA_OFFLINE,
        "asked by the leader": StateWriteReason.ISR_ASKED,
        "written by the leader": StateWriteReason.ISR_WRITTEN,
        "election by majority opened": StateWriteReason.BALLOT_OPENED,
    },
}
_ENUMERATIONS: Final = {
    "truncated": (TruncationRule,),
    "partition_state_written": (ElectionKind, StateWriteReason),
}


def reason_of(row: Mapping[str, Any], schema_version: int) -> tuple[str | None, Why | None]:
    """The rule of an event, whatever schema it was written in, and why."""
    rule, said = row["rule"], row["cause"]
    if rule is None and schema_version == 1 and said is not None:
        rule = _rule_of_schema_1(row["event"], said)
    return rule, _why(row, rule) if said is None else said


def _rule_of_schema_1(event: str, sentence: str) -> str | None:
    for pattern, rule in _RULES_OF_SCHEMA_1.get(event, {}).items():
        if re.fullmatch(pattern, sentence):
            return rule.value
    return None


def _why(row: Mapping[str, Any], rule: str | None) -> Why | None:
    for kind in _ENUMERATIONS.get(row["event"], ()):
        if rule is not None and rule in kind._value2member_map_:
            fields = {
                "after": row["log_end_offset"],
                "epoch": row["rule_epoch"],
                "epoch_end": row["rule_epoch_end"],
                "own_epoch": row["rule_own_epoch"],
                "absent": row["rule_broker"],
            }
            known = {name: value for name, value in fields.items() if value is not None}
            phrase = Phrase(reason_key(kind(rule)), known)
            try:
                say(phrase)
            except KeyError:
                return None  # a fact of that reason is not known
            return phrase
    return None
