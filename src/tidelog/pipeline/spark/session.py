"""Spark, opened the same way for every job of the pipeline.

Without a master, Spark runs inside this machine: on loopback only, silent, no web page unless asked for.
With `master` it is a cluster's, with `remote` a Spark Connect server's; then what concerns machines and
memory is left as they have it.

Rules of the file: nothing here prints, and whatever hinders Spark becomes a `PipelineError` of one line. The
workers are Python processes of their own, so tidelog must be installed wherever they run.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.pipeline.spark.java import find_java, launcher_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY_MB_MIN = 512
_MEMORY_MB_MAX = 8192
_YOUNG_MB_MAX = 1024
_REACHED_WITHIN_S = 10.0
_WORKER_WITHIN_S = 60.0
_WORKER_ASKED_EVERY_S = 0.2
_PIECES_ELSEWHERE = 8
"""Spark's own default is 200: of little evidence, hardly a row in each. Who has much asks for more."""
_PYTHON_CONNECTS_WITHIN = "120s"
"""Spark's own 15 s are too short on a machine with much else to do."""
_CONNECT_PORT = 15002
_MASTER_PORT = 7077
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_MASTER = re.compile(r"spark://.|k8s://.|yarn$|local-cluster\[")
_LOCAL = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:,\d+)?\])?")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

Settings = Mapping[str, str]


def open_session(
    *,
    master: str | None = None,
    remote: str | None = None,
    ui: bool = False,
    quick: bool = False,
    memory_mb: int | None = None,
    app: str = "tidelog",
    shuffle_partitions: int | None = None,
    settings: Settings | None = None,
    say: Callable[[str], object] = lambda words: None,
) -> SparkSession:
    """Spark, ready, with tidelog's data sources known to it; the one that is open, if one is.

    `quick`: what is to be done is over in a minute or two, or comes in small parts. `settings` are further
    ones of Spark's own. `say` is called with what Spark runs on. Raises `PipelineError`.
    """
    check_place(master, remote)
    if memory_mb is not None and memory_mb < MEMORY_MB_MIN:
        raise PipelineError(f"Spark does not run in {memory_mb} MB: give it {MEMORY_MB_MIN} or more")
    pieces = shuffle_partitions or _cores(master, remote) or _PIECES_ELSEWHERE
    wanted = {**_common(pieces), **(settings or {})}
    try:
        if remote:
            spark = _connected(remote, wanted)
            say(f"Spark {spark.version} at {remote}")
        else:
            launch = _launch_settings(
                master or "local[*]", app, ui=ui, memory_mb=memory_mb or _memory_mb(), quick=quick
            )
            spark = _launched({**launch, **wanted}, say)
    except PipelineError:
        raise
    except Exception as error:  # Spark's errors share no class: Java's, py4j's, gRPC's and its own
        raise PipelineError(f"Spark does not start: {first_line(error)}") from error
    from tidelog.pipeline.sources import register

    register(spark)
    return spark


def check_place(master: str | None, remote: str | None) -> None:
    """Whether Spark could be there at all: it answers a misspelt master with a page of Java. Raises
    `PipelineError`."""
    if master and remote:
        raise PipelineError("a master or a Spark Connect server, not both: leave out --master or --remote")
    if remote and not remote.startswith("sc://"):
        raise PipelineError(f"{remote} is no Spark Connect server: the address looks like sc://host:15002")
    if master and not (_is_local(master) or _MASTER.match(master)):
        raise PipelineError(f"{master} is no Spark master: it looks like spark://host:7077, local[2] or yarn")


def _common(shuffle_partitions: int) -> dict[str, str]:
    """What a session needs wherever it runs."""
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
    }


def on_this_machine(master: str | None, remote: str | None) -> bool:
    """Whether the workers are processes of this machine that run this Python."""
    return not remote and _is_local(master or "local[*]")


def _cores(master: str | None, remote: str | None) -> int | None:
    """How many cores this machine gives to Spark; None if it is not this machine that does the work."""
    if remote:
        return None
    found = _LOCAL.fullmatch(master or "local[*]")
    if not found:
        return None
    cores = found["cores"] or "1"
    return len(os.sched_getaffinity(0)) if cores == "*" else max(1, int(cores))


# ---------------------------------------------------------------- a Spark of our own


def _launched(wanted: Settings, say: Callable[[str], object]) -> SparkSession:
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is None:
        java = find_java()
        home, words = launcher_home(java), f"Spark on {java.words}"
    else:
        home, words = None, "the Spark that is open already"
    master = wanted["spark.master"]
    if master.startswith("spark://"):
        _reach(master, _MASTER_PORT, "is a Spark master running there?")
    builder: Any = SparkSession.builder
    for name, value in {**wanted, _JAVA_OPTIONS: f"{_quiet()} {wanted.get(_JAVA_OPTIONS, '')}"}.items():
        builder = builder.config(name, value)
    silent = "TIDELOG_SPARK_LOG" not in os.environ
    if silent:
        # Errors reach the caller; that pyspark also prints them, with all of Java's frames, is too much.
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    with _environment(home, _is_local(master)), _no_java_left():
        spark: SparkSession = builder.getOrCreate()
        if master.startswith("spark://"):
            _await_worker(spark, master)
    if silent:
        # Java hangs up a moment before pyspark, on its way out, stops listening, which is no error.
        vars(spark.sparkContext._accumulatorServer)["handle_error"] = lambda request, address: None
    say(words)
    return spark


def _await_worker(spark: SparkSession, master: str) -> None:
    """Spark itself waits for a worker without an end, and without a word."""
    context: Any = spark.sparkContext
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        return  # workers come when there is something to do
    deadline = monotonic() + _WORKER_WITHIN_S
    while context._jsc.sc().getExecutorMemoryStatus().size() <= 1:  # the driver is one of them
        if monotonic() > deadline:
            spark.stop()
            raise PipelineError(
                f"no worker of {master} took the job within {_WORKER_WITHIN_S:.0f} s: "
                "start a worker, or free memory and cores of one"
            )
        sleep(_WORKER_ASKED_EVERY_S)


def _is_local(master: str) -> bool:
    return _LOCAL.fullmatch(master) is not None


def _launch_settings(master: str, app: str, *, ui: bool, memory_mb: int, quick: bool) -> dict[str, str]:
    chosen = {
        "spark.master": master,
        "spark.app.name": app,
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{memory_mb}m",
        "spark.python.authenticate.socketTimeout": _PYTHON_CONNECTS_WITHIN,
    }
    if quick:
        chosen[_JAVA_OPTIONS] = _quick_java(memory_mb)
    if _is_local(master):
        # Workers elsewhere must reach the driver, so only a local one hides on loopback. And Spark would
        # leave a folder for tables, which we never make, wherever the user happens to be.
        chosen |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.warehouse.dir": str(
                Path(tempfile.gettempdir()) / f"tidelog-{os.getuid()}" / "warehouse"
            ),
        }
    return chosen


def _quick_java(memory_mb: int) -> str:
    """Most of a small job is plans that are carried out once: Java's thorough compiler would take longer over
    their code than running it takes, and its first collector would clean up a small heap all the time. The
    quick compiler has room for 48 MB of code by default, and throws away what Spark needs again."""
    young = min(_YOUNG_MB_MAX, memory_mb // 3)
    return f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -Xmn{young}m"


def _memory_mb() -> int:
    """A quarter of the machine, so that the Python workers have room beside it."""
    machine_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return max(MEMORY_MB_MIN * 2, min(_MEMORY_MB_MAX, machine_mb // 4))


def _quiet() -> str:
    """Options of the Java machine that keep it from talking, as far as the user does not want it to."""
    level = os.environ.get("TIDELOG_SPARK_LOG", "off")
    return f'"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}" "-Dtidelog.spark.log={level}"'


@contextmanager
def _environment(home: Path | None, local: bool) -> Iterator[None]:
    """What Spark's scripts look for in the environment, only as long as they do."""
    before = dict(os.environ)
    # Spark's scripts are found by their full path, but need a shell and a few everyday programs.
    os.environ["PATH"] = before.get("PATH") or os.defpath
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    if local or "PYSPARK_PYTHON" not in before:
        # Workers would otherwise be whatever python3 comes first on PATH, without our packages.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    try:
        yield
    finally:
        for name in ("PATH", "JAVA_HOME"):
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


@contextmanager
def _no_java_left() -> Iterator[None]:
    """A start that fails, or that Ctrl-C ends, leaves no Java behind.

    Java writes into a folder of pyspark's where it can be reached, and pyspark removes that folder when it is
    interrupted. A Java that is not so far yet would fail there, and then wait for ever without a reader.
    """
    from pyspark import java_gateway

    launch, started = vars(java_gateway)["Popen"], []

    def launched(*words: Any, **options: Any) -> Any:
        started.append(launch(*words, **options))
        return started[-1]

    vars(java_gateway)["Popen"] = launched
    try:
        yield
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        vars(java_gateway)["Popen"] = launch


# ---------------------------------------------------------------- an existing session


def _connected(remote: str, wanted: Settings) -> SparkSession:
    try:
        import grpc  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401
    except ImportError:
        raise PipelineError("Spark Connect needs more packages: pip install 'pyspark[connect]'") from None
    _reach(remote, _CONNECT_PORT, "is a Spark Connect server running there?")
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.remote(remote)
    for name, value in wanted.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    return spark


def _reach(address: str, port: int, question: str) -> None:
    """Whether anything listens. Spark itself would try for a minute and then bury the reason."""
    reasons = []
    for part in address.split("://", 1)[1].split(","):
        target = urlsplit(f"//{part}")
        try:
            with socket.create_connection((target.hostname or "", target.port or port), _REACHED_WITHIN_S):
                return
        except (OSError, ValueError) as error:
            reasons.append(getattr(error, "strerror", None) or str(error))
    raise PipelineError(f"cannot reach {address} ({reasons[0].lower()}): {question}")
