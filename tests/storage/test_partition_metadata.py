"""The topic id beside a log: kept, and never misread, since a log of another topic is put aside."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.storage.batches import append, batch, read_all, values
from tests.storage.folders import TP, storage
from tests.storage.refusing import refusing

from tidelog.core.log_port import StorageFailure
from tidelog.core.types import NO_TOPIC_ID, TopicId, TopicPartition

TOPIC_ID = TopicId("XWn-aTFFSYWa3A_0rZQgCw")
NAME = "partition.metadata"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log with a record, of a topic with an id. There is another log: one at least must open."""
    path = tmp_path / "data"
    with storage(path) as opened:
        log = opened.open(TP)
        log.identify(TOPIC_ID)
        append(log, batch("a"))
        opened.open(TopicPartition("other", 0))
    return path


@pytest.mark.parametrize("ends", ["", "\n", "\r\n"])
def test_the_id_is_there_after_a_restart(data: Path, ends: str) -> None:
    """However the last line of the file ends."""
    (data / "topic-0" / NAME).write_bytes(f"version: 0\ntopic_id: {TOPIC_ID}{ends}".encode())
    with storage(data) as opened:
        assert opened.open(TP).topic_id == TOPIC_ID


@pytest.mark.parametrize("content", [b"", bytes(43)])
def test_a_file_that_a_power_cut_has_emptied_says_nothing(data: Path, content: bytes) -> None:
    (data / "topic-0" / NAME).write_bytes(content)
    with storage(data) as opened:
        log = opened.open(TP)
        assert (log.topic_id, values(read_all(log))) == (NO_TOPIC_ID, [(0, "a")])


@pytest.mark.parametrize(
    "content",
    [
        b"version: 0\n",
        b"version: 0\ntopic_id: XWn-aTFFSYWa3\n",
        b"topic_id: XWn-aTFFSYWa3A_0rZQgCw0\n",
        b"\xff" * 43,
    ],
)
def test_a_damaged_file_keeps_its_log_closed(data: Path, content: bytes) -> None:
    """No id is guessed, since a log of another topic is put aside. Without the file it is opened."""
    path = data / "topic-0" / NAME
    path.write_bytes(content)
    with storage(data) as opened:
        with pytest.raises(StorageFailure, match=f"topic-0/{NAME} holds no topic id; .*remove it"):
            opened.open(TP)
        path.unlink()
        assert values(read_all(opened.open(TP))) == [(0, "a")]


def test_an_id_that_cannot_be_written_is_written_later(tmp_path: Path) -> None:
    """The failure names the file; the log does not claim to have the id."""
    with storage(tmp_path / "data") as opened:
        log = opened.open(TP)
        with refusing("open", lambda path: path.name == NAME), pytest.raises(StorageFailure, match=NAME):
            log.identify(TOPIC_ID)
        assert log.topic_id == NO_TOPIC_ID
        log.identify(TOPIC_ID)
    with storage(tmp_path / "data") as opened:
        assert opened.open(TP).topic_id == TOPIC_ID
