"""Schedules that a search once found to break something. They hold now, and must go on to.

A new one is added by moving the file that ``tidelog explore --save`` wrote into ``tests/found``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.lab.play import run
from tidelog.scenario.scenario import parse

FOUND = sorted((Path(__file__).resolve().parents[2] / "found").glob("*.scenario"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_a_schedule_once_found_breaks_nothing_now(path: Path) -> None:
    """Played again, it keeps every invariant, and every step finds what it needs."""
    played = run(parse(path.read_text("utf-8"), path.name))
    assert [str(broken) for broken in played.broken] == []
    assert played.verdict.lost == []
    assert not any(step.timed_out for step in played.played)
