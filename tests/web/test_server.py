"""The page's server: what it serves, whom, and how it ends."""

import base64
import http.client
import json
import signal
import socket
import subprocess
import time
import zlib
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.cli.calling import COMMAND, call, refused

from tidelog.lab.play import run
from tidelog.lab.search.futures import FutureOptions, futures
from tidelog.scenario import catalogue
from tidelog.scenario.scenario import parse
from tidelog.web.play.questions import ask as ask_python
from tidelog.web.policy import content_security_policy
from tidelog.web.server import BODY_BYTES_MAX, SEARCHES_AT_ONCE


def ask(
    address: str, path: str, *, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    to = urlsplit(address)
    connection = http.client.HTTPConnection(to.hostname or "", to.port, timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def play(address: str, **asked: Any) -> tuple[int, dict[str, Any]]:
    status, _, body = ask(address, "/api/play", method="POST", body=json.dumps(asked).encode())
    return status, json.loads(body)


def test_the_page_and_its_files_are_served(address: str) -> None:
    """Every file of the page is served with its type, and nothing beside them."""
    status, headers, body = ask(address, "/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b'<main id="main"' in body
    for file in (files("tidelog.web") / "static").iterdir():
        status, headers, _ = ask(address, f"/static/{file.name}")
        assert status == 200, file.name
        assert headers["x-content-type-options"] == "nosniff"
    for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/static/none.js", "/nothing"):
        assert ask(address, path)[0] == 404


def test_a_play_is_answered_and_a_bad_text_refused(address: str) -> None:
    """One question: a text gives a recording, or a line that says what is wrong."""
    status, answer = play(address, text=catalogue.text("hw-loss"), generation="hw")
    assert (status, answer["recording"]["lost_at"]) == (200, {"c": 21})
    status, answer = play(address, text="scenario x\ntopic t replicas=0\ncrsh 0\n")
    assert status == 422
    assert answer["error"].startswith("line 3, column 1: expected a command (did you mean crash?)")
    assert play(address, generation="hw")[0] == 422
    for body in (
        b"",
        b"[]",
        b"{",
        b'{"text": 5}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a": ' + b"9" * 5_000 + b"}",
        b'{"text": "scenario \\ud800"}',
        b'{"text": "x", "generation": "\\udfff"}',
        b'{"text": "\xff"}',
    ):
        assert ask(address, "/api/play", method="POST", body=body)[0] == 400, body[:40]
    too_much = b'{"text": "' + b"x" * BODY_BYTES_MAX + b'"}'
    assert ask(address, "/api/play", method="POST", body=too_much)[0] == 413


def search(address: str, **asked: Any) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    to = urlsplit(address)
    connection = http.client.HTTPConnection(to.hostname or "", to.port, timeout=PATIENCE_SECONDS)
    connection.request("POST", "/api/explore", json.dumps(asked).encode())
    return connection, connection.getresponse()


def test_a_search_is_told_line_by_line(address: str) -> None:
    """Each line says how far it is, and the last one holds a scenario that breaks the invariant it names."""
    connection, response = search(address, generation="hw", seed=70)
    replies = [json.loads(line) for line in response]
    connection.close()
    assert [reply for reply in replies[:-1] if "done" in reply] == []
    found = replies[-1]["found"]
    assert (replies[-1]["done"], found["shrunk"]) == (True, True)
    assert found["steps"] < found["steps_as_found"]
    assert found["invariant"] in {broken.name for broken in run(parse(found["text"])).broken}


def test_a_search_ends_with_its_listener(address: str) -> None:
    """Two searches may run; one whose page is gone makes room for the next."""
    endless = [search(address, schedules=100_000) for _ in range(SEARCHES_AT_ONCE)]
    for _, response in endless:
        assert json.loads(response.readline())["searched"] > 0
    connection, refusal = search(address)
    assert (refusal.status, refusal.read()[:18]) == (429, b'{"error":"other se')
    connection.close()
    for connection, response in endless:
        response.close()
        connection.close()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        connection, response = search(address, schedules=1)
        content = response.read()
        connection.close()
        if response.status == 200:
            assert json.loads(content.splitlines()[-1])["done"]
            return
        assert time.monotonic() < deadline


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"generation": "raft"}, "unknown generation 'raft'"),
        ({"schedules": 10**9}, "schedules must be a number from 1 to 100000"),
        ({"brokers": "many"}, "brokers must be a number from 1 to 9"),
        ({"acks": 5}, "unknown acks '5'"),
        ({"faults": ["fire"]}, "unknown fault 'fire'"),
        ({"faults": 1}, "faults must be a list"),
        ({"replicas": 4}, "replica"),
        ({"idempotent": True, "acks": "1"}, "an idempotent producer needs acks=all"),
        ({"text": "scenario x\ntopic t replicas=0\ncrsh 0\n"}, "line 3, column 1"),
        ({"text": "scenario x\ntopic t replicas=0\n", "step": 7}, "step must be a number from 0 to 0"),
    ],
)
def test_a_search_for_nonsense_is_refused(asked: dict[str, Any], says: str) -> None:
    """Whatever a page may ask for that cannot be searched is one line."""
    [reply] = ask_python(json.dumps({**asked, "ask": "explore"}))
    assert says in json.loads(reply)["error"]


def test_a_search_goes_on_from_a_story() -> None:
    """Every schedule begins with the steps of the story so far."""
    asked = {"text": catalogue.text("hw-loss"), "step": 4, "generation": "hw", "seed": 1, "schedules": 400}
    *_, last = (json.loads(reply) for reply in ask_python(json.dumps({**asked, "ask": "explore"})))
    story = catalogue.load("hw-loss")
    found = parse(last["found"]["text"])
    assert found.setup.topics == story.setup.topics
    assert found.name.startswith("found-hw-")


def test_strangers_are_turned_away(address: str) -> None:
    """A name that is not ours (DNS rebinding) and a page from elsewhere get nothing."""
    assert ask(address, "/", Host="evil.example")[0] == 421
    body = json.dumps({"text": "x"}).encode()
    host = urlsplit(address).netloc
    foreign = ask(address, "/api/play", method="POST", body=body, Host=host, Origin="http://evil.example")
    assert foreign[0] == 403
    own = ask(address, "/api/play", method="POST", body=body, Host=host, Origin=f"http://{host}")
    assert own[0] == 422


def test_the_page_may_load_nothing_from_elsewhere() -> None:
    """The policy names only the page's own origin, and its one inline script by hash."""
    policy = content_security_policy((files("tidelog.web") / "static" / "index.html").read_text("utf-8"))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert policy.count("sha256-") == 1


def test_a_busy_port_is_one_line() -> None:
    """Another process has the port: said in one line, with what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused(call("lab", "--no-browser", "--port", str(port))) == (
            f"port {port} is in use, perhaps by another tidelog lab: choose one with --port (0: a free one)"
        )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["hw-los"], "did you mean hw-loss"),
        (["none.scenario"], "there is no such file"),
        (["-g", "raft"], "unknown generation 'raft'"),
        (["--scenario", "hw-loss"], "--scenario needs --export"),
        (["--host", "256.1.1.1"], "cannot listen on 256.1.1.1"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], says: str) -> None:
    """Whatever cannot be opened is refused before anything is served."""
    assert says in refused(call("lab", "--no-browser", *arguments))


def test_a_file_is_in_the_address_that_is_printed(tmp_path: Path) -> None:
    """``tidelog lab FILE`` prints a link that holds the file, and SIGTERM ends it cleanly."""
    file = tmp_path / "found.scenario"
    file.write_text(catalogue.text("acks-1-loss"), "utf-8")
    command = [*COMMAND, "lab", str(file), "-g", "hw", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        _, _, held = process.stdout.readline().strip().partition("#/p/")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE_SECONDS) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    padded = held + "=" * (-len(held) % 4)
    opened = json.loads(zlib.decompress(base64.urlsafe_b64decode(padded), wbits=-15))
    assert opened == {"text": file.read_text("utf-8"), "generation": "hw"}


def test_the_shares_of_futures_are_told_line_by_line(address: str) -> None:
    """The last line has the shares that the simulator computes; nonsense is one line."""
    asked = {"text": catalogue.text("hw-loss"), "generation": "hw", "futures": 2}
    status, _, body = ask(address, "/api/futures", method="POST", body=json.dumps(asked).encode())
    replies = [json.loads(line) for line in body.splitlines()]
    expected = futures(catalogue.load("hw-loss").under("hw"), FutureOptions(futures=2))
    assert (status, replies[-1]["done"], replies[-1]["futures"]) == (200, True, 2)
    assert replies[-1]["shares"] == expected.shares
    assert replies[-1]["played"] == replies[-1]["of"] == 50
    for wrong, says in (
        ({"futures": 201}, "futures must be a number from 1 to 200"),
        ({"text": None}, "the request holds no text to play"),
        ({"generation": "raft"}, "unknown generation 'raft'"),
    ):
        [reply] = ask_python(json.dumps({**asked, **wrong, "ask": "futures"}))
        assert says in json.loads(reply)["error"]
