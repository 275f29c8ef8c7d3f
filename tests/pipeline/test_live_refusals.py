"""What `tidelog audit --follow` refuses, before Spark is started: one line each, exit code 2."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from tests.pipeline.slow_workers import TOO_SLOW

from tidelog.cli import main
from tidelog.evidence.folder import COMPLETE, Manifest
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.live.following import Followed, Follower
from tidelog.pipeline.live.targets import TrialTarget
from tidelog.pipeline.sources import topic_client


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--follow", "--follow needs the folder of a trial, or --bootstrap-servers and --topic"),
        ("--follow nowhere", "{here}/nowhere: there is no such folder"),
        ("--follow .", "{here} is not a folder of evidence: it has no trial.json"),
        ("--follow . --topic t", "--follow needs the folder of a trial, or --bootstrap-servers and --topic"),
        ("--follow --topic t", "a live topic needs both --bootstrap-servers and --topic"),
        (
            "--follow . --from-beginning",
            "--from-beginning needs --topic: evidence is always read from the beginning",
        ),
        (
            "--follow . --remote sc://h",
            "--follow cannot use --remote: it runs Spark here or on a --master",
        ),
        (
            "--follow --bootstrap-servers 127.0.0.1:1 --topic t",
            "no broker answers at 127.0.0.1:1: is the cluster running?",
        ),
        (
            ". --seconds 5",
            "--bootstrap-servers, --topic, --from-beginning, --checkpoint and --seconds need --follow",
        ),
        ("", "name the evidence folder of a trial"),
    ],
)
def test_one_line(
    words: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(topic_client, "ANSWER_WITHIN_S", 1.0)
    assert main(["audit", *words.split()]) == 2
    assert capsys.readouterr().err == f"tidelog: {said.format(here=tmp_path)}\n"


def test_a_folder_belongs_to_one_thing_and_one_follower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the checkpoint of something else is used, nor one in use, nor a folder of other files."""
    for name, seed in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        Manifest(stage="sim", state=COMPLETE, seed=seed).write(tmp_path / name)
    kept, session = tmp_path / "kept", None

    def refused(evidence: str, folder: Path) -> str:
        with pytest.raises(Exception) as refusal:  # noqa: PT011
            Follower(session, TrialTarget(tmp_path / evidence), folder, print)  # type: ignore[arg-type]
        return str(refusal.value)

    Follower(session, TrialTarget(tmp_path / "a"), kept, print).close()  # type: ignore[arg-type]
    assert refused("b", kept) == f"{kept} is the checkpoint of something else: choose another folder"
    assert refused("b", tmp_path) == f"{tmp_path} is not empty and no checkpoint: choose another folder"
    held = os.open(kept / "following.json", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert refused("a", kept) == f"another process follows with {kept} already: choose another folder"
    os.close(held)
    (kept / "following.json").write_text("{")
    assert refused("a", kept) == f"{kept}/following.json cannot be understood: choose another folder"


class Query:
    """A streaming query of Spark's that ends as it is told."""

    def __init__(self, end: Exception | None) -> None:
        self._end = end
        self.recentProgress = [{"batchId": 0, "numInputRows": 3}]

    def awaitTermination(self, seconds: float) -> bool:
        if self._end is not None:
            raise self._end
        return True

    def stop(self) -> None: ...


def follow(tmp_path: Path, ends: list[Exception | None]) -> Followed:
    Manifest(stage="sim", state=COMPLETE, seed=1).write(tmp_path)
    follower = Follower(None, TrialTarget(tmp_path), tmp_path / "kept", print)  # type: ignore[arg-type]
    vars(follower)["_start"] = lambda once: Query(ends.pop(0))
    return follower.follow()


def test_a_worker_that_starts_too_slowly_does_not_end_it(tmp_path: Path) -> None:
    """Spark gives it ten seconds. The query goes on from its checkpoint, a bounded number of times."""
    assert follow(tmp_path, [TOO_SLOW, TOO_SLOW, None]) == Followed(3, 0, 0, ended=True)
    with pytest.raises(PipelineError, match="Python worker failed to connect back"):
        follow(tmp_path, [TOO_SLOW] * 20)


def test_any_other_failure_ends_it(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="following ended: no space"):
        follow(tmp_path, [RuntimeError("no space"), None])
