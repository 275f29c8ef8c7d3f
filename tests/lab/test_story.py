"""The Python form of scenarios says what the files say."""

from __future__ import annotations

import pytest

from tidelog.lab.story import Story
from tidelog.scenario.line import ScenarioError
from tidelog.scenario.scenario import parse, print_scenario


def lost_with_its_leader() -> Story:
    return (
        Story()
        .cluster(brokers=3, controller=2, replica_lag_time_max_ms=10_000)
        .topic("t", replicas=(0, 1), min_insync_replicas=1)
        .producer("p", zone="az3", acks=1)
        .hold("fetch-reply 0->1")
        .note("The leader answers, and dies with the only copy.")
        .produce("p", "a")
        .power_off(0)
        .release()
        .wait("leader 1")
        .restart(0)
        .wait("converged within 30s")
    )


def test_a_story_runs_like_a_file() -> None:
    """The same words give the same scenario, and the same end."""
    story = lost_with_its_leader()
    run = story.run("epoch")
    assert [finding["value"] for finding in run.verdict.lost] == ["a"]
    assert print_scenario(parse(story.text)) == print_scenario(story.scenario())
    assert "dies with the only copy" in story.scenario().steps[1].narration[0].text


def test_a_mistake_in_a_story_is_named_like_one_in_a_file() -> None:
    """The parser of files speaks: line, column, what was expected."""
    with pytest.raises(ScenarioError, match=r"story: line 4, column 7: expected a broker between 0 and 2"):
        Story().cluster(brokers=3).topic("t", replicas=(0, 1)).crash(7).scenario()
