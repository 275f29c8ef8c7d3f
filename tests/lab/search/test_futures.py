"""When a story was decided: the shares of losing futures, step by step."""

from dataclasses import replace

from tidelog.lab.search.futures import FutureOptions, Futures, futures, no_futures, playing_futures
from tidelog.scenario import catalogue

FEW = FutureOptions(futures=6)


def test_a_loss_is_decided_by_one_step() -> None:
    """Once the answer to the follower is dropped (step 9) nearly every future loses b, and in the end all do.
    Where the rules are sound no future of any step loses anything."""
    story = catalogue.load("kafka-7395-zombie-follower").under("hw")
    found = futures(story, FEW)
    assert str(story.steps[8]) == "drop fetch-reply 0->1"
    assert found.decided_at == 9
    assert (found.shares[0], found.shares[-1]) == (0.0, 1.0)
    sound = futures(catalogue.load("hw-loss").under("epoch"), FEW)
    assert set(sound.shares) == {0.0}
    assert sound.decided_at is None


def test_futures_depend_on_their_seed_alone() -> None:
    """The same seed gives the same shares; a future of another seed is another one."""
    story = catalogue.load("hw-loss").under("hw")
    story = replace(story, steps=story.steps[:19])
    first, again = (futures(story, FutureOptions(futures=4, seed=5)) for _ in range(2))
    assert first == again
    assert any(futures(story, FutureOptions(futures=4, seed=seed)) != first for seed in (100, 200, 300))


def test_a_stopped_calculation_has_all_steps() -> None:
    """Futures come seed by seed: a caller that stops early has as many of each step, give or take one."""
    story = catalogue.load("acks-1-loss").under("epoch")
    found = no_futures(story)
    for played in playing_futures(story, FEW, found):
        if played == len(found.played) * 2 + 3:
            break
    assert sum(found.played) == len(found.played) * 2 + 3
    assert set(found.played) == {2, 3}


def test_a_small_rise_decides_nothing() -> None:
    """A share that goes up by a tenth may be chance."""
    assert Futures([10, 10, 10], [0, 1, 2]).decided_at is None
    assert Futures([10, 10, 10], [0, 1, 9]).decided_at == 2
    assert Futures([0], [0]).decided_at is None
