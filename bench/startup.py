"""What `import tidelog` and `tidelog --help` cost, beside a Python that does nothing: processor time."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

ROUNDS = 21
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import tidelog": [sys.executable, "-c", "import tidelog"],
    "from tidelog import Cluster": [sys.executable, "-c", "from tidelog import Cluster"],
    "tidelog --help": [sys.executable, "-m", "tidelog", "--help"],
}


def milliseconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def main() -> None:
    took: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for command in COMMANDS.values():
        milliseconds(command)  # compiles, and reads the files once
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            took[name].append(milliseconds(command))
    nothing = statistics.median(took["python -c pass"])
    print(f"median of {ROUNDS}, alternating, Python {sys.version.split()[0]}")
    for name, times in took.items():
        median = statistics.median(times)
        print(f"{name:30} {median:6.0f} ms  {median - nothing:+6.0f} ms  (at least {min(times):.0f})")


if __name__ == "__main__":
    main()
