"""How the processes of a trial are joined, where they listen, and keepers inside and outside of the trial."""

from __future__ import annotations

import asyncio
import socket
import threading
from itertools import count
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.giving_up import cancelled_at

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.keepers import KeeperInside, KeeperOutside
from tidelog.cluster.network.networks import make_network
from tidelog.cluster.spec import DIRECT, RELAYS, ClusterSpec

ZONES = ("az1", "az2")


@pytest.mark.parametrize("kind", [DIRECT, RELAYS])
def test_a_broker_has_its_port_for_itself(kind: str):
    """Also while it is away: it is given to no other process by chance, and can be listened on."""
    network = make_network(ClusterSpec(brokers=2, zones=ZONES, network=kind))
    try:
        at = network.listen(1)
        assert network.listen(1) == at
        assert network.listen(2) != at
        with socket.create_server(at) as serving:
            network.place(1, at)
            route = network.route(2, 1) or at
            with socket.create_connection(route, timeout=PATIENCE_SECONDS):
                serving.accept()[0].close()
        assert network.listen(1) == at
    finally:
        network.close()


def test_without_a_network_in_between_nothing_can_be_cut():
    network = make_network(ClusterSpec(brokers=2, zones=ZONES))
    for attempt in (
        lambda: network.cut([(1, 2)]),
        lambda: network.delay([(1, 2)], 5),
        lambda: network.silence(1),
    ):
        with pytest.raises(ClusterError, match="are not available with network=direct: use network=relays"):
            attempt()
    network.mend([(1, 2)])
    network.restore()
    network.close()


def test_a_keeper_of_its_own_process_forgets_nothing(tmp_path: Path):
    """It is found at the same place again; what was written before is there."""

    async def play() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            at = free.getsockname()
        keeper = KeeperOutside(tmp_path / "k", at, [])
        assert await keeper.start() == at
        assert await keeper.start() == at  # it runs already
        await keeper.stop()
        await keeper.stop()
        assert await keeper.start() == at
        with socket.create_connection(at, timeout=PATIENCE_SECONDS):
            pass
        await keeper.stop()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(at, timeout=PATIENCE_SECONDS)

    asyncio.run(play())


def test_a_keeper_whose_port_is_taken_says_so(tmp_path: Path):
    async def play(at: tuple[str, int]) -> None:
        with pytest.raises(ClusterError, match=r"the keeper cannot start: .*in use"):
            await KeeperOutside(tmp_path / "k", at, []).start()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        asyncio.run(play(taken.getsockname()))


def test_a_start_that_is_given_up_leaves_no_process(tmp_path: Path):
    """At every moment at which it waits, for the process or for its first line."""

    def children() -> str:
        return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()

    async def give_up(moment: int) -> bool:
        keeper = KeeperOutside(tmp_path / "k", ("127.0.0.1", 0), [])
        given_up = await cancelled_at(moment, keeper.start())
        if given_up:
            assert children() == before
        await keeper.stop()
        return given_up

    before = children()
    moments = next(moment for moment in count() if not asyncio.run(give_up(moment)))
    assert moments >= 4


def test_a_keeper_inside_comes_back_at_its_port(tmp_path: Path):
    async def play() -> None:
        keeper = KeeperInside(tmp_path / "k", "127.0.0.1")
        at = await keeper.start()
        await keeper.stop()
        assert await keeper.start() == at
        await keeper.stop()

    asyncio.run(play())
