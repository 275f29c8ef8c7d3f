"""Segment files as Kafka's own tool reads them, and the small text files beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.apache_kafka import run_tool

DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"

# What the tool prints when files contradict each other. It ends with success all the same. (It also complains
# of every segment that does not begin at offset 0; that is left out.)
COMPLAINTS = ("Mismatches in", "Found timestamp mismatch", "Found out of order")

_BATCH = re.compile(
    r"baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+) .*"
    r"partitionLeaderEpoch: (?P<epoch>-?\d+) .*isvalid: (?P<valid>\w+)"
)
_RECORD = re.compile(r"\| offset: (?P<offset>\d+) ")


@dataclass(frozen=True)
class Batch:
    base_offset: int
    last_offset: int
    count: int
    leader_epoch: int
    is_valid: bool


@dataclass(frozen=True)
class Dump:
    """What the tool read from the segments of one partition, in their order."""

    batches: tuple[Batch, ...]
    record_offsets: tuple[int, ...]


def dump_log_segments(paths: Iterable[Path], *flags: str) -> str:
    """What Kafka's DumpLogSegments says about .log, .index, .timeindex and .snapshot files.

    A Java machine takes longer to start than to read: better one call for many files than many calls.
    """
    return run_tool(DUMP_LOG_SEGMENTS, "--files", ",".join(map(str, paths)), *flags)


def parse_dump(text: str) -> dict[Path, Dump]:
    """What was said about the .log files of each folder; records only with `--deep-iteration`."""
    said: dict[Path, str] = {}
    for section in text.split("Dumping ")[1:]:
        name, _, lines = section.partition("\n")
        folder = Path(name).parent
        said[folder] = said.get(folder, "") + lines
    return {folder: Dump(_batches(lines), _record_offsets(lines)) for folder, lines in said.items()}


def _batches(lines: str) -> tuple[Batch, ...]:
    return tuple(
        Batch(
            base_offset=int(found["base"]),
            last_offset=int(found["last"]),
            count=int(found["count"]),
            leader_epoch=int(found["epoch"]),
            is_valid=found["valid"] == "true",
        )
        for found in _BATCH.finditer(lines)
    )


def _record_offsets(lines: str) -> tuple[int, ...]:
    return tuple(int(found["offset"]) for found in _RECORD.finditer(lines))


def complaints(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(COMPLAINTS)]


def files_of(partition: Path, suffix: str) -> list[Path]:
    """The files of one kind, oldest segment first."""
    return sorted(partition.glob(f"*{suffix}"))


def checkpoint(path: Path) -> list[list[str]]:
    """The entries of a checkpoint file: a version, a count, and as many lines of words."""
    version, count, *entries = path.read_text().splitlines()
    assert version == "0"
    assert int(count) == len(entries)
    return [entry.split() for entry in entries]
