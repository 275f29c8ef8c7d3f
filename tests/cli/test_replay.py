"""``tidelog replay``: a file is played again, exactly."""

from pathlib import Path

from tests.cli.calling import LOSS, call, refused

from tidelog.lab.play import run
from tidelog.narrate.transcript import print_transcript
from tidelog.scenario.scenario import parse


def test_replay_prints_the_transcript(loss: Path):
    answer = call("replay", loss)
    assert answer.code == 1
    assert answer.out == print_transcript(run(parse(LOSS)))
    assert call("replay", loss, "--transcript").out == answer.out


def test_replay_takes_the_generation_of_the_file_unless_given(tmp_path: Path):
    path = tmp_path / "mine.scenario"
    path.write_text(LOSS.replace("controller=2", "controller=2 generation=kip101"), "utf-8")
    assert call("replay", path, "--json").json["generation"] == "kip101"
    assert call("replay", path, "--json", "-g", "hw").json["generation"] == "hw"


def test_replay_does_not_look_in_the_catalogue():
    """It wants a file: a name that is none is a mistake."""
    assert "no such file" in refused(call("replay", "hw-loss"))


def test_a_held_file_ends_in_zero(calm: Path):
    assert call("replay", calm).code == 0


def test_refusals(tmp_path: Path, loss: Path):
    assert "directory" in refused(call("replay", tmp_path))
    assert "did you mean" in refused(call("replay", loss, "-g", "hww"))
    assert "choose one" in refused(call("replay", loss, "--json", "--transcript"))
