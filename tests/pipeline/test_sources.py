"""The Spark source over segment files: what it finds on disk, what it reads, and what it can leave unread."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from tests.pipeline.segment_specimens import chained
from tests.storage.batches import append, batch
from tests.storage.folders import TP, small, storage

from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.pipeline.files import Place
from tidelog.pipeline.segments.columns import SPARK_SCHEMA
from tidelog.pipeline.segments.index import narrowed
from tidelog.pipeline.segments.reader import read_segment
from tidelog.pipeline.segments.rows import SegmentFile
from tidelog.pipeline.sources import require_streams
from tidelog.pipeline.sources.finding import find_segments, identified
from tidelog.pipeline.sources.log_source import LogSource
from tidelog.pipeline.sources.planning import ReadPlan, plan
from tidelog.storage.file_storage import FileStorage
from tidelog.wire.records import Record, build_batch

BATCHES = 60
PER_BATCH = 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two brokers' data, of several segments each, as their storage writes it; the second has less."""
    root = tmp_path_factory.mktemp("cluster")
    for broker, batches in ((1, BATCHES), (2, BATCHES // 2)):
        options = small(**{"segment.bytes": 4_000, "index.interval.bytes": 400})
        with closing(FileStorage(root / f"broker-{broker}", broker_id=broker, defaults=options)) as opened:
            log = opened.open(TP)
            for n in range(batches):
                texts = [f"p{n % 2}-{n * PER_BATCH + m} …" for m in range(PER_BATCH)]
                append(log, batch(*texts, producer=7, sequence=n * PER_BATCH), epoch=n // 20)
    return root


def read(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.format("tidelog_log").load(str(path))


def test_files_are_found_wherever_one_points(cluster: Path, tmp_path: Path) -> None:
    """A file, a partition, a broker, a cluster; each segment with its owner."""
    everything = find_segments(cluster)
    of_one = find_segments(cluster / "broker-1")
    assert {segment.broker for segment in everything} == {1, 2}
    assert {(segment.topic, segment.partition) for segment in everything} == {(TP.topic, TP.partition)}
    assert find_segments(cluster / "broker-1" / str(TP)) == of_one
    assert find_segments(of_one[0].path) == of_one[:1]
    assert find_segments(f"file://{cluster}/broker-1") == [
        replace(segment, place=Place(f"file://{segment.place}")) for segment in of_one
    ]
    assert [segment.base_offset for segment in of_one] == sorted(segment.base_offset for segment in of_one)
    with pytest.raises(PipelineError, match="holds no segment files"):
        find_segments(tmp_path)
    with pytest.raises(PipelineError, match="no such file"):
        find_segments(tmp_path / "nowhere")


def test_kafkas_own_way_to_name_a_broker(tmp_path: Path) -> None:
    """KRaft says node.id; the folder's name counts only if no file names the broker."""
    partition = tmp_path / "broker-9" / "my.topic-with-7-12"
    partition.mkdir(parents=True)
    assert identified(Place.of(partition), "0.log").broker == 9
    other = tmp_path / "data"
    (other / "t-0").mkdir(parents=True)
    (other / "meta.properties").write_text("#\n#Thu\ncluster.id=x\nversion=1\nnode.id=4\n")
    found = identified(Place.of(other / "t-0"), "0.log")
    assert (found.broker, found.topic, found.partition) == (4, "t", 0)
    named = identified(Place.of(partition), "0.log")
    assert (named.topic, named.partition) == ("my.topic-with-7", 12)


def test_every_record_of_every_replica(spark: SparkSession, cluster: Path) -> None:
    """Two replicas, one row for each record that each of them has."""
    found = read(spark, cluster).groupBy("broker", "topic", "partition").agg({"offset": "max", "*": "count"})
    assert {tuple(row) for row in found.collect()} == {
        (1, TP.topic, TP.partition, BATCHES * PER_BATCH - 1, BATCHES * PER_BATCH),
        (2, TP.topic, TP.partition, BATCHES * PER_BATCH // 2 - 1, BATCHES * PER_BATCH // 2),
    }


CONDITIONS: dict[str, Callable[[int, int], bool]] = {
    "offset >= 40 and offset < 43": lambda broker, offset: 40 <= offset < 43,
    "offset <= 3 and broker = 2": lambda broker, offset: offset <= 3 and broker == 2,
    "broker in (2, 3) and offset > 140": lambda broker, offset: broker == 2 and offset > 140,
    "topic = 'nothing'": lambda broker, offset: False,
    "partition = 0 and offset in (5, 250)": lambda broker, offset: offset in (5, 250),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_what_is_left_unread_would_not_have_counted(
    spark: SparkSession, cluster: Path, condition: str
) -> None:
    """A condition that the source uses gives the rows that filtering all rows gives."""
    found = read(spark, cluster).where(condition).select("broker", "offset").collect()
    everything = [(1, n) for n in range(BATCHES * PER_BATCH)] + [
        (2, n) for n in range(BATCHES * PER_BATCH // 2)
    ]
    assert sorted(map(tuple, found)) == [row for row in everything if CONDITIONS[condition](*row)]


def read_positions(segment: SegmentFile, offsets: range) -> set[int]:
    """Where the batches begin that hold them, found by reading everything."""
    return {
        row["position"]
        for rows in read_segment(segment, ["offset", "position"])
        for row in rows.to_pylist()
        if row["offset"] in offsets
    }


def test_conditions_choose_files_and_places(cluster: Path) -> None:
    """Offsets lie in few segments; tasks read of these what lies between positions that the index knows."""
    segments = find_segments(cluster)
    everything = [piece for task in plan(segments, ReadPlan()) for piece in task]
    assert everything == segments
    chosen = [piece for task in plan(segments, ReadPlan(offsets=range(50, 52))) for piece in task]
    assert 0 < len(chosen) <= 4
    for piece in chosen:
        with piece.place.open(piece.name) as source:
            part = narrowed(piece, source, range(50, 52))
            assert (part.end or source.size()) - part.start < 1_500
            assert read_positions(piece, range(50, 52)) <= set(range(part.start, part.end or 1 << 40))
    assert plan(segments, ReadPlan(brokers=frozenset([3]))) == []


@pytest.fixture
def with_empty_segments(tmp_path: Path) -> Path:
    """A folder as a trial leaves it: partitions that nothing was written to first, between and last."""
    for partition, values in enumerate((b"", b"a", b"", b"bc", b"")):
        path = tmp_path / "broker-1" / f"t-{partition}" / "00000000000000000000.log"
        path.parent.mkdir(parents=True)
        path.write_bytes(chained([build_batch([Record(value=bytes([value]))]) for value in values]))
    return tmp_path


def test_empty_segments_are_read_like_others(spark: SparkSession, with_empty_segments: Path) -> None:
    found = read(spark, with_empty_segments).select("partition", "offset", "value").collect()
    assert sorted((row[0], row[1], bytes(row[2])) for row in found) == [
        (1, 0, b"a"),
        (3, 0, b"b"),
        (3, 1, b"c"),
    ]
    assert read(spark, with_empty_segments / "broker-1" / "t-0").collect() == []


@pytest.mark.parametrize("offsets", [None, range(1, 2)])
@pytest.mark.parametrize("piece_bytes", [1, 75, 1 << 20])
def test_every_segment_has_a_task(
    with_empty_segments: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int, offsets: range | None
) -> None:
    """However many share one, and however small they are."""
    monkeypatch.setattr("tidelog.pipeline.sources.planning._PIECE_BYTES_MIN", piece_bytes)
    segments = find_segments(with_empty_segments)
    tasks = plan(segments, ReadPlan(offsets=offsets))
    assert [piece.path for task in tasks for piece in task] == [segment.path for segment in segments]
    assert all(tasks)


def test_a_large_segment_is_cut_where_batches_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pieces are for tasks of their own, follow each other without a gap, and hold all its records."""
    monkeypatch.setattr("tidelog.pipeline.sources.planning._PIECE_BYTES_MIN", 1_000)
    with storage(
        tmp_path, defaults=small(**{"index.interval.bytes": 200, "segment.bytes": 1_000_000})
    ) as opened:
        log = opened.open(TP)
        for n in range(300):
            append(log, batch(f"v{n}"))
    [segment] = find_segments(tmp_path)
    pieces = [piece for task in plan([segment], ReadPlan()) for piece in task]
    assert len(pieces) > 5
    assert [piece.start for piece in pieces] == [0, *(piece.end for piece in pieces[:-1])]
    values = [
        v for piece in pieces for rows in read_segment(piece, ["value"]) for v in rows["value"].to_pylist()
    ]
    assert values == [b"v%d" % n for n in range(300)]


def test_an_index_that_lies_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a batch at the position that it names, the segment is read as a whole."""
    monkeypatch.setattr("tidelog.pipeline.sources.planning._PIECE_BYTES_MIN", 100)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(chained([build_batch([Record(value=b"x" * 50)])] * 20))
    path.with_suffix(".index").write_bytes(b"".join(n.to_bytes(4, "big") * 2 for n in range(3, 2_000, 7)))
    segment = SegmentFile.at(path)
    assert plan([segment], ReadPlan()) == [[segment]]
    with segment.place.open(segment.name) as source:
        assert narrowed(segment, source, range(5, 6)) == segment


def test_damage_is_a_row_in_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    """A torn file and a missing one: the rest is read, and both are reported."""
    torn = tmp_path / "t-0" / "00000000000000000000.log"
    torn.parent.mkdir()
    torn.write_bytes(chained([build_batch([Record(value=b"a")]), build_batch([Record(value=b"b")])])[:-3])
    listed = [
        {"file": str(torn), "broker": 1, "topic": "t", "partition": 0},
        {"file": str(tmp_path / "gone.log"), "broker": 2, "topic": "t", "partition": 0},
    ]
    found = (
        spark.read.format("tidelog_log")
        .schema("broker int, value binary, problem string")
        .option("segments", json.dumps(listed))
        .load()
        .collect()
    )
    told = sorted((row["broker"], row["value"], row["problem"]) for row in found if row["problem"])
    assert [bytes(row["value"]) for row in found if row["value"]] == [b"a"]
    assert [broker for broker, _, _ in told] == [1, 2]
    assert "ends inside a batch" in told[0][2]
    assert "No such file" in told[1][2]


def test_a_first_segment_that_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    """As a broker leaves it that rolled its log, or holds nothing yet; alone, and before others."""
    folder = tmp_path / "broker-1" / "t-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").touch()
    assert spark.read.format("tidelog_log").load(str(tmp_path)).collect() == []
    batch = build_batch([Record(value=b"a")], base_offset=5, leader_epoch=0)
    (folder / f"{5:020}.log").write_bytes(batch)
    (row,) = spark.read.format("tidelog_log").load(str(tmp_path)).collect()
    assert (row["offset"], row["value_id"], row["broker"]) == (5, "a", 1)


REFUSED = [
    ({}, SPARK_SCHEMA, "tidelog_log needs a path"),
    ({"path": "/nowhere"}, SPARK_SCHEMA, "/nowhere: no such file or folder"),
    ({"path": "/"}, "offset int", "the column offset of tidelog_log is bigint, not int"),
    ({"path": "/"}, "colour string", "tidelog_log has no column colour"),
    ({"segments": "[3]"}, SPARK_SCHEMA, "segments must be a JSON list"),
]


@pytest.mark.parametrize(("options", "schema", "words"), REFUSED, ids=[words for _, _, words in REFUSED])
@pytest.mark.usefixtures("spark")  # without which Spark cannot read a schema
def test_what_cannot_be_read_is_refused(options: dict[str, str], schema: str, words: str) -> None:
    """The words say what is wrong, before anything is read."""
    columns = StructType.fromDDL(schema)
    assert isinstance(columns, StructType)
    with pytest.raises(PipelineError, match=f"^{words}"):
        LogSource(options).reader(columns)


def test_a_refusal_is_one_line_after_spark_had_it(spark: SparkSession) -> None:
    """Spark wraps what a source says in pages; the line is found again."""
    with pytest.raises(Exception, match="PipelineError") as refusal:
        read(spark, Path("/nowhere")).collect()
    assert first_line(refusal.value) == "/nowhere: no such file or folder"


def test_an_older_spark_cannot_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, before Spark is started; audits go on working there."""
    monkeypatch.setattr("tidelog.pipeline.sources.find_spec", lambda name: None)
    with pytest.raises(PipelineError, match=r"^following needs Spark 4\.2, this is [\d.]+: pip install "):
        require_streams()
