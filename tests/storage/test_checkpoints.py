"""Checkpoint files: Kafka's format, whole or refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.folders import folder

from tidelog.core.replication.epoch_cache import EpochEntry
from tidelog.core.types import LeaderEpoch, TopicPartition
from tidelog.storage.checkpoints import (
    MalformedCheckpoint,
    read_epochs,
    read_offsets,
    write_epochs,
    write_offsets,
)

TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)


def test_the_format_is_kafkas(tmp_path: Path) -> None:
    """Version, count, one entry a line."""
    write_offsets(tmp_path / "offsets", {TopicPartition("a-b", 0): 12, TopicPartition("c", 3): 0})
    assert (tmp_path / "offsets").read_text() == "0\n2\na-b 0 12\nc 3 0\n"
    write_epochs(tmp_path / "epochs", [EpochEntry(LeaderEpoch(0), 0), EpochEntry(LeaderEpoch(4), 17)])
    assert (tmp_path / "epochs").read_text() == "0\n2\n0 0\n4 17\n"


def test_a_missing_checkpoint_is_empty(tmp_path: Path) -> None:
    """A new folder has none yet."""
    assert read_offsets(tmp_path / "none") == {}
    assert read_epochs(tmp_path / "none") == []


@given(st.dictionaries(st.builds(TopicPartition, TOPICS, st.integers(0, 9999)), st.integers(0, 2**63 - 1)))
def test_offsets_come_back_as_they_were_written(offsets: dict[TopicPartition, int]) -> None:
    """Any topics, any offsets."""
    with folder() as path:
        write_offsets(path / "checkpoint", offsets)
        assert read_offsets(path / "checkpoint") == offsets


def test_nothing_is_left_beside_a_checkpoint(tmp_path: Path) -> None:
    """The temporary file becomes the checkpoint itself."""
    write_offsets(tmp_path / "checkpoint", {})
    write_offsets(tmp_path / "checkpoint", {TopicPartition("t", 0): 1})
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "starts with nothing"),
        (b"1\n0\n", "starts with '1'"),
        (b"0\n", "announces no entries"),
        (b"0\nmany\n", "'many' is not a number"),
        (b"0\n2\nt 0 1\n", "announces 2 entries and has 1"),
        (b"0\n0\nt 0 1\n", "announces 0 entries and has 1"),
        (b"0\n1\nt 0\n", "'t 0' is not 'topic partition offset'"),
        (b"0\n1\nt 0 1_0\n", "'1_0' is not a number"),
        (b"0\n1\nt 0 1 2\n", "is not 'topic partition offset'"),
        (b"\xff\xfe", "is not text"),
    ],
)
def test_what_is_not_a_checkpoint_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    """With one line that names the file: guessing could lose a high watermark."""
    path = tmp_path / "checkpoint"
    path.write_bytes(content)
    with pytest.raises(
        MalformedCheckpoint, match=r"^[^\n]*checkpoint is not a checkpoint: [^\n]*$"
    ) as refused:
        read_offsets(path)
    assert complaint in str(refused.value)


@pytest.mark.parametrize("line", ["1 5", "2 0", "0 9", "2 x", "2"])
def test_epochs_must_increase(tmp_path: Path, line: str) -> None:
    """Both fields, strictly: the cache relies on it."""
    path = tmp_path / "epochs"
    path.write_text(f"0\n2\n1 4\n{line}\n")
    with pytest.raises(MalformedCheckpoint):
        read_epochs(path)
