"""``tidelog explore``: it finds, shrinks, saves, repeats, and stops on request."""

import inspect
import re
import signal
import subprocess
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.cli.calling import COMMAND, call, environment, refused

from tidelog.cli.commands.explore import explore
from tidelog.lab.search.search import STRATEGIES, SearchOptions
from tidelog.scenario.scenario import parse

# acks=0 promises nothing worth the name, so the first schedules already break it.
QUICK = ("explore", "--acks", "0", "--seed", "1", "--schedules", "50", "--operations", "6")


def test_a_violation_is_shrunk_printed_and_saved(tmp_path: Path):
    """The saved file says what it shows and does show it, and the same file is on the screen."""
    path = tmp_path / "found.scenario"
    answer = call(*QUICK, "--save", path)
    assert answer.code == 1
    assert "seed 1" in answer.lines[0]
    text = path.read_text("utf-8")
    assert text in answer.out
    assert text.startswith("# Breaks ")
    assert f"tidelog replay {path}" in text
    assert f"tidelog scenario run {path}" in text
    scenario = parse(text)
    assert 0 < len(scenario.steps) < 20
    replayed = call("replay", path)
    assert replayed.code == 1
    found = re.search(r"# Breaks ([a-z-]+):", text)
    assert found is not None
    assert f"invariant {found[1]} broken" in replayed.out


def test_without_save_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    answer = call(*QUICK)
    assert answer.code == 1
    assert answer.lines[-1].startswith("To save it: tidelog explore ")
    assert list(tmp_path.iterdir()) == []


def test_the_command_it_gives_finds_the_same_again(tmp_path: Path):
    """The line that says how to keep a finding is a command that keeps it."""
    first = call(*QUICK)
    words = first.lines[-1].removeprefix("To save it: tidelog ").split()
    words[-1] = str(tmp_path / words[-1])
    again = call(*words)
    assert again.code == 1
    assert parse(Path(words[-1]).read_text("utf-8")).steps == parse(_scenario_in(first.out)).steps


def _scenario_in(out: str) -> str:
    return out[out.index("# Breaks") : out.index("To save it")]


def test_the_seed_is_chosen_printed_and_enough_to_repeat():
    chosen = call("explore", "--schedules", "3", "--acks", "0", "--json").json["seed"]
    answer = call("explore", "--schedules", "3", "--acks", "0", "--seed", str(chosen))
    assert f"seed {chosen}" in answer.lines[0]


def test_json_is_one_object_with_the_finding():
    answer = call(*QUICK, "--json")
    assert answer.code == 1
    document = answer.json
    assert set(document) == {
        "generation",
        "strategy",
        "seed",
        "schedules",
        "exhausted",
        "interrupted",
        "broken",
        "finding",
    }
    finding = document["finding"]
    assert finding["invariant"] in document["broken"]
    assert len(parse(finding["scenario"]).steps) == finding["steps"]
    assert finding["shrunk"] is True


def test_nothing_found_ends_in_zero():
    answer = call("explore", "--schedules", "5", "--seed", "1")
    assert answer.code == 0
    assert answer.lines[-1] == "Played 5 schedules (seed 1): no invariant was broken."
    document = call("explore", "--schedules", "5", "--seed", "1", "--json").json
    assert (document["schedules"], document["finding"]) == (5, None)


def test_an_exhausted_space_is_said_to_be():
    answer = call("explore", "--strategy", "exhaustive", "--depth", "0", "--operations", "2")
    assert answer.code == 0
    assert "all there are with at most 0 faults" in answer.lines[-1]


SETTINGS = (
    "--strategy pct --min-insync 2 --brokers 5 --replicas 4 --operations 7 --faults-per-schedule 5 "
    "--retries 1 --unclean --power-loss --idempotent --flush always "
    "--without fence_fetch_by_epoch --without broker_epoch"
)


def test_every_setting_is_that_of_the_search():
    """What is found was found in such a cluster with such a producer, and the command that finds it again
    names every setting."""
    answer = call(
        "explore", *SETTINGS.split(), "--schedules", "4000", "--seed", "4", "--seconds", "60", "--json"
    )
    assert answer.code == 1, answer
    finding = answer.json["finding"]
    again = finding["command"].removeprefix("tidelog explore --generation epoch ")
    assert sorted(again.split()) == sorted(
        [*SETTINGS.split(), "--schedules", "1", "--seed", str(finding["seed"])]
    )
    scenario = parse(finding["scenario"])
    (topic,) = scenario.setup.topics
    assert (scenario.setup.brokers, len(topic.replicas)) == (5, 4)
    assert scenario.setup.sync_each_append
    assert scenario.setup.without == ("fence_fetch_by_epoch", "broker_epoch")
    assert topic.config.min_insync_replicas == 2
    assert topic.config.unclean_leader_election
    producer = scenario.clients[0].producer
    assert producer is not None
    assert (producer.acks, producer.retries, producer.idempotent) == (-1, 1, True)


def test_every_strategy_searches_in_its_own_way():
    """From the same seed each comes upon another schedule."""
    found = {name: call(*QUICK, "--strategy", name, "--json").json for name in STRATEGIES}
    assert {name: document["strategy"] for name, document in found.items()} == {
        name: name for name in STRATEGIES
    }
    schedules = {str(parse(document["finding"]["scenario"]).steps) for document in found.values()}
    assert len(schedules) == len(STRATEGIES) > 2


def test_keep_going_counts():
    """Without it the search ends at the first violation, with it at the number of schedules."""
    first = call(*QUICK, "--json").json
    all_of_them = call(*QUICK, "--keep-going", "--json").json
    assert first["schedules"] < all_of_them["schedules"] == 50
    assert sum(all_of_them["broken"].values()) > 1


def test_time_is_up():
    """A limit in seconds ends a search that has more schedules than it can play."""
    answer = call("explore", "--seconds", "0.05", "--schedules", "1000000", "--seed", "1")
    assert answer.code == 0
    assert re.fullmatch(
        r"Time limit reached after [\d,]+ schedules? \(seed 1\): no invariant was broken\.", answer.lines[-1]
    )


def _interrupted(*arguments: str, after: str) -> tuple[int, str, str]:
    """Start a search, press Ctrl-C when a line that begins with ``after`` is there."""
    with subprocess.Popen(
        [*COMMAND, "explore", "--schedules", "1000000", "--seed", "1", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            while not process.stdout.readline().startswith(after):
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
    return process.returncode, out, err


def test_ctrl_c_with_nothing_found():
    code, out, err = _interrupted(after="Searching")
    assert (code, err) == (0, "")
    assert re.search(r"Interrupted after [\d,]+ schedules? \(seed 1\): no invariant was broken", out)


def test_ctrl_c_with_something_found():
    """What was found so far is told, with the command that shows it."""
    code, out, err = _interrupted("--acks", "0", "--keep-going", after="Schedule ")
    assert (code, err) == (1, "")
    assert re.search(r"Interrupted after [\d,]+ schedules? \(seed 1\)\. Broken: [a-z-]+ \d+×", out)
    assert "To save it: tidelog explore" in out


def test_defaults_are_those_of_the_search():
    """The command line repeats the defaults of the lab, to show them in its help without loading the lab."""
    given = {name: p.default for name, p in inspect.signature(explore).parameters.items()}
    options = SearchOptions()
    for name in ("generation", "strategy", "schedules", "min_insync", "brokers", "replicas", "operations"):
        assert given[name] == getattr(options, name)
    for name in ("unclean", "idempotent", "retries", "depth"):
        assert given[name] == getattr(options, name)
    assert given["fault_budget"] == options.faults.budget
    assert given["power_loss"] == ("power" in options.faults.kinds)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--generation epok", "did you mean epoch?"),
        ("--strategy randm", "did you mean random?"),
        ("--without fence_fetch", "did you mean fence_fetch_by_epoch"),
        ("--acks 2", "choose one of 0, 1, all"),
        ("--flush sometimes", "choose one of roll, always"),
        ("--replicas 4", "replicas on [3]"),
        ("--replicas 0", "no replicas"),
        ("--brokers 0 --replicas 0", "at least one broker"),
        ("--min-insync 4", "can never meet min.insync.replicas=4"),
        ("--idempotent --acks 1", "needs --acks all"),
        ("--idempotent --retries 0", "--retries of at least 1"),
        ("--schedules 0", "--schedules"),
        ("--schedules many", "--schedules"),
        ("--save /nowhere/at/all", "there is no directory /nowhere/at"),
        ("--save /", "directory"),
        ("--sed 4", "--seed"),
    ],
)
def test_what_cannot_be_is_refused_before_the_search(words: str, message: str):
    assert message in refused(call("explore", *words.split()))


def test_a_search_can_insist_on_one_invariant() -> None:
    """``--invariant`` goes on past other findings until that one breaks."""
    answer = call("explore", "-g", "hw", "--seed", "1", "--invariant", "committed-survives")
    assert answer.code == 1
    assert "# Breaks committed-survives" in answer.out


def test_a_search_can_begin_with_a_scenario() -> None:
    """``--from`` plays a scenario first; what is found begins with its steps."""
    story = (
        "explore",
        "--from",
        "kafka-7395-zombie-follower",
        "--faults",
        "none",
        "--operations",
        "2",
        "--seed",
        "1",
    )
    answer = call(*story, "--without", "fence_fetch_by_epoch")
    assert answer.code == 1
    assert "hold control 3->2" in answer.out
    assert "--from kafka-7395-zombie-follower" in answer.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--faults", "crsh"), "unknown fault 'crsh': did you mean crash?"),
        (("--invariant", "commited"), "unknown invariant 'commited'"),
        (("--from", "hwloss"), "unknown scenario 'hwloss'"),
    ],
)
def test_unknown_words_get_the_nearest_ones(words: tuple[str, ...], complaint: str) -> None:
    """What is misspelt is refused in one line before anything runs."""
    answer = call("explore", *words)
    assert answer.code == 2
    assert complaint in answer.err
    assert len(answer.err.strip().splitlines()) == 1
