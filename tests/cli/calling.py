"""Calling the command line: in this process where that is enough, in one of its own where it is not."""

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tidelog.cli import main

COMMAND = (sys.executable, "-m", "tidelog")

# Settings of the user who runs the tests must not change what we print.
_FOREIGN = ("FORCE_COLOR", "NO_COLOR", "TERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "TIDELOG_DEBUG")


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def environment(columns: int = 80, **extra: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in _FOREIGN}
    return {**kept, "COLUMNS": str(columns), **extra}


def call(*arguments: str | Path, columns: int = 80, **extra: str) -> Answer:
    """Run a command in this process, its output as if it went into a pipe."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with (
        mock.patch.dict(os.environ, environment(columns, **extra), clear=True),
        mock.patch.object(sys, "stdout", out),
        mock.patch.object(sys, "stderr", err),
    ):
        code = main([str(argument) for argument in arguments])
    return Answer(code, _written(out), _written(err))


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode("utf-8")


def spawn(*arguments: str | Path, seconds_max: float = 60, **extra: str) -> Answer:
    """Run a command in a process of its own."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        env=environment(80, **extra),
        check=False,
        timeout=seconds_max,
    )
    return Answer(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))


def refused(answer: Answer) -> str:
    """The one line with which a command refuses."""
    assert answer.code == 2, answer
    assert answer.out == ""
    assert answer.err.startswith("tidelog: ")
    assert answer.err.count("\n") == 1
    return answer.err.removeprefix("tidelog: ").rstrip("\n")


# An acks=1 record dies with its leader, with the least effort. What it expects of majority is wrong: there
# the one broker that is left may not lead, so nothing is lost.
LOSS = """\
scenario small-loss
title    An acks=1 record dies with its leader
cluster  brokers=3 controller=2
topic    t replicas=0,1
producer p zone=az1 acks=1
expect   hw,kip101,epoch lost=b leader=1
expect   majority lost=b

# Both replicas have a.
produce p a
wait converged

# The follower is cut off, the leader takes b and dies.
cut 0 1
produce p b
crash 0
wait leader 1 times-out majority
"""

CALM = """\
scenario calm
cluster  brokers=3 controller=2
topic    t replicas=0,1,2
producer p acks=all
consumer c
expect   epoch none

produce p a a-value-that-is-rather-long-for-a-cell [not]markup :smile:
wait converged
read c
"""
