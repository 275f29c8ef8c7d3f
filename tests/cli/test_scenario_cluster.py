"""``tidelog scenario`` on real brokers: what it prints, what it refuses, and that nothing is left behind."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS, is_alive
from tests.cli.calling import COMMAND, LOSS, call, environment, refused, spawn
from tests.cli.clusters import eventually

from tidelog.cluster.directory import running_brokers

SLEEPER = """\
scenario sleeper
cluster  brokers=2 controller=0 zookeeper.session.timeout.ms=600000 replica.lag.time.max.ms=600000
topic    t replicas=0,1
producer p acks=all request.timeout.ms=600000 delivery.timeout.ms=600000

produce p a
pause 1
produce p nobody-copies-this
"""


@pytest.fixture
def loss(tmp_path: Path) -> Path:
    path = tmp_path / "small-loss.scenario"
    path.write_text(LOSS)
    return path


# ---------------------------------------------------------------- playing


@pytest.mark.slow
def test_a_loss_on_real_brokers(loss: Path, tmp_path: Path) -> None:
    """The same document as from the simulator, and the same exit code; the trial's files are gone after."""
    answer = call("scenario", "run", loss, "-g", "hw", "--stage", "cluster", "--json")
    assert answer.err == ""
    assert (answer.code, answer.json["stage"], answer.json["as_expected"]) == (1, "cluster", True)
    simulated = call("scenario", "run", loss, "-g", "hw", "--json").json
    assert answer.json.keys() == simulated.keys()
    assert answer.json["verdict"] == simulated["verdict"]


@pytest.mark.slow
def test_both_stages_side_by_side(loss: Path) -> None:
    """Exit code 0 if both end in the same state, although a record is lost on both."""
    answer = call("scenario", "compare", loss, "--stages", "-g", "epoch")
    assert (answer.code, answer.err) == (0, "")
    assert answer.lines[-1] == "Both stages end in the same state."
    assert sum(line.startswith(("sim ", "cluster ")) for line in answer.lines) == 2


# ---------------------------------------------------------------- refusals


def test_what_no_broker_can_do_is_refused() -> None:
    answer = call("scenario", "run", "kafka-14140-rebooted-replica", "--stage", "cluster")
    assert "without=incarnation_in_isr" in refused(answer)


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"tidelog-trials-{os.getuid()}").write_text("in the way")
    message = refused(spawn("scenario", "run", "hw-loss", "--stage", "cluster", TMPDIR=str(tmp_path)))
    assert message.endswith("file exists; set TMPDIR to a directory that can be written")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "hw-loss", "--pace", "0.5"), "--pace needs --stage cluster"),
        (("run", "hw-loss", "--stage", "cluster", "--pace", "0"), "choose a number from 0.05 to 4"),
        (("compare", "hw-loss", "--pace", "1"), "--pace needs --stages"),
        (("compare", "hw-loss", "--stages", "-g", "hw", "-g", "epoch"), "give --generation once"),
    ],
)
def test_options_that_make_no_sense(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(call("scenario", *arguments))


# ---------------------------------------------------------------- nothing is left behind


def _processes(folder: Path) -> list[int]:
    """The brokers of a trial that has its files below a folder."""
    plays = folder.glob("tidelog-trials-*/trial-*/play-*")
    return [each.process.pid for play in plays for each in running_brokers(play) if each.process]


def _start(folder: Path) -> subprocess.Popen[str]:
    """A trial that takes long, one of whose brokers is paused: it is in its third step, and that waits."""
    scenario = folder / "sleeper.scenario"
    scenario.write_text(SLEEPER)
    started = subprocess.Popen(
        [*COMMAND, "scenario", "run", str(scenario), "--stage", "cluster"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(80, TMPDIR=str(folder)),
        text=True,
        start_new_session=True,
    )
    eventually(
        lambda: _has_written(folder, b"nobody-copies-this"), "the leader has what the third step sends"
    )
    return started


def _has_written(folder: Path, value: bytes) -> bool:
    logs = folder.glob("tidelog-trials-*/trial-*/play-*/broker-0/t-0/*.log")
    return any(value in log.read_bytes() for log in logs)


def _is_paused(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_trial_stops_everything_and_says_so(tmp_path: Path, sent: signal.Signals) -> None:
    """Paused brokers too, and its files are removed."""
    trial = _start(tmp_path)
    brokers = _processes(tmp_path)
    assert len(brokers) == 2
    trial.send_signal(sent)
    out, err = trial.communicate(timeout=PATIENCE_SECONDS)
    assert (trial.returncode, out) == (2, "")
    where = "step 3 (produce p nobody-copies-this)"
    assert err == f"tidelog: interrupted at {where}; every process of the trial is stopped\n"
    assert not any(map(is_alive, brokers))
    assert list(tmp_path.glob("tidelog-trials-*/*")) == []


@pytest.mark.slow
def test_a_killed_trial_leaves_nothing_running(tmp_path: Path) -> None:
    """Brokers see that it is gone and end, a paused one too; the next trial removes its files."""
    trial = _start(tmp_path)
    brokers = _processes(tmp_path)
    eventually(lambda: any(map(_is_paused, brokers)), "a broker is paused")  # a busy kernel takes a moment
    try:
        trial.kill()
        trial.communicate(timeout=PATIENCE_SECONDS)
        eventually(lambda: not any(map(is_alive, brokers)), "all have ended")
        refused(
            spawn(
                "scenario", "run", "kafka-14140-rebooted-replica", "--stage", "cluster", TMPDIR=str(tmp_path)
            )
        )
        assert list(tmp_path.glob("tidelog-trials-*/*")) == []
    finally:
        for pid in brokers:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
