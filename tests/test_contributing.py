"""CONTRIBUTING.md names files and targets that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def test_files_that_a_change_edits_exist():
    edited = re.findall(r"^--- a/(\S+)", PAGE, re.M)
    assert len(edited) >= 5
    assert [path for path in edited if not (ROOT / path).is_file()] == []


def test_paths_in_the_text_exist():
    named = re.findall(r"`((?:src|docs|tests)/[\w/.]+)`|\]\(([\w/.]+)(?:#[\w-]+)?\)", PAGE)
    paths = [one or other for one, other in named]
    assert len(paths) >= 6
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_targets_of_make_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"`make ([\w-]+)`", PAGE)) <= targets


def test_lines_that_a_change_replaces_are_there():
    """So that a diff whose context has moved on is noticed."""
    for path, body in re.findall(r"^--- a/(src\S+)\n((?:[-+ …].*\n)+?)(?=---|```)", PAGE, re.M):
        text = (ROOT / path).read_text()
        for line in re.findall(r"^[- ](?!-)(.*\S.*)$", body, re.M):
            assert line in text, f"{path}: {line}"
