"""Recorded log folders of real Apache Kafka clusters, and damage that is planted into copies of them.

`record_kafka` says what happened to these clusters.
"""

import os
import tarfile
from functools import cache
from pathlib import Path
from shutil import copytree
from tempfile import mkdtemp

from tidelog.evidence.importers.kafka.segment_files import SegmentFile

RECORDINGS = Path(__file__).parents[2] / "recordings"
VERSIONS = ("2.7.1", "4.3.1")


@cache
def unpacked(version: str) -> Path:
    """The recording, once for each process; tests only read it."""
    folder = Path(mkdtemp(prefix=f"kafka-{version}-"))
    with tarfile.open(RECORDINGS / f"kafka-{version}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def brokers(version: str, moment: str) -> list[Path]:
    return sorted((unpacked(version) / moment).iterdir())


def copied(version: str, moment: str, target: Path) -> list[Path]:
    """Folders that a test may damage."""
    copytree(unpacked(version) / moment, target)
    return sorted(target.iterdir())


# ---------------------------------------------------------------- damage


def segments(folder: Path, partition: str) -> list[Path]:
    return sorted((folder / partition).glob("*.log"))


def flip_a_byte(segment: Path, *, batch: int = 1) -> int:
    """In the records of a batch; its first offset."""
    with SegmentFile(segment) as opened:
        header = list(opened.headers())[batch]
    with segment.open("r+b") as file:
        file.seek(header.end_position - 5)
        byte = file.read(1)
        file.seek(header.end_position - 5)
        file.write(bytes([byte[0] ^ 0xFF]))
    return header.base_offset


def cut_tail(segment: Path, *, batches: int = 1) -> int:
    """Take whole batches off the end; the new end."""
    with SegmentFile(segment) as opened:
        first_gone = list(opened.headers())[-batches]
    os.truncate(segment, first_gone.position)
    return first_gone.base_offset


def tear(segment: Path) -> None:
    """Leave a batch behind the end of which some bytes are missing, as a copy of a running broker has it."""
    with SegmentFile(segment) as opened:
        last = list(opened.headers())[-1]
        with segment.open("rb") as file:
            file.seek(last.position)
            batch = file.read(last.end_position - last.position)
    again = last.next_offset.to_bytes(8, "big") + batch[8:]
    with segment.open("ab") as file:
        file.write(again[:-7])
