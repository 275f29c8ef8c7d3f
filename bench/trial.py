"""How many records a second a trial sends and has acknowledged on this machine, with and without faults.

    .venv/bin/python bench/trial.py [--seconds 60] [--rates 10000,40000]

Each line is one `tidelog trial`: three brokers, six producers with acks=all, two consumers; with faults all
of their traffic runs through relays. The processor time is that of all processes of the trial together.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def measure(rate: int, seconds: float, faults: str, folder: Path) -> str:
    words = [sys.executable, "-m", "tidelog", "trial", "--json", "--no-audit", "--seed", "1"]
    words += [
        "--faults",
        faults,
        "--rate",
        str(rate),
        "--seconds",
        str(seconds),
        "--evidence",
        str(folder / f"{faults}-{rate}"),
    ]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 2:
        return f"{faults:6} {rate:9,}  {done.stderr.strip().splitlines()[-1]}"
    after, told = resource.getrusage(resource.RUSAGE_CHILDREN), json.loads(done.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    latency = told["latency_ms"]
    return (
        f"{faults:6} {rate:9,} {told['rate']:10,.0f} {told['ok'] / told['seconds']:10,.0f} "
        f"{latency['p50']:9,.0f} {latency['p99']:9,.0f} {sum(told['faults'].values()):7} {told['lost']:6} "
        f"{cpu:8.0f} {time.monotonic() - began:8.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rates", default="10000,40000")
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before")
    print("faults      asked   sent/s      ok/s     p50 ms    p99 ms  faults   lost   cpu s   total s")
    with tempfile.TemporaryDirectory() as folder:
        for rate in map(int, chosen.rates.split(",")):
            for faults in ("none", "all"):
                print(measure(rate, chosen.seconds, faults, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
