"""Runs of pytest inside a test, with tidelog's plugin."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

PLUGIN = "tidelog.testing.plugin"


def without_entry_point() -> list[str]:
    """The plugin by its module, if this installation is older than its entry point."""
    return [] if entry_points(group="pytest11", name="tidelog") else [PLUGIN]


def run(pytester: pytest.Pytester, source: str, *arguments: str, timeout: float = 300) -> pytest.RunResult:
    """What becomes of a file of tests, in a process of its own."""
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess(*plugged(), *arguments, timeout=timeout)


def plugged() -> list[str]:
    """Arguments of pytest."""
    return [word for plugin in without_entry_point() for word in ("-p", plugin)]
