"""Which frames were sent on which connection, so that those that did harm can be kept and sent again.

A broker that fails names the connection. What was sent on the most recent ones is remembered; what is kept
becomes a file `trouble-N.json`, which `python -m fuzz --replay FILE` sends again, as a whole and frame by
frame.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fuzz.frames import Fate, Frame, How, foresee

_REMEMBERED_BYTES: Final = 64 << 20
_FILES_MAX: Final = 50


class BadFile(Exception):
    """The file holds no frames. The message is one line that says why."""


@dataclass(slots=True)
class _Burst:
    broker: int
    frames: list[Frame] = field(default_factory=list)
    size: int = 0


class Sent:
    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._seed = seed
        self._by_port: OrderedDict[tuple[int, int], _Burst] = OrderedDict()
        """By broker and port: a port is used again, for another broker."""
        self._size = 0
        self.files: list[Path] = []

    def note(self, broker: int, port: int, frames: Sequence[Frame]) -> None:
        place = broker, port
        if place not in self._by_port:
            self._by_port[place] = _Burst(broker)
        found = self._by_port[place]
        found.frames += frames
        size = sum(len(frame.data) for frame in frames)
        found.size += size
        self._size += size
        while self._size > _REMEMBERED_BYTES and len(self._by_port) > 1:
            self._forget(next(iter(self._by_port)))

    def _forget(self, place: tuple[int, int]) -> None:
        self._size -= self._by_port.pop(place).size

    def keep(self, broker: int, port: int, why: str) -> Path | None:
        """Write down what was sent to a broker from that port, if it is still known."""
        found = self._by_port.get((broker, port))
        if found is None or len(self.files) >= _FILES_MAX:
            return None
        path = self._folder / f"trouble-{len(self.files) + 1}.json"
        rows = [
            {"number": each.number, "what": each.named, "how": each.how.value, "data": each.data.hex()}
            for each in found.frames
        ]
        content = {"seed": self._seed, "broker": found.broker, "why": why, "frames": rows}
        path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
        self.files.append(path)
        return path


def read_frames(path: Path) -> tuple[str, list[Frame]]:
    """Why the frames were kept, and the frames."""
    try:
        content: Any = json.loads(path.read_text("utf-8"))
        frames = []
        for row in content["frames"]:
            data = bytes.fromhex(row["data"])
            fate, header = foresee(data)
            frames.append(Frame(int(row["number"]), data, How(row["how"]), fate or Fate.ANSWER, header))
        return str(content["why"]), frames
    except OSError as error:
        raise BadFile(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, LookupError, TypeError):
        raise BadFile(
            f"{path} holds no frames: give a trouble-N.json that python -m fuzz has written"
        ) from None
