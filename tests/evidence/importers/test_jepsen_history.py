"""What a history says becomes ledger and reads: who, where, in which transaction, waiting for what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calling import call, refused
from tests.evidence.importers.jepsen_history import History, poll, send

from tidelog.evidence.folder import EvidenceError, Manifest
from tidelog.evidence.importers.jepsen.history import import_history
from tidelog.evidence.parquet.parts import rows_of
from tidelog.evidence.tables import CLIENT_EVENTS, LEDGER, READS, Table


def imported(tmp_path: Path, history: History | str) -> Path:
    file = tmp_path / "history.edn"
    file.write_text(history if isinstance(history, str) else "\n".join(history.lines), "utf-8")
    import_history(file, tmp_path / "e")
    return tmp_path / "e"


def table(folder: Path, of: Table, *columns: str) -> list[Any]:
    rows = [tuple(row.get(column) for column in columns) for row in rows_of(folder, of)]
    return [row[0] for row in rows] if len(columns) == 1 else rows


def places(folder: Path, consumer: str = "c0") -> list[tuple[int, int]]:
    """Of each read what came, and what was waited for."""
    return [
        (row["offset"], row["position_before"])
        for row in rows_of(folder, READS)
        if row["consumer"] == consumer
    ]


def test_sends_have_three_outcomes(tmp_path: Path) -> None:
    """A completion decides; a crash, or no completion at all, leaves it unknown, even with an offset."""
    history = (
        History()
        .ok(0, send("x", "a", 0))
        .fail(1, send("x", "b", 7), error='[:aborted "why"]')
        .info(2, send("x", "c", 1))
        .invoke(3, send("x", "d"))
        .ok(0, send("x", "e"))
    )
    columns = ("producer", "sequence", "value", "outcome", "offset", "sent_us", "settled_us", "error")
    assert table(imported(tmp_path, history), LEDGER, *columns) == [
        ("p0", 0, "a", "ok", 0, 1000, 2000, None),
        ("p1", 0, "b", "failed", 7, 3000, 4000, "[:aborted why]"),
        ("p2", 0, "c", "unknown", 1, 5000, 6000, None),
        ("p0", 1, "e", "ok", None, 8000, 9000, None),
        ("p3", 0, "d", "unknown", None, 7000, None, None),
    ]


def test_several_steps_are_a_transaction(tmp_path: Path) -> None:
    """Named by where it was completed; a single step belongs to none unless it is called one."""
    history = (
        History()
        .ok(0, send("x", "a", 0))
        .ok(0, send("x", "b", 1), send("y", "b", 0))
        .ok(1, poll(x=[(0, "a")]))
        .ok(1, poll(x=[(1, "b")]), f="txn")
    )
    folder = imported(tmp_path, history)
    assert table(folder, LEDGER, "value", "transaction") == [("a", None), ("b", "t3"), ("b", "t3")]
    assert [t for c, t in table(folder, READS, "consumer", "transaction") if c == "c1"] == [None, "t7"]


def test_keys_are_partitions_or_topics(tmp_path: Path) -> None:
    """A number is a partition, a name a topic; where logs begin and end is written down."""
    text = (
        "[{:type :ok, :f :txn, :process 3, :value [[:send 11 [4 1]] [:send :x [0 2]] [:poll {11 [[2 3]]}]]}]"
    )
    folder = imported(tmp_path, text)
    assert table(folder, LEDGER, "topic", "partition", "value") == [("jepsen", 11, "1"), ("x", 0, "2")]
    assert Manifest.read(folder).topics == [
        {"name": "jepsen", "partitions": 12, "starts": {"11": 0}, "ends": {"11": 3}},
        {"name": "x", "partitions": 1, "starts": {"0": 0}, "ends": {"0": 0}},
    ]


def test_everyone_is_the_final_reader(tmp_path: Path) -> None:
    """Each offset once, in order, and of two values the later one."""
    history = History().ok(0, poll(x=[(2, "c"), (0, "a")])).fail(1, poll(x=[(2, "d")], y=[(5, "e")]))
    folder = imported(tmp_path, history)
    manifest = Manifest.read(folder)
    assert (manifest.final_reader, manifest.reads_to_end, manifest.state) == ("everyone", False, "complete")
    read = table(folder, READS, "consumer", "topic", "offset", "value", "position_before")
    assert [row[1:] for row in read if row[0] == "everyone"] == [
        ("x", 0, "a", 0),
        ("x", 2, "d", 2),
        ("y", 5, "e", 5),
    ]


def test_a_consumer_waits_behind_what_it_got(tmp_path: Path) -> None:
    """Inside of a poll, between polls of an operation, and between operations; for the first read, there."""
    history = (
        History()
        .ok(0, poll(x=[(3, "a"), (5, "b")]), poll(x=[(6, "c")]))
        .ok(0, poll(x=[(9, "d")]))
        .ok(0, poll())
        .ok(0, poll(x=[(10, "e")]))
    )
    folder = imported(tmp_path, history)
    assert places(folder) == [(3, 3), (5, 4), (6, 6), (9, 7), (10, 10)]
    numbers = [n for c, n in table(folder, READS, "consumer", "poll") if c == "c0"]
    assert numbers == [0, 0, 1, 2, 4]


@pytest.mark.parametrize(
    ("kind", "f", "waited"),
    [("fail", "txn", 1), ("info", "txn", 1), ("ok", "txn", 3), ("fail", "poll", 5), ("info", "poll", 5)],
)
def test_only_what_committed_moves_a_consumer(tmp_path: Path, kind: str, f: str, waited: int) -> None:
    """A transaction that did not commit leaves the position unchanged. After a failed single poll the
    position is unknown, and any record is expected."""
    history = History().ok(0, poll(x=[(0, "a")])).op(0, kind, [poll(x=[(1, "b"), (2, "c")])], f)
    assert places(imported(tmp_path, history.ok(0, poll(x=[(5, "d")]))))[-1] == (5, waited)


@pytest.mark.parametrize(
    ("keys", "kind", "more", "waited"),
    [
        (["x", "y"], "ok", {}, 1),
        (["y"], "ok", {}, 5),
        (["y"], "info", {}, 5),
        (["y"], "fail", {}, 1),
        (["x"], "ok", {"seek-to-beginning?": "true"}, 0),
        (["x"], "info", {"seek-to-beginning?": "true"}, 5),
    ],
)
def test_choosing_keys_keeps_places_in_those_that_stay(
    tmp_path: Path, keys: list[str], kind: str, more: dict[str, str], waited: int
) -> None:
    """Others are forgotten; and who asks for the beginning waits there. A group may move its members."""
    for f in ("assign", "subscribe"):
        history = History().ok(0, poll(x=[(0, "a")])).assign(0, *keys, kind=kind, f=f, **more)
        (tmp_path / f).mkdir()
        folder = imported(tmp_path / f, history.ok(0, poll(x=[(5, "b")])))
        assert places(folder)[-1] == (5, waited)
        moved = f == "subscribe" and kind != "fail" and waited != 5
        told = [("rebalanced", "c0", "x", waited)] if moved else []
        assert table(folder, CLIENT_EVENTS, "event", "client", "topic", "offset") == told


def test_keys_that_change_hands_are_forgotten(tmp_path: Path) -> None:
    """During the operation, and for the next one."""
    lost = {"rebalance-log": "[{:keys [:x]}]"}
    history = (
        History()
        .ok(0, poll(x=[(0, "a")]))
        .ok(0, poll(x=[(2, "c")]), poll(x=[(0, "a")]), **lost)
        .ok(0, poll(x=[(7, "d")]))
    )
    assert places(imported(tmp_path, history)) == [(0, 0), (2, 2), (0, 0), (7, 7)]


def test_what_is_not_of_clients_is_passed_over(tmp_path: Path) -> None:
    """The nemesis, debugging, operations of other workloads; tags do not matter."""
    text = """
    #jepsen.history.Op{:type :info, :f :start-partition, :process :nemesis, :value nil, :time 1}
    {:type :ok, :f :debug-topic-partitions, :process 0, :value {:x #object[Thing 0x1 "x"]}, :time 2}
    {:type :invoke, :f :crash, :process 0, :value nil, :time 3}
    #jepsen.history.Op{:type :ok, :f :send, :process 0, :value [[:send 0 [0 1]]], :time 4000, :index 3}
    """
    assert table(imported(tmp_path, text), LEDGER, "value", "settled_us") == [("1", 4)]


def test_records_without_an_offset_are_counted_and_left_out(tmp_path: Path) -> None:
    text = "{:type :ok, :f :poll, :process 0, :value [[:poll {:x [[nil 1] [3 nil]]}]]}"
    folder = imported(tmp_path, text)
    assert table(folder, READS, "consumer", "offset", "value") == [("c0", 3, None), ("everyone", 3, None)]
    assert {"what": "1 polled records", "why": "the history does not tell their offsets"} in Manifest.read(
        folder
    ).missing


def test_json_lines_say_the_same(tmp_path: Path) -> None:
    """Keys of objects are texts there: a number in quotes is that number."""
    steps = [["send", 3, [0, "a"]], ["poll", {"3": [[0, "a"]], "x": []}]]
    lines = [{"type": "ok", "f": "txn", "process": 1, "time": 5000, "value": steps}]
    folder = imported(tmp_path, "\n".join(map(json.dumps, lines)) + "\n\n")
    assert table(folder, LEDGER, "topic", "partition", "value", "transaction") == [("jepsen", 3, "a", "t0")]
    assert table(folder, READS, "consumer", "partition", "value") == [("c1", 3, "a"), ("everyone", 3, "a")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no send, poll or txn in it"),
        ("[{:type :ok, :f :read, :process 0}]", "there is no send, poll or txn in it"),
        ("[{:type :ok, :f :send :process 0", "line 1, column 33: } is missing"),
        ("[7]", "operation 0 is not understood: an operation is a map"),
        ("{:f :send, :process 0}", "its type is nil"),
        ("{:type :ok, :f :send, :process 0, :value [[:put 1 2]]}", "[:put 1 2] is neither"),
        ("{:type :ok, :f :send, :process 0, :value 7}", "7 is no vector"),
        ("{:type :ok, :f :send, :process 0, :value [[:send 1 [-1 2]]]}", "-1 is no offset"),
        ("{:type :ok, :f :send, :process 0, :value [[:send -3 2]]}", "key -3 is no number of a partition"),
        (f"{{:type :ok, :f :send, :process 0, :value [[:send 1 [{2**63} 2]]]}}", "is no offset"),
        (f"{{:type :ok, :f :send, :process 0, :time {2**63}, :value []}}", "is no time in nanoseconds"),
        (
            "{:type :ok, :f :send, :process 0, :value [[:send :jepsen 2]]}",
            "cannot be distinguished from keys",
        ),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "line 1: nested too deeply"),
        ('{"type": "ok", "f": "send", "process": 0, "value": [}', "line 1, column 53: this is not JSON"),
    ],
)
def test_what_is_no_history_is_refused_and_leaves_nothing(tmp_path: Path, text: str, why: str) -> None:
    """One line that names the place; and no half a folder."""
    with pytest.raises(EvidenceError) as said:
        imported(tmp_path, text)
    assert why in str(said.value)
    assert "\n" not in str(said.value)
    assert not (tmp_path / "e").exists()


def test_damage_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    """What was written until then is taken away again."""
    good = "{:type :ok, :f :send, :process 0, :value [[:send 1 [0 2]]]}\n"
    with pytest.raises(EvidenceError, match=r"line 3, column 2"):
        imported(tmp_path, good * 2 + "{]")
    assert not (tmp_path / "e").exists()


def test_the_command_tells_what_it_found_and_what_to_do_next(tmp_path: Path) -> None:
    """For people, for scripts, and in one line if it cannot be done."""
    history = tmp_path / "history.edn"
    lines = History().ok(0, send("x", "a", 0), send("y", "b", 0)).ok(1, poll(x=[(0, "a")])).lines
    history.write_text("\n".join(lines), "utf-8")
    answer = call("evidence", "import-jepsen", history, tmp_path / "e")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        "4 operations on 2 keys: 2 sends, 1 reads, 1 transactions",
        f"to audit them: tidelog audit {tmp_path / 'e'}",
    ]
    assert "choose another folder" in refused(call("evidence", "import-jepsen", history, tmp_path / "e"))
    assert "no such file" in refused(call("evidence", "import-jepsen", tmp_path / "none", tmp_path / "f"))
    told = call("evidence", "import-jepsen", history, tmp_path / "g", "--no-idempotence", "--json")
    assert json.loads(told.out) == {
        "evidence": str(tmp_path / "g"),
        "operations": 4,
        "sends": 2,
        "reads": 1,
        "transactions": 1,
        "keys": 2,
    }
    assert table(tmp_path / "g", LEDGER, "idempotent") == [False, False]
