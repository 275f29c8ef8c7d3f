"""`tidelog dump`: every kind of file, what is wrong found where it is, and no input that breaks it."""

import json
import shutil
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cli.calling import Answer, call, refused
from tests.cli.logs import FIRST, NOW, SECOND, batch, log_dir
from tests.storage.batches import append
from tests.storage.batches import batch as sent
from tests.storage.folders import TP, storage

from tidelog.core.types import LeaderEpoch
from tidelog.storage.dump.folders import folder_rows
from tidelog.wire.batch import HEADER_SIZE

SIZE = len(batch(0))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return log_dir(tmp_path / "broker-1")


@pytest.fixture
def first(logs: Path) -> Path:
    return logs / "events-0" / f"{FIRST}.log"


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    answer = call("dump", "--json", *arguments)
    assert answer.err == ""
    found = [json.loads(line) for line in answer.lines]
    assert answer.code == any(row["kind"] == "finding" for row in found)
    return found


def problems(*arguments: str | Path) -> list[tuple[str, int | None]]:
    found = [row for row in rows(*arguments) if row["kind"] == "finding"]
    return [(row["problem"], row["position"]) for row in found]


def plain(answer: Answer) -> str:
    assert answer.code == 0, answer
    return answer.out


def test_a_log_directory_is_a_table(logs: Path):
    """One line for each partition, with its high watermark from the checkpoint."""
    assert plain(call("dump", logs)) == (
        f"{logs}\n"
        "version=0\n"
        "broker.id=1\n"
        "partition  start  end  HW  records  segments   size  epochs   findings\n"
        "empty-0        0    0   0        0         1    0 B  -        none\n"
        f"events-0       0    9   9        9         2  {_size(logs)} B  0@0 2@6  none\n"
    )


def _size(logs: Path) -> int:
    return sum(path.stat().st_size for path in (logs / "events-0").glob("*.log"))


def test_the_directories_of_several_brokers_are_several_tables(logs: Path):
    log_dir(logs.parent / "broker-2")
    lines = call("dump", logs.parent).lines
    assert [line for line in lines if line.startswith("/")] == [str(logs), str(logs.parent / "broker-2")]
    assert sum(line.startswith("events-0") for line in lines) == 2


def test_a_partition_is_shown_segment_by_segment(logs: Path):
    lines = plain(call("dump", logs / "events-0")).splitlines()
    assert lines[0].startswith(f"{FIRST}.log  0..5  2 batches  6 records")
    assert lines[1].startswith(f"{SECOND}.log  6..8  1 batch  3 records")
    assert lines[2:4] == ["epoch 0  from offset 0", "epoch 2  from offset 6"]
    assert lines[4].startswith("events-0  offsets 0 to 9  9 records in 2 segments")
    assert lines[4].endswith("high watermark 9  no findings")


def test_a_segment_is_shown_batch_by_batch(first: Path):
    lines = plain(call("dump", first)).splitlines()
    assert len(lines) == 2
    assert lines[0] == (
        f"@0           0..2  epoch 0  3 records  {SIZE} B  none  2025-10-09T08:53:20.002Z"
        "  producer 7 epoch 0 sequence 0"
    )
    assert "3..5" in lines[1]
    assert "zstd" in lines[1]


def test_records_are_shown_with_all_they_carry(first: Path):
    """Text as text, other bytes in base64, the timestamps in UTC; compressed batches are looked into."""
    text = plain(call("dump", "--records", first))
    assert '    4           2025-10-09T08:53:20.004Z  key "k"  value "4"  trace=base64:/wA=' in text
    records = [row for row in rows("--records", first) if row["kind"] == "record"]
    assert [row["offset"] for row in records] == [0, 1, 2, 3, 4, 5]
    assert records[4] | {"file": ""} == {
        "kind": "record",
        "file": "",
        "offset": 4,
        "timestamp": NOW + 4,
        "key": "k",
        "value": "4",
        "headers": [{"name": "trace", "value_base64": "/wA="}],
    }


def test_every_other_file_has_its_form(logs: Path):
    partition = logs / "events-0"
    assert plain(call("dump", partition / f"{FIRST}.index")) == f"offset 5  at {SIZE}\n"
    assert plain(call("dump", partition / f"{FIRST}.timeindex")) == "2025-10-09T08:53:20.005Z  offset 5\n"
    assert plain(call("dump", partition / f"{SECOND}.index")) == ""
    assert plain(call("dump", partition / f"{SECOND}.snapshot")) == (
        "producer 7  epoch 0  last sequence 8  last batch 6..8  2025-10-09T08:53:20.000Z\n"
    )
    assert plain(call("dump", partition / "leader-epoch-checkpoint")) == (
        "epoch 0  from offset 0\nepoch 2  from offset 6\n"
    )
    assert plain(call("dump", logs / "replication-offset-checkpoint")) == "events-0  9\nempty-0  0\n"
    assert plain(call("dump", logs / "meta.properties")) == "version=0\nbroker.id=1\n"
    aborted = partition / f"{FIRST}.txnindex"
    aborted.write_bytes(pack(">hqqqq", 0, 7, 1, 4, 6))
    assert plain(call("dump", aborted)) == "producer 7  aborted 1..4  last stable offset 6\n"


# ---------------------------------------------------------------- what is wrong


def damage(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def test_what_a_broker_removes_meanwhile_is_no_finding(logs: Path, first: Path):
    """Segments that are too old, the folder of a topic that is deleted."""
    last = first.with_name(f"{9:020d}.log")
    last.write_bytes(batch(9, epoch=2))
    reading = folder_rows(first.parent, records=True)
    assert next(reading)["kind"] == "batch"
    first.with_name(f"{SECOND}.log").unlink()
    rest = list(reading)
    assert [Path(row["file"]).name for row in rest if row["kind"] == "note"] == [f"{SECOND}.log"]
    assert [row for row in rest if row["kind"] == "finding"] == []
    assert rest[-1]["end_offset"] == 12
    reading = folder_rows(logs)
    assert next(row for row in reading if row["kind"] == "partition")["topic"] == "empty"
    shutil.rmtree(first.parent)
    rest = list(reading)
    assert [row["kind"] for row in rest if row["kind"] in ("note", "finding")] == ["note"]


def test_a_flipped_bit_is_found_and_the_rest_still_read(first: Path):
    """The batch behind the damaged one is shown: its place is known."""
    damage(first, HEADER_SIZE + 3, b"\xaa")
    found = rows(first)
    assert [row["kind"] for row in found] == ["batch", "finding", "batch"]
    assert problems(first) == [("the CRC of batch 0..2 does not match", 0)]
    answer = call("dump", first)
    assert answer.code == 1
    assert f"! {first} at byte 0: the CRC of batch 0..2 does not match" in answer.lines
    # Nothing else is said to be wrong because of it.
    assert problems(first.parent) == [("the CRC of batch 0..2 does not match", 0)]


def test_a_torn_tail_is_found(first: Path):
    whole = first.read_bytes()
    first.write_bytes(whole[:-10])
    size = len(whole) - SIZE
    cut = f"a batch of {size} bytes is cut off; the last {size - 10} bytes are no batch"
    assert problems(first) == [(cut, SIZE)]
    first.write_bytes(whole[: SIZE + 5])
    assert problems(first) == [
        ("the file ends inside the header of a batch; the last 5 bytes are no batch", SIZE)
    ]


def test_what_is_no_batch_is_found(first: Path):
    first.write_bytes(batch(0) + bytes(100))
    assert problems(first) == [("there are zeros; the last 100 bytes are no batch", SIZE)]
    first.write_bytes(b"hello, this is not a log at all, but notes about one")
    (problem,) = problems(first)
    assert problem[0].startswith("there is no batch with a magic of ")


def test_offsets_and_epochs_that_go_back_are_found(first: Path):
    first.write_bytes(batch(0, epoch=1) + batch(1, epoch=0))
    assert problems(first) == [("offset 1 comes where 3 must", SIZE), ("epoch 0 comes after epoch 1", SIZE)]


def test_one_wild_epoch_is_one_finding(first: Path):
    """Neither repeated for every batch behind it nor an excuse for those."""
    first.write_bytes(b"".join(batch(n, 1, epoch=epoch) for n, epoch in enumerate((0, 9, 0, 2, 1))))
    found = [problem for problem, _ in problems(first)]
    assert found == ["epoch 0 comes after epoch 9", "epoch 1 comes after epoch 2"]


def test_a_gap_is_found_unless_the_log_was_compacted(logs: Path, first: Path):
    """Kafka's cleaner leaves gaps, and a checkpoint that says it was there."""
    first.write_bytes(batch(0) + batch(4, 2))
    gap = ("offsets 3..3 are missing (compacted logs have such gaps)", SIZE)
    assert problems(first) == [gap]
    assert gap in problems(logs)
    (logs / "cleaner-offset-checkpoint").write_text("0\n1\nevents 0 6\n")
    assert problems(logs) == []


def test_a_segment_missing_in_the_middle_is_found(logs: Path, first: Path):
    (first.parent / f"{9:020d}.log").write_bytes(batch(9, epoch=2))
    (first.parent / f"{SECOND}.log").unlink()
    (logs / "recovery-point-offset-checkpoint").unlink()
    assert problems(logs)[0][0].startswith("offsets 6..8 are missing")


def test_checkpoints_that_contradict_the_log_are_found(logs: Path, first: Path):
    (logs / "replication-offset-checkpoint").write_text("0\n2\nevents 0 10\nempty 0 0\n")
    (first.parent / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    assert problems(logs) == [
        ("batch 6 is of epoch 2, leader-epoch-checkpoint says epoch 0", 0),
        ("replication-offset-checkpoint says 10, but the log ends at 9", None),
    ]
    assert "events-0       0    9  10" in call("dump", logs).out


def test_every_contradiction_of_a_segment_is_found(logs: Path, first: Path):
    """One finding for batches that err alike; what errs behind them, or in another way, is one more."""
    first.write_bytes(
        batch(0, 1, epoch=1) + batch(1, 1, epoch=1) + batch(2, 1) + batch(3, 2, epoch=1) + batch(5, 1)
    )
    (first.parent / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 5\n")
    wrong = "is of epoch {}, leader-epoch-checkpoint says epoch {}".format
    found = [problem for problem, _ in problems(logs) if "leader-epoch-checkpoint" in problem]
    assert found == [f"batch 0 {wrong(1, 0)}", f"batch 3 {wrong(1, 0)}", f"batch 5 {wrong(0, 2)}"]


def test_what_delete_records_left_below_the_start_is_no_finding(tmp_path: Path):
    """The epochs below the new start are forgotten; the batches stay until their whole segment is."""
    with storage(tmp_path) as opened:
        log = opened.open(TP)
        append(log, sent("a", "b", "c"), epoch=0)
        append(log, sent("d", "e", "f"), sent("g"), epoch=3)
        log.epochs.assign(LeaderEpoch(0), 0)
        log.epochs.assign(LeaderEpoch(3), 3)
        log.advance_start(5)  # inside a batch
        log.epochs.truncate_from_start(5)
        log.epochs_changed()
    assert (tmp_path / "topic-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n3 5\n"
    (partition,) = (row for row in rows(tmp_path) if row["kind"] == "partition")
    assert (partition["start_offset"], partition["end_offset"], partition["findings"]) == (5, 7, 0)
    # A broker that was killed had no time to write down where the log starts now.
    (tmp_path / "log-start-offset-checkpoint").unlink()
    assert problems(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("leader-epoch-checkpoint", "1\n0\n", "it begins with '1' instead of version 0"),
        ("leader-epoch-checkpoint", "0\n2\n0 0\n", "it announces 2 entries and has 1"),
        ("leader-epoch-checkpoint", "0\n1\nzero 0\n", "line 3 is no entry: 'zero 0'"),
        (
            "leader-epoch-checkpoint",
            "0\n2\n1 5\n2 5\n",
            "epoch 2 from 5 does not come after epoch 1 from 5",
        ),
        ("replication-offset-checkpoint", "0\n1\nt 0\n", "line 3 is no entry: 't 0'"),
        ("meta.properties", "=x\n", "'=x': expected name=value, line 1 of meta.properties"),
        (f"{FIRST}.snapshot", "x", "it is too short for a snapshot"),
        (f"{FIRST}.snapshot", "\0\2" + "\0" * 8, "it is a snapshot of version 2, known is 1"),
        (f"{FIRST}.index", "123456789", "1 bytes at the end are no entry of 8 bytes"),
    ],
)
def test_what_is_wrong_with_a_small_file_is_said(tmp_path: Path, name: str, content: str, problem: str):
    path = tmp_path / name
    path.write_text(content)
    assert problem in [text for text, _ in problems(path)]


def test_an_index_that_leads_astray_is_found(first: Path):
    index = first.with_suffix(".index")
    index.write_bytes(pack(">iiii", 5, SIZE, 5, 7))
    assert problems(index) == [("entry 1 does not come after entry 0", 8)]
    index.write_bytes(pack(">ii", 5, SIZE + 1))
    assert problems(index) == [
        (f"entry 0: at {SIZE + 1} of the log there is no batch that leads to offset 5", 0)
    ]
    index.write_bytes(pack(">ii", 5, 1_000_000))
    assert problems(index) == [("entry 0: there is no batch at 1000000 of the log", 0)]


def test_what_is_no_log_is_refused_or_found(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("x")
    assert "not a file of a log" in refused(call("dump", tmp_path / "notes.txt"))
    assert refused(call("dump", tmp_path / "none")) == f"{tmp_path / 'none'}: no such file or directory"
    assert problems(tmp_path) == [("there is no log here: neither segments nor folders of partitions", None)]


def test_a_snapshot_with_a_wrong_crc_is_found(logs: Path):
    path = logs / "events-0" / f"{SECOND}.snapshot"
    damage(path, 12, b"\xff")
    assert problems(path) == [("its CRC does not match", 2)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_damage_breaks_it(logs: Path, data: st.DataObject):
    """Whatever bytes of whatever file are changed or cut off, reading ends, and never with an exception."""
    files = sorted(path for path in logs.rglob("*") if path.is_file() and 0 < path.stat().st_size < 4096)
    path = data.draw(st.sampled_from(files))
    whole = path.read_bytes()
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    path.write_bytes(content)
    try:
        found = list(folder_rows(logs, records=True))
    finally:
        path.write_bytes(whole)
    assert all(json.dumps(row) for row in found)
    assert sum(row["kind"] == "partition" for row in found) == 2


def test_a_large_file_is_not_held_in_memory(tmp_path: Path):
    """What claims to be one batch of an eighth of a gigabyte is read in pieces."""
    import tracemalloc

    path = tmp_path / f"{FIRST}.log"
    size = 128 << 20
    head = bytearray(batch(0)[:HEADER_SIZE])
    head[8:12] = pack(">i", size - 12)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(size)  # sparse: it takes no room
    tracemalloc.start()
    assert problems("--records", path) == [("the CRC of batch 0..2 does not match", 0)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20
