"""Kinds of settings: parse a text into a value, with an error message if that fails.

These are the only parsers of settings: brokers, topics and scenario heads use them. Plain classes: data
classes would cost a starting broker milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, IntEnum
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
TEXT_LENGTH_MAX = 1_000
"""Maximum length of a name, and of most values, because every broker keeps them in memory."""

_REPLICA = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")
_INTEGER = re.compile(r"-?[0-9]+")
_ENDPOINT = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:/\s]*)):(?P<port>\d{1,5})")
_LISTENER = re.compile(r"(?P<name>\w+)://(?P<rest>\S*)")

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


class KafkaType(IntEnum):
    """Kafka's type of a value, numbered as on the wire."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Kind(Generic[T]):
    describes: str
    """The kind in a word or two, for tables."""
    type: KafkaType = KafkaType.STRING
    length_max = TEXT_LENGTH_MAX
    """Of a text."""

    def parse(self, text: str) -> T:
        """Parse a text without blanks around it. The message of a ``ValueError`` completes
        "log.segment.bytes=abc: …"."""
        raise NotImplementedError

    def show(self, value: T) -> str:
        """The inverse of ``parse``."""
        return str(value)


# ---------------------------------------------------------------- numbers, words


class Integer(Kind[int]):
    describes = "integer"

    def __init__(self, least: int, most: int) -> None:
        self.least = least
        self.most = most
        self.type = KafkaType.INT if most <= INT_MAX else KafkaType.LONG

    def parse(self, text: str) -> int:
        try:
            if not _INTEGER.fullmatch(text):  # int() would accept 1_000, and digits of any script
                raise ValueError
            value = int(text)  # int() refuses thousands of digits
        except ValueError:
            raise ValueError("expected an integer") from None
        if value < self.least:
            raise ValueError(f"expected an integer of at least {self.least}")
        if value > self.most:
            raise ValueError(f"expected an integer of at most {self.most}")
        return value


def int32(least: int = -INT_MAX - 1) -> Integer:
    return Integer(least, INT_MAX)


def int64(least: int = -LONG_MAX - 1) -> Integer:
    return Integer(least, LONG_MAX)


class Number(Kind[float]):
    describes = "number"
    type = KafkaType.DOUBLE

    def __init__(self, least: float, most: float = float("inf")) -> None:
        self.least = least
        self.most = most

    def parse(self, text: str) -> float:
        try:
            value = float(text.replace("_", "?"))  # float() would accept 1_000
        except ValueError:
            raise ValueError("expected a number") from None
        if not self.least <= value <= self.most:
            if self.most == float("inf"):
                raise ValueError(f"expected a number of at least {self.least:g}")
            raise ValueError(f"expected a number from {self.least:g} to {self.most:g}")
        return value


class Truth(Kind[bool]):
    describes = "true or false"
    type = KafkaType.BOOLEAN

    def parse(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("expected true or false")
        return text.lower() == "true"

    def show(self, value: bool) -> str:
        return "true" if value else "false"


class Word(Kind[str]):
    describes = "text"

    def parse(self, text: str) -> str:
        return text


class Choice(Kind[T]):
    """One of a few values, each by its text. If one value has two texts, the first is shown."""

    def __init__(self, options: Mapping[str, T]) -> None:
        self.options = options
        self.describes = ", ".join(options)

    def parse(self, text: str) -> T:
        if text not in self.options:
            raise ValueError(f"expected one of {self.describes}")
        return self.options[text]

    def show(self, value: T) -> str:
        return next(text for text, option in self.options.items() if option == value)


def words(*options: str) -> Choice[str]:
    return Choice(dict(zip(options, options, strict=True)))


def members(enumeration: type[E]) -> Choice[E]:
    return Choice({str(member.value): member for member in enumeration})


class Listed(Kind[tuple[T, ...]]):
    """Values of one kind with commas between them, at least one."""

    type = KafkaType.LIST

    def __init__(self, kind: Kind[T]) -> None:
        self.kind = kind
        self.describes = f"list of {kind.describes}"

    def parse(self, text: str) -> tuple[T, ...]:
        values = []
        for part in map(str.strip, text.split(",")):
            try:
                values.append(self.kind.parse(part))
            except ValueError as error:
                raise ValueError(f"{error}, not {part!r}") from None
        return tuple(values)

    def show(self, value: tuple[T, ...]) -> str:
        return ",".join(map(self.kind.show, value))


Replicas = tuple[tuple[int, int], ...]
"""By partition and broker."""
EVERY_REPLICA: Final[Replicas] = ((-1, -1),)


class ReplicaList(Kind[Replicas]):
    """Replicas of a topic: `0:1,0:2` are those of partition 0 on the brokers 1 and 2, `*` is every one."""

    describes = "partition:broker,… or *"
    type = KafkaType.LIST
    length_max = 32_000
    """Of a topic with some thousand partitions. A text on the wire may have 32,767 bytes."""

    def parse(self, text: str) -> Replicas:
        if text == "*":
            return EVERY_REPLICA
        replicas: dict[tuple[int, int], None] = {}
        for part in filter(None, map(str.strip, text.split(","))):
            if not _REPLICA.fullmatch(part):
                raise ValueError(f"expected {self.describes}, not {part!r}")
            partition, broker = part.split(":")
            replicas[int(partition), int(broker)] = None
        return tuple(replicas)

    def show(self, value: Replicas) -> str:
        return "*" if value == EVERY_REPLICA else ",".join(f"{part}:{broker}" for part, broker in value)


# ---------------------------------------------------------------- addresses and paths


class Folder(Kind[Path]):
    describes = "directory"

    def parse(self, text: str) -> Path:
        folders = [part.strip() for part in text.split(",") if part.strip()]
        if len(folders) != 1:
            raise ValueError("expected one directory" + (", several are not supported" if folders else ""))
        return Path(folders[0])


class Endpoint(NamedTuple):
    """A host and a port. An empty host means every interface of this machine."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    found = _ENDPOINT.fullmatch(text.strip())
    if not found or int(found["port"]) > 65535:
        raise ValueError(f"expected host:port, not {text!r}")
    return Endpoint(found["v6"] or found["host"] or "", int(found["port"]))


class ListenerKind(Kind[Endpoint]):
    """Kafka's `NAME://host:port`. Connections are plain text; clients and brokers use the same listener."""

    describes = "PLAINTEXT://host:port"

    def parse(self, text: str) -> Endpoint:
        if "," in text:
            raise ValueError("expected one listener, several are not supported")
        found = _LISTENER.fullmatch(text)
        if not found:
            raise ValueError(f"expected {self.describes}")
        if found["name"].upper() != "PLAINTEXT":
            raise ValueError(f"expected {self.describes}: only plain text connections are supported")
        return parse_endpoint(found["rest"])

    def show(self, value: Endpoint) -> str:
        return f"PLAINTEXT://{value}"


class Routes(Kind[tuple[tuple[int, Endpoint], ...]]):
    """Addresses of brokers by their ids: `2=host:port,3=host:port`."""

    describes = "id=host:port,…"

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


class MetricsPort(Integer):
    """A port; 0 means any free port, -1 or an empty text none."""

    describes = "port, 0 or -1"

    def __init__(self) -> None:
        super().__init__(-1, 65535)

    def parse(self, text: str) -> int:
        return super().parse(text) if text else -1


class KeeperUrl(Kind[str]):
    """`embedded://host:port`, or `zookeeper://host:port,host:port/chroot`."""

    describes = "URL"

    def parse(self, text: str) -> str:
        scheme, separator, rest = text.partition("://")
        if scheme not in ("embedded", "zookeeper") or not separator:
            raise ValueError("expected embedded://host:port or zookeeper://host:port,…/chroot")
        return (
            f"{scheme}://{parse_endpoint(rest) if scheme == 'embedded' else ZooKeeperAddress().parse(rest)}"
        )


class ZooKeeperAddress(Kind[str]):
    """ZooKeeper's connection string. Missing ports are added."""

    describes = "host:port,…/chroot"

    def parse(self, text: str) -> str:
        servers, slash, chroot = text.partition("/")
        addresses = []
        for server in map(str.strip, servers.split(",")):
            if not server:
                raise ValueError("expected host:port,host:port/chroot")
            addresses.append(str(parse_endpoint(server if _ENDPOINT.fullmatch(server) else f"{server}:2181")))
        return ",".join(addresses) + (slash + chroot).rstrip("/")
