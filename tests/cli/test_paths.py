"""Paths are absolute from where they enter: what is handed on means the same file everywhere."""

from collections.abc import Callable, Iterator
from inspect import unwrap
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.cli.calling import call, refused
from tests.cli.clusters import READY, Up

from tidelog.cli.app import command
from tidelog.cli.paths import absolute

AS_TYPED = {"dump paths", "explore save", "lab export", "lab site", "sweep save"}
"""What is read or written at once, in this process, and printed as it was typed."""


def functions(group: Any, before: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, found in group.commands.items():
        if hasattr(found, "commands"):
            yield from functions(found, f"{before}{name} ")
        else:
            yield f"{before}{name}", unwrap(found.callback)


def is_path(hint: Any) -> bool:
    return hint is Path or any(map(is_path, get_args(hint)))


def test_every_option_that_takes_a_path_makes_it_absolute() -> None:
    relative = set()
    for name_of, function in functions(command()):
        for name, hint in get_type_hints(function, include_extras=True).items():
            if is_path(hint) and all(
                getattr(option, "callback", None) is not absolute for option in hint.__metadata__
            ):
                relative.add(f"{name_of} {name}")
    assert relative == AS_TYPED


def test_refusals_name_the_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in ("evidence show none", "evidence recover none", "audit none"):
        assert str(tmp_path / "none") in refused(call(*words.split()))


@pytest.mark.parametrize(
    "words",
    [
        "up --port 0 --data-dir {}",
        "up --port 0 --detach --data-dir {}",
        "keeper --listen 127.0.0.1:0 --data-dir {}",
        "sweep --out {}",
    ],
)
def test_a_file_in_the_place_of_a_folder_is_called_one(words: str, tmp_path: Path) -> None:
    """At once: not after a minute in which Spark starts."""
    (tmp_path / "notes.txt").touch()
    answer = call(*words.format(tmp_path / "notes.txt").split(), XDG_STATE_HOME=str(tmp_path))
    assert refused(answer).endswith(f"{tmp_path / 'notes.txt'}: this is a file, not a folder")


@pytest.mark.slow
def test_a_cluster_in_a_relative_folder_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers, the file that leads to them, and `down` from another folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with Up(tmp_path, "--brokers", "1", "--data-dir", "../there/data") as up:
        assert READY.fullmatch(up.line().rstrip("\n"))
        monkeypatch.chdir(tmp_path)
        assert up.status()["brokers"][0]["data_dir"].startswith("/")
        down = up.run("down", "--data-dir", "there/data")
        assert (down.returncode, down.stderr) == (0, "")
        assert down.stdout.startswith("stopped 1 broker in ")
        assert up.process.wait(PATIENCE_SECONDS) == 0
