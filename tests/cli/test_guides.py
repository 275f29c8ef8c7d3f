"""What the README and the guides show of the lab is what the commands print: every `console` block, run.

A line `…` stands for any lines, and `…` inside a line for anything. Scenario files that a page shows are
saved under their names first, as the page tells its reader to do.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.cli.calling import call, environment

from tidelog.cli.show.trial_progress import _WORDS

ROOT = Path(__file__).parents[2]

_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```(scenario|console|clojure)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LAB = re.compile(r"tidelog (scenario|explore|replay) |tidelog audit (sim-hw-loss|from-jepsen)$")
_IN_A_SHELL = re.compile(r"[|>;']|^(?!tidelog )")
_FILE = re.compile(r"\.(scenario|txt|edn)\b")
_FOLDER = re.compile(r" --evidence |^tidelog audit ")
_HISTORY = "history.edn"
_LONG = re.compile(r"exhaustive|--schedules 2000")


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a page and what it says they print, its scenario files being written on the way."""
    for kind, content in _BLOCK.findall((ROOT / page).read_text("utf-8")):
        if kind == "scenario" and (named := re.search(r"^scenario (\S+)", content, re.MULTILINE)):
            Path(f"{named[1]}.scenario").write_text(content, "utf-8")
        if kind == "clojure":
            Path(_HISTORY).write_text(content, "utf-8")
        if kind == "console":
            for one in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
                command, *shown = one.splitlines()
                if "  # " in command and not shown:
                    continue  # says what it does, and not what it prints
                if _LAB.match(command) or _FILE.search(command):
                    yield command, shown


def printed(command: str) -> list[str]:
    again = _FILE.search(command) or _FOLDER.search(command)
    return _run(command) if again else _run_once(command)


def _run(command: str) -> list[str]:
    if command.startswith("tidelog audit "):  # both engines print the same, and this one is there at once
        return call(*command.split()[1:], "--engine", "local").out.splitlines()
    if not _IN_A_SHELL.search(command):
        answer = call(*command.split()[1:])
        return (answer.out + answer.err).splitlines()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment(PATH=path), check=False
    )
    return (done.stdout + done.stderr).splitlines()


# Several pages show parts of the same output; without files it is the same each time.
_run_once = cache(_run)


def pattern(shown: list[str]) -> str:
    lines = [r"(.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in shown]
    return "".join(lines)


@pytest.mark.parametrize(
    ("page", "long", "least"),
    [
        ("README.md", False, 2),
        ("README.zh-CN.md", False, 2),
        ("docs/guide/start.md", False, 3),
        ("docs/zh/index.md", False, 2),
        ("docs/guide/lab.md", False, 10),
        pytest.param("docs/guide/lab.md", True, 3, marks=pytest.mark.long),
        ("docs/guide/questions.md", False, 3),
        ("docs/guide/audit.md", False, 4),
        ("docs/zh/lab.md", False, 6),
    ],
)
def test_a_page_shows_what_its_commands_print(
    page: str, long: bool, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    ran = 0
    for command, shown in commands(page):
        if bool(_LONG.search(command)) == long:
            ran += 1
            lines = printed(command)
            found = re.fullmatch(pattern(shown), "".join(f"{line}\n" for line in lines))
            assert found, f"{page} does not show what this prints: {command}\n" + "\n".join(lines)
    assert ran >= least


@pytest.mark.parametrize("number", range(2))
def test_the_python_of_the_lab_runs(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The examples assert what they show."""
    examples = _PYTHON.findall((ROOT / "docs/guide/lab.md").read_text("utf-8"))
    assert len(examples) == 2
    exec(compile(examples[number], "lab.md", "exec"), {})


def shown_of(page: str, command: str) -> list[str]:
    """What a page says a command prints."""
    text = (ROOT / page).read_text("utf-8")
    [block] = re.findall(rf"^\$ {re.escape(command)}\n(.*?)^(?:\$|```)", text, re.MULTILINE | re.DOTALL)
    return str(block).splitlines()


@pytest.mark.parametrize("page", ["docs/guide/start.md", "docs/zh/trials.md"])
def test_a_recorded_trial_is_the_same_on_every_page(page: str) -> None:
    """It takes minutes and is never the same twice, so one record of it is shown, and parts of that."""
    command = "tidelog trial --seed 7 --evidence trial-1"
    whole = "".join(f"{line}\n" for line in shown_of("docs/guide/trials.md", command))
    assert re.fullmatch(pattern([*shown_of(page, command), "…"]), whole)


def test_the_recorded_trial_names_the_phases_of_today() -> None:
    """Every line of progress is one that a trial prints."""
    shown = shown_of("docs/guide/trials.md", "tidelog trial --seed 7 --evidence trial-1")
    progress = [line for line in shown[: shown.index("drawing the report") + 1] if not line.startswith(" ")]
    titles = tuple(_WORDS.values())
    assert [line for line in progress if not line.startswith(titles)] == []
