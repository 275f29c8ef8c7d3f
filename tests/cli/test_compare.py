"""``tidelog scenario compare``: one schedule, several generations, and wfirst difference."""

from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.cli.calling import call, refused

from tidelog.lab.compare import Comparison
from tidelog.scenario import catalogue


def test_the_page_marks_where_they_part():
    """hw-loss is the same under hw and epoch until the follower truncates."""
    answer = call("scenario", "compare", "hw-loss")
    assert answer.code == 0
    at = next(number for number, line in enumerate(answer.lines) if "first difference" in line)
    assert "hw | epoch" in answer.lines[at]
    assert not any("≠ 1" in line or "truncates its log from" in line for line in answer.lines[:at])
    below = "\n".join(answer.lines[at : at + 20])
    assert "truncates its log from 3" in below
    assert "≠ 1 follower  a₀ b₀|c₀" in below
    (verdicts,) = [line for line in answer.lines if "hw: VIOLATED" in line]
    assert "epoch: HELD" in verdicts


def test_json_has_every_run_and_the_step_where_they_part():
    answer = call("scenario", "compare", "hw-loss", "-g", "hw", "-g", "epoch", "-g", "majority", "--json")
    assert answer.code == 0
    document = answer.json
    assert document["generations"] == ["hw", "epoch", "majority"]
    assert [run["generation"] for run in document["runs"]] == document["generations"]
    assert document["same_at_end"] is False
    hw, epoch, _ = document["runs"]
    step = Comparison.of(catalogue.load("hw-loss"), ["hw", "epoch"]).parts_at
    assert step is not None
    for number in range(step):
        assert _values(hw, number) == _values(epoch, number)
    assert _values(hw, step) != _values(epoch, step)


def _values(run: dict, step: int) -> list:
    replicas = run["steps"][step]["state"]["partitions"][0]["replicas"]
    return [[value for _, _, value in replica["records"]] for replica in replicas]


def test_generations_that_agree_never_part(calm: Path):
    """Epochs and control records are no difference: they do not show from outside."""
    generations = ["hw", "kip101", "epoch", "majority"]
    answer = call("scenario", "compare", calm, *(word for g in generations for word in ("-g", g)))
    assert answer.code == 0
    assert "No difference" in answer.out
    assert "first difference" not in answer.out
    assert "≠ marks" in answer.out
    assert answer.out.count("≠") == 1


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("generations", [("hw", "epoch"), ("hw", "kip101", "epoch", "majority")])
def test_no_line_is_wider_than_the_page(columns: int, generations: tuple[str, ...]):
    for name in ("hw-loss", "isolate-leader-zone-acks-all", "kip-279-fast-failover"):
        words = [word for generation in generations for word in ("-g", generation)]
        answer = call("scenario", "compare", name, *words, columns=columns)
        assert answer.code == 0
        for line in answer.lines:
            assert cell_len(line) <= columns, line
            assert line == line.rstrip()


def test_one_generation_is_nothing_to_compare():
    assert "nothing to compare hw with" in refused(call("scenario", "compare", "hw-loss", "-g", "hw"))
    assert "nothing to" in refused(call("scenario", "compare", "hw-loss", "-g", "hw", "-g", "hw"))


def test_an_unknown_generation_is_refused():
    assert "did you mean majority" in refused(call("scenario", "compare", "hw-loss", "-g", "majorty"))
