"""Lock files that name their holder: believed while the lock is held, of the very process that wrote them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidelog.storage.lock_file import Process, acquire, holder, is_held

HOLD = """
import sys
from pathlib import Path
from tidelog.storage.lock_file import acquire
held = acquire(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process_holds(path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_another_process_is_found_by_its_lock(tmp_path: Path) -> None:
    """And is not reported after its end, although its entry is still in the file."""
    path = tmp_path / "lock"
    with another_process_holds(path) as process:
        assert holder(path) == Process.of(process.pid)
        with pytest.raises(BlockingIOError):
            acquire(path)
    assert path.read_text().startswith(f"{process.pid} ")
    assert not is_held(path)
    assert holder(path) is None


def test_a_process_that_only_has_the_id_of_the_holder_is_not_taken_for_it(tmp_path: Path) -> None:
    """A killed holder left its name; its id is in use again, and so is the lock, which has no name yet."""
    path = tmp_path / "lock"
    descriptor = acquire(path)
    path.write_text(f"{os.getpid()} 1\n")
    assert is_held(path)
    assert holder(path) is None
    path.write_text("no name at all")
    assert holder(path) is None
    os.close(descriptor)
    assert holder(tmp_path / "none") is None


def test_asking_never_keeps_a_holder_from_its_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for _ in range(100):
        descriptor = acquire(path)
        assert holder(path) == Process.of(os.getpid())
        os.close(descriptor)
