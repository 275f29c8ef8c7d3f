"""A switchboard, and connections from broker 1 to broker 0 through it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cluster.network.wires import HANG_MS, Link, Server, Wire

from tidelog.cluster.network.relays.switchboard import Switchboard


@pytest.fixture
def board() -> Iterator[Switchboard]:
    with Switchboard(hang_ms=HANG_MS) as board:
        for node in range(3):
            board.add(node, f"az{node + 1}")
        yield board


@pytest.fixture
def zero(board: Switchboard) -> Iterator[Server]:
    """Where broker 0 listens."""
    with Server() as server:
        board.place(0, *server.address)
        yield server


@pytest.fixture
def link(board: Switchboard, zero: Server) -> Iterator[Link]:
    """Makes connections from broker 1 to broker 0: the two ends."""
    made: list[Wire] = []

    def connect() -> tuple[Wire, Wire]:
        ends = Wire.to(board.route(1, 0)), zero.accept()
        made.extend(ends)
        return ends

    yield connect
    for wire in made:
        wire.close()
