"""Whether ports are free, and who has them if not: asked before anything is started.

A bind tells whether; who comes from /proc, so where there is none, or the process is another user's, the
answer stays short.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

_LISTENING = "0A"
_BY_HAND = {("tidelog", "broker"), ("tidelog.cli", "broker")}
"""What follows each other in the command of a broker that a person started."""


class PortTaken(Exception):
    """The message is one line that names the port and, where that can be known, the process."""

    def __init__(self, port: int, by: str) -> None:
        super().__init__(f"port {port} is in use" + (f" by {by}" if by else ""))
        self.port = port


def require_free(host: str, ports: Iterable[int]) -> None:
    """Raise `PortTaken` for the first port that cannot be listened on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As servers do: connections that linger from before are no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
                probe.listen(1)  # two may bind with the option above, only one may listen
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                raise PortTaken(port, holder_of(port)) from None


def holder_of(port: int, proc: Path = Path("/proc")) -> str:
    """The process that listens on a port, as `name (pid 7)`, or nothing."""
    inodes = {inode for table in ("tcp", "tcp6") for inode in _listeners(proc / "net" / table, port)}
    if not inodes:
        return ""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in proc.glob("[0-9]*"):
        try:
            if any(os.readlink(fd) in wanted for fd in (process / "fd").iterdir()):
                return f"{_command(process)} (pid {process.name})"
        except OSError:  # gone meanwhile, or not ours to look into
            continue
    return ""


def _listeners(table: Path, port: int) -> Iterable[str]:
    try:
        lines = table.read_text("ascii").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
            yield fields[9]


def _command(process: Path) -> str:
    words = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    names = [Path(word).name for word in words]
    if any(name.startswith("tidelog.broker") for name in names) or _BY_HAND & set(pairwise(names)):
        return "another tidelog broker"
    return Path(words[0]).name or (process / "comm").read_text("utf-8").strip()
