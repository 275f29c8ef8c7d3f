"""Whose folder it is: taken, refused, released; and nothing changed where it is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.storage.folders import TP, storage

from tidelog.core.log_port import StorageFailure
from tidelog.core.types import TopicPartition
from tidelog.storage.errors import StorageRefused
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log_folder import LogFolder


def refused(path: Path, complaint: str, broker_id: int = 1, cluster_id: str = "c") -> None:
    before = sorted(one.name for one in path.iterdir()) if path.is_dir() else None
    with pytest.raises(StorageRefused, match=complaint) as error:
        FileStorage(path, broker_id=broker_id, cluster_id=cluster_id)
    assert "\n" not in str(error.value)
    if before is not None:
        assert sorted(set(os.listdir(path)) - {".lock"}) == [name for name in before if name != ".lock"]


def test_a_new_folder_is_marked(tmp_path: Path) -> None:
    """Kafka's file, with the broker, and the cluster as soon as it is known."""
    path = tmp_path / "deep" / "data"
    with storage(path) as opened:
        assert (path / "meta.properties").read_text() == "version=0\nbroker.id=1\n"
        opened.claim("Zt2-x")
        assert (path / "meta.properties").read_text() == "version=0\nbroker.id=1\ncluster.id=Zt2-x\n"
        opened.claim("Zt2-x")
    with storage(path, cluster_id="Zt2-x"):
        pass


def test_a_folder_of_another_broker_or_cluster_is_refused(tmp_path: Path) -> None:
    """A mistyped path must not destroy data."""
    with storage(tmp_path, cluster_id="c"):
        pass
    refused(tmp_path, "belongs to broker 1, not 2; choose another folder or id", broker_id=2)
    refused(tmp_path, "belongs to cluster c, not d; choose another folder or keeper", cluster_id="d")
    with storage(tmp_path, cluster_id="c"):
        pass


def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    """Not empty and not ours."""
    (tmp_path / "thesis.tex").write_text("")
    refused(tmp_path, "holds thesis.tex but no meta.properties")
    assert os.listdir(tmp_path) == ["thesis.tex"]
    (tmp_path / "thesis.tex").unlink()
    (tmp_path / "lost+found").mkdir()
    with storage(tmp_path):
        pass


@pytest.mark.parametrize("content", [b"\xff\xfe", b"version=1\nnode.id=1\n", b"version=0\n", b""])
def test_a_foreign_mark_is_refused(tmp_path: Path, content: bytes) -> None:
    """What cannot be understood is not overwritten."""
    (tmp_path / "meta.properties").write_bytes(content)
    refused(tmp_path, "choose another folder")
    assert (tmp_path / "meta.properties").read_bytes() == content


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    """By this process or another, until that one is gone, however it went."""
    with storage(tmp_path):
        refused(tmp_path, "is used by another broker")
    code = (
        "import sys; from pathlib import Path; from tidelog.storage.log_folder import LogFolder\n"
        "held = LogFolder(Path(sys.argv[1]), 1); print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        refused(tmp_path, "is used by another broker")
        process.kill()
    with storage(tmp_path):
        pass


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    """One line with the system's reason."""
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file", "cannot use .*file for logs: File exists")
    refused(tmp_path / "file" / "below", "for logs: Not a directory")


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="needs /proc")
def test_an_unwritable_folder_is_refused() -> None:
    """Also for root, to whom permissions say nothing."""
    refused(Path("/proc/tidelog"), "cannot use /proc/tidelog for logs: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    """As a service that was given the wrong user finds it."""
    path = tmp_path / "locked"
    path.mkdir(mode=0o500)
    refused(path, "for logs: Permission denied")


def test_a_log_of_an_impossible_name_is_not_made(tmp_path: Path) -> None:
    """No topic leads out of the folder."""
    with storage(tmp_path / "data") as opened:
        for topic in ("../escape", "a/b", "", "x" * 260, "sp ace"):
            with pytest.raises(StorageFailure, match="cannot be the name"):
                opened.open(TopicPartition(topic, 0))
        assert opened.partitions() == ()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_folders_that_are_no_logs_are_left_alone(tmp_path: Path) -> None:
    """Topics may have dashes; what is not topic-number is not a log."""
    with storage(tmp_path) as opened:
        opened.open(TopicPartition("a-1-b", 12))
    for name in ("notes", "topic-x", "topic-01"):
        (tmp_path / name).mkdir()
    with storage(tmp_path) as opened:
        assert opened.partitions() == (TopicPartition("a-1-b", 12),)
    assert (tmp_path / "topic-x").is_dir()


def test_a_long_name_can_be_taken_out(tmp_path: Path) -> None:
    """A folder's name has 255 characters at most, the mark of deletion included."""
    held = LogFolder(tmp_path, 1)
    path = held.path_of(TopicPartition("x" * 249, 12345))
    path.mkdir()
    assert held.take_out(path).name.endswith("-delete")
    held.release()


def test_refusals_hold_nothing(tmp_path: Path) -> None:
    """After a refusal the folder can be taken at once: no lock and no open file is left."""
    with storage(tmp_path) as opened:
        opened.open(TP)
        opened.open(TopicPartition("topic", 1))
    (tmp_path / "recovery-point-offset-checkpoint").write_text("nonsense")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        refused(tmp_path, "is not a checkpoint")
    assert len(os.listdir("/proc/self/fd")) == before
