"""Why: each finding with its cause, from what brokers reported and what was done to them.

`rule` is the short name of the cause by which findings are counted, `cause` the story of this one. What
nothing in the evidence accounts for is `unexplained`, a category of its own: it is either a kind of failure
that is not described yet, or a mistake of the audit, or a lie in the evidence.

`history` is what happened to each partition, `case` a finding beside it, `rules` the causes and how each is
recognised, `stories` the words.
"""

from __future__ import annotations

from typing import Any

from tidelog.pipeline.audit.causes.case import Case
from tidelog.pipeline.audit.causes.history import Death, Fault, History
from tidelog.pipeline.audit.causes.rules import UNEXPLAINED, rule_of
from tidelog.pipeline.audit.causes.stories import story
from tidelog.pipeline.audit.findings import Finding


def explain(
    finding: Finding, history: History, deaths: list[Death], faults: list[Fault], began_us: int
) -> dict[str, Any]:
    """`rule`, `cause`, `story` and `explained` of a finding: `cause` is its story in English."""
    case = Case(finding, history, deaths, faults)
    rule = rule_of(case)
    said = story(case, rule, began_us)
    return {
        "rule": UNEXPLAINED if rule is None else rule.value,
        "cause": said.english,
        "story": said,
        "explained": rule is not None,
    }
