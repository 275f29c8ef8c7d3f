"""A real ZooKeeper for the tests: the one inside PySpark's jars, on whichever Java there is.

One server per test process, started when the first test asks for it; tests keep apart by their chroots.
"""

import os
import socket
import subprocess
import time
import uuid
from pathlib import Path

from bench.processes import PATIENCE_SECONDS

JARS = (
    "zookeeper-3",
    "zookeeper-jute",
    "slf4j-api",
    "metrics-core",
    "snappy-java",
    "log4j-api",
    "log4j-core",
    "log4j-slf4j2",
)
ATTEMPTS = 5


def classpath() -> str:
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    return os.pathsep.join(str(jar) for name in JARS for jar in sorted(jars.glob(f"{name}*.jar")))


class ZooKeeper:
    """One server. Sessions may be as short as 400 ms and as long as two minutes."""

    def __init__(self, executable: str, directory: Path) -> None:
        self._java = executable
        self._dir = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self) -> str:
        """Of a place of its own."""
        return f"zookeeper://{self.address}/test-{uuid.uuid4().hex}"

    def start(self) -> None:
        for _ in range(ATTEMPTS):
            self._launch(_free_port())  # which another process may take before ZooKeeper does
            if self._serves():
                return
            self.stop()
        raise RuntimeError(f"ZooKeeper did not start; its last words: {self._output()[-2000:]}")

    def _launch(self, port: int) -> None:
        self.port = port
        self._dir.mkdir(parents=True, exist_ok=True)
        config = self._dir / "zoo.cfg"
        settings = {
            "tickTime": 200,
            "minSessionTimeout": 400,
            "maxSessionTimeout": 120_000,
            "dataDir": self._dir / "data",
            "clientPort": port,
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
        }
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        options = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        with (self._dir / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [self._java, *options, "-cp", classpath(), main, str(config)],
                cwd=self._dir,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _serves(self) -> bool:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            if b"Mode:" in self._ask(b"srvr"):
                return True
            time.sleep(0.05)
        return False

    def _ask(self, command: bytes) -> bytes:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(command)
                return connection.recv(8192)
        except OSError:
            return b""

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _output(self) -> str:
        return (self._dir / "output").read_text("utf-8", "replace")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
