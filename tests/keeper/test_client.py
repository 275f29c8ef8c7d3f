"""A keeper is named by a URL, and a wrong one is refused in one line that says how to write it."""

import pytest
from kazoo.exceptions import NoAuthError  # type: ignore[import-untyped]

from tidelog.core.keeper_port import Get, KeeperError, KeeperReply, Result
from tidelog.keeper.client import Notice, connect
from tidelog.keeper.embedded.client import RemoteConnection
from tidelog.keeper.zookeeper.connection import ZooKeeperConnection


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("embedded://127.0.0.1:2181", RemoteConnection),
        ("embedded://localhost:1/", RemoteConnection),
        ("embedded://[::1]:65535", RemoteConnection),
        ("zookeeper://a:2181", ZooKeeperConnection),
        ("zookeeper://a:2181,b.example:2182,[::1]:2183", ZooKeeperConnection),
        ("zookeeper://a:2181/kafka", ZooKeeperConnection),
        ("zookeeper://a:2181,b:2181/deep/er/", ZooKeeperConnection),
    ],
)
def test_a_url_names_a_keeper(url: str, kind: type) -> None:
    """By its scheme. Nothing is connected before ``start``."""
    connection = connect(url, 6000)
    assert isinstance(connection, kind)
    assert not connection.connected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:2181",
        "http://localhost:2181",
        "embedded://",
        "embedded://localhost",
        "embedded://localhost:",
        "embedded://localhost:port",
        "embedded://localhost:0",
        "embedded://localhost:65536",
        "embedded://a:1,b:1",
        "embedded://a:1/chroot",
        "zookeeper://a",
        "zookeeper://a:2181,",
        "zookeeper://a:2181,b",
        "zookeeper://a:2181//x",
        "zookeeper://a:99999",
        "zookeeper://a b:2181",
    ],
)
def test_a_wrong_url_is_refused_in_one_line(url: str) -> None:
    """Which URL, and what one looks like."""
    with pytest.raises(ValueError, match=r"keeper|port") as raised:
        connect(url, 6000)
    assert repr(url) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_session_needs_time() -> None:
    """No time-out at all would be a session that is over before it begins."""
    with pytest.raises(ValueError, match="positive"):
        connect("embedded://localhost:1", 0)


async def test_what_zookeeper_refuses_for_its_own_reasons_is_answered() -> None:
    """A call of the core that is never answered would stop the controller for good."""
    connection = connect("zookeeper://127.0.0.1:1", 6000)
    assert isinstance(connection, ZooKeeperConnection)
    notices: list[Notice] = []
    connection._notify = notices.append
    connection._then(7, Get("/controller"))(NoAuthError())
    assert notices == [KeeperReply(7, Result(KeeperError.REFUSED))]
