"""Both languages say everything: no text of the catalogue, no event, no message is left untranslated."""

import re
import subprocess
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from bench.processes import PATIENCE_SECONDS
from bench.tools import Tool, find

from tidelog.core.generations import GENERATIONS
from tidelog.core.machine_phases import PartitionPhase, ReplicaPhase
from tidelog.evidence.event_schema import REASONS
from tidelog.faults.places import CHANNEL_NAMES
from tidelog.narrate.events import NARRATED
from tidelog.narrate.reasons import reason_key
from tidelog.scenario import catalogue
from tidelog.scenario.clients.events import ClientFailure
from tidelog.scenario.conditions import CONDITIONS
from tidelog.scenario.grammar import VERBS
from tidelog.scenario.line import ScenarioError
from tidelog.scenario.remarks import RemarkKind
from tidelog.scenario.scenario import VERDICT_KINDS, Scenario, parse
from tidelog.web.catalogue import SHARED, leads, words
from tidelog.web.play.messages import KINDS
from tidelog.web.play.recording import record
from tidelog.web.rules import Rule

STATIC = files("tidelog.web") / "static"
COMPOSED = ("answer_", "answerLong_", "theme", "one_", "many_", "spacetime_")
ELECTIONS = ("hw-loss-chain", "isolate-leader-zone", "kip-966-last-replica-standing")
"""Scenarios in which a majority elects."""
CHINESE = re.compile(r"[\u4e00-\u9fff]")


@cache
def scenarios() -> list[Scenario]:
    return [catalogue.load(name) for name in catalogue.names()]


def test_every_text_of_the_catalogue_has_its_chinese() -> None:
    """Titles, leads, group titles, summaries of generations, and every comment of every scenario."""
    wanted = [group.title for group in catalogue.groups()]
    wanted += [generation.summary for generation in GENERATIONS.values()]
    for scenario in scenarios():
        wanted += [scenario.title, leads()[scenario.name]]
        wanted += [passage.text for step in scenario.steps for passage in step.narration]
    texts = words()["zh"]["texts"]
    assert [text for text in wanted if not CHINESE.search(texts.get(text, ""))] == []
    assert set(texts) <= {*wanted, "More", "From here on the story is changed."}, (
        "a translation of a text that is not there any more"
    )


def fields_of(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_both_languages_have_the_same_words() -> None:
    """The interface, phrases, messages, commands and conditions: the same keys, the same fields."""
    english, chinese = words()["en"], words()["zh"]
    spoken = {part for part in SHARED if part not in ("rules", "glossary", "texts")}
    for part in ("ui", *sorted(spoken)):
        assert set(english[part]) == set(chinese[part]), part
        for key, text in english[part].items():
            assert fields_of(chinese[part][key]) == fields_of(text), f"{part}.{key}"
    assert set(english["rules"]) == set(chinese["rules"]) == set(Rule)
    assert len(english["glossary"]) == len(chinese["glossary"])
    assert all(CHINESE.search(rule["title"] + rule["text"]) for rule in chinese["rules"].values())


def test_everything_that_can_happen_has_words() -> None:
    """Every event, reason, remark, message, channel, command and condition there is, and nothing else."""
    reasons = [reason for kinds in REASONS.values() for kind in kinds for reason in kind]
    wanted = {event.__name__ for event in NARRATED} | {reason_key(reason) for reason in reasons}
    named = (*ClientFailure, *RemarkKind, *PartitionPhase, *ReplicaPhase)
    wanted |= {f"{type(one).__name__}.{one.name}" for one in named}
    wanted |= {"asks", "asked", "epoch_end.same", "epoch_end.older", "epoch_end.unknown"}
    wanted |= {"elr", "last_known_leader", "BecameFollowerOfNobody", "no_broker"}
    wanted |= {
        "leads",
        "no_leader",
        "error",
        "spoken",
        "placed",
        "answer.offset",
        "answer.unasked",
        "answer.nothing",
    }
    for language in ("en", "zh"):
        spoken = words()[language]
        assert set(spoken["phrases"]) == wanted
        assert set(KINDS) <= set(spoken["messages"])
        assert set(spoken["channels"]) == set(CHANNEL_NAMES)
        assert set(CONDITIONS) <= set(spoken["conditions"])
        assert set(VERBS) <= set(spoken["verbs"])


def test_every_recording_can_be_said_in_both_languages() -> None:
    """Each event, remark and rule in all runs of the catalogue has its words and all of their fields."""
    said = set()
    for scenario in scenarios():
        for generation in ("hw", "majority") if scenario.name in ELECTIONS else ("hw", "epoch"):
            _, recording = record(scenario.under(generation))
            for step in recording["steps"]:
                for found in (*step.get("events", ()), *step.get("remarks", ())):
                    said.add(found["key"])
                    for language in ("en", "zh"):
                        check(found, words()[language]["phrases"])
                assert step.get("rule", Rule.FENCED) in words()["zh"]["rules"]
    assert {"Truncated", "PartitionStateWritten", "RemarkKind.READ", "SendFailed"} <= said


def check(phrase: dict[str, Any], templates: dict[str, str]) -> None:
    fields = phrase.get("fields", {})
    assert fields_of(templates[phrase["key"]]) <= set(fields), phrase
    for value in fields.values():
        if isinstance(value, dict):
            check(value, templates)


def test_no_word_of_the_interface_is_left_over() -> None:
    """Each key is used by a module of the page; some are put together from a state and a prefix."""
    scripts = "".join(file.read_text("utf-8") for file in STATIC.iterdir() if file.name.endswith(".js"))
    verdicts = {f"{kind}Long" for kind in VERDICT_KINDS}
    composed = {key for key in words()["en"]["ui"] if key.startswith(COMPOSED)}
    roles = {"follower"}
    for key in set(words()["en"]["ui"]) - verdicts - composed - roles:
        assert f'"{key}"' in scripts or f"ui.{key}" in scripts, key


PARSE_ALL = """
const { readFileSync } = require("node:fs");
const { SourceTextModule } = require("node:vm");
for (const file of process.argv.slice(1)) {
  new SourceTextModule(readFileSync(file, "utf-8"), { identifier: file });
}
"""


def test_every_module_is_correct_javascript() -> None:
    """Each module parses, and imports only what is there."""
    modules = [file for file in Path(str(STATIC)).iterdir() if file.suffix == ".js"]
    names = {module.name for module in modules}
    for module in modules:
        assert set(re.findall(r'from "lab/([^"]+)"', module.read_text("utf-8"))) <= names, module.name
    # One process for all of them: `node --check` takes one file at a time.
    command = [
        find(Tool.NODE),
        "--no-warnings",
        "--experimental-vm-modules",
        "-e",
        PARSE_ALL,
        *map(str, modules),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")


HEAD = "scenario x\ncluster brokers=3\ntopic t replicas=0,1,2\nproducer p\n"
MISTAKES = (
    "crsh 1",
    "crash 9",
    "crash",
    "crash 1 extra 2",
    "wait lader 1",
    "wait",
    "isolate az9",
    "deliver fetch",
    "deliver fetch 1->0 now",
    "advance soon",
    "produce nobody a",
    "cut 1 1",
    "stop-keeper 7",
    "topic t replicas=0",
)


def in_chinese(message: str) -> str:
    for form, put in words()["zh"]["errors"]:
        message = re.sub(form, re.sub(r"\$(\d)", r"\\\1", put), message, count=1)
    return message


@pytest.mark.parametrize("step", MISTAKES)
def test_mistakes_in_a_text_are_shown_in_chinese(step: str) -> None:
    """Where, what was expected, what is there. (Some of what was expected keeps its English name.)"""
    with pytest.raises(ScenarioError) as refused:
        parse(HEAD + step + "\n")
    said = in_chinese(str(refused.value))
    assert re.match(r"第 5 行第 \d+ 列：", said.removeprefix("scenario: ")), said
    assert not re.search(r"\b(line \d|expected|found|did you mean|the commands are)\b", said), said
