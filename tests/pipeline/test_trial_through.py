"""`tidelog trial --through`: from sends through a streaming job to the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.jars import spark_delta_jars, spark_kafka_jars
from tests.cli.calling import call, spawn

OPTIONS = "--seconds 5 --rate 300 --partitions 2 --producers 2 --consumers 1 --faults kill --seed 3 --json"
OWN = """
import os
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.jars", os.environ["SPARK_KAFKA_JARS"]).getOrCreate()
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", os.environ["TIDELOG_SERVERS"])
    .option("subscribe", os.environ["TIDELOG_TOPIC"])
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 500)
    .load()
)
rows = records.select("topic", "partition", "offset")
writer = rows.writeStream.format("parquet").trigger(availableNow=True)
place = os.environ["TIDELOG_CHECKPOINT"]
writer.option("checkpointLocation", place).start(os.environ["TIDELOG_TABLE"]).awaitTermination()
"""


def trial(folder: Path, code: int, *options: str) -> dict[str, Any]:
    """Its JSON. In a process of its own, as the Spark of other tests would not be left alone."""
    answer = spawn(
        "trial",
        *OPTIONS.split(),
        *("--evidence", str(folder / "e"), *options),
        seconds_max=500,
        SPARK_KAFKA_JARS=",".join(map(str, spark_kafka_jars())),
        SPARK_DELTA_JARS=",".join(map(str, spark_delta_jars())) if "delta" in options else "",
    )
    assert answer.code == code, answer
    found: dict[str, Any] = answer.json
    assert found["held"], found
    return found


@pytest.mark.long
def test_the_file_sink_holds(tmp_path: Path) -> None:
    """Brokers and the job are killed; every record is in the table, once."""
    table = trial(tmp_path, 0, "--through", "parquet", "--job-faults", "kill,kill")["table"]
    assert table["held"]
    assert table["conclusive"]
    assert table["presence"]["once"] == table["rows"] == table["offsets"] > 0


@pytest.mark.long
def test_an_append_in_foreachbatch_duplicates(tmp_path: Path) -> None:
    """What was in the table and not committed is there twice, and nothing else is wrong."""
    table = trial(tmp_path, 1, "--through", "foreachbatch")["table"]
    assert table["presence"]["twice"] > 0
    assert table["lost"] == 0
    assert table["rows"] == table["presence"]["once"] + 2 * table["presence"]["twice"]


@pytest.mark.long
def test_without_failing_on_data_loss_records_are_skipped(tmp_path: Path) -> None:
    """Every absent record is named as skipped; the table is otherwise right."""
    table = trial(tmp_path, 1, "--through", "skipping", "--job-faults", "expire")["table"]
    assert table["absent"] == {"skipped by failOnDataLoss=false": table["lost"]}
    assert table["lost"] > 0
    assert table["presence"]["twice"] == 0


@pytest.mark.long
def test_with_failing_on_data_loss_the_job_stops_and_nothing_is_skipped(tmp_path: Path) -> None:
    """The trial says why; what is absent was never committed, so the table is not accused."""
    found = trial(tmp_path, 0, "--through", "parquet", "--job-faults", "expire")
    assert any("the job ended 3 times with an error" in note for note in found["notes"])
    assert found["table"]["lost"] == 0
    assert found["table"]["presence"]["absent"] > 0


@pytest.mark.long
def test_a_delta_table_holds(tmp_path: Path) -> None:
    """Its log knows the batches that it has: one that is repeated adds nothing."""
    table = trial(tmp_path, 0, "--through", "delta")["table"]
    assert table["held"]
    assert table["presence"]["once"] == table["rows"] == table["offsets"] > 0


@pytest.mark.long
def test_a_topic_that_is_created_again_under_the_job(tmp_path: Path) -> None:
    """Without failing on data loss the query goes on behind what the new topic had when it came back. Rows of
    the earlier topic are told apart, at whatever offsets they are."""
    table = trial(tmp_path, 1, "--through", "skipping", "--job-faults", "recreate")["table"]
    assert table["rows_of_earlier_topic"] == 2 * 5_000
    assert table["absent"].keys() >= {"skipped by failOnDataLoss=false"}
    assert table["absent"]["skipped by failOnDataLoss=false"] == table["lost"] > 0
    assert table["presence"]["twice"] == table["presence"]["different bytes"] == 0


@pytest.mark.long
def test_with_failing_on_data_loss_a_job_stops_at_another_topic(tmp_path: Path) -> None:
    found = trial(tmp_path, 0, "--through", "parquet", "--job-faults", "recreate")
    assert any("the job ended 3 times with an error" in note for note in found["notes"])
    assert found["table"]["rows_of_earlier_topic"] == 2 * 5_000
    assert found["table"]["lost"] == found["table"]["presence"]["once"] == 0


@pytest.mark.long
def test_a_script_of_a_user_goes_through_the_same(tmp_path: Path) -> None:
    """One that copies what there is and ends is started again until it has everything."""
    script = tmp_path / "job.py"
    script.write_text(OWN, "utf-8")
    table = trial(tmp_path, 0, "--through", str(script))["table"]
    assert table["presence"]["once"] == table["offsets"] > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--through parket", "unknown job 'parket': did you mean parquet?"),
        ("--through none/job.py", "--through none/job.py: there is no such file"),
        ("--through parquet --job-faults kil", "unknown fault of a job 'kil': did you mean kill?"),
        ("--through parquet --job-faults kill,recreate", "--job-faults: recreate comes first"),
        ("--through parquet -b h:1", "--through: not available on an existing Kafka cluster"),
        ("--through parquet --no-audit", "--through needs the audit: leave out --no-audit"),
    ],
)
def test_a_job_that_cannot_be_is_refused_at_once(options: str, words: str, tmp_path: Path) -> None:
    answer = call("trial", *options.split(), "--evidence", tmp_path / "e", columns=200)
    assert answer.code == 2, answer
    assert words in answer.err
    assert not (tmp_path / "e").exists()
