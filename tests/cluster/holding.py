"""A process that holds the data of a broker, as a broker does: with a lock that names it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidelog.storage.log_folder import LOCK

HOLDER = """
import sys, time
from pathlib import Path
from tidelog.storage.lock_file import acquire
acquire(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


@contextmanager
def held(data_dir: Path, broker: int = 1) -> Iterator[subprocess.Popen[str]]:
    """While it runs, broker 1 of a cluster in `data_dir` does, as far as can be seen from outside."""
    folder = data_dir / f"broker-{broker}"
    folder.mkdir(parents=True)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder / LOCK)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()
