"""What a produce request costs a broker, beside what the same bytes cost without a broker: the floor.

Both have a leader and two followers that pull, and answer when all three have written. The floor is plain
sockets and `pwrite` (`bench.floor_replicas`); tidelog is `tidelog up` with three brokers and acks=all. Both
stay up and take turns, round by round, with the same client: prebuilt requests, each sent when the one before
is answered, so no request shares the cost of another. The figures are CPU time of the three processes for
each request: the medians of the rounds, the median of their ratios, the smallest and the largest ratio.
"Quiet" partitions are followed and get nothing.

    python -m bench.floor [--quick] [--rounds N] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

from bench import client_load
from bench.client_load import Load, Stopwatch
from bench.comparison import DISTURBED_CORES
from bench.processes import LOOPBACK, PATIENCE_SECONDS, Unavailable, spawn, stop
from bench.raw_produce import RawProducer, exchange
from bench.tidelog_up import TidelogUp

_SIZE = Struct(">i")


@dataclass(frozen=True)
class Row:
    name: str
    record_bytes: int
    quiet: int
    requests: int


ROWS = (
    Row("100 B", 100, 0, 4_000),
    Row("100 B, 100 quiet partitions", 100, 100, 4_000),
    Row("64 KB", 64_000, 0, 2_000),
    Row("1 MB", 1_000_000, 0, 200),
)


@dataclass
class Figures:
    """CPU in µs a request, round by round."""

    row: Row
    floor: list[float] = field(default_factory=list)
    tidelog: list[float] = field(default_factory=list)
    other_cores: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        return [ours / least for ours, least in zip(self.tidelog, self.floor, strict=True)]


class Floor:
    """A leader and two followers, and a client of the leader."""

    def __init__(self, directory: Path) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._open = ExitStack()
        try:
            self._start(directory)
        except BaseException:
            self.stop()
            raise

    def _start(self, directory: Path) -> None:
        command = (sys.executable, "-m", "bench.floor_replicas")
        leader = spawn([*command, "leader", directory / "leader"], stdout=subprocess.PIPE, stderr=None)
        self._processes.append(leader)
        assert leader.stdout is not None
        self._open.enter_context(leader.stdout)
        ports = leader.stdout.readline().split()
        if len(ports) != 2:
            raise Unavailable("the leader of the floor did not start")
        for name in ("follower-1", "follower-2"):
            self._processes.append(
                spawn([*command, "follower", directory / name, ports[1].decode()], stderr=None)
            )
        self._client = socket.create_connection((LOOPBACK, int(ports[0])), PATIENCE_SECONDS)
        self._open.enter_context(self._client)
        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def load(self, payload: bytes, requests: int) -> Load:
        frames = [_SIZE.pack(len(payload)) + payload] * requests
        watch = Stopwatch([process.pid for process in self._processes])
        exchange(self._client, frames, in_flight=1)
        return watch.load(requests, requests * len(payload))

    def stop(self) -> None:
        self._open.close()
        stop(self._processes)


def measure(rounds: int, share: float, directory: Path) -> Iterator[Figures]:
    """One figure at a time; `share` of the requests of each row."""
    tidelog = TidelogUp(directory / "tidelog")
    floor = Floor(directory)
    try:
        tidelog.start()
        pids = [node.pid for node in tidelog.nodes.values()]
        quiet = 0
        for number, row in enumerate(sorted(ROWS, key=lambda each: each.quiet)):
            if row.quiet > quiet:
                # Rows with quiet partitions come last, because these stay.
                client_load.create_topic(tidelog.bootstrap_servers, f"quiet-{row.quiet}", row.quiet - quiet)
                quiet = row.quiet
            client_load.create_topic(tidelog.bootstrap_servers, f"row-{number}", 1)
            producer = RawProducer(
                tidelog.bootstrap_servers,
                f"row-{number}",
                idempotent=False,
                records=1,
                record_bytes=row.record_bytes,
                in_flight=1,
            )
            requests = max(int(row.requests * share), 50)
            yield _rounds(
                Figures(row),
                rounds,
                lambda: floor.load(producer.batch, requests),  # noqa: B023  # called before the next row
                lambda: producer.load(requests, pids),  # noqa: B023
            )
            client_load.delete_topic(tidelog.bootstrap_servers, f"row-{number}")
    finally:
        tidelog.stop()
        floor.stop()


def _rounds(figures: Figures, rounds: int, floor: Callable[[], Load], tidelog: Callable[[], Load]) -> Figures:
    floor(), tidelog()  # connections, caches, files
    for _ in range(rounds):
        for load, costs in ((floor(), figures.floor), (tidelog(), figures.tidelog)):
            costs.append(load.broker_cores * load.seconds / load.records * 1e6)
            figures.other_cores.append(load.other_cores)
    return figures


HEAD = (
    f"{'µs of CPU a request':<30} {'floor':>9} {'tidelog':>9} {'ratio':>7}   {'spread':>13}   {'ms a MB':>8}"
)


def line(figures: Figures) -> str:
    ours, least, ratios = figures.tidelog, figures.floor, figures.ratios
    spread = f"{min(ratios):5.2f} - {max(ratios):5.2f}"
    megabytes = figures.row.record_bytes / 1e6
    each = f"{statistics.median(ours) / 1e3 / megabytes:8.1f}" if megabytes > 0.01 else f"{'':8}"
    medians = (
        f"{statistics.median(least):9.0f} {statistics.median(ours):9.0f} {statistics.median(ratios):7.2f}"
    )
    return f"{figures.row.name:<30} {medians}   {spread}   {each}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a quarter of the requests, three rounds")
    parser.add_argument("--rounds", type=int, help="rounds of each row; the median counts (default 7)")
    parser.add_argument("--json", action="store_true", help="print every figure of every round as JSON")
    arguments = parser.parse_args()
    rounds = arguments.rounds or (3 if arguments.quick else 7)
    taken: list[Figures] = []
    try:
        with tempfile.TemporaryDirectory(prefix="bench-floor-") as scratch:
            if not arguments.json:
                print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {rounds} rounds\n")
                print(HEAD)
            for figures in measure(rounds, 0.25 if arguments.quick else 1.0, Path(scratch)):
                taken.append(figures)
                if not arguments.json:
                    print(line(figures), flush=True)
    except (Unavailable, client_load.Miscounted, TimeoutError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if arguments.json:
        print(json.dumps([{**vars(each), "row": vars(each.row)} for each in taken], indent=1))
        return 0
    others = statistics.median(share for each in taken for share in each.other_cores)
    crowded = ": too many for these figures to mean much" if others > DISTURBED_CORES else ""
    print(f"\ncores used by others meanwhile: {others:.2f}{crowded}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
