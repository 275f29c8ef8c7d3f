"""Both languages say everything: no text of the catalogue, no event, no message is left untranslated."""

import json
import re
import subprocess
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from bench.tools import Tool, find

from tidelog.core.generations import GENERATIONS
from tidelog.lab.commands import Commands
from tidelog.lab.grammar import CONDITIONS
from tidelog.lab.network import CHANNEL_NAMES
from tidelog.lab.runner import run
from tidelog.lab.scenario import VERDICT_KINDS, Scenario
from tidelog.narrate.clients import remark_words
from tidelog.narrate.events import NARRATED
from tidelog.trials import catalogue
from tidelog.web.recording import event_json
from tidelog.web.shelf import leads
from tidelog.web.travels import KINDS

STATIC = files("tidelog.web") / "static"
ELECTIONS = ("hw-loss-chain", "isolate-leader-zone", "kip-966-last-replica-standing")
"""Scenarios in which a majority elects."""
CHINESE = re.compile(r"[\u4e00-\u9fff]")


@cache
def words() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((STATIC / "words.json").read_text("utf-8"))
    return found


@cache
def scenarios() -> list[Scenario]:
    return [catalogue.load(name) for name in catalogue.names()]


def test_every_text_of_the_catalogue_has_its_chinese() -> None:
    """Titles, leads, group titles, summaries of generations, and every comment of every scenario."""
    wanted = [group.title for group in catalogue.groups()]
    wanted += [generation.summary for generation in GENERATIONS.values()]
    for scenario in scenarios():
        wanted += [scenario.title, leads()[scenario.name]]
        wanted += [step.comment for step in scenario.steps if step.comment]
    texts = words()["zh"]["texts"]
    assert [text for text in wanted if not CHINESE.search(texts.get(text, ""))] == []
    assert set(texts) <= {*wanted, "More"}, "a translation of a text that is not there any more"


def test_both_languages_have_the_same_words() -> None:
    """The interface, messages, commands and conditions: the same keys, the same fields."""
    english, chinese = words()["en"], words()["zh"]
    for part in ("ui", "channels", "messages", "verbs", "conditions"):
        assert set(english[part]) == set(chinese[part]), part
        for key, text in english[part].items():
            fields = set(re.findall(r"\{(\w+)\}", text))
            assert set(re.findall(r"\{(\w+)\}", chinese[part][key])) == fields, f"{part}.{key}"
    for part in ("rules", "glossary"):
        assert len(english[part]) == len(chinese[part])
    assert all(CHINESE.search(rule["title"] + rule["text"]) for rule in chinese["rules"])


def test_everything_that_can_happen_has_words() -> None:
    """Every event, message, channel, command and condition there is."""
    assert {event.__name__ for event in NARRATED} == set(words()["zh"]["events"])
    for language in ("en", "zh"):
        spoken = words()[language]
        assert set(KINDS) <= set(spoken["messages"])
        assert set(spoken["channels"]) == set(CHANNEL_NAMES)
        assert set(CONDITIONS) <= set(spoken["conditions"])
        verbs = re.findall(
            r'"([a-z-]+)": (?:self|lambda)', Path(Commands.__init__.__code__.co_filename).read_text()
        )
        assert set(verbs) <= set(spoken["verbs"])


def test_what_the_catalogue_says_of_reasons_and_remarks_is_known() -> None:
    """Each reason an event gives, each remark a step makes, in all runs of the catalogue, has its Chinese."""
    chinese = words()["zh"]
    unknown = set()
    for scenario in scenarios():
        for generation in ("hw", "majority") if scenario.name in ELECTIONS else ("hw", "epoch"):
            for step in run(scenario.under(generation)).played:
                events = [event_json(at, event) for at, event in step.events]
                said = [event.get(field, "") for event in events for field in ("reason", "told")]
                unknown |= {text for text in said if not is_known(text, chinese["reasons"])}
                remarks = remark_words(step.remarks).split("; ")
                unknown |= {remark for remark in remarks if not is_known(remark, chinese["remarks"])}
    assert unknown == set()


def is_known(text: str, patterns: list[list[str]]) -> bool:
    """Error codes are the same in every language."""
    fits = any(re.fullmatch(pattern, text) for pattern, _ in patterns)
    return fits or re.fullmatch(r"|[A-Z_]+ \(\d+\)", text) is not None


def test_no_word_of_the_interface_is_left_over() -> None:
    """Each key is used by a module of the page; some are put together from a state and a prefix."""
    scripts = "".join(file.read_text("utf-8") for file in STATIC.iterdir() if file.name.endswith(".js"))
    verdicts = {f"{kind}Long" for kind in VERDICT_KINDS}
    composed = {
        key for key in words()["en"]["ui"] if key.startswith(("told_", "toldLong_", "theme", "one_", "many_"))
    }
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
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
