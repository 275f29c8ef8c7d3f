"""What the keeper's log promises: nothing appended is forgotten, and damage never passes for a crash."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.core.keeper_port import Create, Delete, Multi, Operation, SetValue
from tidelog.keeper.embedded import journal_entries
from tidelog.keeper.embedded.data_dir import KeeperStorageError
from tidelog.keeper.embedded.journal import Journal
from tidelog.keeper.embedded.state import (
    Command,
    KeeperState,
    Session,
    apply_command,
    close_command,
    open_command,
    snapshot_to_json,
)


class Recovered:
    """A log that was just opened, and the state it led to."""

    def __init__(self, directory: Path, *, snapshot_after_bytes: int = 1 << 30) -> None:
        self.log = Journal(directory, fsync=False, snapshot_after_bytes=snapshot_after_bytes)
        self.state = KeeperState()
        try:
            self.log.recover(self.state.restore, self.state.replay)
        except BaseException:
            self.log.close()
            raise

    def append(self, *commands: Command) -> None:
        self.log.append(list(commands))
        for command in commands:
            self.state.replay(command)

    def rotate(self) -> None:
        self.log.rotate(snapshot_to_json(self.state.copy()))

    def close(self) -> dict[str, Any]:
        self.log.close()
        return self.state.copy()


def recovered(directory: Path) -> dict[str, Any]:
    """What a keeper would remember that starts on these files."""
    return Recovered(directory).close()


def story(turns: int) -> list[list[Command]]:
    """Commits of all kinds, refused ones too: sessions come and go, and one of them stays."""
    commits = [[open_command(Session("stays", 6000))], [open_command(Session("goes", 100))]]
    operations: list[Operation] = [
        Create("/x", b'"\xc3\xa4"'),
        Create("/x/e", b"1", ephemeral=True),
        SetValue("/x", b"2", 7),
        Multi((Create("/x/n", b"", sequential=True), SetValue("/x/e", b"3"))),
        Delete("/none"),
    ]
    commits += [[apply_command(1 + turn % 2, operations[turn % 5])] for turn in range(turns)]
    return [*commits, [close_command(2), apply_command(1, Create("/last"))]]


def grown(directory: Path, commits: list[list[Command]]) -> list[dict[str, Any]]:
    """Write these commits, and say what the state was before each and at the end."""
    keeper = Recovered(directory)
    states = [keeper.state.copy()]
    for commit in commits:
        keeper.append(*commit)
        states.append(keeper.state.copy())
    keeper.close()
    return states


def log_of(directory: Path) -> Path:
    (path,) = directory.glob("log.*")
    return path


def boundaries(path: Path) -> list[int]:
    """Where each entry of a log file begins, and where the last one ends."""
    entries, _ = journal_entries.read(path.read_bytes(), int(path.suffix[1:]))
    return [0, *(entry.end for entry in entries)]


# ---------------------------------------------------------------- recovery


def test_a_restart_remembers_everything(tmp_path: Path) -> None:
    """Nodes, versions, transactions, sessions and their secrets, counters of sequential nodes."""
    states = grown(tmp_path, story(20))
    assert recovered(tmp_path) == states[-1]
    assert states[-1]["sessions"] == {1: Session("stays", 6000)}


def test_a_log_goes_on_after_a_restart(tmp_path: Path) -> None:
    """However often: each life appends behind what the lives before it left."""
    states: list[dict[str, Any]] = []
    for commits in (story(7), story(3), [], story(1)):
        states = grown(tmp_path, commits)
    assert recovered(tmp_path) == states[-1]


def test_a_commit_survives_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    """Cut off at every byte of the last entry: exactly the state before it, and the log can go on."""
    whole = tmp_path / "whole"
    states = grown(whole, story(6))
    *_, last, end = boundaries(log_of(whole))
    for cut in range(last, end):
        torn = tmp_path / f"cut-{cut}"
        shutil.copytree(whole, torn)
        with log_of(torn).open("r+b") as file:
            file.truncate(cut)
        keeper = Recovered(torn)
        assert keeper.state.copy() == states[-2], cut
        keeper.append(apply_command(1, Create("/after")))
        assert recovered_after(keeper, torn) == keeper.state.copy()
    assert recovered(whole) == states[-1]


def recovered_after(keeper: Recovered, directory: Path) -> dict[str, Any]:
    keeper.close()
    return recovered(directory)


@pytest.mark.parametrize("filler", [b"\x00", b"\xff", b"T"])
def test_whatever_a_crash_left_in_the_last_entry_is_cut_off(tmp_path: Path, filler: bytes) -> None:
    """Blocks of a file that were never written may hold anything, and be longer than what was."""
    whole = tmp_path / "whole"
    states = grown(whole, story(6))
    *_, last, end = boundaries(log_of(whole))
    for kept in range(last, end, 7):
        torn = tmp_path / f"kept-{kept}"
        shutil.copytree(whole, torn)
        path = log_of(torn)
        path.write_bytes(path.read_bytes()[:kept] + filler * (end - kept + 5000))
        assert recovered(torn) == states[-2], kept
        assert path.stat().st_size == last


def test_damage_in_the_middle_is_refused(tmp_path: Path) -> None:
    """Any byte of any entry but the last: a disk that forgets must not pass for a crash."""
    whole = tmp_path / "whole"
    grown(whole, story(4))
    content = log_of(whole).read_bytes()
    *_, last, _ = boundaries(log_of(whole))
    for position in range(last):
        damaged = bytearray(content)
        damaged[position] ^= 0x40
        log_of(whole).write_bytes(damaged)
        with pytest.raises(KeeperStorageError, match=re.escape(str(log_of(whole)))) as raised:
            Recovered(whole)
        assert "\n" not in str(raised.value)
    log_of(whole).write_bytes(content)
    recovered(whole)


def test_a_refused_log_is_left_as_it_is(tmp_path: Path) -> None:
    """An administrator may want to repair it."""
    grown(tmp_path, story(4))
    path = log_of(tmp_path)
    damaged = bytearray(path.read_bytes())
    damaged[30] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(KeeperStorageError):
        Recovered(tmp_path)
    assert path.read_bytes() == damaged


def test_an_entry_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    """The checksum is right and the content is not: written by something else."""
    for number, body in enumerate([b"{}", b'[["what"]]', b'[["apply",1,["steal","/x"]]]', b"[[]]", b"["]):
        directory = tmp_path / str(number)
        grown(directory, story(0))
        entries = len(boundaries(log_of(directory))) - 1
        with log_of(directory).open("ab") as file:
            file.write(journal_entries.pack(entries + 1, body))
        with pytest.raises(KeeperStorageError, match="is invalid"):
            Recovered(directory)


# ---------------------------------------------------------------- snapshots


def test_a_snapshot_takes_the_place_of_the_log(tmp_path: Path) -> None:
    """The same state, one file for what was and one for what comes, and nothing older."""
    keeper = Recovered(tmp_path)
    for commit in story(10):
        keeper.append(*commit)
        keeper.rotate()
    keeper.append(apply_command(1, Create("/after")))
    expected = keeper.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "format",
        "lock",
        f"log.{14:020}",
        f"snapshot.{13:020}",
    ]
    assert recovered(tmp_path) == expected


def test_a_crash_anywhere_in_a_rotation_is_harmless(tmp_path: Path) -> None:
    """Half a snapshot, a snapshot and the whole old log, the new log and the old: all lead to one state."""
    before = tmp_path / "before"
    expected = grown(before, story(10))[-1]
    after = tmp_path / "after"
    shutil.copytree(before, after)
    keeper = Recovered(after)
    keeper.rotate()
    keeper.close()
    (snapshot,) = after.glob("snapshot.*")
    new_log = log_of(after)
    stages: list[dict[str, bytes]] = [
        {snapshot.name + ".tmp": snapshot.read_bytes()[:50]},
        {snapshot.name: snapshot.read_bytes()},
        {snapshot.name: snapshot.read_bytes(), new_log.name: b""},
    ]
    for number, left_behind in enumerate(stages):
        crashed = tmp_path / f"crashed-{number}"
        shutil.copytree(before, crashed)
        for name, content in left_behind.items():
            (crashed / name).write_bytes(content)
        keeper = Recovered(crashed)
        assert keeper.state.copy() == expected
        keeper.append(apply_command(1, Create("/after")))
        goes_on = keeper.close()
        assert recovered(crashed) == goes_on
        keeper = Recovered(crashed)
        keeper.rotate()
        assert len(list(crashed.iterdir())) == 4
        assert keeper.close() == goes_on
        assert recovered(crashed) == goes_on


def test_a_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    """At any byte, or cut off: what was forgotten with it is in no log any more."""
    keeper = Recovered(tmp_path)
    keeper.append(*story(0)[0])
    keeper.rotate()
    keeper.close()
    (snapshot,) = tmp_path.glob("snapshot.*")
    content = snapshot.read_bytes()
    spoilt = [content[:position] + b"?" + content[position + 1 :] for position in range(len(content))]
    for bad in [*(each for each in spoilt if each != content), content[:-1], content + b"x", b""]:
        snapshot.write_bytes(bad)
        with pytest.raises(KeeperStorageError, match=re.escape(str(snapshot))):
            Recovered(tmp_path)


def test_a_missing_file_is_noticed(tmp_path: Path) -> None:
    """The log of a snapshot that is gone, or a log with a gap, is not the whole story."""
    keeper = Recovered(tmp_path)
    keeper.append(*story(0)[0])
    keeper.rotate()
    keeper.append(apply_command(1, Create("/x")))
    keeper.close()
    (snapshot,) = tmp_path.glob("snapshot.*")
    snapshot.unlink()
    with pytest.raises(KeeperStorageError, match="a file of its log is missing"):
        Recovered(tmp_path)


def test_the_log_asks_for_a_snapshot_when_it_has_grown(tmp_path: Path) -> None:
    """And not again before it has grown again; a restart counts what it found."""
    keeper = Recovered(tmp_path, snapshot_after_bytes=1000)
    keeper.append(open_command(Session("s", 1)))
    assert not keeper.log.wants_snapshot
    keeper.append(apply_command(1, Create("/x", b"x" * 1000)))
    assert keeper.log.wants_snapshot
    keeper.close()
    keeper = Recovered(tmp_path, snapshot_after_bytes=1000)
    assert keeper.log.wants_snapshot
    keeper.rotate()
    assert not keeper.log.wants_snapshot
    keeper.close()


# ---------------------------------------------------------------- the directory


def test_two_keepers_cannot_share_a_directory(tmp_path: Path) -> None:
    """The second gets an error that names the first; when the first has ended it may use it."""
    first = Recovered(tmp_path)
    with pytest.raises(KeeperStorageError, match=r"used by another keeper \(process \d+\)"):
        Recovered(tmp_path)
    first.close()
    recovered(tmp_path)


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """A keeper that finds other files, or a later format, touches nothing."""
    (tmp_path / "holiday.jpg").write_bytes(b"")
    with pytest.raises(KeeperStorageError, match="not a keeper's directory"):
        Recovered(tmp_path)
    later = tmp_path / "later"
    grown(later, [])
    (later / "format").write_text("tidelog keeper 2\n")
    with pytest.raises(KeeperStorageError, match="tidelog keeper 2"):
        Recovered(later)
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with pytest.raises(KeeperStorageError, match="cannot use"):
        Recovered(in_the_way)


# ---------------------------------------------------------------- any story


SESSIONS = st.integers(1, 3)
PATHS = st.sampled_from(["/a", "/b", "/a/b", "/a/c-"])
BYTES = st.text(max_size=3).map(str.encode)
WRITES = (
    st.builds(Create, PATHS, BYTES, st.booleans(), st.booleans())
    | st.builds(SetValue, PATHS, BYTES, st.integers(-1, 2))
    | st.builds(Delete, PATHS, st.integers(-1, 2))
)
COMMANDS = (
    st.builds(Session, st.text(max_size=3), st.integers(1, 9)).map(open_command)
    | SESSIONS.map(close_command)
    | st.builds(apply_command, SESSIONS, WRITES | st.lists(WRITES, max_size=3).map(tuple).map(Multi))
)
STORY = st.lists(
    st.lists(COMMANDS, min_size=1, max_size=3) | st.sampled_from(["rotate", "crash"]), max_size=12
)


@settings(max_examples=50)
@given(story=STORY)
def test_any_story_is_remembered(tmp_path_factory: pytest.TempPathFactory, story: list[Any]) -> None:
    """Whatever is committed, and wherever it is rotated or crashes, the state found is the state left."""
    directory = tmp_path_factory.mktemp("keeper")
    keeper = Recovered(directory)
    for turn in story:
        if turn == "rotate":
            keeper.rotate()
        elif turn == "crash":
            left = keeper.close()
            keeper = Recovered(directory)
            assert keeper.state.copy() == left
        else:
            keeper.append(*turn)
    left = keeper.close()
    assert recovered(directory) == left
