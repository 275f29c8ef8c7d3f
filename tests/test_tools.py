"""The programs that tests need: how they are found, and what a run says when they are not there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import jars, tools
from bench.processes import PATIENCE_SECONDS
from bench.tools import Missing, Tool, advice, find

ROOT = Path(__file__).resolve().parent.parent
NEEDY = """
    import pytest
    from bench.tools import Missing, Tool
    from tests.missing_tools import MissingTools

    @pytest.fixture
    def page():
        raise Missing(Tool.BROWSER)

    def test_in_its_fixture(page): ...

    def test_in_its_body():
        raise Missing(Tool.KCAT)

    def test_of_nothing_special(): ...
"""


def program(path: Path, exit_code: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nexit {exit_code}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine without programs: the folder that is its whole PATH. (What is at fixed places stays.)"""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PLAYWRIGHT_BROWSERS_PATH", raising=False)
    monkeypatch.setattr(tools, "_BROWSER_PLACES", ())
    find.cache_clear()
    yield tmp_path
    find.cache_clear()


@pytest.mark.parametrize(
    "name",
    [
        *("bin/chromium", "bin/chromium-browser", "bin/google-chrome", "bin/microsoft-edge-stable"),
        ".cache/ms-playwright/chromium-1200/chrome-linux64/chrome",
        ".cache/ms-playwright/chromium_headless_shell-1200/chrome-headless-shell-linux64/chrome-headless-shell",
        "Library/Caches/ms-playwright/chromium-1200/chrome-mac/Chromium.app/Contents/MacOS/Chromium",
    ],
)
def test_a_browser_is_found_by_its_usual_names(bare: Path, name: str) -> None:
    """On the path, or where Playwright keeps its own; a program that does not run is passed over."""
    program(bare / "bin" / "chrome", exit_code=1)
    with pytest.raises(Missing):
        find(Tool.BROWSER)
    browser = program(bare / name)
    assert find(Tool.BROWSER) == str(browser)


def test_maven_is_of_use_with_a_compiler_only(bare: Path) -> None:
    maven = program(bare / "bin" / "mvn")
    with pytest.raises(Missing, match="Maven with a JDK not found: install Maven with a JDK"):
        find(Tool.MAVEN)
    program(bare / "bin" / "javac")
    assert find(Tool.MAVEN) == str(maven)


def test_advice_is_a_command_where_there_is_one(bare: Path) -> None:
    assert advice([Tool.BROWSER, Tool.KCAT]) == "install Chromium, Chrome or Edge, kcat"
    program(bare / "bin" / "apt-get")
    assert advice([Tool.BROWSER, Tool.KCAT]) == "as root: apt-get install chromium kcat"


# ---------------------------------------------------------------- at the end of a run


@pytest.mark.parametrize(("ci", "workers", "code"), [("", "1", 0), ("true", "0", 1)])
def test_a_run_ends_with_what_was_not_tested(tmp_path: Path, ci: str, workers: str, code: int) -> None:
    """In one line, next to last, with the command that helps; in CI the run fails."""
    register = (
        'def pytest_configure(config):\n    config.pluginmanager.register(MissingTools(), "missing tools")'
    )
    (tmp_path / "conftest.py").write_text(f"from tests.missing_tools import MissingTools\n\n{register}\n")
    (tmp_path / "test_needy.py").write_text(NEEDY.replace("\n    ", "\n"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", workers, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    *_, line, counts = done.stdout.splitlines()
    assert done.returncode == code, done.stdout
    assert "1 passed, 2 skipped" in counts
    assert line.startswith("NOT TESTED, which CI=true does not allow: " if ci else "NOT TESTED: ")
    assert "the pages in a browser (1: no Chromium, Chrome or Edge); kcat as a client (1: no kcat)." in line
    assert line.endswith(f"To test it: {advice([Tool.BROWSER, Tool.KCAT])}; then `make tools test`.")


# ---------------------------------------------------------------- what is made once


def test_what_several_want_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for it, and never see half of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    seen: list[str] = []
    made: list[Path] = []
    together = threading.Barrier(4)

    def make(folder: Path) -> None:
        made.append(folder)
        folder.mkdir()
        (folder / "jar").write_text("whole")

    def want() -> None:
        together.wait(PATIENCE_SECONDS)
        seen.append((jars.cached("jars/some", make) / "jar").read_text())

    wanting = [threading.Thread(target=want) for _ in range(4)]
    for thread in wanting:
        thread.start()
    for thread in wanting:
        thread.join()
    assert len(made) == 1
    assert seen == ["whole"] * 4


def test_what_cannot_be_made_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A download that fails takes its time: every test that wants it would wait that long."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jars, "_in_vain", {})
    tried: list[Path] = []

    def fail(folder: Path) -> None:
        tried.append(folder)
        raise Missing(Tool.MAVEN, "mvn failed: no network")

    for _ in range(2):
        with pytest.raises(Missing, match="no network"):
            jars.cached("jars/none", fail)
    assert len(tried) == 1
    assert not (tmp_path / "tidelog" / "jars" / "none").exists()
