"""Hadoop's file systems for Python, through a Java beside the process that reads.

Python workers of Spark have no way to their executor's Java. So a process that meets an address which pyarrow
has no client for (`hdfs:`, `viewfs:`, whatever a site has configured) starts a Java of its own, once, with
the jars that every Spark has. Children that were forked use the Java of their parent.

Rules of the file:

* Settings are where Spark looks for them: `HADOOP_CONF_DIR`, and `spark.hadoop.*` in `spark-defaults.conf`.
  Further jars are named by `HADOOP_CLASSPATH`.
* py4j writes bytes as text, at a few megabytes a second. Whatever is not small goes through a file, which
  Java writes and Python reads, or the other way round.
* Every error of Java is an `OSError` with its first line.
"""

from __future__ import annotations

import atexit
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import fs

from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.pipeline.spark.java import find_java

_SMALL: Final = 16 << 10
_JAVA_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
_SETTING: Final = "spark.hadoop."
_NOT_FOUND: Final = ("java.io.FileNotFoundException", "java.nio.file.NoSuchFileException")

T = TypeVar("T")


class HadoopFiles:
    """What `files.Place` asks of a file system, for one scheme and authority."""

    def __init__(self, root: str) -> None:
        """Raises `OSError` if Hadoop knows no such file system, or cannot reach it."""
        self._root = root
        self._systems: dict[int, tuple[Any, Any]] = {}
        self._system()

    def _system(self) -> tuple[Any, Any]:
        """Java's classes, and the file system; each process speaks with Java for itself."""
        found = self._systems.get(os.getpid())
        if found is None:
            java = _java()
            system = _told(lambda: java.FileSystem.get(java.URI(self._root), java.settings))
            found = self._systems[os.getpid()] = (java, system)
        return found

    def _call(self, work: Callable[[Any, Any, Any], T], path: str) -> T:
        java, system = self._system()
        return _told(lambda: work(java, system, java.Path(f"{self._root}{path or '/'}")))

    # ------------------------------------------------------------ as pyarrow's file systems have it

    def get_file_info(self, wanted: str | fs.FileSelector) -> Any:
        """Of one path, or of all that a folder holds."""
        try:
            if isinstance(wanted, str):
                return self._call(lambda java, system, path: _info(system.getFileStatus(path)), wanted)
            return self._call(
                lambda java, system, path: [_info(each) for each in system.listStatus(path)], wanted.base_dir
            )
        except FileNotFoundError:
            return fs.FileInfo(wanted) if isinstance(wanted, str) else []

    def open_input_file(self, path: str) -> Any:
        size = self._call(lambda java, system, at: system.getFileStatus(at).getLen(), path)
        opened = self._call(lambda java, system, at: system.open(at), path)
        return pa.PythonFile(_Input(_java(), opened, size), "r")

    def create_dir(self, path: str, *, recursive: bool) -> None:
        self._call(lambda java, system, at: system.mkdirs(at), path)

    def delete_dir(self, path: str) -> None:
        self._call(lambda java, system, at: system.delete(at, True), path)

    def write(self, path: str, content: bytes) -> None:
        """The file appears as a whole."""
        folder, _, name = path.rpartition("/")
        unfinished = f"{folder}/.{name}.{os.getpid()}.tmp"
        with _scratch() as scratch:
            scratch.write_bytes(content)

            def put(java: Any, system: Any, at: Any) -> bool:
                source = java.Path(scratch.as_uri())
                begun = java.Path(f"{self._root}{unfinished}")
                system.copyFromLocalFile(False, True, source, begun)
                system.delete(at, False)
                return bool(system.rename(begun, at))

            if not self._call(put, path):
                raise OSError(f"{self._root}{path} cannot be written")


class _Input(io.RawIOBase):
    """An open file of Hadoop's as one of Python's."""

    def __init__(self, java: Any, opened: Any, size: int) -> None:
        super().__init__()
        self._java, self._opened, self._size, self._at = java, opened, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size < 0 else min(size, left)
        content = _told(lambda: self._read(wanted)) if wanted else b""
        self._at += len(content)
        return content

    def _read(self, wanted: int) -> bytes:
        self._opened.seek(self._at)
        if wanted <= _SMALL:
            return bytes(self._opened.readNBytes(wanted))
        with _scratch() as scratch:
            target = self._java.FileOutputStream(str(scratch))
            try:
                self._java.IOUtils.copyLarge(self._opened, target, 0, wanted)
            finally:
                target.close()
            return scratch.read_bytes()

    def close(self) -> None:
        if not self.closed:
            with suppress(OSError):
                _told(self._opened.close)
        super().close()


def _info(status: Any) -> fs.FileInfo:
    kind = fs.FileType.Directory if status.isDirectory() else fs.FileType.File
    path = status.getPath().toUri().getPath()
    return fs.FileInfo(path, kind, size=None if status.isDirectory() else status.getLen())


@contextmanager
def _scratch() -> Iterator[Path]:
    descriptor, name = tempfile.mkstemp(prefix="tidelog-hadoop-")
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        os.unlink(name)


def _told(work: Callable[[], T]) -> T:
    """What Java gives; an `OSError` where it throws."""
    from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

    _leave_errors_to_us()
    try:
        return work()
    except Py4JJavaError as error:
        kind, message = error.java_exception.getClass().getName(), error.java_exception.getMessage()
        words = next((line.strip() for line in str(message or "").splitlines() if line.strip()), kind)
        raise (FileNotFoundError if kind in _NOT_FOUND else OSError)(words) from None
    except Py4JError as error:
        raise OSError(f"Hadoop's file system does not answer: {first_line(error)}") from None


def _leave_errors_to_us() -> None:
    """pyspark has the errors of every Java looked at by Spark's, which knows nothing of those of ours."""
    from py4j import java_gateway, protocol  # type: ignore[import-untyped]

    theirs = java_gateway.get_return_value
    if getattr(theirs, "of_tidelog", False):
        return

    def get_return_value(answer: Any, client: Any, *words: Any) -> Any:
        ours = any(java.client is client for java in _clients.values())
        return (protocol.get_return_value if ours else theirs)(answer, client, *words)

    vars(get_return_value)["of_tidelog"] = True
    java_gateway.get_return_value = get_return_value


# ---------------------------------------------------------------- Java

_reached: tuple[int, str] | None = None
"""The port of the Java that this process, or one that it was forked from, started, and the word for it."""
_clients: dict[int, _Java] = {}


class _Java:
    """Java as one process sees it: the classes that are used here."""

    def __init__(self, port: int, token: str) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway  # type: ignore[import-untyped]

        # Python's collector would otherwise speak with Java whenever it likes: in a child that was forked,
        # over the parent's connection, and at the end, when Java is gone.
        parameters = GatewayParameters(port=port, auth_token=token, enable_memory_management=False)
        gateway = JavaGateway(gateway_parameters=parameters)
        machine, self.client = gateway.jvm, gateway._gateway_client
        hadoop = machine.org.apache.hadoop
        self.FileSystem, self.Path = hadoop.fs.FileSystem, hadoop.fs.Path
        self.IOUtils = machine.org.apache.commons.io.IOUtils
        self.URI, self.FileOutputStream = machine.java.net.URI, machine.java.io.FileOutputStream
        self.settings = hadoop.conf.Configuration()
        for name, value in _spark_settings().items():
            self.settings.set(name, value)


def _java() -> _Java:
    global _reached  # noqa: PLW0603
    if _reached is None:
        _reached = _launch()
    found = _clients.get(os.getpid())
    if found is None:
        found = _clients[os.getpid()] = _Java(*_reached)
    return found


def _launch() -> tuple[int, str]:
    """Raises `PipelineError`."""
    from py4j.java_gateway import launch_gateway

    jars = _jars()
    path = [os.environ.get("HADOOP_CONF_DIR", ""), str(jars / "*"), os.environ.get("HADOOP_CLASSPATH", "")]
    try:
        port, token, process = launch_gateway(
            jarpath=str(next(jars.glob("py4j-*.jar"))),
            classpath=os.pathsep.join(filter(None, path)),
            javaopts=list(_JAVA_OPTIONS),
            java_path=str(find_java().executable),
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
            create_new_process_group=True,
        )
    except (OSError, ValueError, StopIteration) as error:
        raise PipelineError(f"Java for Hadoop's file systems does not start: {first_line(error)}") from None
    started = os.getpid()
    # It ends by itself when this process is killed; a process that ends in order does not leave it behind.
    atexit.register(lambda: process.kill() if os.getpid() == started else None)
    return port, token


def _spark_home() -> Path:
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _jars() -> Path:
    return _spark_home() / "jars"


def _spark_settings() -> dict[str, str]:
    """Those of Hadoop that Spark's own settings carry."""
    folder = Path(os.environ.get("SPARK_CONF_DIR") or _spark_home() / "conf")
    found = {}
    with suppress(OSError, UnicodeDecodeError):
        for line in (folder / "spark-defaults.conf").read_text("utf-8").splitlines():
            name, _, value = line.strip().replace("=", " ", 1).partition(" ")
            if name.startswith(_SETTING):
                found[name.removeprefix(_SETTING)] = value.strip()
    return found
