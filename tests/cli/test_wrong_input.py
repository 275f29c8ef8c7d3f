"""Wrong input, walked through every command: one line in our words, exit code 2, nothing left behind.

Our words: no sentence of a parser or of the library that checks values reaches a user.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calling import call, refused

from tidelog.cli import app

FOREIGN = re.compile(
    r"Input should|pydantic|validation error|Expecting|codec can't|JSONDecode|at end of document"
    r"|internal error|Parquet magic|Could not open|Traceback",
    re.IGNORECASE,
)

NUMBERS = ("N", "S", "M", "R", "P", "D", "F")
"""How help names a number. Some of them take words instead, which are checked by their commands."""


def line(*words: str | Path) -> str:
    said = refused(call(*words))
    assert not FOREIGN.search(said), said
    return said


def _numbers(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every option of every command whose help says that it takes a number."""
    for parameter in command.params:
        if parameter.param_type_name == "option" and parameter.metavar in NUMBERS:
            yield path, max(parameter.opts, key=len)
    for name, child in getattr(command, "commands", {}).items():
        yield from _numbers(child, (*path, name))


def test_no_option_answers_in_the_words_of_a_library():
    asked = 0
    for path, option in _numbers(app.command()):
        said = call(*path, option, "seven", "no-such-thing")
        assert said.code == 2, (path, option)
        assert not FOREIGN.search(said.err), said.err
        asked += "expected a whole number" in said.err or "expected a number" in said.err
    assert asked > 30


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("up --brokers x", "--brokers x: expected a whole number (see 'tidelog up --help')"),
        ("trial --seconds 0", "--seconds 0: expected 1 or more (see 'tidelog trial --help')"),
        ("lab --port 99999", "--port 99999: expected 65535 or less (see 'tidelog lab --help')"),
        ("explore --seconds inf", "--seconds inf: expected a finite number (see 'tidelog explore --help')"),
        (
            "produce t --timeout -Infinity",
            "--timeout -Infinity: expected 0.1 or more (see 'tidelog produce --help')",
        ),
        ("produce t -s ", "--key-separator is empty: give the text between key and value, such as :"),
        ("consume t --group ", "--group is empty: give the name of a group, or leave it out"),
        (
            "produce t -b ",
            "--bootstrap-servers is empty: give HOST:PORT, or leave it out for the running cluster",
        ),
        (
            "explore --operations 100000000",
            "--operations 100000000: expected 10000 or less (see 'tidelog explore --help')",
        ),
        ("sweep --master foo", "foo is no Spark master: it looks like spark://host:7077, local[2] or yarn"),
        ("sweep --replay a:1 --save /nowhere/x", "/nowhere/x: there is no directory /nowhere"),
        ("explore --seconds x", "--seconds x: expected a number (see 'tidelog explore --help')"),
        ("topics partitions t x", "N x: expected a whole number (see 'tidelog topics partitions --help')"),
    ],
)
def test_a_wrong_value_names_the_option_and_what_it_takes(words: str, message: str):
    assert line(*words.split(" ")) == message


FILES = {
    "nothing": b"",
    "json": b'{"a": [}',
    "list": b"[]",
    "null": b"null",
    "bytes": b"\xff\xfe\x00",
    "toml": b"a = [1,\n",
}
VALID = {("schedule", "list"), ("grid", "nothing"), ("history", "nothing")}
"""No faults; the usual grid; a history without operations."""
READERS = {
    "schedule": "trial --no-audit --evidence out --schedule FILE",
    "replay": "replay FILE",
    "scenario": "scenario run ./FILE",
    "grid": "sweep --out out FILE",
    "history": "evidence import-jepsen FILE out",
    "dump": "dump FILE",
}


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_file_is_one_line_that_names_it(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_bytes(content)
        if (reader, name) in VALID:
            continue
        said = line(*READERS[reader].replace("FILE", name).split())
        assert name in said
        assert not Path("out").exists()


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "kill", "targets": ["1"], "at_ms": "soon", "duration_ms": 1},
        {"kind": ["kill"], "targets": ["1"], "at_ms": 1, "duration_ms": 1},
        {"kind": "kill", "targets": 7, "at_ms": 1, "duration_ms": 1},
        {"kind": "kill"},
    ],
)
def test_a_damaged_fault_of_a_schedule(fault: dict[str, object], tmp_path: Path):
    file = tmp_path / "trial.json"
    file.write_text(json.dumps({"schedule": [fault]}))
    assert str(file) in line("trial", "--no-audit", "--evidence", tmp_path / "out", "--schedule", file)


@pytest.mark.parametrize("command", ["up", "broker"])
def test_a_damaged_properties_file(command: str, tmp_path: Path):
    file = tmp_path / "server.properties"
    for content in (b"\xff", b"log.segment.bytes=abc\n"):
        file.write_bytes(content)
        assert file.name in line(command, "--properties", file, "--data-dir", tmp_path / "data")


@pytest.mark.parametrize("command", ["evidence show", "evidence recover", "audit --engine local"])
@pytest.mark.parametrize("content", [b"", b'{"a": [}', b"[]", b"null", b"\xff", b'{"version": "x"}'])
def test_a_damaged_manifest(command: str, content: bytes, tmp_path: Path):
    (tmp_path / "trial.json").write_bytes(content)
    assert "trial.json" in line(*command.split(), tmp_path)
