"""`tidelog doctor`: what is missing is named, with its cost and a way to get it."""

import socket
import webbrowser
from pathlib import Path

import pytest
from tests.cli.calling import call

from tidelog.cli import checks


def test_what_is_missing_is_named_with_its_cost_and_a_remedy(tmp_path: Path):
    """Without any program on PATH there is no npm and no `ip`."""
    answer = call("doctor", PATH=str(tmp_path))
    assert answer.code == 1
    lines = answer.lines
    npm = next(number for number, line in enumerate(lines) if line.startswith("not ok   npm "))
    assert "without it: tidelog lab --site and --with-python are not possible" in lines[npm + 1]
    assert "to get it: apt-get install npm" in lines[npm + 2]
    assert any(line.startswith("not ok   network namespaces") for line in lines)
    assert any(line.startswith("ok       tidelog[spark]") for line in lines)


def test_json_has_the_same_checks(tmp_path: Path):
    answer = call("doctor", "--json", PATH=str(tmp_path))
    found = {check["name"]: check for check in answer.json}
    assert not found["npm"]["fine"]
    assert found["npm"]["helps"] == "apt-get install npm"
    assert {"Java", "disk", "browser", "open files", "ports of brokers", "port of the lab"} <= set(found)
    assert all(check["costs"] and check["helps"] for check in found.values())


def test_a_port_that_is_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        check = checks.ports("p", (port,), "costs", "helps")
        assert (check.fine, check.found) == (False, f"in use: {port}")


def test_a_folder_with_room_is_fine_and_its_room_is_named(tmp_path: Path):
    assert f"GB free in {tmp_path}" in checks.disk(tmp_path).found


def test_a_browser_without_a_display_is_not_to_be_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Over ssh there is a browser that nothing can open; the remedy is not apt-get."""
    chromium = tmp_path / "chromium"
    chromium.write_text("#!/bin/sh\n")
    chromium.chmod(0o755)

    def none() -> None:
        raise webbrowser.Error

    monkeypatch.setattr(webbrowser, "get", none)
    monkeypatch.setenv("PATH", str(tmp_path))
    check = next(check for check in checks.all_checks() if check.name == "browser")
    assert check.found == f"{chromium} is here, but this terminal has no display"
    assert check.helps.startswith("ssh -L 8484:")
