"""The folder that holds all logs of a broker: its owner, its lock, and its shutdown marker.

``meta.properties`` names the broker and the cluster that own it, the process that uses it holds ``.lock``,
``.kafka_cleanshutdown`` exists only after a clean shutdown. An unexpected content is refused with one line,
and nothing is changed: a mistyped path must not destroy data.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from tidelog.core.types import NO_BROKER_EPOCH, BrokerEpoch, TopicPartition
from tidelog.storage import lock_file
from tidelog.storage.durable import sync_folder, write_durably
from tidelog.storage.errors import StorageRefused
from tidelog.storage.names import PARTITION_FOLDER

META = "meta.properties"
LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
"""Of a log that belongs to an earlier topic of the same name: kept, and never read, as in Kafka since 3.7."""
NAME_LENGTH_MAX = 255

_HARMLESS = {LOCK, "lost+found"}


class LogFolder:
    def __init__(self, path: Path, broker_id: int) -> None:
        """Lock the folder for this broker, and create it if necessary; ``StorageRefused`` if that is not
        possible."""
        self.path = path
        self._broker_id = broker_id
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._checked_meta()  # create no file, not even a lock, in a foreign folder
            self._lock = self._locked()
        except OSError as error:
            raise self._unusable(error) from None
        try:
            self._meta = self._checked_meta()
            if "broker.id" not in self._meta:
                self._write_meta({"version": "0", "broker.id": str(broker_id)})
        except OSError as error:
            self.release()
            raise self._unusable(error) from None
        except StorageRefused:
            self.release()
            raise

    def _unusable(self, error: OSError) -> StorageRefused:
        reason = error.strerror or error
        return StorageRefused(
            f"cannot use {self.path} for logs: {reason}; choose another folder or repair it"
        )

    # ------------------------------------------------------------ lock

    def _locked(self) -> int:
        try:
            return lock_file.acquire(self.path / LOCK)
        except BlockingIOError:
            raise StorageRefused(
                f"{self.path} is used by another broker; stop that one or choose another folder"
            ) from None

    def release(self) -> None:
        os.close(self._lock)

    # ------------------------------------------------------------ owner

    def _checked_meta(self) -> dict[str, str]:
        try:
            meta = _parse_properties((self.path / META).read_text("utf-8"))
        except FileNotFoundError:
            foreign = sorted(set(os.listdir(self.path)) - _HARMLESS)
            if foreign:
                raise StorageRefused(
                    f"{self.path} holds {foreign[0]} but no {META}: not a folder of logs; choose an empty one"
                ) from None
            return {}
        except UnicodeDecodeError:
            raise StorageRefused(f"{self.path / META} is not text; choose another folder") from None
        owner = meta.get("broker.id")
        if meta.get("version") != "0" or owner is None:
            raise StorageRefused(
                f"{self.path / META} is not of version 0 with a broker.id; choose another folder"
            )
        if owner != str(self._broker_id):
            raise StorageRefused(
                f"{self.path} belongs to broker {owner}, not {self._broker_id}; choose another folder or id"
            )
        return meta

    def claim(self, cluster_id: str) -> None:
        """Record that the folder belongs to this cluster; refused if it belongs to another."""
        owner = self._meta.get("cluster.id")
        if owner == cluster_id:
            return
        if owner is not None:
            raise StorageRefused(
                f"{self.path} belongs to cluster {owner}, not {cluster_id}; choose another folder or keeper"
            )
        try:
            self._write_meta({**self._meta, "cluster.id": cluster_id})
        except OSError as error:
            raise self._unusable(error) from None

    def _write_meta(self, meta: dict[str, str]) -> None:
        text = "".join(f"{name}={value}\n" for name, value in meta.items())
        write_durably(self.path / META, text.encode())
        self._meta = meta

    # ------------------------------------------------------------ shutdown marker

    def was_left_cleanly(self) -> bool:
        return (self.path / CLEAN_SHUTDOWN).exists()

    def epoch_of_clean_shutdown(self) -> BrokerEpoch:
        """The broker epoch in the marker (KIP-966). −1 if there is none: the marker is missing, or older
        than this."""
        try:
            content = json.loads((self.path / CLEAN_SHUTDOWN).read_bytes())
            epoch = content["brokerEpoch"]
        except (OSError, ValueError, KeyError, TypeError):
            return NO_BROKER_EPOCH
        return BrokerEpoch(epoch) if type(epoch) is int else NO_BROKER_EPOCH

    def remove_clean_mark(self) -> None:
        """Remove the marker before the first change."""
        (self.path / CLEAN_SHUTDOWN).unlink(missing_ok=True)
        sync_folder(self.path)

    def leave_clean_mark(self, broker_epoch: BrokerEpoch) -> None:
        """The marker of Kafka 4. Older releases look only for its existence."""
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch})
        write_durably(self.path / CLEAN_SHUTDOWN, content.encode())

    # ------------------------------------------------------------ logs

    def logs(self) -> Iterator[tuple[TopicPartition, Path]]:
        """The logs in the folder. Removes the remains of deleted ones first."""
        for path in sorted(self.path.iterdir()):
            if path.is_dir() and path.name.endswith(DELETE_SUFFIX):
                shutil.rmtree(path, ignore_errors=True)
            elif path.is_dir() and (found := PARTITION_FOLDER.fullmatch(path.name)):
                yield TopicPartition(found["topic"], int(found["partition"])), path

    def path_of(self, tp: TopicPartition) -> Path:
        name = str(tp)
        if not PARTITION_FOLDER.fullmatch(name) or len(name) > NAME_LENGTH_MAX:
            raise ValueError(f"{name!r} cannot be the name of a partition's folder")
        return self.path / name

    def take_out(self, folder: Path, suffix: str = DELETE_SUFFIX) -> Path:
        """Rename a log's folder so that no start loads it; returns its new path."""
        suffix = f".{uuid.uuid4().hex}{suffix}"
        renamed = folder.with_name(folder.name[: NAME_LENGTH_MAX - len(suffix)] + suffix)
        os.rename(folder, renamed)
        return renamed


def _parse_properties(text: str) -> dict[str, str]:
    properties = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.lstrip().startswith(("#", "!")):
            properties[name.strip()] = value.strip()
    return properties
