"""Replica placement: all brokers lead and follow equally often, and no rack holds all of a partition."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.controller.placement import broker_round, place_replicas
from tidelog.core.types import BrokerId

starts = st.integers(0, 100)
factors = st.integers(1, 6)


@st.composite
def clusters(draw: st.DrawFn) -> dict[BrokerId, str | None]:
    """Brokers with any ids, in racks of any size, or without."""
    ids = draw(st.lists(st.integers(0, 50), min_size=1, max_size=12, unique=True))
    racked = draw(st.booleans())
    return {BrokerId(id_): draw(st.sampled_from("abcd")) if racked else None for id_ in ids}


@given(clusters(), st.integers(1, 40), st.integers(1, 12), starts)
def test_every_partition_has_its_replicas_on_different_brokers(
    racks: dict[BrokerId, str | None], partitions: int, factor: int, start: int
) -> None:
    """As many as asked for, none twice, all of them in the cluster."""
    factor = min(factor, len(racks))
    placed = place_replicas(racks, range(partitions), factor, start)
    assert list(placed) == list(range(partitions))
    for replicas in placed.values():
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= set(racks)


@given(clusters(), st.integers(1, 60), starts)
def test_leadership_is_even(racks: dict[BrokerId, str | None], partitions: int, start: int) -> None:
    """No broker is preferred leader of more than one partition more than any other."""
    placed = place_replicas(racks, range(partitions), 1, start)
    led = Counter(replicas[0] for replicas in placed.values())
    assert max(led.values()) - min(led.get(broker, 0) for broker in racks) <= 1


@given(st.integers(1, 10), st.integers(1, 5), st.integers(1, 10), starts)
def test_replicas_are_even_after_each_lap(brokers: int, laps: int, factor: int, start: int) -> None:
    """With as many partitions as brokers, or a multiple, every broker holds the same number."""
    racks = {BrokerId(broker): None for broker in range(brokers)}
    factor = min(factor, brokers)
    placed = place_replicas(racks, range(laps * brokers), factor, start)
    held = Counter(broker for replicas in placed.values() for broker in replicas)
    assert set(held.values()) == {laps * factor}


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.integers(1, 8), starts)
def test_replicas_are_even_in_racks_of_one_size(
    racks: int, size: int, laps: int, factor: int, start: int
) -> None:
    """The same, if the racks are alike."""
    of = {BrokerId(broker): f"r{broker % racks}" for broker in range(racks * size)}
    factor = min(factor, len(of))
    placed = place_replicas(of, range(laps * len(of)), factor, start)
    held = Counter(broker for replicas in placed.values() for broker in replicas)
    assert set(held.values()) == {laps * factor}


@given(
    clusters().filter(lambda racks: None not in racks.values()), st.integers(1, 30), st.integers(1, 6), starts
)
def test_racks_are_spread(
    racks: dict[BrokerId, str | None], partitions: int, factor: int, start: int
) -> None:
    """A partition is in as many racks as it has replicas, or in all there are; and no rack holds two more of
    its replicas than another that still had a broker to offer."""
    factor = min(factor, len(racks))
    size = Counter(racks.values())
    for replicas in place_replicas(racks, range(partitions), factor, start).values():
        used = Counter(racks[broker] for broker in replicas)
        assert len(used) == min(factor, len(size))
        for rack, count in used.items():
            for other in size:
                assert count - used.get(other, 0) <= 1 or used.get(other, 0) == size[other], (rack, other)


@given(st.integers(3, 9), starts)
def test_the_load_of_a_dead_leader_is_shared(brokers: int, start: int) -> None:
    """The first followers of the partitions that one broker leads are all the others in turn."""
    racks = {BrokerId(broker): None for broker in range(brokers)}
    placed = place_replicas(racks, range(brokers * (brokers - 1)), 2, start)
    heirs = [follower for leader, follower in placed.values() if leader == 0]
    assert sorted(heirs) == list(range(1, brokers))


@given(clusters(), st.integers(1, 20), st.integers(1, 20), starts)
def test_partitions_added_later_are_placed_as_if_they_had_been_there(
    racks: dict[BrokerId, str | None], before: int, added: int, start: int
) -> None:
    """The round goes on where it was."""
    whole = place_replicas(racks, range(before + added), 1, start)
    assert place_replicas(racks, range(before, before + added), 1, start) == {
        partition: whole[partition] for partition in range(before, before + added)
    }


def test_neighbours_in_the_round_are_in_different_racks() -> None:
    """One broker of each rack after the other; without racks, or where one broker names none, by id."""
    racks: dict[BrokerId, str | None] = {
        BrokerId(0): "a",
        BrokerId(1): "a",
        BrokerId(2): "b",
        BrokerId(3): "c",
        BrokerId(4): "c",
        BrokerId(5): "c",
    }
    assert broker_round(racks) == [0, 2, 3, 1, 4, 5]
    assert broker_round({**racks, BrokerId(3): None}) == [0, 1, 2, 3, 4, 5]
