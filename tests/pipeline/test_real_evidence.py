"""Evidence as a cluster leaves it, with segment files, doctored in one place each: the audit finds that
place, and says nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from tests.pipeline.judged import found_rows, judge_evidence
from tests.pipeline.planted import FINAL, Case, write

from tidelog.core import events as e
from tidelog.core.reasons import ElectionKind, TruncationRule
from tidelog.core.types import BrokerId, LeaderEpoch, TopicPartition
from tidelog.evidence.process_events import ProcessStopped
from tidelog.pipeline.audit.findings import VIOLATION
from tidelog.wire.records import Record, build_batch

COUNT = 8
ABORT, COMMIT = b"\x00\x00\x00\x00", b"\x00\x00\x00\x01"
V, N = "violation", "notice"


def batch(offset: int, value: str | None, **more: Any) -> bytes:
    key, headers, at = more.pop("key", b"k"), more.pop("headers", []), more.pop("timestamp", 1000 + offset)
    record = Record(timestamp=at, key=key, value=None if value is None else value.encode(), headers=headers)
    return build_batch([record], base_offset=offset, **{"leader_epoch": 0} | more)


def sent(case: Case, count: int = COUNT, **more: Any) -> Case:
    """Acknowledged, one record each batch, and read at the end."""
    for offset in range(count):
        case.send(f"v{offset}", offset, key="k", **more)
    for offset in range(count):
        case.read(FINAL, (offset, f"v{offset}"), at_ms=100_000, position_before=offset, key="k")
    return case


def replicas(
    case: Case,
    folder: Path,
    logs: dict[int, list[bytes]],
    end: int = COUNT,
    ends: dict[int, int] | None = None,
) -> None:
    """The segment files of each broker; the first leads."""
    for broker, batches in logs.items():
        name = f"cluster/broker-{broker}/{case.topic}-0/{0:020}.log"
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(batches))
        case.replicas.append(
            {"topic": case.topic, "partition": 0, "broker": broker, "base_offset": 0, "file": name}
            | {"log_start_offset": 0, "log_end_offset": (ends or {}).get(broker, end), "high_watermark": end}
            | {"leader": next(iter(logs)), "isr": list(logs)}
        )


def good(count: int = COUNT) -> list[bytes]:
    return [batch(offset, f"v{offset}") for offset in range(count)]


def found(folder: Path, case: Case, **manifest: Any) -> set[tuple[Any, ...]]:
    settings = {"final_reader": FINAL, "stage_name": "sim"} | manifest
    settings.pop("stage_name")
    write(folder, [case], **settings)
    judge_evidence(folder)
    names = ("anomaly", "severity", "value", "offset", "broker")
    return {
        tuple(row[name] for name in names) for row in found_rows(folder) if row["anomaly"] != "unavailable"
    }


def test_untouched_evidence_is_clean(tmp_path: Path) -> None:
    case = sent(Case("t"))
    replicas(case, tmp_path, {0: good(), 1: good()})
    assert found(tmp_path, case) == set()


@pytest.mark.parametrize(
    "other",
    [
        lambda: batch(3, "v3", key=b"other"),
        lambda: batch(3, "v3", timestamp=77),
        lambda: batch(3, "v3", headers=[("h", b"x")]),
        lambda: batch(3, "x3"),
        lambda: batch(3, "v3", producer_id=7, producer_epoch=0, base_sequence=3),
    ],
    ids=["key", "timestamp", "header", "value", "producer"],
)
def test_one_replica_differs_in_one_record(tmp_path: Path, other: Callable[[], bytes]) -> None:
    """Whatever it is in which they differ."""
    log = good()
    log[3] = other()
    case = sent(Case("t"))
    replicas(case, tmp_path, {0: good(), 1: log})
    assert {(f[0], f[1], f[3], f[4]) for f in found(tmp_path, case)} == {("diverged", V, 3, 1)}


def test_a_record_missing_in_the_middle_of_an_in_sync_replica(tmp_path: Path) -> None:
    case = sent(Case("t"))
    replicas(case, tmp_path, {0: good(), 1: good()[:3] + good()[5:]})
    assert found(tmp_path, case) == {("missing copy", V, None, 3, 1)}
    assert found_rows(tmp_path)[0]["count"] == 2


def test_an_in_sync_replica_that_ends_far_below_the_watermark(tmp_path: Path) -> None:
    case = sent(Case("t"), 300)
    replicas(case, tmp_path, {0: good(300), 1: good(20)}, 300, {1: 20})
    assert found(tmp_path, case) == {("missing copy", V, None, 20, 1)}


def test_a_key_that_was_changed_everywhere(tmp_path: Path) -> None:
    """The ledger has it."""
    log = good()
    log[2] = batch(2, "v2", key=b"other")
    case = sent(Case("t"))
    case.reads[2]["key"] = "other"
    replicas(case, tmp_path, {0: log, 1: log})
    assert found(tmp_path, case) == {("damaged", V, "v2", 2, None)}


def test_a_record_that_is_not_as_it_was_sent_is_found_once(tmp_path: Path) -> None:
    """However many consumers had read it as it was sent."""
    log = good()
    log[2] = batch(2, "v2", key=b"other")
    case = sent(Case("t"))
    for offset in range(COUNT):
        case.read("c", (offset, f"v{offset}"), key="k")
    replicas(case, tmp_path, {0: log, 1: log})
    assert found(tmp_path, case) == {("damaged", V, "v2", 2, None)}
    assert [row["producer"] for row in found_rows(tmp_path)] == ["t.p"]


def test_a_replica_in_sync_whose_file_ends_too_early(tmp_path: Path) -> None:
    """Its broker said that it had more."""
    case = sent(Case("t"))
    replicas(case, tmp_path, {0: good(), 1: good()[:6]})
    assert found(tmp_path, case) == {("missing copy", V, None, 6, 1)}
    said = "broker 1, which is in sync, ends at 6, 2 records below the committed end"
    assert found_rows(tmp_path)[0]["detail"] == said


@pytest.mark.parametrize(
    ("epoch", "why"), [(7, "no broker led it"), (0, "its leader had gone on to the next")]
)
def test_an_epoch_of_which_a_record_cannot_be(tmp_path: Path, epoch: int, why: str) -> None:
    """No leader of another term wrote it: nothing shows why it says so."""
    case = sent(Case("t").elected(0, 0, 0, 0, ElectionKind.CLEAN, [0, 1]))
    case.elected(500, 0, 1, 0, ElectionKind.CLEAN, [0, 1])
    log = [batch(offset, f"v{offset}", leader_epoch=1) for offset in range(COUNT)]
    other = [*log[:3], batch(3, "v3", leader_epoch=epoch), *log[4:]]
    replicas(case, tmp_path, {0: log, 1: other})
    assert found(tmp_path, case) == {("diverged", V, "v3", 3, 1)}, why
    assert found_rows(tmp_path)[0]["rule"] == "unexplained"


def test_a_key_that_was_added_everywhere(tmp_path: Path) -> None:
    """Where no record was sent with one."""
    log = [batch(offset, f"v{offset}", key=b"new" if offset == 2 else None) for offset in range(COUNT)]
    case = sent(Case("t"))
    for row in (*case.ledger, *case.reads):
        row["key"] = None
    case.reads[2]["key"] = "new"
    replicas(case, tmp_path, {0: log, 1: log})
    assert found(tmp_path, case) == {("damaged", V, "v2", 2, None)}


def test_an_acknowledgement_at_an_offset_that_the_log_had_not_come_to(tmp_path: Path) -> None:
    """Those of v2 and v17 are exchanged. A broker that took office at 10 took nothing away from 17: what was
    below 10 by then, and is still there, had been sent after v2 was acknowledged."""
    case = Case("t").elected(0, 0, 0, 0, ElectionKind.CLEAN, [0, 1])
    case.elected(100, 1, 1, 10, ElectionKind.CLEAN, [0, 1])
    for offset in range(20):
        case.send(f"v{offset}", {2: 17, 17: 2}.get(offset, offset), key="k", acks=1)
    log = [batch(offset, f"v{offset}", timestamp=10 * offset) for offset in range(20)]
    replicas(case, tmp_path, {0: log, 1: log}, 20)
    write(tmp_path, [case])
    judge_evidence(tmp_path)
    rows = [row for row in found_rows(tmp_path) if row["anomaly"] != "unavailable"]
    assert {(row["anomaly"], row["offset"], row["rule"]) for row in rows} == {
        ("inconsistent offset", 2, "unexplained"),
        ("inconsistent offset", 17, "unexplained"),
    }


@pytest.mark.parametrize("told", ["ledger", "reads"])
def test_a_key_that_a_record_was_not_sent_with(tmp_path: Path, told: str) -> None:
    """Others have keys, so that none is none."""
    case = sent(Case("t"))
    getattr(case, told)[2]["key"] = None
    replicas(case, tmp_path, {0: good(), 1: good()})
    assert found(tmp_path, case) == {("damaged", V, "v2", 2, None)}


def test_bytes_that_a_consumer_got_and_the_log_does_not_hold(tmp_path: Path) -> None:
    case = sent(Case("t"))
    case.reads[2]["value_crc32"] = 5
    replicas(case, tmp_path, {0: good(), 1: good()})
    assert found(tmp_path, case) == {("damaged", V, "v2", 2, None)}
    assert found_rows(tmp_path)[0]["consumer"] == FINAL


def flipped(content: bytes, at: int) -> bytes:
    found = bytearray(content)
    found[at] ^= 4
    return bytes(found)


@pytest.mark.parametrize("broker", [0, 1])
@pytest.mark.parametrize("at", [0, 5, 10, 18, -3], ids=["offset", "offset, low", "length", "CRC", "value"])
def test_a_flipped_byte_is_one_finding_with_its_place(tmp_path: Path, broker: int, at: int) -> None:
    """On whichever replica; the log that counts is then that of another, and nothing is lost. What cannot be
    read is not missing besides, and is where it is, whatever its header says."""
    log = good()
    logs = {0: good(), 1: good()}
    logs[broker][4] = flipped(log[4], at)
    case = sent(Case("t"))
    replicas(case, tmp_path, logs)
    assert found(tmp_path, case) == {("damaged", V, None, 4, broker)}
    assert len(found_rows(tmp_path)) == 1


def test_records_that_exist_and_cannot_be_read_are_no_health(tmp_path: Path) -> None:
    """The final read does not silently stand for them."""
    case = sent(Case("t"))
    replicas(case, tmp_path, {0: good(), 1: good()})
    for broker in (0, 1):
        (tmp_path / case.replicas[broker]["file"]).unlink()
    write(tmp_path, [case], final_reader=FINAL)
    verdict = judge_evidence(tmp_path)
    assert verdict.held
    assert not verdict.conclusive
    assert "the records of t-0 exist and cannot be read" in "\n".join(verdict.unjudged)


@pytest.mark.parametrize("broker", [0, 1])
def test_one_replica_of_which_no_file_is_there(tmp_path: Path, broker: int) -> None:
    """The other one holds everything: nothing is lost, and the file is named."""
    case = sent(Case("t"))
    replicas(case, tmp_path, {0: good(), 1: good()})
    (tmp_path / case.replicas[broker]["file"]).unlink()
    write(tmp_path, [case], final_reader=FINAL)
    verdict = judge_evidence(tmp_path)
    assert (verdict.held, verdict.conclusive) == (True, True)
    assert any("the segment file is gone" in words for words in verdict.unjudged)


def test_an_empty_segment_file_is_one_that_is_gone(tmp_path: Path) -> None:
    """Its replica held records when it was collected: the other one counts, and nothing is lost."""
    case = sent(Case("t"))
    replicas(case, tmp_path, {0: good(), 1: good()})
    case.replicas[0]["bytes"] = 700
    (tmp_path / case.replicas[0]["file"]).write_bytes(b"")
    write(tmp_path, [case], final_reader=FINAL)
    verdict = judge_evidence(tmp_path)
    assert (verdict.held, verdict.conclusive) == (True, True)
    assert any("the segment file is empty" in words for words in verdict.unjudged)


def test_files_of_clients_that_are_gone_accuse_no_one(tmp_path: Path) -> None:
    """What the producer q sent is no phantom, and nothing is unseen by a reader whose file is gone."""
    case = Case("t").send("a", 0).logs("a", "of q").read("c", (0, "a"))
    clients = [{"role": "producer", "name": f"t.{name}"} for name in "pq"]
    write(tmp_path, [case], final_reader=FINAL, clients=clients)
    (file,) = (tmp_path / "reads").glob("*.parquet")
    file.rename(tmp_path / "reads/reads-c-000000.parquet")
    verdict = judge_evidence(tmp_path)
    assert verdict.held
    assert "sends of t.q: the ledger has none of them" in verdict.unjudged
    assert "unseen: there was no final read" in verdict.unjudged


@pytest.mark.parametrize("table", ["ledger", "reads", "replicas"])
@pytest.mark.parametrize("damage", ["the end", "a page", "a byte"])
def test_a_table_that_cannot_be_read_accuses_no_one(tmp_path: Path, table: str, damage: str) -> None:
    """Its rows are not taken for absent: no phantoms, nothing unseen, nothing held either."""
    case = sent(Case("t"))
    replicas(case, tmp_path, {0: good(), 1: good()})
    write(tmp_path, [case], final_reader=FINAL)
    (file,) = (tmp_path / table).glob("*.parquet")
    content = bytearray(file.read_bytes())
    if damage == "a byte":  # of a page's content: Parquet has CRCs of them
        group = pq.ParquetFile(file).metadata.row_group(0)
        column = next(n for n in range(group.num_columns) if group.column(n).path_in_schema == "partition")
        content[group.column(column).data_page_offset + group.column(column).total_compressed_size - 1] ^= 1
    else:
        content[4:404] = bytes(400)
    file.write_bytes(content[: len(content) // 2] if damage == "the end" else content)
    if table == "ledger":  # a second file, so that there is something to judge
        other = Case("t").send("v0", 0, key="k")
        write(tmp_path / "other", [other])
        (rest,) = (tmp_path / "other/ledger").glob("*.parquet")
        rest.rename(tmp_path / "ledger/part-000009.parquet")
    verdict = judge_evidence(tmp_path)
    assert not any(counts[VIOLATION] for counts in verdict.counts.values())
    assert (verdict.held, verdict.conclusive) == (True, False)
    assert any(words.startswith(f"{table}/") for words in verdict.unreadable)


def test_brokers_whose_logs_cannot_be_found_are_no_health(tmp_path: Path) -> None:
    """The final read does not stand for the logs of a trial's own brokers."""
    case = sent(Case("t"))
    write(tmp_path, [case], final_reader=FINAL, brokers=[{"id": 0, "data_dir": "cluster/broker-0"}])
    verdict = judge_evidence(tmp_path)
    assert (verdict.held, verdict.conclusive) == (True, False)
    assert any(words.startswith("replicas: the table is gone") for words in verdict.unreadable)


def test_a_replica_that_nothing_shows_is_named(tmp_path: Path) -> None:
    """One of the trial's own brokers is in sync, and the table of replicas has no row of it."""
    case = sent(Case("t"))
    replicas(case, tmp_path, {0: good(), 1: good()})
    case.replicas.pop()
    brokers = [{"id": broker, "data_dir": f"cluster/broker-{broker}"} for broker in (0, 1)]
    write(tmp_path, [case], final_reader=FINAL, brokers=brokers)
    assert any(
        words.startswith("the replica of t-0 on broker 1") for words in judge_evidence(tmp_path).unjudged
    )


@pytest.mark.parametrize(("ending", "expected"), [(ABORT, set()), (COMMIT, {"aborted read"})])
def test_what_an_aborted_transaction_wrote_is_not_in_the_log(
    tmp_path: Path, ending: bytes, expected: set[str]
) -> None:
    """It is in the segment file, and no consumer of committed records sees it."""
    case = sent(Case("t"), 3)
    case.send("a", outcome="failed", key="k")
    log = good(3)
    log.append(batch(3, "a", transactional=True, producer_id=9, producer_epoch=0, base_sequence=0))
    log.append(
        batch(4, "\0\0\0\0", key=ending, transactional=True, control=True, producer_id=9, producer_epoch=0)
    )
    replicas(case, tmp_path, {0: log, 1: log}, 5)
    if ending == COMMIT:
        case.read(FINAL, (3, "a"), at_ms=100_000, position_before=3, key="k")
    assert {finding[0] for finding in found(tmp_path, case)} == expected


def test_unseen_is_known_by_the_value(tmp_path: Path) -> None:
    """All records moved by one offset after the final read: they were read, and are not unseen."""
    case = sent(Case("t"))
    moved = [batch(0, "first")] + [batch(offset + 1, f"v{offset}") for offset in range(COUNT)]
    case.send("first", outcome="unknown", key="k")
    replicas(case, tmp_path, {0: moved, 1: moved}, COUNT + 1)
    assert "unseen" not in {finding[0] for finding in found(tmp_path, case)}


# ---------------------------------------------------------------- without segment files


def test_a_value_that_was_acknowledged_twice(tmp_path: Path) -> None:
    """At two offsets, and it is stored at both: its producers did that. If it is nowhere, it is lost."""
    case = Case("t").send("a", 0).send("a", 1, producer="q").send("b", 2).send("b", 3, producer="q")
    case.logs("a", "a").final((0, "a"), (1, "a"))
    assert {f[:4] for f in found(tmp_path, case)} == {("duplicated", N, "a", 1), ("lost", V, "b", 2)}


@pytest.mark.parametrize(("idempotent", "severity"), [(True, V), (False, N)])
@pytest.mark.parametrize("missing", [False, True], ids=["whole", "another number is missing"])
def test_a_send_that_was_acknowledged_at_two_offsets(
    tmp_path: Path, idempotent: bool, severity: str, missing: bool
) -> None:
    """The ledger has it twice under its number, and both are stored: the sums of log and ledger agree."""
    case = Case("t")
    for number in range(4):
        case.send(f"t.p-{number}", number, idempotent=idempotent)
    case.ledger.append(case.ledger[1] | {"offset": 4})
    values: list[str | None] = [f"t.p-{number}" for number in (0, 1, 2, 3, 1)]
    if missing:
        values[2] = None
        case.ledger.pop(2)
    case.logs(*values).final(*((o, v) for o, v in enumerate(values) if v is not None))
    assert {f[:4] for f in found(tmp_path, case)} == {("duplicated", severity, "t.p-1", 4)}


def test_a_copy_without_a_producer_id_is_not_of_a_new_epoch(tmp_path: Path) -> None:
    """An idempotent producer writes nothing without its id."""
    mine = {"producer_id": 7, "producer_epoch": 0}
    log = [batch(o, f"v{o}", **mine, base_sequence=o) for o in range(COUNT)] + [batch(COUNT, "v2")]
    case = sent(Case("t"), idempotent=True)
    case.read(FINAL, (COUNT, "v2"), at_ms=100_000, position_before=COUNT, key="k")
    replicas(case, tmp_path, {0: log, 1: log}, COUNT + 1)
    assert found(tmp_path, case) == {("duplicated", V, "v2", COUNT, None)}


def test_a_copy_among_the_records_of_another_producer(tmp_path: Path) -> None:
    """Its producer did not write it there under a new epoch."""
    ids = {"p": {"producer_id": 7, "producer_epoch": 0}, "q": {"producer_id": 8, "producer_epoch": 0}}
    case = Case("t")
    log = []
    for offset, name in enumerate("ppqq"):
        case.send(f"v{offset}", offset, producer=name, idempotent=True, key="k", settled_ms=10_000)
        log.append(batch(offset, f"v{offset}", **ids[name], base_sequence=offset % 2))
    log.append(batch(4, "v1", **ids["q"], base_sequence=2))
    for offset, value in enumerate(("v0", "v1", "v2", "v3", "v1")):
        case.read(FINAL, (offset, value), at_ms=100_000, position_before=offset, key="k")
    replicas(case, tmp_path, {0: log, 1: log}, 5)
    assert found(tmp_path, case) == {("duplicated", V, "v1", 4, None)}
    assert {row["rule"] for row in found_rows(tmp_path)} == {"unexplained"}


def test_a_copy_among_earlier_records_of_another_producer(tmp_path: Path) -> None:
    """Its own records are in order all the same."""
    ids = {"p": {"producer_id": 7, "producer_epoch": 0}, "q": {"producer_id": 8, "producer_epoch": 0}}
    case = Case("t")
    log = []
    values = (("q", "v0"), ("q", "p1"), ("q", "v2"), ("p", "p0"), ("p", "p1"))
    for offset, (name, value) in enumerate(values):
        if offset != 1:
            case.send(value, offset, producer=name, idempotent=True, key="k", settled_ms=10_000)
        log.append(batch(offset, value, **ids[name], base_sequence=offset % 3))
        case.read(FINAL, (offset, value), at_ms=100_000, position_before=offset, key="k")
    replicas(case, tmp_path, {0: log, 1: log}, 5)
    assert found(tmp_path, case) == {("duplicated", V, "p1", 4, None)}


def test_a_compacted_topic_keeps_the_last_record_of_a_key(tmp_path: Path) -> None:
    """What was not written again must be there."""
    case = Case("t", **{"cleanup.policy": "compact"})
    case.send("a", 0, key="x").send("b", 1, key="x").send("c", 2, key="y").send("d", 3, key="z")
    case.send("e", outcome="unknown", key="z")
    case.logs("b", start=1).final((1, "b"))
    case.replicas[0]["log_start_offset"] = case.replicas[1]["log_start_offset"] = 0
    for row in case.records:
        row["key"] = "x"
    assert {f[:4] for f in found(tmp_path, case)} == {("lost", V, "c", 2)}


def late(case: Case) -> Case:
    """As a broker tells it: a quarter of a second of moves at the time of the last one."""
    for number in range(10):
        case.send(f"v{number}", number, sent_ms=20 * number, settled_ms=20 * number + 8)
    return case.logs(*(f"v{n}" for n in range(10))).committed(187, 0, 10, [0])


def test_below_promise_is_judged_however_late_it_is_told(tmp_path: Path) -> None:
    case = late(Case("t", **{"min.insync.replicas": "2"}))
    write(tmp_path, [case])
    _as_a_cluster(tmp_path)
    verdict = judge_evidence(tmp_path)
    assert verdict.counts["acknowledged below promise"][VIOLATION] == 10
    assert not any("whether enough replicas had them" in words for words in verdict.unjudged)


def test_one_move_by_too_few_among_others_is_below_promise(tmp_path: Path) -> None:
    """What more replicas had a moment before and after, they did not have of this one: no state of the
    partition says that they came back."""
    case = Case("t", **{"min.insync.replicas": "2"}).elected(0, 0, 0, 0, ElectionKind.CLEAN, [0, 1])
    for n in range(10):
        case.send(f"v{n}", n, sent_ms=2000 + 20 * n, settled_ms=2008 + 20 * n)
        case.committed(2005 + 20 * n, n, n + 1, [0] if n == 5 else [0, 1])
    case.logs(*(f"v{n}" for n in range(10)))
    write(tmp_path, [case])
    _as_a_cluster(tmp_path)
    assert judge_evidence(tmp_path).counts["acknowledged below promise"][VIOLATION] == 1
    assert [row["value"] for row in found_rows(tmp_path)] == ["v5"]


def test_clocks_that_are_far_apart_keep_early_reads_from_being_judged(tmp_path: Path) -> None:
    """A broker three seconds ahead: its watermarks seem late, and that is said instead."""
    case = Case("t")
    for number in range(10):
        case.send(f"v{number}", number, sent_ms=20 * number, settled_ms=20 * number + 8)
        case.read("c", (number, f"v{number}"), at_ms=20 * number + 9)
        case.committed(20 * number + 5 + 3000, number, number + 1, [0, 1])
    case.logs(*(f"v{n}" for n in range(10)))
    write(tmp_path, [case])
    _as_a_cluster(tmp_path)
    verdict = judge_evidence(tmp_path)
    assert verdict.counts["precommitted read"][VIOLATION] == 0
    said = "\n".join(verdict.unjudged)
    assert "the clocks of brokers are too far from those of the clients: 0 (+3.0 s)" in said


@pytest.mark.parametrize("stopped", [True, False], ids=["it stopped by itself", "it was killed"])
def test_reads_from_a_broker_about_to_be_killed_are_not_early(tmp_path: Path, stopped: bool) -> None:
    """It let v1 be read, and was killed before it wrote that down; the next leader commits v1 later. No fault
    says when: the last that the process wrote does."""
    case = Case("t").elected(0, 0, 0, 0, ElectionKind.CLEAN, [0, 1]).logs("v0", "v1")
    case.send("v0", 0, sent_ms=4_980, settled_ms=4_992).committed(4_990, 0, 1, [0, 1])
    case.send("v1", 1, "timeout", sent_ms=4_985, settled_ms=9_000)
    if stopped:
        case.happened(4_995, ProcessStopped("asked to"))
    for row in case.events:
        row["process_start_ms"] = 1
    case.read("c", (0, "v0"), (1, "v1"), at_ms=5_100).final((0, "v0"), (1, "v1"))
    case.elected(9_000, 1, 1, 2, ElectionKind.CLEAN, [1, 0], watermark=1)
    case.committed(9_001, 1, 2, [0, 1], epoch=1)
    for row in case.events:
        row["process_start_ms"] = row["process_start_ms"] or 2
    write(tmp_path, [case])
    _as_a_cluster(tmp_path)
    assert judge_evidence(tmp_path).counts["precommitted read"][VIOLATION] == stopped


def test_an_election_before_the_record_explains_no_loss_whatever_the_clocks_say(tmp_path: Path) -> None:
    """A broker three seconds ahead took office at offset 5, by its clock after v5 was acknowledged there."""
    case = Case("t").elected(3095, 0, 0, 5, ElectionKind.CLEAN, [0, 1])
    for number in range(10):
        case.send(f"v{number}", number, sent_ms=20 * number, settled_ms=20 * number + 8)
        case.committed(20 * number + 5 + 3000, number, number + 1, [0, 1])
    case.logs(*("vv" if n == 5 else f"v{n}" for n in range(10)))
    write(tmp_path, [case])
    _as_a_cluster(tmp_path)
    judge_evidence(tmp_path)
    (lost,) = (row for row in found_rows(tmp_path) if row["anomaly"] == "lost")
    assert (lost["value"], lost["explained"]) == ("v5", False)


def test_causes_of_what_replicas_differ_in_are_looked_up_by_the_clock_of_clients(tmp_path: Path) -> None:
    """A leader a minute ahead took office before the other replica kept its own record."""
    case = Case("t").elected(60_001, 0, 1, 0, ElectionKind.CLEAN, [0, 1])
    for number in range(9):
        case.send(f"v{number}", number, sent_ms=20 * number + 5, settled_ms=20 * number + 13)
        case.committed(20 * number + 10 + 60_000, number, number + 1, [0, 1], epoch=1)
    values = [f"v{number}" for number in range(9)]
    case.log(0, *values, epochs=[1] * 9).log(1, "x", *values[1:], epochs=[0] + [1] * 8)
    case.truncated(200, 1, 9, 2, TruncationRule.OWN_HIGH_WATERMARK)
    write(tmp_path, [case])
    _as_a_cluster(tmp_path)
    judge_evidence(tmp_path)
    (found,) = (row for row in found_rows(tmp_path) if row["anomaly"] == "diverged")
    assert found["rule"] == "truncation to the high watermark kept another record"


def test_a_move_that_a_killed_leader_did_not_write_down_says_nothing_of_clocks(tmp_path: Path) -> None:
    """The next leader commits the record once more, two seconds after it was acknowledged."""
    case = Case("t")
    case.send("v0", 0, sent_ms=0, settled_ms=8)
    case.elected(2000, 0, 1, 1, ElectionKind.CLEAN, [0])
    case.committed(2005, 0, 1, [0, 1], epoch=1)
    case.send("v1", 1, sent_ms=2100, settled_ms=2110)
    case.committed(2105, 1, 2, [0, 1], epoch=1)
    case.logs("v0", "v1")
    write(tmp_path, [case])
    _as_a_cluster(tmp_path)
    assert "clocks" not in "\n".join(judge_evidence(tmp_path).unjudged)


def test_an_offset_that_was_written_twice_says_nothing_of_clocks(tmp_path: Path) -> None:
    """v2 was acknowledged by a leader whose moves are not known; ten seconds later the log begins anew below
    it, and the next leader commits others there."""
    case = Case("t").elected(0, 0, 0, 0, ElectionKind.CLEAN, [0, 1])
    case.committed(5, 0, 2, [0, 1]).truncated(10_000, 0, 9, 1, TruncationRule.OWN_HIGH_WATERMARK)
    case.elected(10_001, 1, 1, 1, ElectionKind.UNCLEAN, [1])
    for number in range(9):
        case.send(f"v{number}", number, sent_ms=0, settled_ms=8)
    case.committed(10_500, 1, 9, [1], epoch=1).logs("v0")
    write(tmp_path, [case])
    _as_a_cluster(tmp_path)
    assert "clocks" not in "\n".join(judge_evidence(tmp_path).unjudged)


def test_a_false_acknowledgement_sets_no_clock(tmp_path: Path) -> None:
    """One that is ten seconds too early, among many that are right."""
    case = Case("t")
    for number in range(10):
        case.send(f"v{number}", number, sent_ms=20_000 + 20 * number)
        case.committed(20_002 + 20 * number, number, number + 1, [0, 1])
    case.ledger[4] |= {"sent_us": 10_000_000, "settled_us": 10_000_005}
    case.logs(*(f"v{n}" for n in range(10)))
    write(tmp_path, [case])
    _as_a_cluster(tmp_path)
    assert "clocks" not in "\n".join(judge_evidence(tmp_path).unjudged)


def _as_a_cluster(path: Path) -> None:
    text = (path / "trial.json").read_text()
    (path / "trial.json").write_text(text.replace('"stage": "sim"', '"stage": "cluster"'))


def test_one_example_of_each_cause(tmp_path: Path) -> None:
    """However many others there are."""
    cases = [Case("many").logs(), Case("one").send("z", 0, acks=1).logs("z", hw=0)]
    for number in range(50):
        cases[0].send(f"v{number}", number)
    cases[1].ledger[0] |= {"sent_us": 10**9, "settled_us": 10**9 + 5}
    write(tmp_path, cases)
    shown = judge_evidence(tmp_path).examples["lost"]
    assert len(shown) == 20
    assert {row["rule"] for row in shown} == {"unexplained", "above the high watermark at the end"}


@pytest.mark.parametrize("with_logs", [True, False], ids=["replicas", "final read"])
def test_a_consumer_that_is_moved_on_over_many_stretches(tmp_path: Path, with_logs: bool) -> None:
    """What it passed over is counted by sums, and looked at only where it began and landed."""
    case = Case("t")
    for number in range(9000):
        case.send(f"v{number}", number)
    case.read(FINAL, *((n, f"v{n}") for n in range(9000)), at_ms=100_000)
    if with_logs:
        case.logs(*(f"v{n}" for n in range(9000)))
    case.read("c", (0, "v0")).read("c", (8999, "v8999"))
    assert {f[:4] for f in found(tmp_path, case)} == {("poll skip", V, "v1", 1)}
    assert found_rows(tmp_path)[0]["count"] == 8998


# ---------------------------------------------------------------- what a consumer of a trial read


def followed(folder: Path, case: Case) -> set[tuple[Any, ...]]:
    return found(folder, case, clients=[{"role": "consumer", "name": "c"}])


def read_by_all(values: str) -> Case:
    """By c one by one, and at the end."""
    case = Case("t")
    for offset, value in enumerate(values):
        case.send(value, offset).read("c", (offset, value))
    return case.logs(*values).final(*enumerate(values))


def test_a_read_that_is_not_there_is_a_record_passed_over(tmp_path: Path) -> None:
    """Though the next one says that its consumer waited for it. Consumers of trials write down every read."""
    case = read_by_all("abcd")
    del case.reads[1:3]
    assert followed(tmp_path, case) == {("poll skip", V, "b", 1, None)}
    assert found_rows(tmp_path)[0]["count"] == 2
    assert found(tmp_path, case) == set()  # an application may begin anywhere


def test_a_read_that_is_there_twice_is_one_moved_back(tmp_path: Path) -> None:
    case = read_by_all("abc")
    case.reads.insert(2, dict(case.reads[1]))
    assert followed(tmp_path, case) == {("non-monotonic poll", V, "b", 1, None)}


def test_a_consumer_goes_on_where_its_place_is_gone(tmp_path: Path) -> None:
    """The log was cut off behind it: it is moved back once, and knows."""
    case = Case("t")
    for offset, value in enumerate("abcd"):
        case.send(value, offset, acks=0)
    case.logs("a", "b", "c", "d").read("c", (0, "a"), (1, "b"), (2, "c"), at_ms=800).noticed("c", 3)
    case.read("c", (1, "b")).read("c", (2, "c"), (3, "d")).final(*enumerate("abcd"))
    assert followed(tmp_path, case) == {("non-monotonic poll", N, "b", 1, None)}


def test_a_consumer_steps_over_records_of_the_protocol(tmp_path: Path) -> None:
    """The library says so only by its place."""
    case = Case("t").send("a", 0).send("b", 2).logs("a", None, "b").read("c", (0, "a")).read("c", (2, "b"))
    case.reads[-1]["position_before"] = 2
    case.final((0, "a"), (2, "b"))
    assert followed(tmp_path, case) == set()


def stamped(case: Case, epoch: int | None = 0) -> Case:
    """Two consumers read all of it, with timestamps and epochs."""
    sent(case)
    for offset in range(COUNT):
        case.read("c", (offset, f"v{offset}"), key="k")
    for row in case.reads:
        row |= {"timestamp_ms": 1000 + row["offset"], "leader_epoch": epoch}
    return case


def test_the_timestamp_of_a_read_is_not_that_of_the_log(tmp_path: Path) -> None:
    case = stamped(Case("t"))
    case.reads[-3]["timestamp_ms"] -= 500
    replicas(case, tmp_path, {0: good(), 1: good()})
    assert followed(tmp_path, case) == {("damaged", V, f"v{COUNT - 3}", COUNT - 3, None)}
    said = "c got it with the timestamp 505; the log holds it with 1005"
    assert [(row["consumer"], row["detail"]) for row in found_rows(tmp_path)] == [("c", said)]


def test_a_timestamp_that_was_changed_everywhere_is_found_once(tmp_path: Path) -> None:
    """By what consumers had read."""
    log = good()
    log[2] = batch(2, "v2", timestamp=77)
    case = stamped(Case("t"))
    replicas(case, tmp_path, {0: log, 1: log})
    assert followed(tmp_path, case) == {("damaged", V, "v2", 2, None)}
    assert len(found_rows(tmp_path)) == 1


def test_a_read_of_another_epoch_is_of_another_record(tmp_path: Path) -> None:
    case = stamped(Case("t").elected(0, 0, 0, 0, ElectionKind.CLEAN, [0, 1]))
    case.reads[-3]["leader_epoch"] = 4
    replicas(case, tmp_path, {0: good(), 1: good()})
    assert followed(tmp_path, case) == {("rewritten", V, f"v{COUNT - 3}", COUNT - 3, None)}
    said = "c read it of epoch 4, the log now holds it of epoch 0"
    assert [(row["detail"], row["rule"]) for row in found_rows(tmp_path)] == [(said, "unexplained")]


def test_an_epoch_that_was_changed_everywhere_came_with_no_leader_of_it(tmp_path: Path) -> None:
    """Broker 1 led epoch 1 before the record was made, and leads again: it brought no other record there."""
    case = stamped(Case("t").elected(0, 1, 1, 0, ElectionKind.CLEAN, [0, 1]), epoch=2)
    case.elected(500, 0, 2, 0, ElectionKind.CLEAN, [0, 1]).elected(
        200_000, 1, 3, COUNT, ElectionKind.CLEAN, [1]
    )
    happened = e.BecameFollower(BrokerId(1), TopicPartition("t", 0), LeaderEpoch(2), BrokerId(0))
    case.happened(501, happened, 1)
    log = [batch(offset, f"v{offset}", leader_epoch=1 if offset == 3 else 2) for offset in range(COUNT)]
    replicas(case, tmp_path, {0: log, 1: log})
    assert followed(tmp_path, case) == {("rewritten", V, "v3", 3, None)}
    assert {row["rule"] for row in found_rows(tmp_path)} == {"unexplained"}


def test_reads_of_logs_without_epochs_are_of_no_other(tmp_path: Path) -> None:
    case = stamped(Case("t"), epoch=None)
    log = [batch(offset, f"v{offset}", leader_epoch=-1) for offset in range(COUNT)]
    replicas(case, tmp_path, {0: log, 1: log})
    assert followed(tmp_path, case) == set()
