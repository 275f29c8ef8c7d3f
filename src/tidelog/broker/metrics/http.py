"""Serves a broker's metrics and its state over HTTP, from the broker's own event loop.

A scrape of many partitions is made in slices, so that it does not delay requests: each metric is consistent,
the page as a whole is not.

The HTTP support is minimal: one request per connection, a bounded head, a bounded number of connections, and
a deadline for each. prometheus_client makes the text format.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import cast

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tidelog.broker.coordinators.coordinators import Coordinators
from tidelog.broker.metrics.counters import LATENCY_BOUNDS_US, ApiFigures, Metrics
from tidelog.broker.metrics.readings import Sources
from tidelog.broker.metrics.state import state_page
from tidelog.broker.metrics.table import TABLE, Definition
from tidelog.core.broker import Broker
from tidelog.evidence.journals.recorder import EventRecorder
from tidelog.keeper.client import KeeperConnection
from tidelog.storage.file_storage import FileStorage

HEAD_BYTES_MAX = 8 * 1024
VISITORS_MAX = 16
VISIT_SECONDS_MAX = 10.0
SLICE_SAMPLES = 200
"""Text that takes about a millisecond."""

METRICS, STATE = b"/metrics", b"/state"
NOT_FOUND = b"the metrics are at /metrics, the state is at /state\n"

_BUCKET_NAMES = [str(bound / 1e6) for bound in LATENCY_BOUNDS_US] + ["+Inf"]


class BrokerCollector(Collector):
    """Every metric of the table, read at the scrape."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        return (_family(definition, self._sources) for definition in TABLE)


def _family(definition: Definition, sources: Sources) -> Metric:
    name, doc, labels = definition.name, definition.doc, definition.labels
    if definition.kind == "histogram":
        histogram = HistogramMetricFamily(name, doc, labels=labels)
        for values, figures in definition.read(sources):
            histogram.add_metric(values, _buckets(figures), figures.latency_sum_us / 1e6)
        return histogram
    make = CounterMetricFamily if definition.kind == "counter" else GaugeMetricFamily
    family = make(name, doc, labels=labels)
    for values, value in definition.read(sources):
        family.add_metric(values, value)
    return family


def _buckets(figures: ApiFigures) -> list[tuple[str, float]]:
    """Cumulative buckets, as Prometheus expects."""
    cumulative, buckets = 0, []
    for name, count in zip(_BUCKET_NAMES, figures.latency_us, strict=True):
        cumulative += count
        buckets.append((name, float(cumulative)))
    return buckets


class _Single(Collector):
    """One metric, in the form that ``generate_latest`` accepts."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


class Exposition:
    """The HTTP server. ``stop`` closes it and all connections."""

    def __init__(self, registry: CollectorRegistry, broker: Broker) -> None:
        self.port = 0
        self.visitors: dict[_Visitor, None] = {}
        self.log = logging.getLogger("tidelog.metrics")
        self._registry = registry
        self._broker = broker
        self._listener: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> None:
        """Raises OSError if the port is taken. A cancelled call closes what it opened, because the caller has
        no server to stop yet."""
        loop = asyncio.get_running_loop()
        try:
            self._listener = await loop.create_server(
                lambda: _Visitor(self), host, port, backlog=VISITORS_MAX, start_serving=False
            )
            await self._listener.start_serving()
        except BaseException:
            await self.stop()
            raise
        self.port = self._listener.sockets[0].getsockname()[1]

    async def page(self, path: bytes) -> tuple[bytes, str] | None:
        """The page at a path and its type; None: there is none."""
        if path == METRICS:
            return await self.metrics(), CONTENT_TYPE_LATEST
        if path == STATE:
            return await state_page(self._broker), "application/json"
        return None

    async def metrics(self) -> bytes:
        """All metrics in Prometheus's text format."""
        parts = []
        for metric in self._registry.collect():
            samples = metric.samples
            for start in range(0, max(len(samples), 1), SLICE_SAMPLES):
                metric.samples = samples[start : start + SLICE_SAMPLES]
                text = generate_latest(_Single(metric))
                parts.append(text if start == 0 else text.split(b"\n", 2)[2])  # HELP and TYPE only once
                await asyncio.sleep(0)
        return b"".join(parts)

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for visitor in list(self.visitors):
            visitor.leave()


class _Visitor(asyncio.Protocol):
    """One connection: a request head in, an answer out, closed."""

    def __init__(self, exposition: Exposition) -> None:
        self._exposition = exposition
        self._head = b""
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._answer: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No assert: uvloop's transports do not inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        if len(self._exposition.visitors) >= VISITORS_MAX:
            self._transport.abort()
            return
        self._exposition.visitors[self] = None
        self._deadline = asyncio.get_running_loop().call_later(VISIT_SECONDS_MAX, self.leave)

    def connection_lost(self, _error: Exception | None) -> None:
        self._exposition.visitors.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._answer is not None:
            self._answer.cancel()

    def leave(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._answer is not None or self._transport is None:
            return
        self._head += data
        if b"\r\n\r\n" in self._head:
            self._answer = asyncio.ensure_future(self._respond())
        elif len(self._head) > HEAD_BYTES_MAX:
            self.leave()

    async def _respond(self) -> None:
        words = self._head.split(b"\r\n", 1)[0].split(b" ")
        method, path = words[0], words[1].split(b"?")[0] if len(words) > 1 else b""
        if method not in (b"GET", b"HEAD"):
            self._send("405 Method Not Allowed", b"only GET\n", method)
        else:
            try:
                page = await self._exposition.page(path)
            except Exception:
                # A bug in a reading fails this request, and must be logged.
                self._exposition.log.exception("failed to answer a request for %s", path.decode())
                self._send("500 Internal Server Error", b"see the log of the broker\n", method)
            else:
                if page is None:
                    self._send("404 Not Found", NOT_FOUND, method)
                else:
                    self._send("200 OK", page[0], method, page[1])

    def _send(self, status: str, body: bytes, method: bytes, content_type: str = "text/plain") -> None:
        if self._transport is None or self._transport.is_closing():
            return
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + (b"" if method == b"HEAD" else body))
        self._transport.close()


async def serve(
    metrics: Metrics,
    broker: Broker,
    storage: FileStorage | None = None,
    *,
    keeper: KeeperConnection | None = None,
    recorder: EventRecorder | None = None,
    groups: Coordinators | None = None,
    host: str,
    port: int,
) -> Exposition:
    """Serve ``http://host:port/metrics`` and ``/state``; raises OSError if the port is taken."""
    registry = CollectorRegistry()
    registry.register(BrokerCollector(Sources(metrics, broker, storage, keeper, recorder, groups)))
    ProcessCollector(registry=registry)
    exposition = Exposition(registry, broker)
    await exposition.listen(host, port)
    return exposition
