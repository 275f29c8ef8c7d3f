"""Which cells a grid has: names that read back, what cannot be, and what is one and the same."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.generations import GENERATIONS
from tidelog.pipeline.sweep.cells import KINDS, Cell, canonical, cell_named, faults_of
from tidelog.pipeline.sweep.grid import DEFAULT_AXES, GridError, make_grid, read_grid

CELLS = st.builds(
    Cell,
    generation=st.sampled_from(sorted(GENERATIONS)),
    acks=st.sampled_from(["0", "1", "all"]),
    replicas=st.integers(1, 5),
    min_insync=st.integers(1, 5),
    unclean=st.booleans(),
    flush=st.sampled_from(["roll", "always"]),
    idempotent=st.booleans(),
    retries=st.integers(0, 5),
    isr_rule=st.sampled_from(["caught-up-time", "fetch-time", "message-lag"]),
    faults=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, unique=True).map("+".join).map(canonical),
    zones=st.integers(1, 3),
    without=st.sampled_from(["", "kip320", "maximal_isr", "broker_epoch+maximal_isr"]),
)

TOO_MANY = {
    "retries": list(range(20)),
    "replicas": list(range(1, 8)),
    "min_insync": list(range(1, 8)),
    "faults": list(KINDS),
    "zones": [1, 2, 3, 4, 5],
    "acks": ["0", "1", "all"],
}


@given(CELLS)
def test_a_name_says_all_of_a_cell(cell: Cell) -> None:
    """Every cell is read back from its name, and its name needs no quotation marks."""
    assert cell_named(cell.name) == cell
    assert not set(cell.name) & set(" /\\'\"$*?&;|<>()")


@given(CELLS)
def test_what_can_be_can_be_set_up(cell: Cell) -> None:
    """A cell that is not called impossible is a cluster that the lab accepts; its plain form is possible too,
    and is its own plain form."""
    if cell.impossible() is None:
        cell.scenario().setup.check()
        assert cell.plain().impossible() is None
        assert cell.plain().plain() == cell.plain()


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (Cell(replicas=2, min_insync=3), "2 replicas never meet min.insync.replicas=3"),
        (Cell(idempotent=True, acks="1"), "an idempotent producer needs acks=all, not 1"),
        (Cell(idempotent=True, retries=0), "an idempotent producer needs retries"),
        (Cell(faults="cut", zones=1), "cut needs two zones, and there is one"),
    ],
)
def test_impossible_combinations_are_dropped_with_a_reason(cell: Cell, reason: str) -> None:
    """What cannot be is named, not played."""
    assert cell.impossible() == reason
    axes = {name: [value, getattr(Cell(), name)] for name, value in cell.as_json().items()}
    grid = make_grid(axes)
    assert reason in {dropped.reason for dropped in grid.dropped}
    assert cell not in grid.cells


def test_settings_without_effect_are_played_once() -> None:
    """Under majority nothing is left of min.insync.replicas and unclean elections; flushing matters only
    where power fails; with acks=1 the number of in-sync replicas does not matter."""
    majority = Cell(generation="majority", min_insync=2, unclean=True)
    assert majority.plain() == Cell(generation="majority")
    assert Cell(flush="always", faults="crash").plain() == Cell(faults="crash")
    assert Cell(flush="always", faults="power").plain() == Cell(flush="always", faults="power")
    assert Cell(acks="1", min_insync=2).plain() == Cell(acks="1")
    assert Cell(generation="kip101", without="maximal_isr").plain() == Cell(generation="kip101")
    grid = make_grid({"generation": ["majority"], "min_insync": [1, 2], "unclean": [False, True]})
    assert len(grid.cells) == 1
    assert len(grid.same_as) == 3
    assert set(grid.same_as.values()) == set(grid.cells)


def test_the_usual_grid_is_of_a_size_to_wait_for() -> None:
    """A newcomer's sweep has cells of every generation and a few minutes of trials."""
    grid = make_grid(DEFAULT_AXES)
    assert {cell.generation for cell in grid.cells} == set(GENERATIONS)
    assert 50 <= len(grid.cells) <= 200


def test_a_mix_has_one_name() -> None:
    """The order of faults does not matter, and a list that has a name of its own is called by it."""
    assert canonical("power+crash") == canonical("crash+power") == "crash+power"
    assert canonical("reset+cut") == "network"
    assert faults_of("none").budget == 0
    assert faults_of("blackout").kinds == ("blackout",)


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"faults": ["fire"]}, "unknown fault 'fire'"),
        (
            {"generation": ["raft"]},
            "unknown generation 'raft': choose one of hw, kip101, epoch, elr, majority",
        ),
        ({"replicas": [9]}, "replicas 9 is out of range: 1 to 7"),
        ({"without": ["luck"]}, "unknown guard 'luck'"),
        ({"retries": []}, "retries has no value"),
        ({"replicas": [1], "min_insync": [2]}, "no combination of this grid can be"),
        (TOO_MANY, "combinations, at most"),
    ],
)
def test_a_grid_that_cannot_be_is_refused_in_one_line(axes: dict, words: str) -> None:
    """The line says what to change."""
    with pytest.raises(GridError) as refused:
        make_grid(axes)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_grid_file(tmp_path: Path) -> None:
    """Lists and single values, dashes as on the command line, and acks as a number."""
    path = tmp_path / "grid.toml"
    path.write_text(
        'seeds = 7\nacks = [1, "all"]\nmin-insync = [1, 2]\nunclean = true\nfaults = "crash+power"\n'
    )
    read = read_grid(path)
    assert read.seeds == 7
    assert read.axes == {
        "acks": ["1", "all"],
        "min_insync": [1, 2],
        "unclean": [True],
        "faults": ["crash+power"],
    }
    assert {cell.unclean for cell in make_grid(read.axes).cells} == {True}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("acks = [", "is not a TOML file"),
        ("ack = 1", "unknown setting 'ack': did you mean acks"),
        ("seeds = 0", "no number of trials"),
        ("replicas = '3'", "replicas = '3': write whole numbers"),
        ("unclean = 1", "unclean = 1: write true or false"),
        ("faults = 3", "faults = 3: write words in quotation marks"),
    ],
)
def test_mistakes_in_a_grid_file_are_named(tmp_path: Path, text: str, words: str) -> None:
    """With the file, the key and what to write."""
    path = tmp_path / "grid.toml"
    path.write_text(text)
    with pytest.raises(GridError) as refused:
        read_grid(path)
    assert words in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_missing_grid_file(tmp_path: Path) -> None:
    """Is named."""
    with pytest.raises(GridError, match=r"no\.toml: no such file"):
        read_grid(tmp_path / "no.toml")
