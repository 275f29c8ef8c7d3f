"""A small blocking client: one connection, one request at a time.

For the command line, and to wait until a cluster is up; programs that produce and consume use a full client
library. It first asks the broker for its API versions and uses the newest version that both support, so it
also works with Apache Kafka.

    with Client.to("127.0.0.1:9092") as broker:
        answer = broker.ask(Api.METADATA, MetadataRequest(topics=None))

The caller reads error codes inside a response. If there is no response, `ClientError` is raised; its message
is one line that says what to do.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from struct import Struct
from types import TracebackType
from typing import Any, Self

from tidelog.errors import Refusal, reason
from tidelog.settings.kinds import Endpoint, parse_endpoint
from tidelog.wire.api import Api, decode_response, encode_request
from tidelog.wire.api_keys import schema_of
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

CLIENT_ID = "tidelog"
_LAST_FETCH_BY_NAME = 12
TIMEOUT_SECONDS = 10.0

_LENGTH = Struct(">i")
# No response to this client is near this size; bytes of another protocol often claim more.
_ANSWER_BYTES_MAX = 256 * 1024 * 1024


class ClientError(Refusal):
    """No response was received."""


class Unreachable(ClientError):
    """The broker refused the connection, or the connection broke."""


class Client:
    """A connection to one broker."""

    def __init__(self, host: str, port: int, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.endpoint = Endpoint(host, port)
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection((host, port), timeout_seconds)
        except OSError as error:
            raise Unreachable(f"{self.endpoint}: {_why(error)}; is the broker running?") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._speaks = self._ask_versions()
        except BaseException:
            self.close()
            raise

    @classmethod
    def to(cls, bootstrap_servers: str, timeout_seconds: float = TIMEOUT_SECONDS) -> Self:
        """Connect to the first of several servers that answers."""
        failed: list[str] = []
        for endpoint in parse_servers(bootstrap_servers):
            try:
                return cls(*endpoint, timeout_seconds)
            except ClientError as error:
                failed.append(str(error))
        raise Unreachable(failed[0] if len(failed) == 1 else f"none of {bootstrap_servers} answers")

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------ requests

    def ask(self, api: Api, request: Any) -> Any:
        """Send a request in the newest version that both sides support."""
        return self.exchange(api, self.version_of(api), request)

    def fetch(self, request: FetchRequest) -> FetchResponse:
        """Records of topics by name. Since version 13 a fetch names topics by their ids."""
        version = min(self.version_of(Api.FETCH), _LAST_FETCH_BY_NAME)
        answer: FetchResponse = self.exchange(Api.FETCH, version, request)
        return answer

    def version_of(self, api: Api) -> int:
        ours = schema_of(api).versions
        oldest, newest = self._speaks.get(api, (0, -1))
        spoken = min(newest, ours[-1])
        if spoken < max(oldest, ours[0]):
            raise ClientError(f"{self.endpoint} does not support a version of {api.name} that tidelog knows")
        return spoken

    def metadata(self, topics: Sequence[str] | None = None) -> MetadataResponse:
        """Metadata of these topics, or of all. Never creates a topic."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        answer: MetadataResponse = self.ask(
            Api.METADATA, MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        )
        return answer

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        # Every broker since 0.10 answers version 0.
        answer = self.exchange(Api.API_VERSIONS, 0, ApiVersionsRequest())
        if answer.error_code:
            raise ClientError(
                f"{self.endpoint} does not list its API versions: {error_name(answer.error_code)}"
            )
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def exchange(self, api: Api, version: int, request: Any) -> Any:
        """Send a request in this version and return the response."""
        self._correlation_id += 1
        try:
            self._socket.sendall(
                b"".join(encode_request(api, version, self._correlation_id, CLIENT_ID, request))
            )
            (size,) = _LENGTH.unpack(self._receive(_LENGTH.size))
            if not 0 <= size <= _ANSWER_BYTES_MAX:
                raise ClientError(
                    f"{self.endpoint} is not a Kafka broker: its answer is not a Kafka response"
                )
            correlation_id, answer = decode_response(api, version, self._receive(size))
        except EOFError:
            hint = (
                "is it a Kafka broker?" if api is Api.API_VERSIONS else f"asked for {api.name}; see its log"
            )
            raise Unreachable(f"{self.endpoint} closed the connection, {hint}") from None
        except OSError as error:
            raise Unreachable(f"{self.endpoint}: {_why(error)}") from None
        except ProtocolError as error:
            raise ClientError(f"{self.endpoint} sent a malformed response to {api.name}: {error}") from None
        if correlation_id != self._correlation_id:
            raise ClientError(f"{self.endpoint} sent a response to another request than {api.name}")
        return answer

    def _receive(self, size: int) -> bytearray:
        received = bytearray(size)
        rest = memoryview(received)
        while rest:
            count = self._socket.recv_into(rest)
            if not count:
                raise EOFError
            rest = rest[count:]
        return received


def parse_servers(text: str) -> list[Endpoint]:
    """Parse `host:port,host:port`; the port is optional."""
    servers = []
    for server in filter(None, map(str.strip, text.split(","))):
        try:
            servers.append(parse_endpoint(server if ":" in server else f"{server}:9092"))
        except ValueError as error:
            raise ClientError(f"{text}: {error}") from None
    if not servers:
        raise ClientError("no servers: give host:port,host:port")
    return servers


def error_name(code: int) -> str:
    """Kafka's name of an error; the number if it is unknown."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return reason(error)
