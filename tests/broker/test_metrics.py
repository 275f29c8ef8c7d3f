"""Metrics: what is counted and read is what happened, and a real scrape over HTTP says so."""

import asyncio
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop
from bench.processes import PATIENCE_SECONDS
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from tests.core.harness import CONTROLLER, TP, Bench, leading, records
from tests.giving_up import cancelled_at, listening
from tests.lab.stories import THREE, play, stage

from tidelog.broker.metrics.counters import Metrics
from tidelog.broker.metrics.http import (
    HEAD_BYTES_MAX,
    NOT_FOUND,
    VISITORS_MAX,
    BrokerCollector,
    Exposition,
    serve,
)
from tidelog.broker.metrics.readings import Sources
from tidelog.broker.metrics.state import state_page
from tidelog.broker.metrics.table import TABLE
from tidelog.core.broker import Broker
from tidelog.core.config import BrokerConfig
from tidelog.core.events import PartitionStateWritten
from tidelog.core.generations import GENERATIONS
from tidelog.core.messages import AlterIsrRequest, AlterIsrResponse
from tidelog.core.reasons import ElectionKind
from tidelog.core.types import (
    NO_TOPIC_ID,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicConfig,
    TopicPartition,
)
from tidelog.evidence import process_events as p
from tidelog.evidence.journals.recorder import EventRecorder
from tidelog.keeper.client import connect
from tidelog.storage.file_storage import FileStorage
from tidelog.wire.api_keys import Api
from tidelog.wire.errors import ErrorCode

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")

Labels = dict[str, str]


class Scraped:
    """The samples of a page, by name."""

    def __init__(self, page: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(page)}
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def __getitem__(self, name: str) -> float:
        """The value of a metric without labels."""
        [(labels, value)] = self.all(name)
        assert not labels
        return value

    def all(self, name: str) -> list[tuple[Labels, float]]:
        return [(s.labels, s.value) for s in self.samples if s.name == f"tidelog_{name}"]

    def by(self, name: str, *labels: str) -> dict[str, float]:
        return {" ".join(found[label] for label in labels): value for found, value in self.all(name)}

    def has(self, name: str) -> bool:
        return bool(self.all(name))


def read(core: Broker, metrics: Metrics | None = None, recorder: EventRecorder | None = None) -> Scraped:
    return scraped(Sources(metrics or Metrics(), core, recorder=recorder))


def scraped(sources: Sources) -> Scraped:
    registry = CollectorRegistry()
    registry.register(BrokerCollector(sources))
    return Scraped(generate_latest(registry).decode())


def observed(events: Iterable[object]) -> Metrics:
    metrics = Metrics()
    for event in events:
        metrics.observe(event)  # type: ignore[arg-type]
    return metrics


def told(story: object, *, broker: int | None = None) -> Metrics:
    """The metrics of one simulated broker, or of all of them together."""
    events = [event for played in story.played for _, event in played.events]  # type: ignore[attr-defined]
    return observed(e for e in events if broker is None or getattr(e, "broker", None) == broker)


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("definition", TABLE, ids=lambda definition: definition.name)
def test_names_follow_the_conventions(definition) -> None:
    """Snake case, our prefix, counters end in _total and nothing else does, each explains itself once."""
    assert re.fullmatch(r"tidelog_[a-z0-9_]+", definition.name)
    assert (definition.kind == "counter") == definition.name.endswith("_total")
    assert definition.doc.endswith(".")
    assert sum(other.name == definition.name for other in TABLE) == 1


def test_the_page_in_the_docs_is_current() -> None:
    """Written by docs/reference/make_metrics.py; run it after a change of the table."""
    made = runpy.run_path(str(ROOT / "docs/reference/make_metrics.py"))["page"]()
    assert (ROOT / "docs/reference/metrics.md").read_text("utf-8") == made


def test_alerts_speak_of_metrics_that_exist() -> None:
    """Every tidelog_ name on the page is one of the table, or a part of its histogram."""
    page = (ROOT / "docs/reference/metrics.md").read_text("utf-8")
    named = {re.sub(r"_(bucket|count|sum)$", "", name) for name in re.findall(r"\btidelog_\w+", page)}
    assert named == {definition.name for definition in TABLE}


def test_counting_knows_nothing_of_prometheus() -> None:
    """A broker without a metrics port does not even import it."""
    check = "import tidelog.broker.metrics.counters, sys; sys.exit('prometheus_client' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", check], check=False, timeout=PATIENCE_SECONDS).returncode == 0
    )


# ---------------------------------------------------------------- read off the core


def test_a_leader_and_its_followers() -> None:
    """Offsets, watermark, ISR and lags of a partition are those of the core."""
    bench = leading("abc", replicas=(0, 1, 2))
    bench.produce("d")
    bench.fetch(1, 4)
    bench.consume(3, wait_ms=500)
    page = read(bench.core)
    where = {"topic": "t", "partition": "0"}
    assert page.all("partition_log_start_offset") == [(where, 0)]
    assert page.all("partition_log_end_offset") == [(where, 4)]
    assert page.all("partition_high_watermark") == [(where, 3)]
    assert page.all("partition_leader_epoch") == [(where, 0)]
    assert page.all("partition_is_leader") == [(where, 1)]
    assert page.all("partition_isr_size") == [(where, 3)]
    assert page.by("partition_follower_lag_records", "topic", "partition", "follower") == {
        "t 0 1": 0,
        "t 0 2": 1,
    }
    assert (page["replicas"], page["leaders"], page["under_replicated_partitions"]) == (1, 1, 0)
    assert (page["parked_produces"], page["parked_fetches"]) == (1, 2)
    assert page.by("broker_info", "broker", "generation") == {"0 epoch": 1}
    assert (page["live_brokers"], page["controller_epoch"], page["active_controller"]) == (4, 1, 0)


def test_a_follower_knows_no_isr_and_no_lag() -> None:
    """What only a leader can know has no sample here, rather than a zero."""
    bench = Bench(me=0)
    bench.follow(1, 0)
    bench.fed(0, records("ab"), high_watermark=1)
    page = read(bench.core)
    assert page.by("partition_high_watermark", "topic") == {"t": 1}
    assert page.by("partition_is_leader", "topic") == {"t": 0}
    assert not page.has("partition_isr_size")
    assert not page.has("partition_follower_lag_records")
    assert not page.has("offline_partitions")
    assert (page["replicas"], page["leaders"], page["stalled_followers"]) == (1, 0, 0)
    bench.fed(2, error=ErrorCode.FENCED_LEADER_EPOCH)
    assert read(bench.core)["stalled_followers"] == 1


@pytest.mark.parametrize(
    ("isr", "lacking", "at_min", "under_min"), [((0, 1, 2), 0, 0, 0), ((0, 1), 1, 1, 0), ((0,), 1, 0, 1)]
)
def test_too_few_in_sync(isr: tuple[int, ...], lacking: int, at_min: int, under_min: int) -> None:
    """With min.insync.replicas=2 of three: lacking one is a warning, lacking two stops acks=all."""
    bench = Bench(replicas=(0, 1, 2), topic=TopicConfig(min_insync_replicas=2))
    bench.lead(isr=isr)
    page = read(bench.core)
    assert page["under_replicated_partitions"] == lacking
    assert page["at_min_isr_partitions"] == at_min
    assert page["under_min_isr_partitions"] == under_min


def test_offline_partitions_are_the_controller_s_to_know() -> None:
    """Both replicas dead: the controller counts one partition without a leader until one is back."""
    world = stage(THREE.replace("replicas=0,1,2", "replicas=0,1"))
    assert read(world.core(2))["offline_partitions"] == 0
    assert read(world.core(2))["active_controller"] == 1
    world.do("crash 0", "crash 1", "wait leader none")
    assert read(world.core(2))["offline_partitions"] == 1
    world.do("restart 0", "restart 1", "wait leader 0")
    assert read(world.core(2))["offline_partitions"] == 0
    assert not read(world.core(0)).has("offline_partitions")


# ---------------------------------------------------------------- counted


def test_requests_by_api() -> None:
    """Latencies fall into cumulative buckets in seconds; failures and error codes are counted beside them."""
    metrics = Metrics()
    for latency_us in (99, 100, 101, 700_000, 10**9):
        metrics.request_finished(Api.PRODUCE, latency_us, False)
    metrics.request_finished(Api.LIST_OFFSETS, 10, True)
    metrics.error_answered(Api.LIST_OFFSETS, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    metrics.error_answered(Api.LIST_OFFSETS, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    metrics.error_answered(Api.FETCH, 32_000)
    page = read(Bench().core, metrics)
    buckets = [
        (labels["le"], value)
        for labels, value in page.all("request_latency_seconds_bucket")
        if labels["api"] == "Produce"
    ]
    assert buckets[:2] == [("0.0001", 2), ("0.00025", 3)]
    assert dict(buckets)["0.5"] == 3
    assert dict(buckets)["1.0"] == 4
    assert buckets[-2:] == [("30.0", 4), ("+Inf", 5)]
    assert page.by("request_latency_seconds_count", "api") == {"Produce": 5, "ListOffsets": 1, "Fetch": 0}
    assert page.by("request_latency_seconds_sum", "api")["Produce"] == pytest.approx(1000.7003)
    assert page.by("requests_failed_total", "api") == {"Produce": 0, "ListOffsets": 1, "Fetch": 0}
    assert page.by("errors_answered_total", "api", "error") == {
        "ListOffsets NOT_LEADER_OR_FOLLOWER": 2,
        "Fetch 32000": 1,
    }


def test_bytes_and_connections() -> None:
    """What the server raises is what is shown."""
    metrics = Metrics()
    metrics.bytes_in += 10
    metrics.incoming_bytes = 9
    metrics.bytes_out += 20
    metrics.connections = 3
    metrics.connections_refused += 4
    metrics.protocol_errors += 5
    page = read(Bench().core, metrics)
    assert [
        page[name]
        for name in (
            "received_bytes_total",
            "incoming_request_bytes",
            "sent_bytes_total",
            "connections",
            "connections_refused_total",
            "protocol_errors_total",
        )
    ] == [10, 9, 20, 3, 4, 5]


def test_commits_and_truncations() -> None:
    """Records count when they are committed, and again when they are cut off."""
    metrics = observed(leading("abc").events)
    assert (metrics.records_committed, metrics.leaderships, metrics.truncations) == (3, 1, 0)
    bench = Bench(generation="hw")
    bench.follow(1, 0)
    bench.fed(0, records("abc"), high_watermark=1)
    bench.follow(2, 1)
    page = read(bench.core, observed(bench.events))
    assert (page["truncations_total"], page["truncated_records_total"]) == (1, 2)
    assert page["followings_total"] == 2


def confirm(bench: Bench, error: ErrorCode = ErrorCode.NONE) -> None:
    asked = bench.last_sent(AlterIsrRequest)
    answer = AlterIsrResponse(tp=TP, error=error, leader_epoch=asked.leader_epoch, number=asked.number)
    if error is ErrorCode.NONE:
        answer.isr, answer.version = asked.isr, asked.version + 1
    bench.hear(answer, CONTROLLER)


def test_isr_changes() -> None:
    """A member that lags goes, one that is back comes in, a refusal is neither; the controller's own removal
    of a dead member is one too."""
    bench = leading("a", replicas=(0, 1, 2))
    bench.produce("b", acks=1)
    for _ in range(50):
        bench.pass_time(1_000)
        bench.fetch(2, 2)
    assert read(bench.core)["pending_isr_changes"] == 1
    confirm(bench)
    bench.fetch(1, 2)
    confirm(bench, ErrorCode.INVALID_UPDATE_VERSION)
    page = read(bench.core, observed(bench.events))
    assert (page["isr_shrinks_total"], page["isr_expands_total"]) == (1, 0)
    assert page.by("isr_changes_refused_total", "error") == {"INVALID_UPDATE_VERSION": 1}
    bench.lead(epoch=1, isr=(0,), version=5)
    bench.fetch(1, 2)
    confirm(bench)
    page = read(bench.core, observed(bench.events))
    assert (page["isr_shrinks_total"], page["isr_expands_total"]) == (2, 1)
    assert page["leaderships_total"] == 2


@pytest.mark.parametrize(
    ("kind", "generation", "steps"),
    [
        ("clean", "epoch", "crash 0\nwait leader 1"),
        ("clean", "hw", "crash 0\nwait leader 1"),
        (
            "preferred",
            "epoch",
            "crash 0\nwait leader 1\nrestart 0\nwait isr 0,1,2\nelect-preferred\nwait leads 0",
        ),
        ("shutdown", "epoch", "stop 0\nwait leader 1"),
        ("majority", "majority", "crash 0\nwait leader 1"),
        ("reassigned", "epoch", "reassign t 1,2\nwait replicas 1,2"),
    ],
)
def test_elections_by_kind(kind: str, generation: str, steps: str) -> None:
    """How the controller chose a new leader is one of the labels."""
    elections = told(play(THREE, steps, generation)).elections
    assert elections[kind] == 1
    others = {"clean": 1} if kind == "preferred" else {}
    assert {name: count for name, count in elections.items() if count} == {kind: 1, **others}


def test_new_partitions_and_unclean_elections() -> None:
    """The one that matters most: a leader that was not in sync."""
    world = stage(THREE.replace("replicas=0,1,2", "replicas=0,1"))
    world.do("send p a", "crash 1", "wait isr 0", "send p b", "crash 0", "wait leader none", "restart 1")
    assert observed(world.events).elections["unclean"] == 0
    assert observed(world.events).elections["new"] == 1
    assert observed(world.events).election_failures > 0
    world.do("configure t unclean.leader.election.enable=true", "wait leader 1")
    elections = observed(world.events).elections
    assert (elections["unclean"], elections["clean"]) == (1, 0)


def test_every_kind_of_election_is_there_from_the_start() -> None:
    """An alert on a rate cannot see a counter that is born as 1."""
    kinds = read(Bench().core).by("leader_elections_total", "kind")
    assert set(kinds.values()) == {0}
    state = PartitionState(BrokerId(1), LeaderEpoch(1), (BrokerId(1),), ControllerEpoch(1))
    for kind in ElectionKind:
        written = PartitionStateWritten(BrokerId(1), TP, state, kind)
        (label,) = (name for name, count in observed([written]).elections.items() if count)
        assert label in kinds


def test_controllers_come_and_go() -> None:
    """Who is elected counts an election, who learns of its successor a resignation."""
    story = play(THREE, "isolate broker-2\nwait controller 0\nheal\nadvance 20s")
    assert told(story, broker=0).controller_elections == 1
    assert told(story, broker=2).controller_resignations == 1


def test_the_keeper_s_view_of_a_broker() -> None:
    """Registered until the session is lost, and again after it."""
    events = Bench().events
    metrics = observed(events)
    assert metrics.registered
    metrics.observe(p.KeeperSessionLost(1, "it expired"))
    assert (metrics.registered, metrics.keeper_sessions_lost) == (False, 1)
    for event in events:
        metrics.observe(event)
    assert metrics.registered


def test_whether_the_keeper_is_connected() -> None:
    """Read from the connection itself, because a break causes no event."""
    core = Bench().core
    assert not read(core).has("keeper_connected")
    apart = connect("embedded://127.0.0.1:1")
    assert scraped(Sources(Metrics(), core, keeper=apart))["keeper_connected"] == 0


def test_what_recovery_found() -> None:
    """How a start went is not known before the logs are open, and stays visible ever after."""
    assert not read(Bench().core).has("clean_start")
    metrics = observed(
        [
            p.LogRecovered(TP, 5, 100, 3, "cut off"),
            p.LogRecovered(TopicPartition("u", 1), 7, 11, 4, "cut off"),
            p.StorageRecovered(False, 9, 2, 1_500),
        ]
    )
    page = read(Bench().core, metrics)
    assert (page["logs_repaired_total"], page["recovery_truncated_bytes_total"]) == (2, 111)
    assert page["recovery_missing_offsets_total"] == 7
    assert (page["recovery_seconds"], page["clean_start"]) == (1.5, 0)


def test_what_files_weigh(tmp_path: Path) -> None:
    """Segment files have a size, their tail is in memory, and trouble in the background shows."""
    storage = FileStorage(tmp_path, broker_id=0)
    core = Broker(BrokerId(0), storage, GENERATIONS["majority"], BrokerConfig())
    log = core._controlled._replica(TP, NO_TOPIC_ID).log
    sources = Sources(Metrics(), core, storage)
    assert scraped(sources).by("partition_size_bytes", "topic", "partition") == {"t 0": 0}
    log.append_leader_change(LeaderEpoch(1))
    [segment] = tmp_path.glob("t-0/*.log")
    page = scraped(sources)
    assert page.by("partition_size_bytes", "topic", "partition") == {"t 0": segment.stat().st_size}
    assert page["tail_bytes"] > 0
    assert page["storage_trouble"] == 0
    storage.trouble = "no room"
    assert scraped(sources)["storage_trouble"] == 1
    storage.trouble = ""
    assert storage.close()


def test_whether_evidence_is_recorded(tmp_path: Path) -> None:
    """1 while it is, 0 once the disk refused, absent without tidelog.evidence.dir."""
    recorder = EventRecorder(tmp_path, BrokerId(0), lambda: 0)
    core = Bench().core
    assert not read(core).has("evidence_recording")
    assert read(core, recorder=recorder)["evidence_recording"] == 1
    recorder.close()
    assert read(core, recorder=recorder)["evidence_recording"] == 0


# ---------------------------------------------------------------- over HTTP


def on_loop(visit: Callable[[Exposition, Bench], Awaitable[T]], *, partitions: int = 0) -> T:
    """Serve a broker's metrics on uvloop, as brokers do, and visit them."""

    async def run() -> T:
        bench = leading("abc")
        for number in range(partitions):
            bench.core._controlled._replica(TopicPartition("many", number), NO_TOPIC_ID)
        exposition = await serve(observed(bench.events), bench.core, host="127.0.0.1", port=0)
        try:
            return await visit(exposition, bench)
        finally:
            await exposition.stop()

    return uvloop.run(run())


async def send(exposition: Exposition, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", exposition.port)
    try:
        writer.write(request)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def scrape(exposition: Exposition) -> Scraped:
    answer = await send(exposition, b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Type: text/plain; version=" in head
    assert f"Content-Length: {len(body)}".encode() in head
    return Scraped(body.decode())


def test_a_scrape_over_http() -> None:
    """Every metric is there with its type and its help, and so are those of the process; the next scrape sees
    what happened in between."""

    async def visit(exposition: Exposition, bench: Bench) -> tuple[Scraped, Scraped]:
        before = await scrape(exposition)
        bench.produce("d")
        return before, await scrape(exposition)

    before, after = on_loop(visit)
    for definition in TABLE:
        family = before.families[definition.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (definition.kind, definition.doc)
    assert "process_resident_memory_bytes" in before.families
    assert (before["records_committed_total"], before["parked_produces"]) == (3, 0)
    assert (after.by("partition_log_end_offset", "topic"), after["parked_produces"]) == ({"t": 4}, 1)


async def state(exposition: Exposition) -> Any:
    head, _, body = (await send(exposition, b"GET /state HTTP/1.1\r\n\r\n")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: application/json")
    return json.loads(body)


def test_the_state_tells_what_a_leader_knows_and_who_waits() -> None:
    """The follower's log end is that of its last fetch; the waiting produce names the offset it waits for."""

    async def visit(exposition: Exposition, bench: Bench) -> tuple[Any, Any]:
        before = await state(exposition)
        bench.produce("d")
        return before, await state(exposition)

    before, after = on_loop(visit)
    (one,) = before["partitions"]
    assert (one["topic"], one["partition"], one["role"], one["leader_epoch"]) == ("t", 0, "leader", 0)
    assert (one["log_end_offset"], one["high_watermark"]) == (3, 3)
    (one,) = after["partitions"]
    assert (one["log_end_offset"], one["high_watermark"]) == (4, 3)
    assert {follower["broker"]: follower["log_end_offset"] for follower in one["remote"]}[1] == 3
    waiting = [(request["kind"], request["offset"]) for request in one["parked"]]
    assert ("produce", 4) in waiting
    assert (after["controls"], after["machines"]) == (None, [])


async def turns_of_change(page: asyncio.Future[bytes], bench: Bench) -> int:
    """Partitions come and go until the page is made."""
    turns = 0
    while not page.done():
        turns += 1
        bench.core._controlled._replica(TopicPartition("more", turns), NO_TOPIC_ID)
        bench.core.replicas.pop(TopicPartition("many", turns), None)
        await asyncio.sleep(0)
    return turns


def test_partitions_may_come_and_go_while_the_state_is_told() -> None:
    async def visit(exposition: Exposition, bench: Bench) -> int:
        page = asyncio.ensure_future(state_page(bench.core))
        turns = await turns_of_change(page, bench)
        assert len(json.loads(page.result())["partitions"]) == 501
        return turns

    assert on_loop(visit, partitions=500) >= 10


def test_a_page_in_slices_is_the_page() -> None:
    """A metric of very many samples is written in several turns of the loop, with one HELP and one TYPE."""

    async def visit(exposition: Exposition, bench: Bench) -> tuple[str, str]:
        registry = CollectorRegistry()
        registry.register(BrokerCollector(Sources(observed(bench.events), bench.core)))
        return (await exposition.metrics()).decode(), generate_latest(registry).decode()

    page, whole = on_loop(visit, partitions=1_001)
    pages = (page.partition("# HELP process_")[0], whole)
    # What is in use changes from one moment to the next.
    first, second = (re.sub(r"(?m)^(tidelog_memory_blocks) .*", r"\1", each) for each in pages)
    assert first == second
    assert len(Scraped(page).all("partition_log_end_offset")) == 1_002


def test_partitions_may_come_and_go_during_a_scrape() -> None:
    """Each metric is of one moment: a scrape never fails because the broker goes on."""

    async def visit(exposition: Exposition, bench: Bench) -> list[int]:
        page = asyncio.ensure_future(exposition.metrics())
        turns = await turns_of_change(page, bench)
        found = Scraped(page.result().decode())
        return [turns, len(found.all("partition_log_end_offset"))]

    turns, partitions = on_loop(visit, partitions=500)
    assert turns > len(TABLE)
    assert partitions > 0


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        (b"GET / HTTP/1.1", b"404 Not Found", NOT_FOUND),
        (b"GET /metrics?name=x HTTP/1.0", b"200 OK", b"# HELP"),
        (b"HEAD /metrics HTTP/1.1", b"200 OK", b""),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed", b"only GET\n"),
        (b"", b"405 Method Not Allowed", b"only GET\n"),
        (b"\x00\xff\xfe", b"405 Method Not Allowed", b"only GET\n"),
    ],
)
def test_other_requests(request_line: bytes, status: bytes, body: bytes) -> None:
    """Each is answered in a line and its connection closed."""
    answer = on_loop(lambda exposition, _: send(exposition, request_line + b"\r\n\r\n"))
    head, _, found = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert found[: max(len(body), 6)] == body


def test_a_head_without_end_is_not_collected() -> None:
    """Nor is a request that comes in pieces refused."""

    async def visit(exposition: Exposition, _bench: Bench) -> tuple[bytes, bytes]:
        endless = await send(exposition, b"GET /metrics HTTP/1.1\r\n" + b"x" * HEAD_BYTES_MAX)
        reader, writer = await asyncio.open_connection("127.0.0.1", exposition.port)
        for byte in b"GET /metrics HTTP/1.1\r\n\r\n":
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        answer = await reader.read()
        writer.close()
        return endless, answer

    endless, in_pieces = on_loop(visit)
    assert endless == b""
    assert in_pieces.startswith(b"HTTP/1.1 200 OK")


def test_visitors_are_bounded() -> None:
    """Who sits there and asks nothing can keep others out, but cannot pile up; gone, it leaves room."""

    async def visit(exposition: Exposition, _bench: Bench) -> tuple[bytes, bytes]:
        address = ("127.0.0.1", exposition.port)
        idle = [await asyncio.open_connection(*address) for _ in range(VISITORS_MAX)]
        while len(exposition.visitors) < VISITORS_MAX:
            await asyncio.sleep(0.001)
        refused = await send(exposition, b"GET / HTTP/1.1\r\n\r\n")
        for _, writer in idle:
            writer.close()
        while exposition.visitors:
            await asyncio.sleep(0.001)
        return refused, await send(exposition, b"GET / HTTP/1.1\r\n\r\n")

    refused, admitted = on_loop(visit)
    assert refused == b""
    assert admitted.startswith(b"HTTP/1.1 404")


def test_the_end_closes_everything() -> None:
    """Connections are closed, and the port is free again."""

    async def run() -> None:
        core = Bench().core
        exposition = await serve(Metrics(), core, host="127.0.0.1", port=0)
        with pytest.raises(OSError, match="in use"):
            await serve(Metrics(), core, host="127.0.0.1", port=exposition.port)
        reader, writer = await asyncio.open_connection("127.0.0.1", exposition.port)
        while not exposition.visitors:
            await asyncio.sleep(0.001)
        await exposition.stop()
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", exposition.port)
        again = await serve(Metrics(), core, host="127.0.0.1", port=exposition.port)
        await again.stop()

    uvloop.run(run())


def test_a_scrape_that_fails_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """A bug in a reading costs the scrape: the scraper gets a 500, the broker's log the reason."""

    class Broken(Collector):
        def collect(self) -> Iterable[Metric]:
            yield Metric("fine", "Fine.", "gauge")
            raise RuntimeError("the reading")

    async def run() -> bytes:
        registry = CollectorRegistry()
        registry.register(Broken())
        exposition = Exposition(registry, Bench().core)
        await exposition.listen("127.0.0.1", 0)
        try:
            return await send(exposition, b"GET /metrics HTTP/1.1\r\n\r\n")
        finally:
            await exposition.stop()

    assert uvloop.run(run()).startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert "RuntimeError: the reading" in caplog.text


def test_a_visitor_who_asks_nothing_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time, so that the places of idle connections become free."""
    monkeypatch.setattr("tidelog.broker.metrics.http.VISIT_SECONDS_MAX", 0.01)
    assert on_loop(lambda exposition, _: send(exposition, b"GET /metr")) == b""


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_start_that_is_given_up_leaves_nothing_open(run: Callable[..., bool]) -> None:
    """At every moment: the caller of a cancelled start has nothing to stop."""
    core = Bench().core

    async def start() -> None:
        exposition = await serve(Metrics(), core, host="127.0.0.1", port=0)
        assert listening() - before == {exposition.port}
        await exposition.stop()

    async def give_up(moment: int) -> bool:
        given_up = await cancelled_at(moment, start())
        assert listening() == before
        return given_up

    before = listening()
    moments = next(moment for moment in count() if not run(give_up(moment)))
    assert moments >= 2, "it waits for the port"
