"""The floor that brokers are measured against does what its name says: three files hold what was answered."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.floor import Floor


@pytest.mark.parametrize("size", [100, 1_000_000])
def test_every_answered_payload_is_in_three_files(tmp_path: Path, size: int) -> None:
    floor = Floor(tmp_path)
    try:
        load = floor.load(bytes(size - 1) + b"!", 5)
    finally:
        floor.stop()
    assert load.bytes == 5 * size
    written = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    assert written == [(bytes(size - 1) + b"!") * 5] * 3
