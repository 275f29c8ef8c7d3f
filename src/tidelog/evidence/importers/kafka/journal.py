"""What an import has done so far, one line for each replica, so that an import that was killed goes on where
it was.

A line is written when all files of the replica are in the evidence. The last line may be cut off by a kill:
that replica is then imported again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tidelog.core.types import TopicPartition
from tidelog.evidence.importers.kafka.replica import OpenTransaction, Replica

NAME: Final = "import.jsonl"


class ImportJournal:
    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        folder.mkdir(parents=True, exist_ok=True)
        self.done: dict[tuple[int, TopicPartition], Replica | None] = dict(_lines(self._path))
        # A line that was cut off must not run into the next one.
        self._file = self._path.open("a", encoding="utf-8")
        if self._path.stat().st_size:
            self._file.write("\n")

    def write(self, broker: int, tp: TopicPartition, replica: Replica | None) -> None:
        """`replica` is None if the folder holds no segment."""
        line: dict[str, Any] = {"broker": broker, "topic": tp.topic, "partition": tp.partition}
        if replica is not None:
            line["replica"] = asdict(replica) | {
                "tp": None,
                "folder": str(replica.folder),
                "segments": [(str(path), end, size) for path, end, size in replica.segments],
            }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        self.done[broker, tp] = replica

    def remove(self) -> None:
        self._file.close()
        self._path.unlink()

    def close(self) -> None:
        self._file.close()


def _lines(path: Path) -> Iterator[tuple[tuple[int, TopicPartition], Replica | None]]:
    if not path.exists():
        return
    for line in path.read_text("utf-8").splitlines():
        with suppress(ValueError, LookupError, TypeError):
            found = json.loads(line)
            tp = TopicPartition(found["topic"], found["partition"])
            yield (found["broker"], tp), _replica(tp, found["replica"]) if "replica" in found else None


def _replica(tp: TopicPartition, found: dict[str, Any]) -> Replica:
    return Replica(
        **found
        | {
            "tp": tp,
            "folder": Path(found["folder"]),
            "segments": [(Path(path), end, size) for path, end, size in found["segments"]],
            "epochs": [tuple(each) for each in found["epochs"]],
            "notes": [tuple(each) for each in found["notes"]],
            "open_transactions": [OpenTransaction(**each) for each in found["open_transactions"]],
        }
    )
