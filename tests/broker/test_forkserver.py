"""What the process that forks brokers does when the socket to its supervisor ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own: it waits for all of its children.
SCRIPT = """
import os, signal, subprocess, sys
from tidelog.broker import forkserver

forkserver._PATIENCE_SECONDS = forkserver._ORPHANED_SECONDS = 0.2
orphaned, paused = sys.argv[1] == "orphaned", sys.argv[2] == "paused"
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
if paused:
    os.kill(child.pid, signal.SIGSTOP)
running = {child.pid}
forkserver._see_them_end(running, 0 if orphaned else os.getppid())
print("left" if running else "ended")
child.kill()
"""


@pytest.mark.parametrize("state", ["paused", "running"])
@pytest.mark.parametrize(("supervisor", "left"), [("orphaned", "ended"), ("alive", "left")])
def test_a_broker_that_does_not_end_is_killed_if_its_supervisor_is_gone(
    supervisor: str, left: str, state: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, supervisor, state], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{left}\n"
