"""Machines without machines: processes in network namespaces of their own, joined by a bridge (Linux, root).

The switchboard loses messages; here the kernel loses packets. Connections then behave as between machines:
what was lost is sent again, a short cut is survived, a long one ends in time-outs. Nothing is known of
frames, so nothing can be held or delivered one by one.

    with Namespaces(["b0", "b1"]) as machines:
        broker = machines.start("b0", ["tidelog", "broker", …, "--listen", f"{machines.address('b0')}:9092"])
        machines.cut([("b0", "b1")])

Rules of this file:

* A namespace lives as long as the process that holds it, which ends with its standard input: however this
  process ends, the kernel removes it. The bridge is in a namespace, too; the host's network is not touched,
  except that with ``host=True`` it gets an interface, which vanishes with its other end.
* A direction is cut by telling the sender a wrong hardware address for the receiver. That takes no firewall
  and no kernel module, concerns one direction only, and neither side notices.
* What cannot be had (not Linux, not root, no ``ip``) is refused in one line, before anything is made.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidelog.errors import Refusal

NETWORK = "198.18"
"""Set aside for tests of networks (RFC 2544): it is not routed."""
HOST = "host"
MACHINES_MAX = 200
SUBNETS = 250
COMMANDS = ("ip", "nsenter", "unshare")
COMMAND_SECONDS_MAX = 20.0
END_SECONDS_MAX = 5.0
_UNUSED_ADDRESS = "02:00:00:00:00:00"
_BRIDGE = "bridge"

Pair = tuple[str, str]


class NamespaceError(Refusal):
    """This machine has no network namespaces. The message is one line that says what to do."""


def require_namespaces() -> None:
    """Raise `NamespaceError` where none can be made."""
    if sys.platform != "linux":
        raise NamespaceError("network namespaces are Linux's: use the switchboard here")
    if os.geteuid() != 0:
        raise NamespaceError("network namespaces need root: run it as root, or use the switchboard")
    missing = [command for command in COMMANDS if shutil.which(command) is None]
    if missing:
        raise NamespaceError(f"{' and '.join(missing)} not found: install iproute2 and util-linux")


class Namespaces:
    def __init__(self, names: Sequence[str], *, host: bool = False) -> None:
        """One for each name. With ``host``, this process reaches them and they reach it, as ``host``. Raises
        `NamespaceError`, with nothing left behind."""
        require_namespaces()
        if len(names) > MACHINES_MAX:
            raise NamespaceError(f"{len(names)} namespaces: at most {MACHINES_MAX} fit on one bridge")
        self._holders: dict[str, subprocess.Popen[str]] = {}
        self._processes: list[subprocess.Popen[Any]] = []
        self._cut: dict[Pair, None] = {}
        self._subnet = _free_subnet()
        self._addresses = {name: f"{self._subnet}.{number}" for number, name in enumerate(names, 1)}
        try:
            self._make(names, host)
        except BaseException:
            self.close()
            raise

    def _make(self, names: Sequence[str], host: bool) -> None:
        for name in (_BRIDGE, *names):
            self._holders[name] = _hold()
        made = [f"link add {_BRIDGE} type bridge", f"link set {_BRIDGE} up"]
        for number, name in enumerate(names, 1):
            made.append(f"link add port{number} type veth peer name eth0 netns {self._holders[name].pid}")
            made.append(f"link set port{number} master {_BRIDGE} up")
        if host:
            self._addresses[HOST] = f"{self._subnet}.254"
            made.append(f"link add porthost type veth peer name {self._host_interface} netns {os.getpid()}")
            made.append(f"link set porthost master {_BRIDGE} up")
        self._ip(_BRIDGE, made)
        for name in names:
            address = self._addresses[name]
            self._ip(name, ["link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up"])
        if host:
            interface = self._host_interface
            address = self._addresses[HOST]
            self._ip(HOST, [f"addr add {address}/24 dev {interface}", f"link set {interface} up"])

    @property
    def _host_interface(self) -> str:
        return f"tl{os.getpid()}"

    # ------------------------------------------------------------ machines

    def address(self, name: str) -> str:
        return self._addresses[name]

    def command(self, name: str, words: Sequence[str]) -> list[str]:
        """What to run for these words to be run on that machine."""
        if name == HOST:
            return list(words)
        return ["nsenter", f"--net=/proc/{self._holders[name].pid}/ns/net", "--", *words]

    def start(self, name: str, words: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a process there, with options of ``subprocess.Popen``. ``close`` ends it at the latest."""
        process = subprocess.Popen(self.command(name, words), **options)
        self._processes.append(process)
        return process

    # ------------------------------------------------------------ links

    def cut(self, pairs: Iterable[Pair]) -> None:
        """Lose the packets from a to b, for each pair (a, b)."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._cut]
        self._cut.update(dict.fromkeys(new))
        self._tell_senders(
            new, "neigh replace {address} lladdr " + _UNUSED_ADDRESS + " dev {interface} nud permanent"
        )

    def heal(self, pairs: Iterable[Pair] | None = None) -> None:
        healed = [pair for pair in dict.fromkeys(self._cut if pairs is None else pairs) if pair in self._cut]
        for pair in healed:
            del self._cut[pair]
        self._tell_senders(healed, "neigh del {address} dev {interface}")

    def delay(self, names: Iterable[str], ms: int) -> None:
        """What these machines send takes so much longer; 0: no longer."""
        for name in sorted(names):
            shape = ["replace", "dev", "eth0", "root", "netem", "delay", f"{ms}ms"]
            words = shape if ms else ["delete", "dev", "eth0", "root"]
            done = subprocess.run(
                self.command(name, ["tc", "qdisc", *words]),
                capture_output=True,
                text=True,
                check=False,
                timeout=COMMAND_SECONDS_MAX,
            )
            if done.returncode and ms:
                said = done.stderr.strip().splitlines()
                reason = said[0].removeprefix("Error: ").rstrip(".").lower() if said else "tc failed"
                raise NamespaceError(f"links cannot be slow here, the kernel has no netem: {reason}")

    def _tell_senders(self, pairs: Sequence[Pair], command: str) -> None:
        for sender in dict.fromkeys(source for source, _ in pairs):
            interface = self._host_interface if sender == HOST else "eth0"
            receivers = [self._addresses[target] for source, target in pairs if source == sender]
            self._ip(sender, [command.format(address=each, interface=interface) for each in receivers])

    def _ip(self, name: str, commands: Sequence[str]) -> None:
        """All in one go: starting a process is what takes time here."""
        done = subprocess.run(
            self.command(name, ["ip", "-batch", "-"]),
            input="\n".join(commands),
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS_MAX,
        )
        if done.returncode:
            said = done.stderr.strip().splitlines()
            reason = said[0].removeprefix("RTNETLINK answers: ") if said else f"exit code {done.returncode}"
            raise NamespaceError(f"ip cannot set up the network: {reason.lower()}; use the switchboard")

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Kill what was started here, and let the namespaces go."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        for holder in self._holders.values():
            _let_go(holder)
        self._processes.clear()
        self._holders.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _free_subnet() -> str:
    """One that no other trial has joined this machine to."""
    routes = Path("/proc/net/route").read_text("ascii")
    for turn in range(SUBNETS):
        number = (os.getpid() + turn) % SUBNETS + 1
        subnet = f"{NETWORK}.{number}"
        written = socket.inet_aton(f"{subnet}.0")[::-1].hex().upper()
        if written not in routes:
            return subnet
    raise NamespaceError(f"all subnets of {NETWORK} are in use: wait for other trials to end")


def _hold() -> subprocess.Popen[str]:
    """A process in a namespace of its own, which lasts until its input ends."""
    holder = subprocess.Popen(
        ["unshare", "--net", "--", "sh", "-c", "echo ready && exec cat > /dev/null"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for us: it must outlive what runs in it
    )
    assert holder.stdout is not None
    if holder.stdout.readline() == "ready\n":
        return holder
    _, said = holder.communicate()
    reason = said.strip().removeprefix("unshare: ") or f"exit code {holder.returncode}"
    raise NamespaceError(f"no network namespace can be made here ({reason}): use the switchboard")


def _let_go(holder: subprocess.Popen[str]) -> None:
    with suppress(OSError):
        if holder.stdin is not None:
            holder.stdin.close()
    try:
        holder.wait(END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        holder.kill()
        holder.wait()
    for stream in (holder.stdout, holder.stderr):
        if stream is not None:
            stream.close()
