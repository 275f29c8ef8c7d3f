"""The command as a whole: help, version, errors, pipes, and the same output in every process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.cli.calling import COMMAND, call, environment, refused, spawn

import tidelog
from tidelog.cli import app
from tidelog.cli.app import ROWS
from tidelog.core.generations import GENERATIONS


def test_version():
    assert call("--version").out == f"tidelog {tidelog.__version__}\n"


def test_help_has_a_line_for_every_command_and_an_example():
    answer = call("--help")
    assert answer.code == 0
    for row in ROWS:
        assert any(line.startswith(f"  {row.name} ") for line in answer.lines)
    assert "tidelog scenario run hw-loss" in answer.out
    assert max(map(len, answer.lines)) <= 80


@pytest.mark.parametrize(
    "command",
    [
        *("scenario list", "scenario show", "scenario run", "scenario compare", "down", "keeper"),
        *(
            "topics list",
            "topics describe",
            "topics create",
            "topics alter",
            "topics partitions",
            "topics delete",
        ),
    ],
)
def test_help_of_a_command_has_an_example(command: str):
    answer = call(*command.split(), "--help")
    assert answer.code == 0
    assert f"Example: tidelog {command}" in answer.out


def _tree(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from _tree(child, (*path, name))


def test_the_list_of_commands_says_what_each_says_of_itself():
    """The list is a table, because `--help` would import every command otherwise."""
    made = app.command().commands
    assert [(row.name, row.summary) for row in ROWS] == [
        (name, each.get_short_help_str()) for name, each in made.items()
    ]


def test_every_command_has_short_help_that_is_whole_and_fits():
    """`-h` as `--help`; no summary ends in dots; options of the same kind are together."""
    for path in _tree(app.command()):
        answer = call(*path, "-h")
        assert answer.code == 0
        assert answer.out == call(*path, "--help").out
        described = answer.out.partition("Examples:")[0].splitlines()
        assert not [line for line in described if line.endswith("...") and not line.startswith("Usage")]
    narrow = " ".join(call("-h", columns=50).out.split())
    assert "Show the brokers of a running cluster" in narrow
    assert "..." not in narrow.partition("Options:")[2]
    trial = [line for line in call("trial", "-h").lines if line.endswith(":") and line[0] != " "]
    assert trial == ["Load:", "Cluster and topic:", "Faults:", "Output:", "Streaming job:", "Options:"]


def test_help_names_every_generation():
    """Help is written by hand, so that it need not load the rules."""
    for command in ("scenario run", "explore", "replay", "up"):
        out = call(*command.split(), "--help").out
        assert all(generation in out for generation in GENERATIONS)


def test_help_loads_neither_the_lab_nor_brokers_nor_rich():
    """Which is what makes it quick."""
    program = (
        "import sys; from tidelog.cli import main; main(['explore', '--help']); main(['up', '--help']);"
        "main(['dump', '--help']); main(['topics', 'create', '--help']); main(['--help']);"
        "heavy = ('rich.console', 'tidelog.lab', 'tidelog.core.broker', 'tidelog.broker', 'tidelog.wire');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
        timeout=PATIENCE_SECONDS,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_no_command_is_answered_with_help():
    answer = call()
    assert answer.code == 2
    assert answer.out == call("--help").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("scnario", "unknown command 'scnario': did you mean scenario?"),
        ("zzz", "unknown command 'zzz': tidelog --help lists them all"),
        ("scenario", "which command: list, show, run or compare? (see 'tidelog scenario --help')"),
        ("scenario rum hw-loss", "unknown command 'rum': did you mean run?"),
        ("scenario run", "NAME is missing (see 'tidelog scenario run --help')"),
        ("scenario run hw-loss --jsn", "unknown option '--jsn': did you mean --json"),
        ("scenario run hw-loss -x", "unknown option '-x': tidelog scenario run --help lists them all"),
        ("scenario run hw-loss --stage", "--stage: its value is missing"),
        ("scenario list extra", "one argument too many: extra (see 'tidelog scenario list --help')"),
        ("scenario list extra more", "too many arguments: extra more"),
        ("replay", "FILE is missing"),
    ],
)
def test_wrong_usage_is_one_line_that_helps(words: str, message: str):
    """In our words: what is wrong comes first, and what to do after it."""
    assert refused(call(*words.split())).startswith(message)


def test_help_says_limits_and_arguments_as_people_do():
    """No types, no `x>=1`, no brackets within brackets."""
    trial, kill = call("trial", "--help").out, call("kill", "--help").out
    assert "[default: 10000; 0.1 or more]" in " ".join(trial.split())
    assert "[default: 6; 1 to 500]" in " ".join(trial.split())
    assert "[default: 127.0.0.1]" in " ".join(call("lab", "--help").out.split()), "no number"
    assert kill.startswith("Usage: tidelog kill [OPTIONS] [BROKER…]\n")
    assert "  [BROKER…]  Broker ids, or all." in kill
    assert "  TOPIC  Topic name.  [required]" in call("topics", "reassign", "--help").out, "of a group, too"


def test_an_internal_error_is_one_line(loss: Path, monkeypatch: pytest.MonkeyPatch):
    """A fault of ours is no traceback for the user, unless asked for."""

    def fail(_scenario: object) -> None:
        raise RuntimeError("something\nimpossible")

    monkeypatch.setattr("tidelog.lab.play.run", fail)
    message = refused(call("replay", loss))
    assert message == (
        "internal error: RuntimeError: something impossible (set TIDELOG_DEBUG=1 for the traceback)"
    )
    with pytest.raises(RuntimeError):
        call("replay", loss, TIDELOG_DEBUG="1")


@pytest.mark.parametrize(
    "words",
    [
        "scenario run hw-loss -g hw",
        "scenario compare hw-loss",
        "replay LOSS",
        "explore --acks 0 --seed 1 --schedules 20 --operations 6",
    ],
)
def test_two_processes_print_the_same_bytes(words: str, loss: Path):
    """Whatever the seed of Python's hashes."""
    arguments = [str(loss) if word == "LOSS" else word for word in words.split()]
    one = spawn(*arguments, PYTHONHASHSEED="1")
    two = spawn(*arguments, PYTHONHASHSEED="2")
    assert one == two
    assert one.err == ""
    assert one.out == call(*arguments).out


def test_a_reader_that_goes_away_is_no_error():
    """``| head`` ends the command quietly."""
    for words in ("scenario run hw-loss", "scenario show hw-loss"):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [*COMMAND, *words.split()],
            stdout=writer,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        os.close(writer)
        assert done.stderr == b""


def test_a_full_disk_is_one_line():
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "scenario", "show", "hw-loss"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"no space left" in done.stderr


def test_colour_changes_no_text(loss: Path):
    """With colour and without, the same is said."""
    from rich.text import Text

    coloured = call("scenario", "run", loss, FORCE_COLOR="1", TERM="xterm-256color")
    assert "\x1b[" in coloured.out
    assert Text.from_ansi(coloured.out).plain.rstrip() == call("scenario", "run", loss).out.rstrip()
    assert "\x1b[" not in call("scenario", "run", loss, FORCE_COLOR="1", TERM="dumb").out
