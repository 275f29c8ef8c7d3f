"""One row schema covers every event of every stage, and says what each column means."""

import json
import runpy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from tests.evidence.specimens import CLASSES, ME, OTHER, SPECIMENS
from tests.lab.stories import known

from tidelog.core import events as e
from tidelog.core.types import BrokerId
from tidelog.evidence.event_schema import COLUMNS, KINDS, to_row
from tidelog.evidence.process_events import ProcessStarted, RecordedEvent

ROOT = Path(__file__).resolve().parents[2]
TYPES = {column.name: column.type for column in COLUMNS}
SPELT = {"names": "tps", "by_name": "offsets"}
"""Properties that spell a field of partitions in plain strings."""
ALWAYS = {"time_ms", "broker", "process_start_ms", "sequence", "event"}


def is_of(kind: str, value: Any) -> bool:
    """Whether a value read from JSON is of a column's type."""
    if kind == "string":
        return isinstance(value, str)
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "list<int32>":
        return isinstance(value, list) and all(is_of("int32", one) for one in value)
    if kind == "list<string>":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if kind == "map<string,string>":
        return isinstance(value, dict) and all(isinstance(one, str) for pair in value.items() for one in pair)
    bits = int(kind.removeprefix("int"))
    return type(value) is int and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)


# ---------------------------------------------------------------- nothing is forgotten


def test_every_class_of_events_has_a_kind() -> None:
    """An event that is added to the core or to the process must say what its row looks like."""
    assert set(KINDS) == set(CLASSES)
    assert len({kind.name for kind in KINDS.values()}) == len(CLASSES)


def test_every_class_of_events_has_a_specimen() -> None:
    """The other tests here go through all kinds."""
    assert sorted(type(event).__name__ for event in SPECIMENS) == sorted(kind.__name__ for kind in CLASSES)


@pytest.mark.parametrize("event", CLASSES, ids=lambda event: event.__name__)
def test_every_field_reaches_a_column(event: type) -> None:
    """Nothing that an event knows is lost on the way; who tells is the row's ``broker``."""
    sources = (attribute.split(".")[0] for attribute in KINDS[event].sources.values())
    told = {SPELT.get(attribute, attribute) for attribute in sources}
    known = {field.name for field in fields(event)}
    assert known - {"broker", "controller", "writer"} <= told <= known


def test_every_column_is_filled_by_some_kind() -> None:
    """A column that no kind fills would be useless."""
    filled = ALWAYS.union(*(kind.sources for kind in KINDS.values()))
    assert filled == set(TYPES)


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("event", SPECIMENS, ids=lambda event: type(event).__name__)
def test_rows_are_flat_and_typed(event: RecordedEvent) -> None:
    """Read back from JSON, a row has only documented columns, each of its documented type."""
    row = json.loads(json.dumps(to_row(event, 1_731_715_200_000, ME, process_start_ms=12, sequence=34)))
    assert set(row) >= ALWAYS
    wrong = {name: value for name, value in row.items() if not is_of(TYPES[name], value)}
    assert not wrong
    assert (row["time_ms"], row["broker"]) == (1_731_715_200_000, ME)
    assert (row["process_start_ms"], row["sequence"]) == (12, 34)


def test_rows_of_the_keeper_say_who_leads() -> None:
    """A partition's state is spread over Kafka's names for its parts."""
    written = next(event for event in SPECIMENS if isinstance(event, e.PartitionStateWritten))
    assert to_row(written, 1, ME) == {
        "time_ms": 1,
        "broker": ME,
        "process_start_ms": 0,
        "sequence": 0,
        "event": "partition_state_written",
        "topic": "orders",
        "partition": 7,
        "leader_epoch": 6,
        "leader": OTHER,
        "isr": (OTHER,),
        "controller_epoch": 2,
        "partition_version": 9,
        "elr": (),
        "last_known_elr": (),
        "recovering": False,
        "rule": "unclean",
    }


def test_what_is_unknown_is_absent() -> None:
    """A broker without a rack has no rack, rather than an empty one."""
    started = ProcessStarted("0.1.0", "epoch", 4711, "127.0.0.1", 9092, rack="az1")
    assert to_row(started, 1, ME)["rack"] == "az1"
    assert "rack" not in to_row(replace(started, rack=None), 1, ME)


@pytest.mark.parametrize("generation", ["hw", "kip101", "epoch", "majority"])
def test_the_simulator_s_events_become_the_same_rows(generation: str) -> None:
    """Every event of the core in a simulated run has a row, recorded by the broker that it happened to."""
    story = known("hw-loss", generation)
    rows = []
    for played in story.played:
        for time_ms, event in played.events:
            if type(event) in KINDS:
                row = to_row(event, time_ms, teller(event))  # type: ignore[arg-type]
                rows.append(json.loads(json.dumps(row)))
    assert {"became_leader", "became_follower", "high_watermark_advanced"} <= {row["event"] for row in rows}
    assert all(is_of(TYPES[name], value) for row in rows for name, value in row.items())


def teller(event: Any) -> BrokerId:
    for attribute in ("broker", "writer", "controller"):
        if hasattr(event, attribute):
            return BrokerId(getattr(event, attribute))
    raise AssertionError(event)


# ---------------------------------------------------------------- the page


def test_the_page_is_current() -> None:
    """Written by docs/reference/make_events.py; run it after a change of the tables."""
    made = runpy.run_path(str(ROOT / "docs/reference/make_events.py"))["page"]()
    assert (ROOT / "docs/reference/events.md").read_text("utf-8") == made
