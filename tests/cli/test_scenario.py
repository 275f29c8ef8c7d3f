"""``tidelog scenario``: list, show and run, as people and as scripts see them."""

from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.cli.calling import CALM, LOSS, call, refused

from tidelog.core.generations import GENERATIONS
from tidelog.evidence.folder import Manifest
from tidelog.lab.play import run
from tidelog.narrate.transcript import print_transcript
from tidelog.scenario import catalogue
from tidelog.scenario.scenario import VERDICT_KINDS, parse

# ---------------------------------------------------------------- list


def test_list_names_every_scenario_with_what_to_expect():
    """The page has each name, its group, and the outcome in a few words."""
    answer = call("scenario", "list")
    assert answer.code == 0
    for group in catalogue.groups():
        assert any(group.title in line for line in answer.lines)
        for name in group.names:
            assert any(line.split()[:1] == [name] for line in answer.lines)
    assert "hw: lost c; kip101, epoch" in answer.out
    assert max(map(cell_len, answer.lines)) <= 80


def test_list_as_json_has_title_group_and_outcome_of_each():
    answer = call("scenario", "list", "--json")
    assert answer.code == 0
    listed = {entry["name"]: entry for entry in answer.json}
    assert list(listed) == catalogue.names()
    entry = listed["hw-loss"]
    assert set(entry) == {"name", "group", "title", "source", "expect"}
    assert entry["expect"]["hw"]["outcome"] == "lost c"
    assert entry["expect"]["epoch"]["outcome"] == "held"
    assert entry["expect"]["hw"]["facts"]["lost"] == "c"


# ---------------------------------------------------------------- show


def test_show_prints_the_file_byte_for_byte_into_a_pipe():
    """What is shown can be saved and is the same scenario."""
    for name in catalogue.names():
        answer = call("scenario", "show", name)
        assert (answer.code, answer.out) == (0, catalogue.text(name))


def test_show_on_a_terminal_adds_colour_and_nothing_else(calm: Path):
    from rich.text import Text

    answer = call("scenario", "show", calm, FORCE_COLOR="1")
    assert "\x1b[" in answer.out
    assert Text.from_ansi(answer.out).plain == CALM


# ---------------------------------------------------------------- run


def test_run_as_json_is_the_documented_object(loss: Path):
    """The keys that scripts rely on are there, in exactly one object."""
    answer = call("scenario", "run", loss, "--generation", "hw", "--json")
    assert answer.code == 1
    document = answer.json
    assert {
        "scenario",
        "generation",
        "stage",
        "verdict",
        "acknowledged",
        "failed",
        "partitions",
        "controller",
        "controller_epoch",
        "steps",
    } <= set(document)
    assert (document["scenario"], document["generation"], document["stage"]) == ("small-loss", "hw", "sim")
    assert tuple(document["verdict"]) == VERDICT_KINDS
    assert [finding["value"] for finding in document["verdict"]["lost"]] == ["b"]
    (partition,) = document["partitions"]
    assert {"topic", "partition", "leader", "leader_epoch", "isr", "replicas"} <= set(partition)
    for replica in partition["replicas"]:
        assert {"broker", "leo", "hw", "records", "epochs"} <= set(replica)
    assert partition["replicas"][1]["records"] == [[0, None, "a"]]
    assert [step["command"] for step in document["steps"]][:2] == ["(start)", "produce p a"]


def test_run_prints_the_transcript_on_demand(loss: Path):
    answer = call("scenario", "run", loss, "--transcript", "-g", "hw")
    assert answer.code == 1
    assert answer.out == print_transcript(run(parse(LOSS).under("hw")))


def test_run_tells_the_story_of_a_loss():
    """Each part a newcomer needs is there: narration, command, answer, state, verdict."""
    answer = call("scenario", "run", "hw-loss", "--generation", "hw")
    assert answer.code == 1
    assert "The follower dies before it hears of the new watermark" in answer.out
    assert "  8  crash 1" in answer.lines
    assert "     ✓ p is told: c ok at offset 2" in answer.lines
    assert "       broker 1  follower  a b|c   LEO 3  HW 2" in answer.lines
    assert "     * broker 1  follower  a b|    LEO 2  HW 2" in answer.lines
    assert "! broker 1 truncates its log from 3 to 2" in answer.out
    assert "VIOLATED under hw: lost" in answer.out
    assert "committed-survives, step" in answer.out
    assert "As the scenario expects: lost c" in answer.out


def test_run_shows_the_epoch_of_each_record_without_colour():
    answer = call("scenario", "run", "hw-loss")
    assert answer.code == 0
    assert "a₀ b₀|c₀" in answer.out
    assert "HELD under epoch" in answer.out


def test_the_generation_is_that_of_the_file_unless_given(tmp_path: Path):
    """A schedule found under hw runs under hw; without a word about it, the rules are those of epoch."""
    path = tmp_path / "mine.scenario"
    path.write_text(CALM.replace("controller=2", "controller=2 generation=hw"), "utf-8")
    assert call("scenario", "run", path, "--json").json["generation"] == "hw"
    assert call("scenario", "run", path, "--json", "-g", "majority").json["generation"] == "majority"
    path.write_text(CALM, "utf-8")
    assert call("scenario", "run", path, "--json").json["generation"] == "epoch"


def test_run_says_when_a_scenario_errs_about_a_generation(loss: Path):
    answer = call("scenario", "run", loss, "-g", "majority")
    assert answer.code == 0
    assert "NOT as the scenario expects" in answer.out
    assert "lost: expected b, found none" in answer.out


def test_duplicates_are_a_violation():
    """Retries that leave copies break a promise, too."""
    answer = call("scenario", "run", "retries-duplicate")
    assert answer.code == 1
    assert "is in the log 3 times" in answer.out


def test_values_are_printed_as_they_are(calm: Path):
    """A value that looks like markup or an emoji is neither."""
    answer = call("scenario", "run", calm)
    assert "[not]markup ok at offset 2" in answer.out
    assert ":smile:₀" in answer.out
    assert "» c reads a at offset 0" in answer.out


def test_no_line_is_wider_than_the_page(calm: Path, loss: Path):
    """Nor does any end in blanks."""
    for name in (*catalogue.names(), str(calm), str(loss)):
        answer = call("scenario", "run", name, "-g", "epoch")
        assert answer.code in (0, 1)
        for line in answer.lines:
            assert cell_len(line) <= 80, line
            assert line == line.rstrip()


def test_a_narrow_terminal_is_no_error(loss: Path):
    assert call("scenario", "run", loss, columns=20).code == 1


# ---------------------------------------------------------------- refusals


def test_an_unknown_stage_is_told_the_nearest():
    assert "did you mean cluster?" in refused(call("scenario", "run", "hw-loss", "--stage", "clustr"))


@pytest.mark.parametrize("command", ["run", "show", "compare"])
def test_an_unknown_scenario_is_told_the_nearest(command: str):
    assert "did you mean hw-loss" in refused(call("scenario", command, "hw-los"))


def test_an_unknown_generation_is_told_the_nearest():
    assert "did you mean epoch?" in refused(call("scenario", "run", "hw-loss", "-g", "epok"))
    message = refused(call("scenario", "run", "hw-loss", "-g", "zzz"))
    assert all(generation in message for generation in GENERATIONS)


def test_a_malformed_file_is_refused_with_line_and_column(tmp_path: Path):
    path = tmp_path / "typo.scenario"
    path.write_text(LOSS.replace("crash 0", "crsh 0"), "utf-8")
    assert "line 16, column 1" in refused(call("scenario", "run", path))


def test_an_impossible_cluster_is_refused(tmp_path: Path):
    path = tmp_path / "impossible.scenario"
    path.write_text(LOSS.replace("replicas=0,1", "replicas=0,7"), "utf-8")
    assert "[7]" in refused(call("scenario", "run", path))


def test_what_is_no_file_is_refused(tmp_path: Path):
    assert "no such file" in refused(call("scenario", "run", tmp_path / "none.scenario"))
    assert "directory" in refused(call("scenario", "run", tmp_path))
    (tmp_path / "bytes").write_bytes(b"\xff\xff")
    assert "UTF-8" in refused(call("scenario", "show", tmp_path / "bytes"))


def test_json_and_transcript_exclude_each_other(loss: Path):
    assert "choose one" in refused(call("scenario", "run", loss, "--json", "--transcript"))


def test_a_run_leaves_evidence_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As a trial does; what is printed of the run is the same."""
    monkeypatch.chdir(tmp_path)
    plain = call("scenario", "run", "hw-loss", "-g", "hw")
    answer = call("scenario", "run", "hw-loss", "-g", "hw", "--evidence", "e")
    assert (answer.code, answer.out) == (plain.code, plain.out)
    folder = tmp_path / "e"
    assert answer.err == f"evidence in {folder}; to audit it: tidelog audit {folder}\n"
    manifest = Manifest.read(folder)
    assert (manifest.stage, manifest.generation) == ("sim", "hw")
    again = refused(call("scenario", "run", "hw-loss", "--evidence", folder))
    assert again == f"{folder} holds complete evidence: choose another folder"
    words = ("scenario", "run", "hw-loss", "--stage", "cluster", "--evidence", folder)
    assert refused(call(*words)).startswith("--evidence needs --stage sim")


def test_a_wait_that_times_out_fails_the_run(tmp_path: Path):
    """Nothing is lost, but the scenario did not show what it was written for: exit code 1, and the reason."""
    path = tmp_path / "stuck.scenario"
    head = "scenario stuck\ntopic t replicas=0,1\nproducer p\n"
    path.write_text(head + "produce p a\nwait leader 1 within 2s\n")
    answer = call("scenario", "run", path)
    assert answer.code == 1
    assert "FAILED under epoch: a wait did not end as the scenario expects" in answer.out
    assert "step 2, wait leader 1 within 2s: timed out" in answer.out
    assert call("scenario", "run", path, "--json").json["surprises"] == [
        "step 2, wait leader 1 within 2s: timed out"
    ]
    path.write_text(head + "produce p a\nwait leader 1 within 2s times-out epoch\n")
    answer = call("scenario", "run", path)
    assert (answer.code, "HELD under epoch" in answer.out) == (0, True)
