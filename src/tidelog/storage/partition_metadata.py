"""The file ``partition.metadata`` in the folder of a log: the id of the topic, as Kafka writes it since 2.8.

It is written when the broker learns the id and becomes durable with the first sync of the log's records, not
before: thousands of partitions can be created without a sync for each. A file that a power cut has emptied
says nothing; records that were durable then had made it durable too. A damaged one keeps the log from being
opened: taken for the id of another topic, it would put a log aside that may be the only copy.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from tidelog.core.log_port import StorageFailure
from tidelog.core.types import NO_TOPIC_ID, TopicId
from tidelog.storage.durable import write_all

NAME: Final = "partition.metadata"
_TOPIC_ID: Final = re.compile(rb"^topic_id:[ \t]*(?P<id>[\w-]{22})\s*$", re.MULTILINE)
_LENGTH_MAX: Final = 1_000


def read_topic_id(folder: Path) -> TopicId:
    path = folder / NAME
    try:
        with path.open("rb") as file:
            content = file.read(_LENGTH_MAX)
    except FileNotFoundError:
        return NO_TOPIC_ID
    if not content.strip(b"\0"):
        return NO_TOPIC_ID
    found = _TOPIC_ID.search(content)
    if found is None:
        raise StorageFailure(
            f"{path} holds no topic id; restore the file, or remove it if the topic is still there"
        )
    return TopicId(found["id"].decode())


def write_topic_id(folder: Path, topic_id: TopicId) -> None:
    """The caller makes it durable."""
    descriptor = os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_all(descriptor, f"version: 0\ntopic_id: {topic_id}\n".encode())
    finally:
        os.close(descriptor)
