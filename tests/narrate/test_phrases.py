"""Facts become sentences in one place, by key; no key is missing and none is left over."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Formatter

import pytest

from tidelog.core import events as e
from tidelog.core.reasons import IsrChange, StateWriteReason, TruncationRule
from tidelog.core.types import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicPartition,
)
from tidelog.lab.search.count import MARKS
from tidelog.narrate.clients import remark_words
from tidelog.narrate.events import narrate, phrase, spoken
from tidelog.narrate.phrasebook import ENGLISH, LANGUAGES, Phrase, phrasebook, say
from tidelog.narrate.reasons import why
from tidelog.pipeline.audit.anomalies import AUDITS
from tidelog.pipeline.audit.causes.rules import UNEXPLAINED, CauseRule
from tidelog.pipeline.reconcile.facts import AbsenceCause, Presence
from tidelog.pipeline.reconcile.report import _HEADS
from tidelog.scenario.clients.events import ClientFailure
from tidelog.scenario.remarks import Remark, RemarkKind
from tidelog.wire.errors import ErrorCode

ONE, TWO = BrokerId(1), BrokerId(2)
TP = TopicPartition("t", 0)
CUT = e.Truncated(ONE, TP, 9, 7, TruncationRule.EPOCH_END_ON_LEADER, LeaderEpoch(3), 8)


def test_a_phrase_within_a_phrase_is_said_in_the_same_language() -> None:
    """The reason of an event is a phrase of its own."""
    assert narrate(CUT) == "1 truncates its log from 9 to 7: epoch 3 ends at 8 on the leader"
    assert phrasebook("zh").say(phrase(CUT)) == "broker 1 把日志从 9 截断到 7：epoch 3 在 leader 上到 8 结束"


def test_a_phrase_travels_as_json() -> None:
    """Key and fields, all the way down: what the page says it from."""
    assert phrase(CUT).as_json() == {
        "key": "Truncated",
        "fields": {
            "broker": 1,
            "before": 9,
            "after": 7,
            "why": {
                "key": "TruncationRule.EPOCH_END_ON_LEADER",
                "fields": {"after": 7, "epoch": 3, "epoch_end": 8},
            },
        },
    }
    assert Phrase("no_leader").as_json() == {"key": "no_leader"}


def test_brokers_at_the_beginning_of_a_sentence_are_called_brokers() -> None:
    """A topic or a producer whose name is a number is none."""
    assert spoken(CUT).startswith("broker 1 truncates")
    state = PartitionState(ONE, LeaderEpoch(4), (ONE, TWO), ControllerEpoch(1))
    written = e.PartitionStateWritten(TWO, TP, state, StateWriteReason.REPLICA_OFFLINE, BrokerId(0))
    assert spoken(written) == ("keeper: t-0 1 leads, epoch 4, ISR [1,2] (written by 2: replica 0 is offline)")


@pytest.mark.parametrize(
    ("before", "isr", "reason", "words"),
    [
        ((ONE, TWO, BrokerId(3)), (ONE,), IsrChange.MESSAGE_LAG, "message-lag rule: 2, 3 lagging"),
        ((ONE,), (ONE, TWO), IsrChange.CAUGHT_UP, "2 has caught up"),
    ],
)
def test_an_isr_change_names_who_comes_and_goes(
    before: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], reason: IsrChange, words: str
) -> None:
    assert say(why(e.IsrChangeProposed(ONE, TP, LeaderEpoch(1), before, isr, reason))) == words


def test_remarks_are_said_one_after_the_other() -> None:
    remarks = [
        Remark(RemarkKind.READ_FAILED, {"client": "c", "error": ErrorCode.NOT_LEADER_OR_FOLLOWER}),
        Remark(RemarkKind.READ_FAILED, {"client": "d", "error": ClientFailure.NO_LEADER}),
    ]
    words = "c reads nothing: NOT_LEADER_OR_FOLLOWER (6); d reads nothing: no reachable leader"
    assert remark_words(remarks) == words


# ---------------------------------------------------------------- nothing is missing, nothing is left over


def source(module: str) -> str:
    package, _, name = module.rpartition(".")
    return (files(f"tidelog.{package}") / f"{name}.py").read_text("utf-8")


def test_the_words_of_a_broker_s_log_are_those_that_it_uses() -> None:
    text = source("broker.incident_log")
    keys = {key.removeprefix("log.") for key in ENGLISH.words["log"]}
    used = set(re.findall(r'"(?:log\.)?([a-z_]+)"', text))
    assert keys <= used
    said = re.findall(r'_(?:say|together)\((?:[A-Z]+|level), "([a-z_]+)"|words\("log\.([a-z_]+)"', text)
    assert {one or other for one, other in said} <= keys


def test_what_brokers_know_is_said_in_both_languages() -> None:
    """With the same fields."""
    english, chinese = (phrasebook(language).words["inside"] for language in LANGUAGES)
    assert set(english) == set(chinese)
    for key, template in english.items():
        assert _fields(chinese[key]) == _fields(template), key


def test_the_words_of_causes_are_those_that_audits_use() -> None:
    """In both languages, with the same fields."""
    used = set(re.findall(r"[\"'](cause\.[a-z_]+)[\"']", source("pipeline.audit.causes.stories")))
    english, chinese = (phrasebook(language).words["causes"] for language in LANGUAGES)
    assert set(english) == set(chinese) == used
    for key, template in english.items():
        assert _fields(chinese[key]) == _fields(template), key


def test_the_words_of_findings_are_those_that_audits_use() -> None:
    """In both languages, with the same fields; and every anomaly has its name."""
    folder = files("tidelog.pipeline.audit")
    text = "".join(path.read_text("utf-8") for path in Path(str(folder)).rglob("*.py"))
    english, chinese = (phrasebook(language).words for language in LANGUAGES)
    for section, prefix in (("details", "detail"), ("unjudged", "unjudged")):
        used = set(re.findall(rf"\"({prefix}\.[a-z_]+)\"", text))
        assert set(english[section]) == set(chinese[section]) == used
        for key, template in english[section].items():
            assert _fields(chinese[section][key]) == _fields(template), key
    for words in (english, chinese):
        assert set(words["anomalies"]) == {f"anomaly.{each.name}" for each in AUDITS}


def test_the_words_of_tables_are_those_that_their_comparison_uses() -> None:
    """In both languages, with the same fields; facts are called as their JSON calls them."""
    folder = files("tidelog.pipeline.reconcile")
    text = "".join(path.read_text("utf-8") for path in Path(str(folder)).rglob("*.py"))
    used = set(re.findall(r"\"(table\.[a-z_]+)\"", text)) | {f"table.{head}" for head in _HEADS}
    facts = {f"{kind.__name__}.{each.name}": each.value for kind in (Presence, AbsenceCause) for each in kind}
    english, chinese = (phrasebook(language).words["table"] for language in LANGUAGES)
    assert set(english) == set(chinese) == used | set(facts)
    assert facts.items() <= english.items()
    for key, template in english.items():
        assert _fields(chinese[key]) == _fields(template), key


def _fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def test_the_words_of_an_audit_are_those_that_its_report_uses() -> None:
    """Those of its headline, and one of each anomaly, in both languages."""
    text = "".join(source(f"pipeline.report.{name}") for name in ("words", "found"))
    used = set(re.findall(r"\"(audit\.[a-z_]+)\"", text)) | {f"audit.{each.name}" for each in AUDITS}
    for language in LANGUAGES:
        assert set(phrasebook(language).words["audit"]) == used


def test_the_words_of_the_report_are_those_that_it_uses() -> None:
    """In both languages, with the same fields; and every cause has its name in Chinese."""
    folder = files("tidelog.pipeline.report")
    text = "".join(file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".py"))
    used = set(re.findall(r"\"(report\.[a-z_]+)\"", text))
    english, chinese = (phrasebook(language).words["report"] for language in LANGUAGES)
    assert set(english) == set(chinese) == used
    for key, template in english.items():
        assert _fields(chinese[key]) == _fields(template), key
    rules = phrasebook("zh").words["cause_rules"]
    assert set(rules) == {*CauseRule, UNEXPLAINED}


def test_of_several_partitions_each_sentence_names_its_own() -> None:
    """Once: words that name it already are left alone, and so is what belongs to no partition."""
    tp = TopicPartition("u", 0)
    became = e.BecameLeader(BrokerId(2), tp, LeaderEpoch(1), (BrokerId(2),), 2, 2)
    assert narrate(became) == "2 becomes leader in epoch 1 from offset 2"
    assert narrate(became, several=True) == "u-0: 2 becomes leader in epoch 1 from offset 2"
    assert spoken(became, several=True) == "u-0: broker 2 becomes leader in epoch 1 from offset 2"
    assert narrate(e.ReplicaDeleted(BrokerId(1), tp), several=True) == "1 deletes its log of u-0"
    assert (
        narrate(e.BrokerRegistered(BrokerId(1), BrokerEpoch(7)), several=True)
        == "1 registers with the keeper"
    )


def test_the_count_decides_between_one_and_many() -> None:
    for count, english, chinese in (
        (1, "1 duplicated record", "1 条消息重复"),
        (1200, "1,200 duplicated records", "1,200 条消息重复"),
    ):
        found = Phrase("audit.duplicated", {"count": count})
        assert (say(found), phrasebook("zh").say(found)) == (english, chinese)


def test_every_mark_of_an_atlas_has_its_words() -> None:
    assert set(ENGLISH.words["marks"]) == set(MARKS)


def test_templates_name_their_fields() -> None:
    """A field without a name would be filled by its place, which no translation can keep."""
    for key, template in ENGLISH.templates.items():
        assert all(name != "" for _, name, _, _ in Formatter().parse(template)), key
