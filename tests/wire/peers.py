"""Independent codecs behind one interface: bytes in, what they read and what they write out.

- kio, generated from Kafka's own message definitions as of 4.x; it lacks versions that 4.0 dropped.
- kafka-python 3, an interpreter of the same definitions, written independently.
- kafka-python's older classes, written by hand per version: they know what 4.0 dropped.

A peer answers with its own reading of the bytes, as nested dicts and lists, and with the bytes it makes of
that reading. `view` brings what `values.plain` says of our message to the form in which the peer shows it.
"""

from __future__ import annotations

import datetime
import importlib
import io
import uuid
import warnings
from dataclasses import fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from kio.index import UnknownAPIKey, UnknownEntity, load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from tidelog.wire.api_keys import Api, ApiSchema
from tidelog.wire.schema import NO_UUID

with warnings.catch_warnings():
    # kafka-python reads its definitions in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    _AREAS = [
        importlib.import_module(f"kafka.protocol.{area}")
        for area in ("admin", "consumer", "metadata", "producer", "sasl")
    ]
    _OLD_AREAS = [
        importlib.import_module(f"kafka.protocol.old.{area}") for area in ("admin", "offset_for_leader_epoch")
    ]

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
REQUEST, RESPONSE = "request", "response"
KINDS = (REQUEST, RESPONSE)


def message_class(known: ApiSchema, kind: str) -> type[Any]:
    return known.request if kind == REQUEST else known.response


class Kio:
    """Gives times, durations, uuids and error codes types of their own, and drops `_ms` from their names."""

    def speaks(self, known: ApiSchema, kind: str, version: int) -> bool:
        return self._class(known.api, kind, version) is not None

    def read_and_write(self, known: ApiSchema, kind: str, version: int, data: bytes) -> tuple[Any, bytes]:
        cls = self._class(known.api, kind, version)
        entity, size = entity_reader(cls)(data, 0)
        assert size == len(data)
        out = io.BytesIO()
        entity_writer(cls)(out, entity)
        return self._plain(entity), out.getvalue()

    @staticmethod
    @cache
    def _class(key: int, kind: str, version: int) -> Any:
        try:
            return (load_request_schema if kind == REQUEST else load_response_schema)(key, version)
        except (UnknownAPIKey, UnknownEntity):
            return None

    def view(self, plain: Any) -> Any:
        return plain

    def _plain(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return [self._plain(item) for item in value]
        if not is_dataclass(value):
            return value
        plain = {}
        for field in fields(value):
            content = getattr(value, field.name)
            wire_type = field.metadata.get("kafka_type", "")
            name = field.name
            if wire_type.startswith("timedelta"):
                name, content = f"{name}_ms", content // MILLISECOND
            elif wire_type.startswith("datetime"):
                name = f"{name}_ms" if name.endswith("_time") else name
                content = -1 if content is None else (content - EPOCH) // MILLISECOND
            elif wire_type == "error_code":
                content = int(content.value)
            elif wire_type == "uuid":
                content = content.bytes if isinstance(content, uuid.UUID) else NO_UUID
            plain[name] = self._plain(content)
        return plain


class KafkaPython:
    """Its classes take any version up to the newest, but are meant for those they declare.

    It shows permitted operations as a set, an absent tagged struct or UUID as None, and always reads an
    ApiVersions response with an error as version 0, which is what such a response is.
    """

    # Kafka 4 dropped this version, but nothing of it had changed until then.
    ALSO = frozenset({("DescribeLogDirsRequest", 0)})
    OPERATIONS = frozenset(
        {"authorized_operations", "cluster_authorized_operations", "topic_authorized_operations"}
    )

    def speaks(self, known: ApiSchema, kind: str, version: int) -> bool:
        name = message_class(known, kind).__name__
        cls = self._classes().get(name)
        if cls is None:
            return False
        oldest, newest = cls.valid_versions
        return bool(oldest <= version <= newest) or (name, version) in self.ALSO

    def read_and_write(self, known: ApiSchema, kind: str, version: int, data: bytes) -> tuple[Any, bytes]:
        message = self._classes()[message_class(known, kind).__name__].decode(data, version=version)
        message._header = None
        return self.view(message.to_dict(json=False)), message.encode(version=version)

    def view(self, plain: Any) -> Any:
        if isinstance(plain, list):
            return [self.view(item) for item in plain]
        if isinstance(plain, uuid.UUID):
            plain = plain.bytes
        if plain == NO_UUID:
            return None
        if not isinstance(plain, dict):
            return plain
        if all(value == -1 for value in plain.values()):
            return None
        return {name: self.view(value) for name, value in plain.items() if name not in self.OPERATIONS}

    @staticmethod
    @cache
    def _classes() -> dict[str, Any]:
        return {name: content for area in _AREAS for name, content in vars(area).items()}


class KafkaPythonOld:
    """Asked only for what the others lack."""

    VERSIONS_MAX = MappingProxyType(
        {
            Api.CREATE_TOPICS: 1,
            Api.DELETE_TOPICS: 0,
            Api.OFFSET_FOR_LEADER_EPOCH: 1,
            Api.DESCRIBE_ACLS: 0,
            Api.CREATE_ACLS: 0,
            Api.DELETE_ACLS: 0,
            Api.DESCRIBE_CONFIGS: 0,
            Api.DESCRIBE_LOG_DIRS: 0,
        }
    )
    # It takes the list of partitions for a single one.
    WRONG = frozenset({"DescribeLogDirsRequest_v0"})

    def speaks(self, known: ApiSchema, kind: str, version: int) -> bool:
        name = f"{message_class(known, kind).__name__}_v{version}"
        return version <= self.VERSIONS_MAX.get(known.api, -1) and name not in self.WRONG

    def read_and_write(self, known: ApiSchema, kind: str, version: int, data: bytes) -> tuple[Any, bytes]:
        cls = self._classes()[f"{message_class(known, kind).__name__}_v{version}"]
        stream = io.BytesIO(data)
        message = cls.decode(stream)
        assert stream.read() == b""
        return self.view([getattr(message, name) for name in cls.SCHEMA.names]), message.encode()

    def view(self, plain: Any) -> Any:
        """It knows the order of fields, not their names."""
        if isinstance(plain, dict):
            return [self.view(value) for value in plain.values()]
        return [self.view(item) for item in plain] if isinstance(plain, list | tuple) else plain

    @staticmethod
    @cache
    def _classes() -> dict[str, Any]:
        return {name: content for area in _OLD_AREAS for name, content in vars(area).items()}
