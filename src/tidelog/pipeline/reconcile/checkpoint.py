"""How far a pipeline has read the topic, by its own notes.

A Structured Streaming query keeps in its checkpoint:

    offsets/N    the end of batch N, for each source a line of JSON: {"topic": {"0": 17}}
    commits/N    there once batch N is done
    sources/I/0  where source I began, if it wrote that down

Spark keeps the files of the last 100 batches. What lies between the start of the query and its last committed
batch was planned for a batch, so a record of it that the table lacks was skipped or lost.

A sink connector of Kafka Connect has committed offsets only: `GET /connectors/NAME/offsets` as a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.errors import reason
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.files import Place

_OFFSETS: Final = "offsets"
_COMMITS: Final = "commits"


@dataclass(slots=True)
class QueryProgress:
    """Of one topic, by partition, ends exclusive. `went_back` are partitions whose offsets became smaller
    from one batch to the next, with the largest: only another topic of the same name does that. `jumped` is
    what such a batch passed over of the new topic."""

    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    batches: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    went_back: dict[int, int] = field(default_factory=dict)
    jumped: dict[int, int] = field(default_factory=dict)
    """From offset 0 up to this one."""


def read_checkpoint(path: str, topic: str) -> QueryProgress:
    """Raises `PipelineError`."""
    place = Place.of(path)
    try:
        done = {int(name) for name in place.listed(_COMMITS) if name.isdigit()}
        numbers = sorted(int(name) for name in place.listed(_OFFSETS) if name.isdigit())
        committed = [number for number in numbers if number in done]
        if not committed:
            raise PipelineError(
                f"{path} has no committed batch: give the checkpointLocation of the streaming query"
            )
        found = QueryProgress(_initial(place, topic))
        for number in committed:
            _add(found, _position(place.read(f"{_OFFSETS}/{number}"), topic), first=number == committed[0])
        if numbers[-1] > committed[-1]:
            _look_ahead(found, _position(place.read(f"{_OFFSETS}/{numbers[-1]}"), topic))
    except (OSError, ValueError) as error:
        words = reason(error) if isinstance(error, OSError) else str(error)
        raise PipelineError(f"the checkpoint {path} cannot be read: {words}") from None
    if not found.ends:
        raise PipelineError(f"the query of the checkpoint {path} does not read the topic {topic}")
    return found


def _add(found: QueryProgress, ends: Mapping[int, int], *, first: bool) -> None:
    for partition, end in ends.items():
        before = found.ends.get(partition)
        if before is None:
            # A partition that came later begins at 0. Of the others the first files may be gone.
            before = found.starts.get(partition, end if first else 0)
        if end < before:
            found.went_back[partition] = max(before, found.went_back.get(partition, 0))
            found.batches.pop(partition, None)  # they are of another topic
            found.jumped[partition] = end
            found.starts[partition] = 0
        elif end > before:
            found.batches.setdefault(partition, []).append((before, end))
        found.ends[partition] = end


def _look_ahead(found: QueryProgress, ends: Mapping[int, int]) -> None:
    """A batch that was planned and never committed: with `failOnDataLoss` a query that finds another topic
    ends in it, and has read nothing of that."""
    for partition, end in ends.items():
        if end < (before := found.ends.get(partition, 0)):
            found.went_back[partition] = max(before, found.went_back.get(partition, 0))
            found.batches.pop(partition, None)
            found.ends[partition] = found.starts[partition] = 0


def _position(content: bytes, topic: str) -> dict[int, int]:
    """Of any source of the batch that reads the topic. The first two lines are a version and settings."""
    ends: dict[int, int] = {}
    for line in content.decode().splitlines()[2:]:
        ends |= _offsets_in(line, topic)
    return ends


def _offsets_in(line: str, topic: str) -> dict[int, int]:
    try:
        parsed: Any = json.loads(line)
    except ValueError:
        return {}
    own = parsed.get(topic) if isinstance(parsed, dict) else None
    if not isinstance(own, dict):
        return {}
    return {int(partition): int(offset) for partition, offset in own.items()}


def _initial(place: Place, topic: str) -> dict[int, int]:
    for source in place.folders("sources"):
        if "0" in place.listed(f"sources/{source}"):
            for line in place.read(f"sources/{source}/0").decode(errors="replace").splitlines():
                # Spark's Kafka source puts its version in front of the JSON.
                if found := _offsets_in(line[line.find("{") :] if "{" in line else "", topic):
                    return found
    return {}


def read_connect_offsets(path: str, topic: str) -> QueryProgress:
    """Raises `PipelineError`."""
    folder, name = Place.of(path).parted()
    try:
        entries = json.loads(folder.read(name))["offsets"]
        ends = {
            int(each["partition"]["kafka_partition"]): int(each["offset"]["kafka_offset"])
            for each in entries
            if each["partition"]["kafka_topic"] == topic
        }
    except FileNotFoundError:
        raise PipelineError(f"{path}: there is no such file") from None
    except OSError as error:
        raise PipelineError(f"{path} cannot be read: {reason(error)}") from None
    except (ValueError, KeyError, TypeError):
        raise PipelineError(
            f"{path} has no offsets of a sink connector: save the answer of GET /connectors/NAME/offsets"
        ) from None
    if not ends:
        raise PipelineError(f"the connector of {path} has no offsets of the topic {topic}")
    return QueryProgress(ends=ends)
