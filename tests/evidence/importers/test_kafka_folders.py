"""Log folders of real Kafka clusters become evidence, and the audit names what was done to them."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from tests.evidence.importers.kafka_recordings import (
    VERSIONS,
    brokers,
    copied,
    cut_tail,
    flip_a_byte,
    segments,
    tear,
    unpacked,
)

from tidelog.evidence.folder import EvidenceError, Manifest
from tidelog.evidence.importers.kafka.coordinator_log import TransactionKey, TransactionValue
from tidelog.evidence.importers.kafka.folder_import import ImportedCluster, Source, import_log_folders
from tidelog.evidence.importers.kafka.journal import NAME
from tidelog.evidence.importers.kafka.placing import Placing
from tidelog.evidence.parquet.parts import rows_of
from tidelog.evidence.tables import EVENTS, REPLICAS, TRANSACTIONS
from tidelog.pipeline.audit.run import audit
from tidelog.storage.checkpoints import LEADER_EPOCHS
from tidelog.wire.codec import encode
from tidelog.wire.records import Record, build_batch

Found = dict[str, list[dict[str, Any]]]
EPOCHS = ("orders-0", "orders-1")


def imported(folders: list[Path], target: Path, logs: Path | None = None, **more: Any) -> ImportedCluster:
    source = Source([str(path) for path in folders], [] if logs is None else [logs], zone=UTC, **more)
    return import_log_folders(source, target)


def judged(
    folders: list[Path], target: Path, logs: Path | None = None, **more: Any
) -> tuple[dict[str, Any], Found]:
    imported(folders, target, logs, **more)
    verdict = audit(target, engine="local", with_report=False).verdict
    violations = {
        anomaly: [row for row in rows if row["severity"] == "violation"]
        for anomaly, rows in verdict["examples"].items()
    }
    return verdict, {anomaly: rows for anomaly, rows in violations.items() if rows}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_whole_cluster_is_found_whole(version: str, tmp_path: Path) -> None:
    """Replicas agree; the transaction that was left open and the unclean election are notices."""
    verdict, broken = judged(brokers(version, "settled"), tmp_path / "e", unpacked(version) / "logs")
    assert not broken
    assert verdict["totals"]["records"] == {"1": 397, "2": 397, "3": 397}
    (hanging,) = verdict["examples"]["hanging transaction"]
    assert (hanging["producer"], hanging["offset"], hanging["count"]) == ("payments-hanging", 12, 5)
    assert hanging["circumstance"] == "transaction_open"
    unclean = [row for row in verdict["examples"]["unclean election"] if row["topic"] == "accounts"]
    # Broker 1 truncated what it alone had: 20 records. No high watermark is left that shows them committed.
    assert [(row["offset"], row["count"]) for row in unclean] == [(40, 20)]
    assert any("log folders do not say what clients sent" in words for words in verdict["unjudged"])
    assert "lost" not in verdict["judged"]
    assert not verdict["conclusive"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_diverged_tail_and_its_unclean_election_are_named(version: str, tmp_path: Path) -> None:
    """Broker 1 still holds the 20 records that it acknowledged alone; the others hold 10 others there."""
    verdict, broken = judged(brokers(version, "crashed"), tmp_path / "e", unpacked(version) / "logs")
    assert verdict["counts"]["diverged"]["violation"] == 10
    assert sorted(row["offset"] for row in broken["diverged"]) == list(range(40, 50))
    assert {row["broker"] for row in broken["diverged"]} == {1}
    (unclean,) = broken["unclean election"]
    assert (unclean["topic"], unclean["offset"], unclean["count"]) == ("accounts", 40, 20)
    assert broken.keys() == {"diverged", "unclean election"}


@pytest.mark.parametrize("version", VERSIONS)
def test_planted_damage_is_named_and_nothing_else(version: str, tmp_path: Path) -> None:
    """A flipped byte, a tail that was cut, a missing segment and a torn tail: each once, at its place."""
    folders = copied(version, "settled", tmp_path / "b")
    damaged = flip_a_byte(segments(folders[1], "accounts-0")[0])
    end = cut_tail(segments(folders[2], "payments-0")[-1])
    os.remove(segments(folders[2], "orders-1")[0])
    first, *_, last = segments(folders[0], "orders-0")
    assert first != last
    tear(last)
    _, broken = judged(folders, tmp_path / "e", unpacked(version) / "logs", stopped=True)
    assert [(row["broker"], row["topic"], row["offset"]) for row in broken["damaged"]] == [
        (2, "accounts", damaged)
    ]
    # What cannot be read is one finding: it is not missing besides.
    lacked = {(row["broker"], row["topic"], row["offset"], row["count"]) for row in broken["missing copy"]}
    assert lacked == {(3, "payments", end, 23 - end)}
    assert broken.keys() == {"damaged", "missing copy"}
    # A first segment that is missing looks like retention: the log starts later, which breaks no promise.
    (start,) = {
        row["log_start_offset"]
        for row in rows_of(tmp_path / "e", REPLICAS)
        if (row["broker"], row["topic"], row["partition"]) == (3, "orders", 1)
    }
    assert start == int(segments(folders[2], "orders-1")[0].stem)


@pytest.mark.parametrize("version", VERSIONS)
def test_epochs_are_in_the_batches_too(version: str, tmp_path: Path) -> None:
    """A leader-epoch-checkpoint that is gone or damaged does not date records before an election."""
    folders = copied(version, "settled", tmp_path / "b")
    whole = {name: (folders[1] / name / LEADER_EPOCHS).read_text().splitlines()[2:] for name in EPOCHS}
    (folders[1] / "orders-0" / LEADER_EPOCHS).unlink()
    (folders[1] / "orders-1" / LEADER_EPOCHS).write_bytes(b"\xff\xff")
    _, broken = judged(folders, tmp_path / "e", stopped=True)
    assert not broken
    for row in rows_of(tmp_path / "e", REPLICAS):
        if row["broker"] == 2 and (name := f"{row['topic']}-{row['partition']}") in EPOCHS:
            starts = [f"{epoch} {at}" for epoch, at in zip(row["epochs"], row["epoch_starts"], strict=True)]
            assert set(starts) <= set(whole[name])  # an epoch without a batch is not known
            assert starts


def test_a_segment_that_is_missing_between_others_is_a_hole(tmp_path: Path) -> None:
    """Found on one broker alone, and beside a replica that has the records."""
    whole = copied("4.3.1", "settled", tmp_path / "b")
    first, last = segments(whole[2], "orders-0")
    # As if two batches between these had been a segment of their own.
    base = cut_tail(first, batches=2)
    _, broken = judged(whole, tmp_path / "e")
    hole = int(last.stem) - base
    assert [(r["broker"], r["offset"], r["count"]) for r in broken["missing copy"]] == [(3, base, hole)]
    _, alone = judged([whole[2]], tmp_path / "alone")
    assert [(r["broker"], r["offset"], r["count"]) for r in alone["missing copy"]] == [(3, base, hole)]
    assert "no replica here holds them" in alone["missing copy"][0]["detail"]


def test_a_replica_that_is_gone_as_a_whole(tmp_path: Path) -> None:
    """Its folder, or all of its segments; the checkpoint of the disk still names it."""
    folders = copied("4.3.1", "settled", tmp_path / "b")
    shutil.rmtree(folders[0] / "orders-0")
    for segment in segments(folders[1], "orders-1"):
        segment.unlink()
    _, broken = judged(folders, tmp_path / "e")
    assert broken.keys() == {"missing copy"}
    assert sorted((row["broker"], row["partition"], row["count"]) for row in broken["missing copy"]) == [
        (1, 0, 150),
        (2, 1, 150),
    ]


def test_a_transaction_that_its_coordinator_ended_hangs(tmp_path: Path) -> None:
    """The coordinator's log says that it was aborted, and no marker was written."""
    folders = copied("4.3.1", "settled", tmp_path / "b")
    value = TransactionValue(
        producer_id=next(
            row["producer_id"] for row in _transactions(folders, tmp_path / "before") if row["broker"] == 1
        ),
        producer_epoch=0,
        transaction_timeout_ms=900_000,
        transaction_status=5,
        transaction_partitions=None,
        last_update_ms=1,
        start_ms=1,
    )
    key = TransactionKey(transactional_id="payments-hanging")
    record = Record(key=b"\0\0" + encode(key, 0, False), value=b"\0\0" + encode(value, 0, False), timestamp=1)
    for folder in folders[:3]:
        segment = segments(folder, "__transaction_state-0")[-1]
        batch = bytearray(build_batch([record], leader_epoch=9))
        batch[:8] = (14).to_bytes(8, "big")
        with segment.open("ab") as file:
            file.write(batch)
    _, broken = judged(folders, tmp_path / "e")
    (hanging,) = broken["hanging transaction"]
    assert (hanging["producer"], hanging["offset"]) == ("payments-hanging", 12)
    assert "CompleteAbort" in hanging["detail"]


def test_a_coordinator_that_was_copied_later_accuses_no_transaction(tmp_path: Path) -> None:
    """It says that a transaction ended, but the log of the partition does not go on behind that moment: the
    marker may have come after it was copied."""
    folders = copied("4.3.1", "settled", tmp_path / "b")
    payments = [segments(folder, "payments-0")[-1] for folder in folders[:3]]
    for segment in payments:  # before the marker of the last transaction, which was committed
        cut_tail(segment)
    _, broken = judged(folders, tmp_path / "e")
    assert not broken
    last = [row for row in rows_of(tmp_path / "e", TRANSACTIONS) if row["first_offset"] > 12]
    assert {(row["transactional_id"], row.get("coordinator_state")) for row in last} == {("payments-c", None)}
    _, broken = judged(folders, tmp_path / "stopped", stopped=True)
    assert [row["producer"] for row in broken["hanging transaction"]] == ["payments-c"]


def _transactions(folders: list[Path], target: Path) -> list[dict[str, Any]]:
    imported(folders, target)
    return list(rows_of(target, TRANSACTIONS))


def test_a_high_watermark_that_was_copied_after_its_log_accuses_nobody(tmp_path: Path) -> None:
    """As `cp` copies the folder of a running broker. If it did not run, the end of the log is lost."""
    folders = copied("4.3.1", "settled", tmp_path / "b")
    cut_tail(segments(folders[1], "orders-1")[-1])
    verdict, broken = judged(folders, tmp_path / "e")
    assert not broken
    assert any("the end of log orders-1 of broker 2" in words for words in verdict["unjudged"])
    _, broken = judged(folders, tmp_path / "stopped", stopped=True)
    assert [(row["broker"], row["count"]) for row in broken["missing copy"]] == [(2, 10)]


def test_a_replica_that_is_out_of_sync_may_differ_above_its_high_watermark(tmp_path: Path) -> None:
    """A leader that died holds what no other got, until it comes back and truncates: that breaks nothing.
    One that was the only replica in sync had committed it, though its checkpoint does not say so yet."""
    folders = copied("4.3.1", "crashed", tmp_path / "b")
    # No replica of orders is in sync; by the metadata log broker 1 alone may lead again.
    for number, epoch in ((0, 2), (1, 0), (2, 2)):
        end = 120
        record = Record(key=b"k", value=f"of epoch {epoch}".encode(), timestamp=1)
        with segments(folders[number], "orders-0")[-1].open("ab") as file:
            file.write(end.to_bytes(8, "big") + build_batch([record], leader_epoch=epoch)[8:])
    marks = folders[0] / "replication-offset-checkpoint"
    marks.write_text(marks.read_text().replace("accounts 0 60", "accounts 0 40"))
    verdict, broken = judged(folders, tmp_path / "e")
    stale = [row for row in verdict["examples"]["diverged"] if row["topic"] == "orders"]
    assert [(row["severity"], row["offset"], row["broker"]) for row in stale] == [("notice", 120, 2)]
    assert sorted(row["offset"] for row in broken["diverged"]) == list(range(40, 50))
    assert [row["count"] for row in broken["unclean election"]] == [20]


def test_too_few_whole_copies(tmp_path: Path) -> None:
    """min.insync.replicas of orders is 2, and two of three replicas lost their end."""
    folders = copied("4.3.1", "settled", tmp_path / "b")
    for folder in folders[1:3]:
        cut_tail(segments(folder, "orders-0")[-1])
    _, broken = judged(folders, tmp_path / "e", stopped=True)
    assert [(row["topic"], row["partition"], row["count"]) for row in broken["too few copies"]] == [
        ("orders", 0, 1)
    ]


def test_who_led_when(tmp_path: Path) -> None:
    """Leaders, ISR and eligible leaders by KRaft's metadata log, without any log file."""
    imported(brokers("4.3.1", "settled"), tmp_path / "e")
    states = [
        (row["leader"], row["leader_epoch"], row["isr"], row["elr"], row.get("rule"))
        for row in rows_of(tmp_path / "e", EVENTS)
        if row["event"] == "partition_state_written" and row["topic"] == "accounts"
    ]
    new = states[4][0]
    assert states[:5] == [
        (1, 0, [1, 2, 3], [], "created"),
        (1, 0, [1, 2], [], None),
        (1, 0, [1], [], None),
        (-1, 1, [], [1], "replica_offline"),
        (new, 2, [new], [], "unclean"),
    ]
    assert [row[2] for row in states[5:]] == [[2, 3], [1, 2, 3]]


def test_log_files_of_zookeeper_clusters_say_the_same(tmp_path: Path) -> None:
    imported(brokers("2.7.1", "settled"), tmp_path / "e", unpacked("2.7.1") / "logs")
    rows = [row for row in rows_of(tmp_path / "e", EVENTS) if row["topic"] == "accounts"]
    assert [row["leader"] for row in rows if row.get("rule") == "unclean"] == [2]
    cut = next(row for row in rows if row["event"] == "truncated")
    assert (cut["broker"], cut["previous_log_end_offset"], cut["log_end_offset"]) == (1, 60, 40)
    leaders = [(row["leader_epoch"], row["leader"]) for row in rows if row["event"] == "became_leader"]
    assert leaders == [(0, 1), (1, 1), (2, 1), (4, 2)]


@pytest.mark.parametrize("how", Placing)
def test_the_source_is_only_read(how: Placing, tmp_path: Path) -> None:
    """The last segment is a copy; closed ones are what was asked for; bytes of the source stay."""
    folders = copied("2.7.1", "settled", tmp_path / "b")
    before = {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()}
    imported(folders, tmp_path / "e", segments=how)
    assert {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()} == before
    closed, last = segments(tmp_path / "e" / "cluster" / "broker-1", "orders-0")
    source = segments(folders[0], "orders-0")[0]
    assert closed.is_symlink() == (how is Placing.REFERENCE)
    assert closed.samefile(source) == (how is not Placing.COPY)
    assert not last.is_symlink()
    assert last.stat().st_nlink == 1


def test_allocated_index_and_segment_files_are_no_damage(tmp_path: Path) -> None:
    """A running broker's index files have zeros behind their entries, and so do preallocated segments."""
    folders = copied("2.7.1", "settled", tmp_path / "b")
    for folder in folders:
        for path in folder.rglob("*.index"):
            os.truncate(path, 10 << 20)
            assert path.stat().st_blocks < 1000, "this file system has no holes"
        os.truncate(segments(folder, "accounts-0")[-1], 1 << 20)
    verdict, broken = judged(folders, tmp_path / "e")
    assert not broken
    assert verdict["totals"]["records"]["1"] == 397
    copies = list((tmp_path / "e").rglob("*.index"))
    assert {path.stat().st_size for path in copies} == {10 << 20}
    assert all(path.stat().st_blocks < 1000 for path in copies)  # of 512 bytes: holes were not filled


def test_an_import_that_was_killed_goes_on(tmp_path: Path) -> None:
    """Killed after some replicas, the same command ends with the same tables."""
    folders, target = brokers("4.3.1", "settled"), tmp_path / "e"
    whole = tmp_path / "whole"
    imported(folders, whole)
    program = f"""
import os, sys
from tidelog.evidence.importers.kafka import journal
from tidelog.evidence.importers.kafka.folder_import import Source, import_log_folders
from pathlib import Path
write = journal.ImportJournal.write
def counted(self, *given):
    write(self, *given)
    if len(self.done) == 7:
        os.kill(os.getpid(), 9)
journal.ImportJournal.write = counted
import_log_folders(Source({[str(path) for path in folders]!r}), Path({str(target)!r}))
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False, timeout=300)
    assert killed.returncode == -9
    lines = target / "journal" / NAME
    text = lines.read_text()
    assert text.count("\n") == 7
    lines.write_text(text[: -len(text.splitlines()[-1]) // 2])  # the last line is cut off as well
    done = imported(folders, target)
    assert done.resumed == 6
    for table in (REPLICAS, EVENTS, TRANSACTIONS):
        assert list(rows_of(target, table)) == list(rows_of(whole, table))
    assert Manifest.read(target).state == "complete"
    assert not (target / "journal").exists()


# ---------------------------------------------------------------- refusals


def _refused(folders: list[str], target: Path, logs: list[Path] | None = None) -> str:
    with pytest.raises(EvidenceError) as refused:
        import_log_folders(Source(folders, logs or []), target)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_bad_input_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    one, two, *_ = map(str, brokers("2.7.1", "settled"))
    earlier = str(brokers("2.7.1", "crashed")[0])
    other = str(brokers("4.3.1", "settled")[1])
    target = tmp_path / "e"
    (tmp_path / "empty").mkdir()
    bare = copied("2.7.1", "settled", tmp_path / "bare")[0]
    (bare / "meta.properties").unlink()
    not_a_log = tmp_path / "notes.txt"
    not_a_log.write_text("nothing of Kafka's\n")
    for folders, logs, words in (
        ([str(tmp_path / "none")], [], "there is no such folder"),
        ([str(not_a_log)], [], "is a file"),
        ([str(tmp_path / "empty")], [], "is not a log folder of Kafka"),
        ([str(Path(one).parent)], [], "but"),
        ([f"{one}/orders-0"], [], "is the folder of one partition"),
        ([one, one], [], "is given twice"),
        ([one, earlier], [], "broker 1 is given twice"),
        ([one, other], [], "two clusters"),
        ([f"7={one}"], [], "is of broker 1, not 7"),
        ([str(bare)], [], "name the broker, like 1="),
        ([one], [tmp_path / "none"], "there is no such file or folder"),
        ([one], [not_a_log], "leave it out"),
    ):
        assert words in _refused(folders, target, logs)
        assert not target.exists()
    imported([Path(f"9={bare}")], tmp_path / "named")  # which is how to name it
    assert "are inside each other" in _refused([one], Path(one) / "evidence")
    imported([Path(one), Path(two)], target)
    before = (target / "trial.json").read_bytes()
    assert "choose another folder" in _refused([one], target)
    assert (target / "trial.json").read_bytes() == before


def test_a_segment_that_cannot_be_read_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    folders = copied("2.7.1", "settled", tmp_path / "b")
    segment = segments(folders[0], "orders-0")[0]
    segment.unlink()
    segment.symlink_to(tmp_path / "gone")
    assert str(segment) in _refused([str(folders[0])], tmp_path / "e")
    assert not (tmp_path / "e").exists()


def test_the_command_says_what_it_found(tmp_path: Path) -> None:
    folders = [str(path) for path in brokers("4.3.1", "crashed")]
    command = [sys.executable, "-m", "tidelog", "evidence", "import-kafka", *folders]
    target = str(tmp_path / "e")
    done = subprocess.run(
        [*command, "--evidence", target, "--json"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["brokers"], found["replicas"], found["unclean_elections"]) == ([1, 2, 3], 15, 1)
    again = subprocess.run(
        [*command, "--evidence", target], capture_output=True, text=True, check=False, timeout=300
    )
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
