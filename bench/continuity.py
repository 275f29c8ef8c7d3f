"""How long a topic takes against a table, and how much memory: a first run, and one over 1 % more.

Usage: python -m bench.continuity [--offsets 100000000]. The topic is segment files of one template batch, of
which only the base offset differs (it lies outside the CRC). Spark writes the table as Parquet. Memory is the
largest sum of resident sets of this process and all below it, Java included, seen every 0.2 s.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidelog.pipeline import continuity
from tidelog.pipeline.spark.session import open_session
from tidelog.wire.records import Record, build_batch

PARTITIONS = 4
RECORDS_PER_BATCH = 500
BATCHES_PER_SEGMENT = 10_000
TIME_MS = 1_772_355_600_000


def write_topic(folder: Path, start: int, end: int) -> None:
    """Offsets of each partition, from `start` on, as new segments."""
    records = [Record(offset=n, timestamp=TIME_MS, value=b"v" * 20) for n in range(RECORDS_PER_BATCH)]
    template = bytearray(build_batch(records, base_offset=0, leader_epoch=0))
    step = RECORDS_PER_BATCH * BATCHES_PER_SEGMENT
    for partition in range(PARTITIONS):
        own = folder / f"t-{partition}"
        own.mkdir(parents=True, exist_ok=True)
        for base in range(start, end, step):
            with (own / f"{base:020}.log").open("wb") as file:
                for offset in range(base, min(base + step, end), RECORDS_PER_BATCH):
                    template[:8] = offset.to_bytes(8, "big")
                    file.write(template)


def resident_mb() -> float:
    """Of this process and all below it."""
    parents, pages = {}, {}
    for name in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            parents[int(name)] = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
            pages[int(name)] = int(Path("/proc", name, "statm").read_text().split()[1])
    own = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(pages.get(each, 0) for each in own) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def measured(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it returns, its seconds, and the largest memory in MB meanwhile."""
    peak, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            peak.append(resident_mb())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    begin = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - begin
    done.set()
    watcher.join()
    return result, seconds, max(peak)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--offsets", type=int, default=100_000_000)
    each = arguments.parse_args().offsets // PARTITIONS // RECORDS_PER_BATCH * RECORDS_PER_BATCH
    more = max(1, each // 100 // RECORDS_PER_BATCH) * RECORDS_PER_BATCH
    spark = open_session(app="bench continuity")
    with tempfile.TemporaryDirectory() as scratch:
        logs, table, state = Path(scratch, "logs"), str(Path(scratch, "table")), str(Path(scratch, "state"))

        def grow(start: int, end: int) -> None:
            write_topic(logs, start, end)
            rows = spark.range(start * PARTITIONS, end * PARTITIONS).selectExpr(
                "'t' as topic",
                f"cast(id % {PARTITIONS} as int) as partition",
                f"id div {PARTITIONS} as offset",
            )
            rows.write.mode("append").parquet(table)

        def run() -> Any:
            return continuity(spark, topic="t", table=table, logs=[str(logs)], state=state)

        grow(0, each)
        first, first_seconds, first_mb = measured(run)
        grow(each, each + more)
        second, second_seconds, second_mb = measured(run)
    spark.stop()
    print(
        json.dumps(
            {
                "first": {"offsets": first.offsets, "held": first.held, "s": first_seconds, "mb": first_mb},
                "second": {
                    "offsets": second.offsets,
                    "held": second.held,
                    "s": second_seconds,
                    "mb": second_mb,
                },
                "second_of_first": second_seconds / first_seconds,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
