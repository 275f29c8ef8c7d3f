"""Tests that need a program which is not on this machine: skipped one by one, and named together at the end.

With CI=true in the environment they make the run fail: a machine that checks every change must not leave
something out because a download failed one day.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import NoReturn

import pytest
from bench.tools import Missing, Tool, advice

PROPERTY = "missing tool"
"""How a process that runs tests tells the one that reports on them."""


class MissingTools:
    """A pytest plugin, in every process of a run."""

    def __init__(self) -> None:
        self._skipped: dict[Tool, set[str]] = {}

    # ------------------------------------------------------------ where tests run

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        try:
            return (yield)
        except Missing as missing:
            _skip(item, missing)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        try:
            return (yield)
        except Missing as missing:
            _skip(item, missing)

    # ------------------------------------------------------------ where they are reported

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == PROPERTY:
                self._skipped.setdefault(Tool[str(value)], set()).add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._skipped and in_ci() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> Generator[None, object, object]:
        """After everything else: only the counts come later."""
        result = yield
        if self._skipped:
            terminalreporter.write_line(summary(self._skipped), red=in_ci(), yellow=not in_ci(), bold=True)
        return result


def _skip(item: pytest.Item, missing: Missing) -> NoReturn:
    item.user_properties.append((PROPERTY, missing.tool.name))
    pytest.skip(str(missing))


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true")


def summary(skipped: dict[Tool, set[str]]) -> str:
    """In one line: what was not tested, and what helps."""
    parts = [f"{tool.subject} ({len(skipped[tool])}: no {tool.title})" for tool in Tool if tool in skipped]
    failed = ", which CI=true does not allow" if in_ci() else ""
    return f"NOT TESTED{failed}: {'; '.join(parts)}. To test it: {advice(skipped)}; then `make tools test`."
