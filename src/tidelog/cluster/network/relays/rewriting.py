"""Answers that name brokers, rewritten so that a client sees only its own relays.

Metadata and FindCoordinator name addresses; each is replaced by that of the client's relay to that broker.
A client shall use versions of them that can be rewritten here, and nothing else that names addresses, so the
answer to ApiVersions is cut down to that. Everything else passes as it came.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tidelog.cluster.network.relays.addresses import Address
from tidelog.cluster.network.relays.labels import SIZE, Rewrite
from tidelog.wire.api import Api, Buffer, RequestHeader, decode_response, encode_response
from tidelog.wire.api_keys import schema_of
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.api_versions import ApiVersionsResponse
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from tidelog.wire.messages.metadata import MetadataResponse

Lead = Callable[[int, Address], Address]
"""Where the client reaches a broker, given its id and the address by which the cluster knows it."""

# Later versions of these name addresses in ways that are not rewritten: Produce and Fetch tell the new leader
# (KIP-951), DescribeQuorum the controllers.
_NEWEST: dict[int, int] = {
    Api.METADATA: schema_of(Api.METADATA).versions[-1],
    Api.FIND_COORDINATOR: schema_of(Api.FIND_COORDINATOR).versions[-1],
    Api.PRODUCE: 9,
    Api.FETCH: 15,
    Api.DESCRIBE_QUORUM: 1,
}
# Clients fall back to Metadata for DescribeCluster.
_HIDDEN = (Api.DESCRIBE_CLUSTER, Api.SHARE_FETCH, Api.SHARE_ACKNOWLEDGE)


class Rewriting:
    """For one client."""

    def __init__(self, lead: Lead) -> None:
        self._lead = lead

    def of(self, api: int, version: int) -> Rewrite | None:
        """How to change the answer to such a request; None: not at all."""
        if api == Api.API_VERSIONS:
            return partial(_with_versions_cut_down, version)
        if api in (Api.METADATA, Api.FIND_COORDINATOR):
            if version > _NEWEST[api]:
                return _refuse
            return partial(self._with_addresses, api, version)
        return None

    def _with_addresses(self, api: int, version: int, frame: bytearray) -> bytes:
        correlation, body = decode_response(api, version, memoryview(frame)[SIZE.size :])
        if api == Api.METADATA:
            self._lead_to_brokers(body)
        else:
            self._lead_to_coordinators(body)
        return _joined(encode_response(RequestHeader(api, version, correlation, None), body))

    def _lead_to_brokers(self, body: MetadataResponse) -> None:
        for broker in body.brokers:
            broker.host, broker.port = self._lead(broker.node_id, (broker.host, broker.port))

    def _lead_to_coordinators(self, body: FindCoordinatorResponse) -> None:
        # Up to version 3 the answer itself is the only one.
        named: list[FindCoordinatorResponse | Coordinator] = [body, *body.coordinators]
        for found in named:
            if found.error_code == ErrorCode.NONE and found.node_id >= 0:
                found.host, found.port = self._lead(found.node_id, (found.host, found.port))


def _with_versions_cut_down(version: int, frame: bytearray) -> bytes:
    view = memoryview(frame)[SIZE.size :]
    # A version that the broker does not know is answered in version 0. Those after 3 look like it.
    refused = view[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
    spoken = 0 if refused else min(version, schema_of(Api.API_VERSIONS).versions[-1])
    correlation, body = decode_response(Api.API_VERSIONS, spoken, view)
    _cut_down(body)
    return _joined(encode_response(RequestHeader(Api.API_VERSIONS, spoken, correlation, None), body))


def _cut_down(body: ApiVersionsResponse) -> None:
    body.api_keys = [entry for entry in body.api_keys if entry.api_key not in _HIDDEN]
    for entry in body.api_keys:
        newest = _NEWEST.get(entry.api_key)
        if newest is not None and entry.min_version <= newest:
            entry.max_version = min(entry.max_version, newest)


def _refuse(_frame: bytearray) -> bytes:
    """The client did not ask which versions there are. Better no answer than one that leads it past us."""
    raise ProtocolError("an answer in a version that cannot be rewritten")


def _joined(buffers: list[Buffer]) -> bytes:
    return b"".join(buffers)
