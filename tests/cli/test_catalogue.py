"""The catalogue finds scenarios by name, in the order it was given, and says what it cannot read."""

from pathlib import Path

import pytest
from tests.cli.calling import LOSS

from tidelog.cli.options import scenario_file
from tidelog.scenario import catalogue
from tidelog.scenario.scenario import ScenarioError


def test_order_comes_from_the_list_and_the_rest_from_the_alphabet():
    """Groups keep their order, unlisted scenarios come last, and names without a file are passed over."""
    order = "# Crashes\nb-crash\n\nmissing\na-crash\n# Empty\n# Networks\ncut\na-crash\n"
    found = catalogue.arrange(order, ["a-crash", "b-crash", "cut", "z-new", "y-new"])
    assert [(group.title, group.names) for group in found] == [
        ("Crashes", ["b-crash", "a-crash"]),
        ("Networks", ["cut"]),
        ("More", ["y-new", "z-new"]),
    ]


def test_without_a_list_all_scenarios_are_there():
    """The list is optional."""
    found = catalogue.arrange("", ["b", "a"])
    assert [(group.title, group.names) for group in found] == [("More", ["a", "b"])]


def test_every_name_loads_and_is_its_own():
    """A scenario is called as its file is, and names() lists each once."""
    names = catalogue.names()
    assert "hw-loss" in names
    assert len(names) == len(set(names))
    for name in names:
        assert catalogue.load(name).name == name


def test_an_unknown_name_is_told_the_nearest():
    """A typing error costs one look at the message."""
    with pytest.raises(catalogue.UnknownScenario, match="did you mean hw-loss"):
        catalogue.load("hw-los")


def test_an_unknown_name_near_to_nothing_is_told_where_to_look():
    with pytest.raises(catalogue.UnknownScenario, match="scenario list"):
        catalogue.load("qqqqqqqqqqqqqqq")


def test_a_file_is_read_as_a_scenario(loss: Path):
    assert scenario_file(str(loss)).name == "small-loss"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (LOSS.encode() + b"\xff", f"byte {len(LOSS)} is not UTF-8"),
        (b"# " + b"x" * catalogue.FILE_BYTES_MAX, "larger than"),
        (b"", "line 1, column 1"),
        (LOSS.replace("crash 0", "crsh 0").encode(), "line 16, column 1.*did you mean crash"),
    ],
)
def test_a_file_that_is_no_scenario_is_refused_with_the_reason(
    tmp_path: Path, content: bytes | None, message: str
):
    path = tmp_path / "some.scenario"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ScenarioError, match=message):
        scenario_file(str(path))


def test_a_directory_is_refused(tmp_path: Path):
    with pytest.raises(ScenarioError, match="directory"):
        scenario_file(str(tmp_path))
