"""The exported file: small, whole, and alive without a server."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.cli.calling import COMMAND, call, refused
from tests.web.browsing import Opened
from tests.web.site_server import needs_pyodide

from tidelog.lab.play import run
from tidelog.scenario import catalogue
from tidelog.scenario.scenario import parse

BYTES_MAX = 600_000


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("export") / "lab.html"
    answer = call("lab", "--export", file)
    assert answer.code == 0
    assert f"{len(catalogue.names())} scenarios" in answer.out
    return file


def test_the_whole_catalogue_fits(exported: Path) -> None:
    """All scenarios under two generations take less than 600 KB, and nothing is loaded from elsewhere."""
    html = exported.read_text("utf-8")
    assert exported.stat().st_size < BYTES_MAX
    assert "/static/" not in html
    assert 'src="http' not in html


@pytest.mark.slow
def test_it_plays_from_a_disk(browser: Any, exported: Path) -> None:
    """Opened as a file, it lists the catalogue, steps, compares and speaks Chinese, without a network."""
    opened = Opened(browser, exported.as_uri(), offline=True)
    page = opened.go()
    assert page.locator(".card code").all_inner_texts() == catalogue.names()
    page.locator(".start").get_by_role("link", name="Compare with today's rules").click()
    page.wait_for_selector(".pane >> nth=1")
    assert page.evaluate("lab.stage.partsAt") == 18
    page.keyboard.press("End")
    page.wait_for_selector('.chip.lost[data-value="c"]')
    page.get_by_role("button", name="中文").click()
    assert page.locator(".ledger h2").first.inner_text() == "生产者得到的答复"
    opened.close()


@pytest.mark.slow
def test_what_needs_the_simulator_says_what_to_run(browser: Any, exported: Path) -> None:
    """A fork in the exported file is answered with the command that can do it."""
    opened = Opened(browser, exported.as_uri(), offline=True)
    page = opened.go("#/s/hw-loss?g=hw&step=3")
    page.locator("g.broker").first.click()
    assert "tidelog lab" in page.locator(".popover").inner_text()
    assert page.locator("#bar").get_by_role("link", name="Make your own").count() == 0
    opened.close()


@pytest.mark.slow
def test_a_file_with_python_can_be_changed(browser: Any, tmp_path: Path) -> None:
    """Opened from a disk, without a network: a fork is played there, and its link opens in the file."""
    needs_pyodide()
    file = tmp_path / "alive.html"
    assert call("lab", "hw-loss", "--export", file, "--with-python").code == 0
    opened = Opened(browser, file.as_uri(), offline=True)
    page = opened.go("#/s/hw-loss?g=hw&step=19")
    opened.until("lab.python.phase === 'ready'", PATIENCE_SECONDS)
    page.locator("g.broker").nth(0).click()
    page.get_by_text("Wake it up").click()
    opened.until("lab.stage.step === 20")
    lost = page.evaluate("lab.stage.recording.verdict.lost.map((found) => found.value)")
    text = page.evaluate("lab.stage.fileText()")
    assert [finding["value"] for finding in run(parse(text)).verdict.lost] == lost
    link = page.evaluate("import('lab/links.js').then(({ shareLink }) => shareLink(lab.stage))")
    assert link.startswith(file.as_uri() + "#/p/")
    page.evaluate("(link) => lab.open(link)", link[len(file.as_uri()) :])
    assert page.evaluate("[lab.stage.step, lab.stage.fileText()]") == [20, text]
    opened.close()


def test_a_choice_of_scenarios(tmp_path: Path) -> None:
    """--scenario takes names and files; a file of one's own is in it too."""
    own = tmp_path / "own.scenario"
    own.write_text(catalogue.text("acks-1-loss").replace("acks-1-loss", "my-loss", 1), "utf-8")
    file = tmp_path / "two.html"
    answer = call("lab", "--export", file, "--scenario", "hw-loss", "--scenario", own)
    assert "2 scenarios" in answer.out
    assert file.stat().st_size < 320_000


def test_an_export_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """A folder that does not exist and a scenario that does not: one line each."""
    nowhere = tmp_path / "no" / "lab.html"
    assert "no such file or directory" in refused(call("lab", "hw-loss", "--export", nowhere))
    assert "did you mean hw-loss" in refused(
        call("lab", "--export", tmp_path / "x.html", "--scenario", "hw-los")
    )


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """What was there stays whole, and nothing else is left. (A limit on the size of files stands for it.)"""
    path = tmp_path / "lab.html"
    path.write_text("of yesterday", "utf-8")
    command = [
        "bash",
        "-c",
        # Python would leave half a file of bytecode behind, and fail to read it.
        'ulimit -f 8; PYTHONDONTWRITEBYTECODE=1 exec "$@"',
        "bash",
        *COMMAND,
        "lab",
        "hw-loss",
        "--export",
        str(path),
    ]
    found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == f"tidelog: {path}: file too large\n"
    assert [each.name for each in tmp_path.iterdir()] == ["lab.html"]
    assert path.read_text("utf-8") == "of yesterday"
