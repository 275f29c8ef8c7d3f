"""What all tests share: reproducible properties, the switch that rewrites golden transcripts, a ZooKeeper."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from bench.jars import java
from hypothesis import settings
from tests.against import Against, against
from tests.effort import set_effort, tries
from tests.leftovers import Leftovers
from tests.missing_tools import MissingTools
from tests.testing.plugged import without_entry_point
from tests.web.browsing import launched
from tests.zookeeper import ZooKeeper
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

pytest_plugins = ["pytester", *without_entry_point()]

TOGETHER = ("tests/pipeline/", "tests/clients/", "tests/failover/")
"""Folders whose tests share something dear: a Spark, or a cluster that ends with the last of them."""
ONE_BY_ONE = "tests/process_stage/test_cluster_stage.py::test_the_whole_catalogue"
"""Long, many, and with nothing to share but their file."""


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what runs in the background with Ctrl-C ignored, and tests press it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(MissingTools(), "missing tools")
    config.pluginmanager.register(Leftovers(), "leftovers")
    against(config.getoption("--against"))  # what is misspelt is said at once
    set_effort(config.getoption("--effort"))
    # No deadline: a loaded machine is slow, not wrong. Derandomized: a red build is red for everybody.
    settings.register_profile("tidelog", deadline=None, derandomize=True, max_examples=tries(50))
    settings.load_profile("tidelog")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the golden transcripts again; commit the diff only if you understand it",
    )
    parser.addoption(
        "--effort",
        type=int,
        default=1,
        metavar="N",
        help="search and draw N times as long in the tests that do (make test-all: 4)",
    )
    parser.addoption(
        "--against",
        default="tidelog",
        metavar="SYSTEM",
        help="what the tests of real clients are pointed at: tidelog, kafka, or HOST:PORT,… of a cluster "
        "that runs (see tests/against.py)",
    )


class ByFileOrFolder(LoadFileScheduling):  # type: ignore[misc]
    """The tests of a file go to one process, as do those of some folders: a Java that has judged one piece of
    evidence judges the next in a third of the time, and an idle cluster costs processor time."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(ONE_BY_ONE):
            return nodeid
        folder = next((folder for folder in TOGETHER if nodeid.startswith(folder)), None)
        return folder or str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFileOrFolder | None:
    return ByFileOrFolder(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders that stay together come first, then files with slow tests: what comes last should be done
    soon, or one process works while the others have nothing left."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (not item.nodeid.startswith(TOGETHER), item.path not in slow))


@pytest.fixture(scope="session", name="against")
def chosen_system(pytestconfig: pytest.Config) -> Against:
    return against(pytestconfig.getoption("--against"))


@pytest.fixture
def rewrite(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--rewrite"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """For one module only: while it runs, no other test of the process can have an event loop."""
    with launched() as running:
        yield running


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A real one, shared by the tests of this process: take a place of your own with ``url()``."""
    server = ZooKeeper(java(), tmp_path_factory.mktemp("zookeeper"))
    try:
        server.start()
        yield server
    finally:
        server.stop()
