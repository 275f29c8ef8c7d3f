"""Client by feature, each cell run for real; `docs/compatibility.md` is what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.clients.conftest import Cluster, Topics
from tests.clients.matrix.client import Client
from tests.clients.matrix.features import PLAY, Ground
from tests.clients.matrix.page import PAGE, cell_id, cells, expected, table

Open = Callable[[type[Client]], Client]


@pytest.fixture(scope="module")
def opened(cluster: Cluster) -> Iterator[Open]:
    """A client of each kind, started when it is first wanted: some are processes that take their time."""
    clients: dict[type[Client], Client] = {}

    def open_client(kind: type[Client]) -> Client:
        if kind not in clients:
            clients[kind] = kind(cluster.bootstrap_servers)
        return clients[kind]

    yield open_client
    for client in clients.values():
        client.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "feature"),
    [
        pytest.param(
            kind, feature, id=cell_id(kind, feature), marks=() if kind.quick else (pytest.mark.long,)
        )
        for kind, feature in cells()
    ],
)
def test_cell(kind: type[Client], feature: str, opened: Open, cluster: Cluster, topics: Topics) -> None:
    """The client has the feature, as `features` says what that means."""
    client = opened(kind)
    with ExitStack() as closing:
        PLAY[feature](client, Ground(cluster, topics, closing))


def test_the_page_lists_exactly_these_cells() -> None:
    """Run `python -m tests.clients.matrix.page` after a change: it runs them all, and writes the page."""
    assert table(PAGE.read_text("utf-8")) == expected()
