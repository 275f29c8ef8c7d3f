"""Kinds of settings: how a text becomes a value, and what to say when it cannot.

`parse` raises `ValueError` with the words that complete "log.segment.bytes=abc: …". `show` is its inverse,
and `describes` is the kind in a word for tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

_ENDPOINT = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:/\s]*)):(?P<port>\d{1,5})")
_LISTENER = re.compile(r"(?P<name>\w+)://(?P<rest>\S*)")


class Kind(Protocol):
    @property
    def describes(self) -> str: ...
    def parse(self, text: str) -> Any: ...
    def show(self, value: Any) -> str: ...


class Endpoint(NamedTuple):
    """A host and a port. An empty host stands for every interface of this machine."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    found = _ENDPOINT.fullmatch(text.strip())
    if not found or int(found["port"]) > 65535:
        raise ValueError(f"expected host:port, not {text!r}")
    return Endpoint(found["v6"] or found["host"] or "", int(found["port"]))


@dataclass(frozen=True, slots=True)
class Integer:
    least: int = -LONG_MAX - 1
    most: int = LONG_MAX
    describes: str = "integer"

    def parse(self, text: str) -> int:
        try:
            value = int(text.replace("_", "?"))  # Python would read 1_000
        except ValueError:
            raise ValueError("expected an integer") from None
        if value < self.least:
            raise ValueError(f"expected an integer of at least {self.least}")
        if value > self.most:
            raise ValueError(f"expected an integer of at most {self.most}")
        return value

    def show(self, value: int) -> str:
        return str(value)


def int32(least: int = -INT_MAX - 1) -> Integer:
    return Integer(least, INT_MAX)


def int64(least: int = -LONG_MAX - 1) -> Integer:
    return Integer(least)


@dataclass(frozen=True, slots=True)
class Truth:
    describes: str = "true or false"

    def parse(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("expected true or false")
        return text.lower() == "true"

    def show(self, value: bool) -> str:
        return "true" if value else "false"


@dataclass(frozen=True, slots=True)
class Word:
    describes: str = "text"

    def parse(self, text: str) -> str:
        return text

    def show(self, value: str) -> str:
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[str, ...]

    @property
    def describes(self) -> str:
        return ", ".join(self.options)

    def parse(self, text: str) -> str:
        if text not in self.options:
            raise ValueError(f"expected one of {', '.join(self.options)}")
        return text

    def show(self, value: str) -> str:
        return value


@dataclass(frozen=True, slots=True)
class Folder:
    describes: str = "directory"

    def parse(self, text: str) -> Path:
        folders = [part.strip() for part in text.split(",") if part.strip()]
        if len(folders) != 1:
            raise ValueError("expected one directory" + (", several are not supported" if folders else ""))
        return Path(folders[0])

    def show(self, value: Path) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Listener:
    """Kafka's `NAME://host:port`. Connections are plain text, and there is one listener for everybody."""

    describes: str = "PLAINTEXT://host:port"

    def parse(self, text: str) -> Endpoint:
        if "," in text:
            raise ValueError("expected one listener, several are not supported")
        found = _LISTENER.fullmatch(text.strip())
        if not found:
            raise ValueError(f"expected {self.describes}")
        if found["name"].upper() != "PLAINTEXT":
            raise ValueError(f"expected {self.describes}: only plain text connections are supported")
        return parse_endpoint(found["rest"])

    def show(self, value: Endpoint) -> str:
        return f"PLAINTEXT://{value}"


@dataclass(frozen=True, slots=True)
class MetricsPort:
    """A port; 0 stands for any free one, and nothing or -1 for none at all."""

    describes: str = "port, 0 or -1"

    def parse(self, text: str) -> int:
        return Integer(-1, 65535).parse(text) if text else -1

    def show(self, value: int) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class KeeperUrl:
    """`embedded://host:port`, or `zookeeper://host:port,host:port/chroot`."""

    describes: str = "URL"

    def parse(self, text: str) -> str:
        scheme, separator, rest = text.partition("://")
        if scheme not in ("embedded", "zookeeper") or not separator:
            raise ValueError("expected embedded://host:port or zookeeper://host:port,…/chroot")
        if scheme == "embedded":
            parse_endpoint(rest)
        else:
            parse_ensemble(rest)
        return text

    def show(self, value: str) -> str:
        return value


@dataclass(frozen=True, slots=True)
class Ensemble:
    """ZooKeeper's connection string."""

    describes: str = "host:port,…/chroot"

    def parse(self, text: str) -> str:
        parse_ensemble(text)
        return text

    def show(self, value: str) -> str:
        return value


def parse_ensemble(text: str) -> tuple[list[Endpoint], str]:
    """The servers and the chroot of a ZooKeeper connection string; the port may be left out."""
    servers, slash, chroot = text.partition("/")
    members = []
    for server in servers.split(","):
        server = server.strip()
        if not server:
            raise ValueError("expected host:port,host:port/chroot")
        members.append(parse_endpoint(server if _ENDPOINT.fullmatch(server) else f"{server}:2181"))
    return members, slash + chroot.rstrip("/") if chroot else ""
