"""Answers through the switchboard: addresses of relays, and versions that can be rewritten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.network.wires import Server, Wire

from tidelog.cluster.network.relays.switchboard import Switchboard
from tidelog.wire.api import Api, RequestHeader, decode_response, encode_request, encode_response
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import api_versions, find_coordinator, metadata

BROKERS = {0: ("a.example", 9092), 1: ("b.example", 9093), 7: ("127.0.0.1", 1)}
TOPIC = metadata.MetadataResponseTopic(
    name="t",
    partitions=[
        metadata.MetadataResponsePartition(
            partition_index=0, leader_id=1, replica_nodes=[1, 0], isr_nodes=[1]
        )
    ],
)


class Client:
    """A client's connection to broker 0 through the switchboard, and the broker's end of it."""

    def __init__(self, name: str, board: Switchboard, zero: Server) -> None:
        self.name = name
        self._wire = Wire.to(board.route(name, 0))
        self._broker = zero.accept()

    def ask(
        self, api: int, version: int, request: Any, answer: Any, *, answered_in: int | None = None
    ) -> Any:
        """What arrives at the client if the broker gives that answer."""
        self._wire.socket.sendall(b"".join(encode_request(api, version, 5, self.name, request)))
        assert self._broker.request()[:2] == (api, 5)
        spoken = version if answered_in is None else answered_in
        frame = b"".join(encode_response(RequestHeader(api, spoken, 5, None), answer))
        self._broker.socket.sendall(frame)
        return decode_response(api, spoken, self._wire.frame())[1]

    def close(self) -> None:
        self._wire.close()
        self._broker.close()


@pytest.fixture
def clients(board: Switchboard, zero: Server) -> Iterator[list[Client]]:
    made = []
    for name, zone in (("p", "az1"), ("q", "az2")):
        board.add(name, zone)
        made.append(Client(name, board, zero))
    yield made
    for client in made:
        client.close()


def all_brokers() -> list[metadata.MetadataResponseBroker]:
    return [
        metadata.MetadataResponseBroker(node_id=broker, host=host, port=port, rack="r")
        for broker, (host, port) in BROKERS.items()
    ]


@pytest.mark.parametrize("version", range(14))
def test_metadata_shows_each_client_its_own_relays(board: Switchboard, clients: list[Client], version: int):
    """In every version, also for brokers without a place; and nothing else is changed."""
    told = {}
    for client in clients:
        sent = metadata.MetadataResponse(
            brokers=all_brokers(), cluster_id="c", controller_id=1, topics=[TOPIC]
        )
        asked = metadata.MetadataRequest(topics=[])
        answer = client.ask(Api.METADATA, version, asked, sent)
        told[client.name] = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        assert told[client.name] == {broker: board.route(client.name, broker) for broker in BROKERS}
        assert answer.topics == [TOPIC]
        if version:
            assert [broker.rack for broker in answer.brokers] == ["r"] * 3
            assert answer.controller_id == 1
    assert not set(told["p"].values()) & set(told["q"].values())


@pytest.mark.parametrize("version", range(4))
def test_the_coordinator_is_found_through_a_relay(board: Switchboard, clients: list[Client], version: int):
    """Unless there is none."""
    asked = find_coordinator.FindCoordinatorRequest(key="g")
    sent = find_coordinator.FindCoordinatorResponse(node_id=1, host="b.example", port=9093)
    answer = clients[0].ask(Api.FIND_COORDINATOR, version, asked, sent)
    assert (answer.host, answer.port) == board.route("p", 1)
    none = find_coordinator.FindCoordinatorResponse(
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, node_id=-1, host="", port=-1
    )
    assert clients[0].ask(Api.FIND_COORDINATOR, version, asked, none) == none


def test_several_coordinators_are_found_through_relays(board: Switchboard, clients: list[Client]):
    """Each through its own; one that there is not stays as it is."""
    asked = find_coordinator.FindCoordinatorRequest(coordinator_keys=["g", "h", "none"])
    none = find_coordinator.Coordinator(
        key="none", node_id=-1, host="", port=-1, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    found = [
        find_coordinator.Coordinator(key=key, node_id=broker, host="b.example", port=9093)
        for key, broker in (("g", 1), ("h", 7))
    ]
    sent = find_coordinator.FindCoordinatorResponse(coordinators=[*found, none])
    answer = clients[0].ask(Api.FIND_COORDINATOR, 4, asked, sent)
    assert [(each.host, each.port) for each in answer.coordinators[:2]] == [
        board.route("p", broker) for broker in (1, 7)
    ]
    assert answer.coordinators[2] == none


def versions(*entries: tuple[int, int, int], error: int = 0) -> api_versions.ApiVersionsResponse:
    keys = [
        api_versions.ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in entries
    ]
    return api_versions.ApiVersionsResponse(error_code=error, api_keys=keys)


@pytest.mark.parametrize("version", range(4))
def test_only_versions_that_can_be_rewritten_are_offered(clients: list[Client], version: int):
    """A broker that is newer than this relay is shown as one that is not. What names addresses in ways that
    are unknown here is not offered at all."""
    sent = versions((0, 0, 12), (1, 4, 17), (3, 0, 14), (8, 0, 9), (10, 0, 6), (18, 0, 4), (60, 0, 2))
    asked = api_versions.ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = clients[0].ask(Api.API_VERSIONS, version, asked, sent)
    offered = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
    assert offered == {0: (0, 9), 1: (4, 15), 3: (0, 13), 8: (0, 9), 10: (0, 4), 18: (0, 4)}


def test_a_refused_version_of_api_versions_is_rewritten_too(clients: list[Client]):
    """It is answered in version 0, whatever was asked."""
    sent = versions((3, 0, 14), (18, 0, 3), error=ErrorCode.UNSUPPORTED_VERSION)
    asked = api_versions.ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = clients[0].ask(Api.API_VERSIONS, 3, asked, sent, answered_in=0)
    assert [entry.max_version for entry in answer.api_keys] == [13, 3]
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_client_that_asks_for_no_versions_is_not_led_past_its_relays(board: Switchboard, zero: Server):
    """An answer that cannot be rewritten is not passed on: the connection ends."""
    wire = Wire.to(board.route("p", 0))
    broker = zero.accept()
    wire.ask(Api.METADATA, 1, version=12)
    broker.request()
    broker.answer(1, b"somewhere else")
    assert wire.ended() == "reset"
    wire.close()
    broker.close()


def test_brokers_and_their_metadata_are_left_alone(board: Switchboard, zero: Server):
    """Brokers have routes in their settings; what they tell each other passes as it is."""
    wire = Wire.to(board.route(1, 0))
    broker = zero.accept()
    wire.ask(Api.METADATA, 1, version=12)
    broker.request()
    broker.answer(1, b"as it is")
    assert wire.reply() == (1, b"as it is")
    wire.close()
    broker.close()
