"""Topic against table on Spark: the API, with a checkpoint, a history, a state and between two times."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.pipeline.reconcile.specimens import Made, made, value_of, written

from tidelog.pipeline import continuity
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.reconcile.checkpoint import read_checkpoint, read_connect_offsets
from tidelog.pipeline.reconcile.facts import AbsenceCause, Presence

COLUMNS = "topic string, partition int, offset bigint, value binary"
STEPS = [("plain", 0, 10), ("sent", 1, 5), ("abort", 1, 1), ("sent", 2, 5), ("commit", 2, 1), ("plain", 0, 8)]
"""Records 0–9, aborted 10–14, a marker 15, records 16–20, a marker 21, records 22–29."""


def rows_of(spark: SparkSession, offsets: list[int], topic: str = "t") -> DataFrame:
    return spark.createDataFrame([(topic, 0, each, value_of(each)) for each in offsets], COLUMNS)


def visible(log: Made) -> list[int]:
    return [offset for offset, kind in log.kinds.items() if kind == "record"]


def checkpoint(folder: Path, ends: list[int], start: int = 0) -> str:
    """As Spark's Kafka source writes it."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "sources/0/0").write_bytes(b"\0v1\n" + json.dumps({"t": {"0": start}}).encode())
    for number, end in enumerate(ends):
        (folder / f"offsets/{number}").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"t":{{"0":{end}}}}}')
        (folder / f"commits/{number}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return str(folder)


def test_every_offset_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet and log folders: once, twice, other bytes, lost, and what excuses an absence."""
    log = made(STEPS)
    logs = str(written(tmp_path / "t-0", log).parent)
    kept = [offset for offset in visible(log) if offset not in {3, 18}]
    table = rows_of(spark, [*kept, 7]).unionAll(rows_of(spark, [3], topic="another"))
    table = table.withColumn("value", table.value.substr(1, 7))  # cuts "value 10" and longer
    table.write.parquet(str(tmp_path / "table"))
    found = continuity(spark, topic="t", table=str(tmp_path / "table"), logs=[logs], value_column="value")
    sums = found.ranges.groupBy("presence", "cause").sum("offsets").collect()
    assert {(row[0], row[1]): row[2] for row in sums} == {
        ("once", None): 8,
        ("twice", None): 1,
        ("different bytes", None): 12,
        ("absent", "unexplained"): 2,
        ("absent", "aborted"): 5,
        ("absent", "transaction marker"): 2,
    }
    assert (found.lost, found.held, found.exit_code) == (2, False, 1)
    assert [(row.start, row.end) for row in found.duplicates.collect()] == [(7, 8)]
    assert found.oldest_gap is not None
    assert found.oldest_gap[:2] == (0, 3)
    (day,) = found.completeness.collect()
    assert (day.expected, day.lost, day.twice) == (23, 2, 1)
    assert json.loads(json.dumps(found.as_object()))["absent"]["unexplained"] == 2


def test_with_a_checkpoint_and_a_history(spark: SparkSession, tmp_path: Path) -> None:
    """What the query committed is missed even behind the last row; what an earlier version of the table had
    was removed there."""
    logs = str(written(tmp_path / "t-0", made([("plain", 0, 30)])).parent)
    where = checkpoint(tmp_path / "query", [10, 28], start=4)
    before = rows_of(spark, list(range(20)))
    table = before.filter("offset >= 4 and offset != 12")
    found = continuity(
        spark, topic="t", table=table, logs=[logs], checkpoint=where, history=[before.filter("offset >= 4")]
    )
    assert found.counts == {
        (Presence.ABSENT, AbsenceCause.BEFORE_QUERY): 4,
        (Presence.ONCE, None): 15,
        (Presence.ABSENT, AbsenceCause.MAINTENANCE): 1,
        (Presence.ABSENT, AbsenceCause.UNEXPLAINED): 8,
        (Presence.ABSENT, AbsenceCause.NOT_YET): 2,
    }


def test_a_second_run_judges_what_is_new(spark: SparkSession, tmp_path: Path) -> None:
    """With a state, each offset is judged once; a topic that was truncated or created anew is noticed."""
    folder, state = tmp_path / "logs" / "t-0", str(tmp_path / "state")
    written(folder, made([("plain", 0, 10)]))
    logs = [str(folder.parent)]

    def run(offsets: list[int]) -> dict[tuple[Presence, AbsenceCause | None], int]:
        return dict(
            continuity(spark, topic="t", table=rows_of(spark, offsets), logs=logs, state=state).counts
        )

    def replaced(log: Made, topic_id: str = "one") -> None:
        for old in folder.iterdir():
            old.unlink()
        for base, data in log.files.items():
            (folder / f"{base:020}.log").write_bytes(data)
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")

    once, lost = (Presence.ONCE, None), (Presence.ABSENT, AbsenceCause.UNEXPLAINED)
    assert run([0, 1, 3, 4, 5, 6, 7]) == {once: 7, lost: 1, (Presence.ABSENT, AbsenceCause.NOT_YET): 2}
    replaced(made([("plain", 0, 10), ("plain", 0, 5)]))
    assert run(list(range(15))) == {once: 7}
    assert run(list(range(15))) == {}
    replaced(made([("plain", 0, 12)]))
    assert run(list(range(15))) == {(Presence.BEYOND_END, None): 3}
    replaced(made([("plain", 0, 4)]), "two")
    assert run(list(range(12))) == {once: 4, (Presence.EARLIER_TOPIC, None): 8}


def test_between_two_times(spark: SparkSession, tmp_path: Path) -> None:
    """Only offsets whose batches are of that time are judged."""
    log = made([("plain", 0, 10), ("plain", 0, 10), ("plain", 0, 10)])
    logs = [str(written(tmp_path / "t-0", log).parent)]
    begin = datetime.fromtimestamp(
        1, UTC
    )  # records are a millisecond apart; a batch has the time of its last
    found = continuity(
        spark,
        topic="t",
        table=rows_of(spark, [12, 25]),
        logs=logs,
        since=begin + timedelta(milliseconds=11),
        until=begin + timedelta(milliseconds=21),
    )
    assert [(part.first, part.end) for part in found.partitions] == [(10, 20)]
    assert (found.lost, found.count(Presence.ONCE)) == (9, 1)


def test_refusals_are_one_line(spark: SparkSession, tmp_path: Path) -> None:
    logs = [str(written(tmp_path / "t-0", made([("plain", 0, 3)])).parent)]
    table = rows_of(spark, [0])

    def refusal(**changed: object) -> str:
        given = {"topic": "t", "table": table, "logs": logs} | changed
        with pytest.raises(PipelineError) as refused:
            continuity(spark, **given)  # type: ignore[arg-type]
        assert "\n" not in str(refused.value)
        return str(refused.value)

    assert "no column kafka_offset, only topic, partition" in refusal(offset_column="kafka_offset")
    assert "no such file or folder" in refusal(logs=[str(tmp_path / "nowhere")])
    assert "cannot be read as parquet" in refusal(table=str(tmp_path / "nowhere"))
    assert "no delta" in refusal(table=str(tmp_path), format="delta")
    assert "no committed batch" in refusal(checkpoint=str(tmp_path))
    assert "name the topic's source" in refusal(logs=[])
    assert "does not read the topic t" in refusal(checkpoint=_of_another_topic(tmp_path / "query"))


def _of_another_topic(folder: Path) -> str:
    where = checkpoint(folder, [5])
    (folder / "offsets/0").write_text('v1\n{}\n{"another":{"0":5}}')
    return where


def test_a_checkpoint_of_which_the_first_files_are_gone(tmp_path: Path) -> None:
    """Spark keeps 100 batches. Where the query began is in `sources`; without that, nothing is guessed."""
    where = checkpoint(tmp_path / "query", [5, 9, 9, 20])
    (tmp_path / "query/commits/3").unlink()
    found = read_checkpoint(where, "t")
    assert (found.starts, found.ends, found.batches) == ({0: 0}, {0: 9}, {0: [(0, 5), (5, 9)]})
    (tmp_path / "query/sources/0/0").unlink()
    (tmp_path / "query/offsets/0").unlink()
    assert read_checkpoint(where, "t").batches == {}
    (tmp_path / "query/offsets/2").write_text('v1\n{}\n{"t":{"0":3,"1":7}}')
    found = read_checkpoint(where, "t")
    assert (found.went_back, found.batches) == ({0: 9}, {1: [(0, 7)]})
    assert found.jumped == {0: 3}


def test_a_query_that_ended_on_another_topic(tmp_path: Path) -> None:
    """With failOnDataLoss it plans a batch that goes back, and never commits it: nothing of it was read."""
    where = checkpoint(tmp_path / "query", [5, 9, 2])
    (tmp_path / "query/commits/2").unlink()
    found = read_checkpoint(where, "t")
    assert (found.went_back, found.starts, found.ends, found.jumped) == ({0: 9}, {0: 0}, {0: 0}, {})


def test_offsets_of_kafka_connect(tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    entry = {"partition": {"kafka_topic": "t", "kafka_partition": 2}, "offset": {"kafka_offset": 40}}
    file.write_text(json.dumps({"offsets": [entry]}))
    assert read_connect_offsets(str(file), "t").ends == {2: 40}
    with pytest.raises(PipelineError, match="no offsets of the topic u"):
        read_connect_offsets(str(file), "u")
    file.write_text("{}")
    with pytest.raises(PipelineError, match="GET /connectors/NAME/offsets"):
        read_connect_offsets(str(file), "t")
