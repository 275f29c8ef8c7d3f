"""Disks that fail a broker: one that cannot sync ends it, one that is full does not."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from bench.tools import Tool, find
from tests.broker.running import eventually, known_at, properties, serving_port, started
from tests.clients import raw

from tidelog.wire.errors import ErrorCode

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def keeper() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tidelog.cli", "keeper", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield process.stdout.readline().split()[1]
    process.terminate()
    process.wait(60)
    process.stdout.close()


def broker_file(tmp_path: Path, keeper: str, **settings: str | int) -> Path:
    values: dict[str, str | int | Path] = {
        "broker.id": 1,
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": tmp_path / "logs",
        "tidelog.keeper": keeper,
        "zookeeper.session.timeout.ms": 1000,
    }
    values |= {name.replace("_", "."): value for name, value in settings.items()}
    return properties(tmp_path / "broker.properties", values)


def create(where: tuple[str, int], topic: str) -> None:
    def led() -> bool:
        with raw.Connection(where) as asking:
            asking.ask(raw.METADATA, raw.METADATA_VERSION, raw.metadata_body(topic, may_create=True))
        return any(part.leader >= 0 for part in known_at(where, topic))

    eventually(led, "the topic is there")


def write_until_refused(where: tuple[str, int], topic: str, value: bytes = b"x") -> tuple[int, int | None]:
    """Send records one by one; returns how many were acknowledged, and the error that ended it: none if the
    broker hung up."""
    acknowledged = 0
    with raw.Connection(where) as connection, suppress(raw.Closed):
        for _ in count():
            body = raw.produce_body(topic, raw.batch([value]), acks=1)
            produced = raw.produced(connection.ask(raw.PRODUCE, raw.PRODUCE_VERSION, body))
            if produced.error != raw.NONE:
                return acknowledged, produced.error
            acknowledged += 1
    return acknowledged, None


def read(where: tuple[str, int], topic: str) -> raw.Fetched | None:
    with raw.Connection(where) as connection:
        body = raw.fetch_body(topic, 0)
        fetched = raw.fetched(connection.ask(raw.FETCH, raw.FETCH_VERSION, body))
    return fetched if fetched.error == raw.NONE else None


def said_by(process: subprocess.Popen[str]) -> list[str]:
    """Everything that a process which has ended had logged."""
    assert process.stderr is not None
    said = process.stderr.read().splitlines()
    assert not any(line.startswith("Traceback") for line in said), said
    return said


@pytest.mark.parametrize("flush", ["always", "interval", "roll"])
def test_a_disk_that_cannot_sync_ends_the_broker(tmp_path: Path, keeper: str, flush: str):
    """With one line and exit code 1, whenever it is that logs are synced. What was acknowledged before is
    there when the broker is started again: here only the syncs failed, and not the disk."""
    strace = find(Tool.STRACE)  # which makes fdatasync fail
    topic = f"synced-{flush}"
    file = broker_file(
        tmp_path, keeper, tidelog_flush=flush, log_flush_interval_ms=10, log_segment_bytes=2000
    )
    inject = "inject=fdatasync:error=EIO:when=4+"
    with started(file, strace, "-f", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", inject) as broken:
        where = "127.0.0.1", serving_port(broken)
        create(where, topic)
        acknowledged, error = write_until_refused(where, topic)
        assert error in (None, ErrorCode.KAFKA_STORAGE_ERROR)
        assert broken.wait(60) == 1
        critical = [line for line in said_by(broken) if " CRITICAL " in line]
    assert len(critical) == 1
    assert re.search(rf"stopping: .*/{topic}-0 failed: Input/output error; check the disk", critical[0])
    assert acknowledged > 0
    assert not (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
    with started(file) as mended:
        again = "127.0.0.1", serving_port(mended)
        fetched = eventually(lambda: read(again, topic), "it leads again")
        assert fetched is not None
        assert fetched.high_watermark >= acknowledged
        mended.send_signal(signal.SIGTERM)
        assert mended.wait(60) == 0


def test_a_disk_that_is_full_refuses_writes_and_nothing_else(tmp_path: Path, keeper: str):
    """Told in one line, however often a client tries. Files that may not grow stand for the disk."""
    file = broker_file(tmp_path, keeper)
    limited = ("sh", "-c", 'ulimit -f 1000; exec "$@"', "sh")
    with started(file, *limited) as broker:
        where = "127.0.0.1", serving_port(broker)
        create(where, "full")
        acknowledged, error = write_until_refused(where, "full", b"x" * 20_000)
        assert acknowledged > 5
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        for _ in range(3):
            assert write_until_refused(where, "full", b"x" * 20_000) == (0, ErrorCode.KAFKA_STORAGE_ERROR)
        fetched = read(where, "full")
        assert fetched is not None
        assert fetched.high_watermark == acknowledged
        create(where, "other")
        with raw.Connection(where) as connection:
            body = raw.produce_body("other", raw.batch([b"y"]), acks=1)
            produced = raw.produced(connection.ask(raw.PRODUCE, raw.PRODUCE_VERSION, body))
        assert produced == raw.Produced(raw.NONE, 0)
        broker.send_signal(signal.SIGTERM)
        broker.wait(60)
        (said,) = [line for line in said_by(broker) if " ERROR " in line]
    assert "full-0: " in said
