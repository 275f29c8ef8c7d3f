"""The plugin for pytest (entry point `pytest11`): fixtures, markers and options for tests that use Kafka.

Session: `kafka_cluster`, `kafka_bootstrap_servers`. Function: `kafka_topic`, `kafka_topic_factory`,
`kafka_group`, `kafka_admin`, `kafka_client_config`, `kafka_faults`, `kafka_ledger`; for asyncio
`kafka_cluster_async` and `kafka_faults_async`.

A cluster is a fixture of the session with a parameter (`options.ClusterChoice`): tests whose markers ask for
the same cluster share it, and pytest orders them so that each is started once. With xdist every worker has
its own, on ports of its own.

`@pytest.mark.kafka_schedules` runs a test under many schedules of faults (`schedule_runs`). A failed test
says what happened to its cluster (`report`).
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.errors import Refusal, reason
from tidelog.testing.options import ClusterChoice, add_options, choices, marked

if TYPE_CHECKING:
    from tidelog.cluster.async_cluster import AsyncCluster
    from tidelog.cluster.topics import Replicas
    from tidelog.kafka_client.admin import Admin
    from tidelog.testing.async_faults import AsyncFaults
    from tidelog.testing.faults import Faults
    from tidelog.testing.ledger import Ledger
    from tidelog.testing.running import AnyCluster, RunningCluster

RUNNING = pytest.StashKey[dict[int, "RunningCluster"]]()
"""The clusters that run, by the identity of what their fixture gave."""
TOPICS = pytest.StashKey[list[str]]()
"""Of one test: the topics that it created."""
BEGAN_US = pytest.StashKey[int]()
KEPT = pytest.StashKey[Path]()
"""Of one test that failed: where its evidence goes."""
CHOICES = pytest.StashKey[list[ClusterChoice]]()
_NO_CLUSTER = "pytest.mark.kafka_schedules: the test uses no fixture such as kafka_topic"
_HIDDEN = getattr(pytest, "HIDDEN_PARAM", "kafka")
"""A test keeps its name, if this pytest can do that."""


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka(brokers=, generation=, settings=, fresh=): the cluster that this test needs; "
        "fresh=True: one of its own",
    )
    config.addinivalue_line(
        "markers",
        "kafka_schedules(n=, seed=, seconds=, faults=, replay=): run this test under n schedules of faults",
    )
    config.stash[CHOICES] = choices(config)
    config.stash[RUNNING] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("kafka_schedules") is not None:
        _check_schedules(metafunc)
    if "kafka_cluster" not in metafunc.fixturenames:
        return
    markers = list(metafunc.definition.iter_markers("kafka"))[::-1]
    defaults = metafunc.config.stash[CHOICES]
    if not markers and len(defaults) == 1:
        return
    with _one_line("pytest.mark.kafka: "):
        wanted = list(dict.fromkeys(marked(choice, markers) for choice in defaults))
    ids = [choice.generation for choice in wanted] if len(wanted) > 1 else [_HIDDEN]
    metafunc.parametrize("kafka_cluster", wanted, indirect=True, scope="session", ids=ids)


def _check_schedules(metafunc: pytest.Metafunc) -> None:
    from tidelog.testing.schedule_runs import Wanted

    if "kafka_cluster" not in metafunc.fixturenames:
        pytest.fail(_NO_CLUSTER, pytrace=False)
    with _one_line("pytest.mark.kafka_schedules: "):
        Wanted.of(metafunc.definition)


@contextmanager
def _one_line(what: str) -> Iterator[None]:
    """A refusal fails the test, or the collection, with one line: not with the line that it comes from."""
    try:
        yield
    except Refusal as error:
        raise pytest.fail.Exception(f"{what}{error}", pytrace=False) from None


# ---------------------------------------------------------------- of the session


@pytest.fixture(scope="session")
def kafka_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyCluster]:
    """A running cluster of real brokers: a `tidelog.Cluster`, or the one of --kafka-bootstrap-servers."""
    from tidelog.testing.running import RunningCluster

    choice: ClusterChoice = getattr(request, "param", None) or request.config.stash[CHOICES][0]
    if choice.servers and choice.named:
        pytest.skip(f"needs a cluster with {', '.join(choice.named)}, not --kafka-bootstrap-servers")
    with _one_line("no Kafka cluster: "):
        running = RunningCluster(choice, tmp_path_factory.mktemp("kafka"))
    running_clusters = request.config.stash[RUNNING]
    running_clusters[id(running.cluster)] = running
    yield running.cluster
    del running_clusters[id(running.cluster)]
    running.stop()


@pytest.fixture(scope="session")
def kafka_bootstrap_servers(kafka_cluster: AnyCluster) -> str:
    """`host:port,…` of all brokers."""
    return kafka_cluster.bootstrap_servers


# ---------------------------------------------------------------- of each test


@pytest.fixture
def kafka_topic_factory(request: pytest.FixtureRequest, kafka_cluster: AnyCluster) -> Callable[..., str]:
    """Creates topics: `kafka_topic_factory(partitions=3, replicas=3, config={…})` returns the name of a new
    one, when every broker knows its leaders."""

    def create(
        partitions: int = 1,
        replicas: Replicas = None,
        config: Mapping[str, Any] | None = None,
        *,
        name: str = "",
    ) -> str:
        created = kafka_cluster.topic(name or unique(request.node.name), partitions, replicas, config)
        request.node.stash.setdefault(TOPICS, []).append(created)
        return created

    return create


@pytest.fixture
def kafka_topic(kafka_topic_factory: Callable[..., str]) -> str:
    """The name of a new topic with one partition, whose leader every broker knows."""
    return kafka_topic_factory()


@pytest.fixture
def kafka_group(request: pytest.FixtureRequest) -> str:
    """The name of a consumer group that no other test uses."""
    return unique(request.node.name)


@pytest.fixture
def kafka_admin(kafka_cluster: AnyCluster) -> Iterator[Admin]:
    """A small admin client (`tidelog.kafka_client.admin.Admin`), connected."""
    from tidelog.kafka_client.admin import Admin

    with Admin(kafka_cluster.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def kafka_client_config(kafka_cluster: AnyCluster) -> Callable[..., dict[str, Any]]:
    """The settings with which a client finds the cluster: `kafka_client_config("confluent-kafka")`,
    `("kafka-python")` or `("aiokafka")`. With `client="app"` through links of its own, which can be cut."""
    return kafka_cluster.client_config


@pytest.fixture
def kafka_faults(kafka_cluster: AnyCluster) -> Iterator[Faults]:
    """What can be done to the cluster. Healed at the end of the test, until all replicas are in sync."""
    from tidelog.cluster.cluster import Cluster
    from tidelog.testing.existing import WHY
    from tidelog.testing.skipping import SkippingFaults

    if not isinstance(kafka_cluster, Cluster):
        pytest.skip(WHY)
    faults = SkippingFaults(kafka_cluster)
    yield faults
    with _one_line("the cluster could not be healed: "):
        faults.heal()


@pytest.fixture
def kafka_ledger(
    request: pytest.FixtureRequest, kafka_cluster: AnyCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ledger]:
    """What producers were promised: `kafka_ledger.wrap(producer)`, then `assert_nothing_lost()`."""
    from tidelog.cluster.cluster import Cluster
    from tidelog.testing.faults import Faults
    from tidelog.testing.ledger import Ledger
    from tidelog.testing.running import servers_of

    history = kafka_cluster.faults.history if isinstance(kafka_cluster, Cluster) else []
    before = len(history)
    ledger = Ledger(lambda: servers_of(kafka_cluster), tmp_path_factory.mktemp("ledger") / "evidence")
    yield ledger
    if isinstance(kafka_cluster, Cluster) and kafka_cluster.faults.active():
        Faults(kafka_cluster).heal()  # or the last read would wait for dead leaders
    ledger.close(history[before:])
    if KEPT in request.node.stash:
        from tidelog.testing.report import keep_evidence

        running = request.config.stash[RUNNING][id(kafka_cluster)]
        keep_evidence(running, request.node.stash[KEPT], ledger.folder)


# ---------------------------------------------------------------- asyncio


@pytest.fixture
def kafka_cluster_async(kafka_cluster: AnyCluster) -> AsyncCluster:
    """The same cluster for asyncio."""
    from tidelog.cluster.async_cluster import AsyncCluster
    from tidelog.cluster.cluster import Cluster
    from tidelog.testing.existing import WHY

    if not isinstance(kafka_cluster, Cluster):
        pytest.skip(WHY)
    return AsyncCluster.over(kafka_cluster)


@pytest.fixture
def kafka_faults_async(kafka_faults: Faults) -> AsyncFaults:
    """The same faults for asyncio: `async with kafka_faults_async.kill(1): …`."""
    from tidelog.testing.async_faults import AsyncFaults

    return AsyncFaults(kafka_faults)


def unique(name: str) -> str:
    """A name for a topic or a group, in which its test can be recognized."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")[:80]
    return f"{plain}-{uuid.uuid4().hex[:8]}"


# ---------------------------------------------------------------- schedules of faults


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if item.get_closest_marker("kafka_schedules") is None:
        return None
    if "kafka_cluster" not in getattr(item, "fixturenames", ()):
        return None  # a method of unittest: refused in its setup
    from tidelog.testing.schedule_runs import Wanted, run_all

    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in run_all(item, Wanted.of(item), nextitem):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before fixtures create topics."""
    if item.get_closest_marker("kafka_schedules") and "kafka_cluster" not in getattr(
        item, "fixturenames", ()
    ):
        pytest.fail(_NO_CLUSTER, pytrace=False)
    item.stash[TOPICS] = []
    item.stash[BEGAN_US] = time.time_ns() // 1000
    if KEPT in item.stash:
        del item.stash[KEPT]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    pyfuncitem.stash[BEGAN_US] = time.time_ns() // 1000
    if pyfuncitem.get_closest_marker("kafka_schedules") is None:
        return (yield)
    from tidelog.cluster.cluster import Cluster
    from tidelog.testing.existing import WHY
    from tidelog.testing.schedule_runs import RUN, faults_in

    cluster = pyfuncitem.funcargs.get("kafka_cluster")
    if cluster is None:
        cluster = pyfuncitem._request.getfixturevalue("kafka_cluster")
    if not isinstance(cluster, Cluster):
        pytest.skip(WHY)
    faults: Any = pyfuncitem.funcargs.get("kafka_faults")
    with faults_in(pyfuncitem.stash[RUN], cluster, faults):
        return (yield)


# ---------------------------------------------------------------- failures


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    running = _running(item)
    if report.when == "call" and report.failed and running is not None:
        from tidelog.testing.report import failure_text, folder_for, keep_evidence

        kept = folder_for(_evidence_root(item.config, running), item.nodeid)
        try:
            began, topics = item.stash[BEGAN_US], item.stash[TOPICS]
            report.sections.append(("Kafka", failure_text(running, _again(item), began, topics, kept)))
            item.stash[KEPT] = kept
            if "kafka_ledger" not in getattr(item, "fixturenames", ()):  # or when the ledger is closed
                keep_evidence(running, kept, None)
        except OSError as error:  # the failure itself must be reported all the same
            report.sections.append(("Kafka", f"{kept}: {reason(error)}"))
    return report


def _again(item: pytest.Item) -> str:
    """The command that repeats a test, under the schedule that it ran under, if it did."""
    from tidelog.testing.again import command_for

    if item.get_closest_marker("kafka_schedules") is None:
        return command_for(item)
    from tidelog.testing.schedule_runs import RUN
    from tidelog.testing.schedules import written

    return command_for(item, written(item.stash[RUN].schedule or ()))


def _running(item: pytest.Item) -> RunningCluster | None:
    """The cluster of a test, if it has one."""
    if "kafka_cluster" not in getattr(item, "fixturenames", ()):
        return None
    clusters = list(item.config.stash[RUNNING].values())
    given = (getattr(item, "funcargs", None) or {}).get("kafka_cluster")
    mine = [running for running in clusters if running.cluster is given] or clusters
    return mine[-1] if mine else None


def _evidence_root(config: pytest.Config, running: RunningCluster) -> Path:
    chosen: str = config.getoption("--kafka-evidence")
    return config.rootpath / chosen if chosen else running.folder.parent / "kafka-evidence"
