"""Why: each finding with its cause, from what brokers told and what was done to them.

`rule` is the short name of the cause by which findings are counted, `cause` the story of this one. What
nothing in the evidence accounts for is `unexplained`, a category of its own: it is either a kind of failure
that is not described yet, or a mistake of the audit, or a lie in the evidence.

Rules of the folder: a cause is looked up in the partition's history, never guessed from the kind of finding
alone, and never read back from words. It says only what the evidence shows.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.pipeline.audit.causes import others, removal
from tidelog.pipeline.audit.causes.history import Death, Fault, History
from tidelog.pipeline.audit.causes.rules import UNEXPLAINED
from tidelog.pipeline.audit.findings import Finding

_REMOVED: Final = frozenset({"lost", "rewritten", "inconsistent offset"})


def explain(
    finding: Finding, history: History, deaths: list[Death], faults: list[Fault], began_us: int
) -> dict[str, Any]:
    """`rule`, `cause` and `explained` of a finding."""
    if finding.anomaly in _REMOVED:
        gone = removal.removal_of(finding, history, deaths)
        rule = removal.rule_of(finding, gone)
        cause = removal.words_of(finding, gone, rule, began_us)
    else:
        found = others.circumstances_of(finding, history, deaths, faults)
        rule = others.rule_of(finding, found, history)
        cause = others.words_of(finding, found, rule, began_us)
    return {
        "rule": UNEXPLAINED if rule is None else rule.value,
        "cause": cause,
        "explained": rule is not None,
    }
