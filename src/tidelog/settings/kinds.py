"""Kinds of settings: how a text becomes a value, and what to say when it cannot.

`parse` raises `ValueError` with the words that complete "log.segment.bytes=abc: …". `show` is its inverse,
`describes` is the kind in a word for tables, and `type` is what Kafka calls it. Plain classes: data classes
would cost a starting broker milliseconds.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple, Protocol

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

_ENDPOINT = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:/\s]*)):(?P<port>\d{1,5})")
_LISTENER = re.compile(r"(?P<name>\w+)://(?P<rest>\S*)")


class Kind(Protocol):
    describes: str
    type: str

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


class Integer:
    describes = "integer"

    def __init__(self, least: int = -LONG_MAX - 1, most: int = LONG_MAX) -> None:
        self.least = least
        self.most = most
        self.type = "int" if most <= INT_MAX else "long"

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


class Number:
    describes = "number"
    type = "double"

    def __init__(self, least: float = 0, most: float = float("inf")) -> None:
        self.least = least
        self.most = most

    def parse(self, text: str) -> float:
        try:
            value = float(text.replace("_", "?"))
        except ValueError:
            raise ValueError("expected a number") from None
        if not self.least <= value <= self.most:
            least = f"expected a number of at least {self.least:g}"
            raise ValueError(least if self.most == float("inf") else f"{least} and at most {self.most:g}")
        return value

    def show(self, value: float) -> str:
        return str(value)


class Truth:
    describes = "true or false"
    type = "boolean"

    def parse(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("expected true or false")
        return text.lower() == "true"

    def show(self, value: bool) -> str:
        return "true" if value else "false"


class Word:
    describes = "text"
    type = "string"

    def parse(self, text: str) -> str:
        return text

    def show(self, value: str) -> str:
        return value


class Choice:
    type = "string"

    def __init__(self, options: tuple[str, ...]) -> None:
        self.options = options
        self.describes = ", ".join(options)

    def parse(self, text: str) -> str:
        if text not in self.options:
            raise ValueError(f"expected one of {', '.join(self.options)}")
        return text

    def show(self, value: str) -> str:
        return value


class Folder:
    describes = "directory"
    type = "string"

    def parse(self, text: str) -> Path:
        folders = [part.strip() for part in text.split(",") if part.strip()]
        if len(folders) != 1:
            raise ValueError("expected one directory" + (", several are not supported" if folders else ""))
        return Path(folders[0])

    def show(self, value: Path) -> str:
        return str(value)


class Listener:
    """Kafka's `NAME://host:port`. Connections are plain text, and there is one listener for everybody."""

    describes = "PLAINTEXT://host:port"
    type = "string"

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


class Routes:
    """Addresses of brokers by their ids: `2=host:port,3=host:port`."""

    describes = "id=host:port,…"
    type = "string"

    def parse(self, text: str) -> tuple[tuple[int, Endpoint], ...]:
        routes: dict[int, Endpoint] = {}
        for part in filter(None, map(str.strip, text.split(","))):
            broker, separator, address = part.partition("=")
            if not separator or not broker.strip().isdecimal():
                raise ValueError(f"expected {self.describes}, not {part!r}")
            endpoint = parse_endpoint(address)
            if not endpoint.host or not endpoint.port:
                raise ValueError(f"expected a host and a port to connect to, not {address.strip()!r}")
            if int(broker) in routes:
                raise ValueError(f"two routes to broker {int(broker)}")
            routes[int(broker)] = endpoint
        return tuple(routes.items())

    def show(self, value: tuple[tuple[int, Endpoint], ...]) -> str:
        return ",".join(f"{broker}={endpoint}" for broker, endpoint in value)


class MetricsPort:
    """A port; 0 stands for any free one, and nothing or -1 for none at all."""

    describes = "port, 0 or -1"
    type = "int"

    def parse(self, text: str) -> int:
        return Integer(-1, 65535).parse(text) if text else -1

    def show(self, value: int) -> str:
        return str(value)


class KeeperUrl:
    """`embedded://host:port`, or `zookeeper://host:port,host:port/chroot`."""

    describes = "URL"
    type = "string"

    def parse(self, text: str) -> str:
        scheme, separator, rest = text.partition("://")
        if scheme not in ("embedded", "zookeeper") or not separator:
            raise ValueError("expected embedded://host:port or zookeeper://host:port,…/chroot")
        return f"{scheme}://{parse_endpoint(rest) if scheme == 'embedded' else complete_ensemble(rest)}"

    def show(self, value: str) -> str:
        return value


class Ensemble:
    """ZooKeeper's connection string."""

    describes = "host:port,…/chroot"
    type = "string"

    def parse(self, text: str) -> str:
        return complete_ensemble(text)

    def show(self, value: str) -> str:
        return value


def complete_ensemble(text: str) -> str:
    """A ZooKeeper connection string with the ports that it leaves out."""
    servers, slash, chroot = text.partition("/")
    members = []
    for server in map(str.strip, servers.split(",")):
        if not server:
            raise ValueError("expected host:port,host:port/chroot")
        members.append(str(parse_endpoint(server if _ENDPOINT.fullmatch(server) else f"{server}:2181")))
    return ",".join(members) + (slash + chroot).rstrip("/")
