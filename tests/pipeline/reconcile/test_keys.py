"""A table that is matched by key, against a dictionary that a reader of the topic would keep."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.pipeline.reconcile.specimens import MARKER, written
from tests.pipeline.reconcile.specimens import Made as Log

from tidelog.pipeline import continuity
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.reconcile.facts import AbsenceCause, Presence
from tidelog.wire.records import Record, build_batch

Sent = tuple[str | None, str | None]


def log_of(*batches: list[Sent], aborted: int | None = None) -> Log:
    """A topic of these batches of keys and values, one of them in a transaction that is aborted."""
    log, data, at = Log(), b"", 0
    for number, batch in enumerate(batches):
        records = [
            Record(
                timestamp=at + place,
                key=None if key is None else key.encode(),
                value=None if value is None else value.encode(),
            )
            for place, (key, value) in enumerate(batch)
        ]
        inside = number == aborted
        data += build_batch(
            records, base_offset=at, producer_id=7 if inside else -1, producer_epoch=0, transactional=inside
        )
        at += len(batch)
    if aborted is not None:
        marker = Record(timestamp=at, key=MARKER.pack(0, 0), value=b"")
        data += build_batch(
            [marker], base_offset=at, producer_id=7, producer_epoch=0, transactional=True, control=True
        )
        at += 1
    log.files[0], log.end = data, at
    return log


def table_of(spark: SparkSession, rows: Mapping[str | int, str]) -> DataFrame:
    kind = "bigint" if all(isinstance(key, int) for key in rows) else "string"
    return spark.createDataFrame([*rows.items()], f"id {kind}, payload string")


BATCHES: list[list[Sent]] = [
    [("1", "a"), ("2", "b"), ("3", "c"), ("4", "d")],
    [("1", "aborted"), ("9", "aborted")],
    [("1", "A"), ("2", None), ("5", "e"), ("6", None), ("7", "g")],
]
"""Offsets 0–3, 4–5 (aborted), 6–10, and a marker 11."""


def test_one_row_for_each_key(spark: SparkSession, tmp_path: Path) -> None:
    """A table of numbers as keys, with one key lost, one stale, one not deleted, one foreign."""
    logs = [str(written(tmp_path / "t-0", log_of(*BATCHES, aborted=1)).parent)]
    right: dict[str | int, str] = {1: "A", 3: "c", 4: "d", 5: "e", 7: "g"}

    def run(rows: Mapping[str | int, str]) -> tuple[dict[object, int], int, bool]:
        found = continuity(
            spark, topic="t", table=table_of(spark, rows), logs=logs, key_column="id", value_column="payload"
        )
        return (
            {cause or presence: size for (presence, cause), size in found.counts.items()},
            found.nowhere,
            found.held,
        )

    names = {
        Presence.ONCE: 5,
        AbsenceCause.SUPERSEDED: 2,
        AbsenceCause.DELETED: 2,
        AbsenceCause.ABORTED: 2,
        AbsenceCause.MARKER: 1,
    }
    assert run(right) == (names, 0, True)
    wrong: dict[str | int, str] = {1: "a", 2: "b", 3: "c", 5: "e", 7: "g", 8: "h"}
    assert run(wrong) == (
        {
            Presence.ONCE: 3,
            Presence.DIFFERENT: 1,
            Presence.NOT_DELETED: 1,
            AbsenceCause.UNEXPLAINED: 1,
            AbsenceCause.SUPERSEDED: 2,
            AbsenceCause.DELETED: 1,
            AbsenceCause.ABORTED: 2,
            AbsenceCause.MARKER: 1,
        },
        1,
        False,
    )


def test_rows_twice_records_without_key_and_what_is_not_due(spark: SparkSession, tmp_path: Path) -> None:
    """With a checkpoint, the last record of a key is the last that the query committed."""
    from tests.pipeline.reconcile.test_continuity import checkpoint

    logs = [
        str(
            written(
                tmp_path / "t-0", log_of([("k", "a"), (None, "x"), ("l", "b")], [("k", "c"), ("m", "d")])
            ).parent
        )
    ]
    rows = spark.createDataFrame([("k",), ("l",), ("l",), ("m",)], "id string")
    found = continuity(
        spark, topic="t", table=rows, logs=logs, key_column="id", checkpoint=checkpoint(tmp_path / "c", [3])
    )
    assert {cause or presence: size for (presence, cause), size in found.counts.items()} == {
        Presence.ONCE: 2,  # k by its first record; m though the query has not committed it
        Presence.TWICE: 1,
        AbsenceCause.NO_KEY: 1,
        AbsenceCause.NOT_YET: 1,
    }
    assert found.nowhere == 0
    assert found.as_object()["matched_by"] == "key"


def test_a_topic_that_lost_its_beginning(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of keys that retention may have taken are counted, and accuse no one."""
    log = log_of([("k", "a")], [("l", "b")])
    folder = written(tmp_path / "t-0", log).parent
    (folder / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1\n")
    rows = spark.createDataFrame([("k",), ("l",)], "id string")
    found = continuity(spark, topic="t", table=rows, logs=[str(folder)], key_column="id")
    assert (found.held, found.nowhere, found.unknown_keys) == (True, 0, 1)
    assert any("1 rows whose key" in words for words in found.as_object()["not_checked"])
    with pytest.raises(PipelineError, match="choose one of --state and a key"):
        continuity(spark, topic="t", table=rows, logs=[str(folder)], key_column="id", state="s")
    with pytest.raises(PipelineError, match=r"no column order_id, .*--columns key="):
        continuity(spark, topic="t", table=rows, logs=[str(folder)], key_column="order_id")
