"""A request whose answer cannot be sent costs its connection, also when its handler returned long ago."""

import asyncio

import uvloop

from tidelog.broker.connection import Request
from tidelog.broker.metrics.counters import Metrics
from tidelog.broker.server import Limits, Server
from tidelog.wire.api import Api, encode_request
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


def test_a_client_does_not_wait_for_an_answer_that_cannot_be_encoded(caplog):
    """The connection is closed, with the request's name in the log; others are served."""

    async def run() -> tuple[bytes, bytes]:
        waiting: list[Request] = []
        server = Server({Api.API_VERSIONS: waiting.append}, Limits(), Metrics(), lambda: None, print)
        port = await server.listen("127.0.0.1", 0)
        await server.serve()
        server.open()
        try:
            (unlucky, first), (other, second) = [
                await asyncio.open_connection("127.0.0.1", port) for _ in range(2)
            ]
            for writer in (first, second):
                writer.writelines(encode_request(Api.API_VERSIONS, 0, 1, None, ApiVersionsRequest()))
                while len(waiting) < 1 + (writer is second):
                    await asyncio.sleep(0)
            waiting[0].respond(ApiVersionsResponse(error_code=1 << 20, api_keys=[]))
            waiting[1].respond(ApiVersionsResponse(api_keys=[]))
            server.flush()
            answers = await unlucky.read(), await other.readexactly(14)
            for writer in (first, second):
                writer.close()
            return answers
        finally:
            await server.close()

    nothing, answer = uvloop.run(run())
    assert nothing == b""
    assert len(answer) == 14
    (record,) = caplog.records
    assert record.getMessage().startswith("failed on API_VERSIONS v0 from 127.0.0.1:")
