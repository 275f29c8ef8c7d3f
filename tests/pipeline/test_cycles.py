"""Cycles are found wherever they are, and shown by a short example."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidelog.pipeline.audit.cycles import (
    MIXED,
    READS,
    WRITES,
    Edge,
    Knot,
    knots,
    merged,
    strongly_connected,
)

VERTICES = range(12)
EDGES = st.lists(
    st.builds(Edge, st.sampled_from(VERTICES), st.sampled_from(VERTICES), st.sampled_from([WRITES, READS])),
    max_size=40,
).map(lambda edges: [edge for edge in edges if edge.source != edge.target])


def reachable(edges: list[Edge]) -> dict[int, set[int]]:
    """Who is behind whom, by walking on until nothing is new."""
    behind = {vertex: {edge.target for edge in edges if edge.source == vertex} for vertex in VERTICES}
    for _ in VERTICES:
        for targets in behind.values():
            targets |= {further for target in targets for further in behind[target]}
    return behind


def tied_up(edges: list[Edge]) -> set[frozenset[int]]:
    """By brute force: nodes that reach each other belong together."""
    behind = reachable(edges)
    classes = {
        frozenset({one} | {other for other in behind[one] if one in behind[other]}) for one in VERTICES
    }
    return {members for members in classes if len(members) > 1}


@given(EDGES)
def test_components_are_those_of_brute_force(edges: list[Edge]) -> None:
    """Kosaraju's algorithm without recursion."""
    assert {frozenset(members) for members in strongly_connected(edges)} == tied_up(edges)


@given(EDGES, st.lists(st.integers(0, 9), min_size=len(VERTICES), max_size=len(VERTICES)))
def test_no_cycle_leaves_its_island(edges: list[Edge], times: list[int]) -> None:
    """Whatever the order on the line, ties included: components of all islands, each by itself and without
    the edges between them, are the components of the whole graph."""
    begun = dict(zip(VERTICES, times, strict=True))
    backward = sorted(
        (begun[edge.target], begun[edge.source]) for edge in edges if begun[edge.source] >= begun[edge.target]
    )
    islands = list(merged(backward))
    assert all(one[1] < other[0] for one, other in pairwise(islands))
    found = set()
    for low, high in islands:
        inside = [
            edge for edge in edges if low <= begun[edge.source] <= high and low <= begun[edge.target] <= high
        ]
        found |= {frozenset(members) for members in strongly_connected(inside)}
    assert found == tied_up(edges)


@given(EDGES)
def test_an_example_is_a_cycle_of_its_kind(edges: list[Edge]) -> None:
    """It comes back to where it began, goes through members only, and is made of what the kind says."""
    for knot in knots(edges):
        sources = [edge.source for edge in knot.example]
        assert [edge.target for edge in knot.example] == [*sources[1:], sources[0]]
        assert len(set(sources)) == len(sources)
        assert set(sources) <= set(knot.members)
        assert set(knot.example) <= set(edges)
        kinds = {edge.kind for edge in knot.example}
        assert READS in kinds if knot.kind == MIXED else kinds == {knot.kind}


@given(EDGES)
def test_every_knot_is_told_by_its_kind(edges: list[Edge]) -> None:
    """Of writes alone, of reads alone, and what only both together make: nothing worse is told."""
    told = list(knots(edges))
    for kind in (WRITES, READS):
        alone = tied_up([edge for edge in edges if edge.kind == kind])
        assert {frozenset(knot.members) for knot in told if knot.kind == kind} == alone
    everything = tied_up(edges)
    by_reads = tied_up([edge for edge in edges if edge.kind == READS])
    needs_both = {
        members
        for members in everything
        if any(
            edge.kind == READS
            and {edge.source, edge.target} <= members
            and not any({edge.source, edge.target} <= known for known in by_reads)
            for edge in edges
        )
    }
    assert {frozenset(knot.members) for knot in told if knot.kind == MIXED} == needs_both


def test_the_shortest_cycle_is_the_example() -> None:
    """Of a ring of five with a short cut, the short cut."""
    ring = [Edge(n, (n + 1) % 5, WRITES) for n in range(5)]
    (knot,) = knots([*ring, Edge(2, 1, WRITES)])
    assert knot == Knot(WRITES, (0, 1, 2, 3, 4), (Edge(1, 2, WRITES), Edge(2, 1, WRITES)))


def test_a_long_cycle_needs_no_stack() -> None:
    """Twenty thousand transactions in one ring."""
    count = 20_000
    (knot,) = knots([Edge(n, (n + 1) % count, WRITES) for n in range(count)])
    assert len(knot.members) == len(knot.example) == count
    assert knot.example[0] == Edge(0, 1, WRITES)
