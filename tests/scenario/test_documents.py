"""``docs/reference/documents.md``: every command that it names shows what its row says."""

import re
from functools import cache
from pathlib import Path

import pytest
from tests.cli.calling import call

from tidelog.scenario import catalogue

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/documents.md"
CODE = re.compile(r"`([^`]+)`")


def rows() -> list[tuple[str, str, list[str]]]:
    """What the document has, the command, and the pieces of its output that the row quotes."""
    found = []
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("| ") and "`tidelog " in line:
            what, command, sees = (cell.strip() for cell in line.strip("|").split(" | "))
            found.append((what, CODE.findall(command)[0], CODE.findall(sees)))
    return found


@cache
def output(command: str) -> str:
    """On a wide terminal, with runs of blanks as one."""
    answer = call(*command.split()[1:], columns=400)
    assert answer.code in (0, 1), answer.err
    return " ".join(answer.out.split())


@pytest.mark.parametrize(("what", "command", "quoted"), rows())
def test_the_command_shows_what_the_row_says(what: str, command: str, quoted: list[str]) -> None:
    """Each piece of output that the row quotes is there, and there is at least one."""
    assert quoted, what
    assert [piece for piece in quoted if " ".join(piece.split()) not in output(command)] == []


def test_every_scenario_of_the_documents_is_on_the_page() -> None:
    """A scenario whose source is one of the five documents is named, and only scenarios that exist are."""
    named = {command.split()[3] for _, command, _ in rows()}
    told = {name for name in catalogue.names() if "《" in catalogue.load(name).source}
    assert named <= set(catalogue.names())
    assert told <= named


def test_the_page_has_the_five_documents() -> None:
    """With their Chinese titles."""
    assert len(re.findall(r"^## .*《.*》$", PAGE.read_text("utf-8"), re.MULTILINE)) == 5
