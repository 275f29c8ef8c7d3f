"""`tidelog trial` as a person runs it: load, faults, evidence, a short answer; and every way it can end."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from bench.processes import is_alive
from tests.cli.calling import COMMAND, call, environment, refused
from tests.cluster.holding import held
from tests.cluster.network.own_network import interfaces, own_network
from tests.storage.batches import batch

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.directory import running_brokers
from tidelog.cluster.network.namespaces import NamespaceError, Namespaces, require_namespaces
from tidelog.cluster.spec import ClusterSpec
from tidelog.evidence.folder import COMPLETE, INTERRUPTED, RECOVERED, RUNNING, EvidenceFolder, Manifest
from tidelog.evidence.parquet.parts import rows_of
from tidelog.evidence.tables import EVENTS, FAULTS, LEDGER, READS, REPLICAS
from tidelog.trials.collection import end_of, stop_leftovers
from tidelog.trials.plan import TrialOptions

slow = pytest.mark.slow
SECONDS = 100.0
# The audit has tests of its own, and takes a Java to start.
SMALL = ("--no-audit", "--rate", "300", "--partitions", "2", "--producers", "3", "--consumers", "1")


class Trial:
    """A trial in a process of its own, ended at the end of `with` whatever became of it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.evidence = folder / "evidence"
        self._arguments = (*SMALL, *arguments, "--evidence", str(self.evidence))
        self.said = ""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [*COMMAND, "trial", *self._arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=environment(100),
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        return self

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def has_said(self, text: str) -> None:
        self.eventually(lambda: text in self.said, text)

    def eventually(self, check: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not check():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, f"{what}: {self.said}"
            time.sleep(0.02)

    def end(self) -> tuple[int, str]:
        """Its exit code and what it printed."""
        assert self.process.stdout is not None
        out = self.process.stdout.read()
        code = self.process.wait(SECONDS)
        self._reading.join(SECONDS)
        return code, out

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(SECONDS)
        self._reading.join(SECONDS)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    @property
    def manifest(self) -> Manifest:
        return Manifest.read(self.evidence)


def broker_pids(evidence: Path) -> set[int]:
    return {row["pid"] for row in rows_of(evidence, EVENTS) if row["event"] == "process_started"}


# ---------------------------------------------------------------- from beginning to end


@slow
def test_a_trial_leaves_evidence_of_everything(tmp_path: Path):
    """Every send, every read, every fault, every replica and the events of every broker; nothing runs on.
    With acks=all and two replicas in sync a crash loses nothing that was acknowledged."""
    with Trial(tmp_path, "--seconds", "6", "--faults", "kill,elect", "--every", "2", "--seed", "4") as trial:
        code, out = trial.end()
    assert code == 0, (out, trial.said)
    path = trial.evidence
    manifest = trial.manifest
    assert (manifest.state, manifest.stage, manifest.seed) == (COMPLETE, "cluster", 4)
    assert manifest.missing == []
    ledger = list(rows_of(path, LEDGER))
    final = [row["value"] for row in rows_of(path, READS) if row["consumer"] == "final"]
    assert {row["value"] for row in ledger if row["outcome"] == "ok"} <= set(final)
    assert set(final) <= {row["value"] for row in ledger}
    assert f"sends       {len(ledger):,} (" in out
    faults = list(rows_of(path, FAULTS))
    assert [fault["kind"] for fault in faults] == [fault["kind"] for fault in manifest.schedule]
    assert "kill" in {fault["kind"] for fault in faults}
    assert all(fault["began_us"] <= fault["ended_us"] for fault in faults)
    replicas = list(rows_of(path, REPLICAS))
    assert {(row["broker"], row["partition"]) for row in replicas} == {
        (b, p) for b in (1, 2, 3) for p in (0, 1)
    }
    ends = {int(part): end for part, end in manifest.topics[0]["ends"].items()}
    assert all(row["log_end_offset"] == ends[row["partition"]] for row in replicas)
    assert all(row["high_watermark"] <= row["log_end_offset"] for row in replicas)
    assert all((path / row["file"]).stat().st_size == row["bytes"] for row in replicas)
    kills = sum(fault["kind"] == "kill" for fault in faults)
    pids = broker_pids(path)
    assert len(pids) == 3 + kills
    assert not any(map(is_alive, pids))
    assert not (path / "journal").exists()


@pytest.mark.long
@slow
def test_links_are_cut_and_the_same_faults_can_be_done_again(tmp_path: Path):
    """The schedule of a trial is part of its evidence."""
    with Trial(
        tmp_path, "--seconds", "5", "--faults", "cut,zone,keeper", "--every", "1.5", "--seed", "2", "--json"
    ) as one:
        code, out = one.end()
    assert code == 0, (out, one.said)
    told = json.loads(out)
    assert told["lost"] == 0
    assert sum(told["faults"].values()) == len(one.manifest.schedule) > 0
    again = tmp_path / "again"
    again.mkdir()
    with Trial(again, "--seconds", "5", "--schedule", str(one.evidence / "trial.json")) as two:
        code, out = two.end()
    assert code == 0, (out, two.said)
    assert two.manifest.schedule == one.manifest.schedule


@pytest.mark.long
@slow
def test_disks_clocks_and_slow_links(tmp_path: Path):
    """Each is done to a real broker, and none loses what was acknowledged."""
    faults = [
        {"kind": "delay", "targets": ["1>2", "1>3", "50ms"], "at_ms": 0, "duration_ms": 500},
        {"kind": "keeper", "targets": ["keeper-2"], "at_ms": 100, "duration_ms": 500},
        {"kind": "slow", "targets": ["2", "300ms"], "at_ms": 700, "duration_ms": 900},
        {"kind": "full", "targets": ["1"], "at_ms": 2000, "duration_ms": 1500},
        {"kind": "clock", "targets": ["3", "+3600000ms"], "at_ms": 3600, "duration_ms": 400},
    ]
    (tmp_path / "schedule.json").write_text(json.dumps(faults))
    words = ("--seconds", "5", "--schedule", str(tmp_path / "schedule.json"), "--value-bytes", "9000")
    with Trial(tmp_path, *words, "--json") as trial:
        code, out = trial.end()
    assert code == 0, (out, trial.said)
    assert json.loads(out)["faults"] == {"clock": 1, "delay": 1, "full": 1, "keeper": 1, "slow": 1}
    said = (trial.evidence / "logs" / "broker-1.log").read_text()
    assert "File too large" in said
    properties = (trial.evidence / "cluster" / "broker-3.properties").read_text()
    assert "tidelog.clock.offset.ms" not in properties  # the clock is right again
    assert not any(map(is_alive, broker_pids(trial.evidence)))


@pytest.mark.long
@slow
def test_packets_are_lost_between_namespaces(tmp_path: Path):
    """Brokers, keeper and clients on machines of their own; power fails, links are cut, and afterwards
    neither a process nor an interface is left."""
    try:
        require_namespaces()
        Namespaces(["a"]).close()
    except NamespaceError as error:
        pytest.skip(str(error))
    faults = [
        {"kind": "cut", "targets": ["1>2", "1>3", "1>keeper"], "at_ms": 0, "duration_ms": 1000},
        {"kind": "zone", "targets": ["az2"], "at_ms": 1500, "duration_ms": 1000},
        {"kind": "keeper", "targets": ["keeper"], "at_ms": 3000, "duration_ms": 300},
        {"kind": "power", "targets": ["3"], "at_ms": 3500, "duration_ms": 300},
    ]
    (tmp_path / "schedule.json").write_text(json.dumps(faults))
    words = ("--seconds", "5", "--schedule", str(tmp_path / "schedule.json"), "--network", "netns", "--json")
    with own_network():
        before = interfaces()
        with Trial(tmp_path, *words) as trial:
            trial.eventually(lambda: len(interfaces() - before) == 1, "an interface")
            code, out = trial.end()
        assert interfaces() == before
    assert code == 0, (out, trial.said)
    told = json.loads(out)
    assert (told["lost"], told["unknown"]) == (0, 0)
    assert set(told["faults"]) >= {"cut", "zone", "keeper"}
    assert trial.manifest.settings["network"] == "netns"
    assert {broker["host"].rpartition(".")[0] for broker in trial.manifest.brokers} != {"127.0.0"}
    assert not any(map(is_alive, broker_pids(trial.evidence)))


@slow
def test_ctrl_c_ends_it_early_and_keeps_the_evidence(tmp_path: Path):
    """What was broken is healed, everything is read, and the answer is as good as for a whole trial."""
    with Trial(tmp_path, "--seconds", "600", "--faults", "kill", "--every", "1", "--seed", "1") as trial:
        trial.has_said("kill")
        trial.process.send_signal(signal.SIGINT)
        code, out = trial.end()
    assert code == 0, (out, trial.said)
    assert "ending early" in trial.said
    assert "· interrupted" in out
    assert trial.manifest.state == INTERRUPTED
    assert trial.manifest.final_reader == "final"
    assert all("ended_us" in fault for fault in rows_of(trial.evidence, FAULTS))
    assert not any(map(is_alive, broker_pids(trial.evidence)))


@slow
def test_the_evidence_of_a_killed_trial_can_be_recovered(tmp_path: Path):
    """Every send that was made has a row. Nothing runs on, not even a broker that was paused."""
    with Trial(tmp_path, "--seconds", "600", "--faults", "pause", "--every", "1", "--seed", "1") as trial:
        trial.has_said("pause")
        listed = [each.process.pid for each in running_brokers(trial.evidence / "cluster") if each.process]
        trial.eventually(lambda: any(map(_is_paused, listed)), "a broker is paused")
        trial.process.kill()
    assert trial.manifest.state == RUNNING
    assert "holds a trial that runs or was killed" in refused(call("trial", "--evidence", trial.evidence))
    assert "first tidelog evidence recover" in refused(call("evidence", "show", trial.evidence))
    answer = call("evidence", "recover", trial.evidence)
    assert answer.code == 0, answer
    assert trial.manifest.state == RECOVERED
    ledger = list(rows_of(trial.evidence, LEDGER))
    assert len(ledger) > 100
    by_producer = {
        name: [r["sequence"] for r in ledger if r["producer"] == name] for name in ("p1", "p2", "p3")
    }
    assert all(numbers == list(range(len(numbers))) for numbers in by_producer.values())
    assert list(rows_of(trial.evidence, REPLICAS))
    deadline = time.monotonic() + SECONDS
    while any(map(is_alive, listed)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert call("evidence", "recover", trial.evidence).code == 0
    assert "unknown: the final log could not be read" in call("evidence", "show", trial.evidence).out


def _is_paused(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


@slow
def test_a_generator_that_dies_ends_the_trial_in_one_line(tmp_path: Path):
    """Exit code 2, nothing left running, the evidence so far kept and in order."""
    with Trial(tmp_path, "--seconds", "600", "--faults", "none") as trial:
        trial.has_said("load and faults")
        (worker,) = _children(trial.process.pid, "tidelog.trials.load.producers")
        os.kill(worker, signal.SIGKILL)
        code, out = trial.end()
    assert (code, out) == (2, "")
    last = trial.said.splitlines()[-1]
    assert last.startswith("tidelog: producers-1 ended with exit code -9")
    assert last.endswith(f"(evidence so far in {trial.evidence})")
    assert trial.manifest.state == "failed"
    assert list(rows_of(trial.evidence, LEDGER))
    assert not any(map(is_alive, broker_pids(trial.evidence)))


def _children(parent: int, module: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode().split("\0")
            ppid = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if ppid == parent and module in words:
            found.append(int(process.name))
    return found


# ---------------------------------------------------------------- an existing Kafka


@slow
def test_a_kafka_of_somebody_else_is_only_written_to_and_read_from(tmp_path: Path):
    """In a topic of our own; what cannot be had there is said in the evidence."""
    with Cluster(ClusterSpec(brokers=1), tmp_path / "theirs") as theirs:
        with Trial(
            tmp_path, "--seconds", "3", "-b", theirs.bootstrap_servers, "--replication-factor", "1", "--json"
        ) as trial:
            code, out = trial.end()
        assert code == 0, (out, trial.said)
        answer = call("topics", "list", "-b", theirs.bootstrap_servers, "--json")
        (topic,) = [each for each in answer.json if not each["internal"]]
        assert topic["topic"].startswith("tidelog-trial-")
    told = json.loads(out)
    assert (told["stage"], told["generation"], told["lost"]) == ("foreign", "", 0)
    assert told["ok"] == told["reads"]["final"] > 100
    assert [entry["what"] for entry in trial.manifest.missing] == ["events", "replicas", "faults"]
    assert not (trial.evidence / "cluster").exists()


@slow
def test_a_kafka_that_is_not_there_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tidelog.trials.load.topic._REQUEST_SECONDS", 1.0)
    message = refused(call("trial", "-b", "127.0.0.1:1", "--json", "--evidence", tmp_path / "e"))
    assert message.startswith("no Kafka answers at 127.0.0.1:1: ")
    assert not (tmp_path / "e").exists()


# ---------------------------------------------------------------- refused before anything starts


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--seconds 5 --minutes 1", "choose one of --seconds and --minutes"),
        ("--faults kil", "unknown fault 'kil': did you mean kill?"),
        ("--acks most", "unknown acks 'most': choose one of 0, 1, all, -1"),
        ("--generation raft", "unknown generation 'raft': choose one of hw, kip101, epoch, elr, majority"),
        ("--idempotence on --acks 1", "an idempotent producer waits for all replicas: give acks=all alone"),
        ("--min-insync 4", "--min-insync 4: each partition has 3 replicas, so every send"),
        ("--brokers 1 --min-insync 2", "--min-insync 2: each partition has 1 replica, so every send"),
        ("--brokers 2 --replication-factor 3", "3 replicas on 2 brokers: give more --brokers"),
        ("--set num.partitons=3", "unknown setting 'num.partitons': did you mean num.partitions"),
        ("--set x=3", "unknown setting 'x': tidelog broker --settings lists them all"),
        ("--set num.partitions", "'num.partitions': expected name=value, --set"),
        ("--schedule /none", "/none: no such file or directory"),
        ("--network wifi", "unknown network 'wifi': choose one of relays, netns"),
        ("--seconds inf", "--seconds inf: expected a finite number (see 'tidelog trial --help')"),
        ("--rate 1e400", "--rate inf: expected a finite number (see 'tidelog trial --help')"),
        ("--delivery-timeout 1e9", "--delivery-timeout 1e9: expected 86400 or less"),
        ("--job-faults kill", "--job-faults needs --through"),
        ("--client foo", "'foo': expected name=value, --client"),
        ("--client foo=1", "--client foo=1: librdkafka refuses it: No such configuration property"),
        ("--client linger.ms=7 --client retries=x", "--client retries=x: librdkafka refuses it: Invalid"),
        ("--client error_cb=3", "--client error_cb=3: librdkafka refuses it: "),
        ("--client max.in.flight=9", "--client max.in.flight=9: librdkafka refuses it: Failed to create"),
        ("--client acks=1", "--client acks: give --acks instead"),
        ("--client group.id=", "--client group.id: a trial sets it itself, leave it out"),
        ("-b :x", ":x: expected host:port, not ':x'"),
        ("-b h:99999", "h:99999: expected host:port, not 'h:99999'"),
        ("-b h:1 --client foo=1", "--client foo=1: librdkafka refuses it: No such configuration property"),
        ("-b h:1 --network netns", "--network netns: not available on an existing Kafka cluster"),
        ("-b h:1 --faults kill", "--faults: not available on an existing Kafka cluster"),
        ("-b h:1 --set a=b", "--schedule and --set: not available on an existing Kafka cluster"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(words: str, message: str, tmp_path: Path):
    answer = refused(call("trial", *words.split(), "--evidence", tmp_path / "e"))
    assert answer.startswith(message)
    assert not (tmp_path / "e").exists()


def test_what_the_library_takes_is_not_refused() -> None:
    """Settings of all clients, of producers alone, of consumers alone; whatever producers wait for."""
    given = ("client.rack=az1", "compression.type=zstd", "fetch.min.bytes=1", "linger.ms=7")
    TrialOptions(acks="0,1,all", client_settings=given).check()
    TrialOptions(acks="0", client_settings=("max.in.flight=9",)).check()


def test_namespaces_are_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A user who is not root is refused before anything is made."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    message = refused(call("trial", "--network", "netns", "--evidence", tmp_path / "e"))
    assert message == "network namespaces need root: run it as root, or use the switchboard"
    assert not (tmp_path / "e").exists()


@slow
def test_a_port_that_is_taken_is_named_and_nothing_is_left(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        setting = f"tidelog.metrics.port={port}"
        answer = call("trial", "--json", "--seconds", "1", "--set", setting, "--evidence", tmp_path / "e")
    # Brokers take consecutive ports, and one of the other two may be taken as well.
    ports = "|".join(str(port + number) for number in range(3))
    assert re.search(f"cannot serve metrics on port ({ports}): address already in use", refused(answer))
    assert not (tmp_path / "e").exists()


def test_what_a_killed_trial_left_is_ended_and_nobody_else(tmp_path: Path):
    """By the next trial that is started beside it."""
    folder = EvidenceFolder.create(tmp_path / "killed", Manifest("cluster"))
    folder.release()
    with held(folder.cluster) as left, held(tmp_path / "other") as other:
        assert stop_leftovers(tmp_path) == [tmp_path / "killed"]
        assert left.wait(SECONDS) == -signal.SIGKILL
        assert other.poll() is None
        assert stop_leftovers(tmp_path) == []


def test_a_folder_that_is_in_use_is_refused_untouched(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("")
    assert refused(call("trial", "--evidence", tmp_path)) == f"{tmp_path} is not empty: choose another folder"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert refused(call("trial", "--evidence", "/proc/nowhere/e")).startswith("/proc/nowhere/e: ")


def test_what_is_no_evidence_is_refused(tmp_path: Path):
    for command in ("show", "recover"):
        message = refused(call("evidence", command, tmp_path))
        assert message == f"{tmp_path} is not a folder of evidence: it has no trial.json"
        nowhere = tmp_path / "nowhere"
        assert refused(call("evidence", command, nowhere)) == f"{nowhere}: there is no such folder"


def test_where_nothing_was_sent_no_promise_was_held(tmp_path: Path):
    """A final read that found nothing is no proof of anything."""
    folder = EvidenceFolder.create(tmp_path / "e", Manifest("cluster", state=COMPLETE, final_reader="final"))
    folder.release()
    answer = call("evidence", "show", tmp_path / "e")
    assert answer.code == 2
    assert (
        "lost        unknown: there is no ledger (no producer sent a record, or it is missing)"
        in answer.lines
    )
    assert "reads       none" in answer.lines


# ---------------------------------------------------------------- collecting


def test_a_segment_ends_after_its_last_whole_batch(tmp_path: Path):
    """A torn tail, or nothing at all, is no reason to fail."""
    batches = [batch("a", "b"), batch("c")]
    batches[1].stamp(2, 0)
    one, two = map(bytes, (each.data for each in batches))
    path = tmp_path / "00000000000000000000.log"
    for content, end in ((b"", 0), (one, 2), (one + two, 3), (one + two[:-1], 2), (one + two[:30], 2)):
        path.write_bytes(content)
        assert end_of(path) == end
