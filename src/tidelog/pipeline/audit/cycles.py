"""Cycles in a graph of who came before whom. No Spark; vertices are numbers.

Rules of the file:

* `merged` cuts a long line of vertices into islands that no cycle leaves: see there.
* Whatever lies on cycles together is one *knot* (a strongly connected component of two or more), and is told
  once, with one of its shortest cycles as the example. Knots are found by Kosaraju's algorithm (1978):
  they are what is reached both along the edges and against them. There is no recursion: depth is bounded by
  memory, not by the stack.
* The search for the shortest cycle stops after a bounded number of steps: any cycle of a knot is an example.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

WRITES: Final = "ww"
"""One wrote right before the other."""
READS: Final = "wr"
"""One read what the other wrote."""
MIXED: Final = "ww and wr"

_STEPS_MAX: Final = 1_000_000
_TRIES_MAX: Final = 64

Vertex = int


class Edge(NamedTuple):
    source: Vertex
    target: Vertex
    kind: str
    row: int = 0
    """Where to read on about it."""


@dataclass(slots=True, frozen=True)
class Knot:
    kind: str
    """`WRITES`, `READS`, or `MIXED`: there is a cycle that needs both."""
    members: tuple[Vertex, ...]
    example: tuple[Edge, ...]
    """A cycle, edge by edge."""


def knots(edges: Iterable[Edge]) -> Iterator[Knot]:
    """The knots of writes alone; those of reads alone; and those that only both together make."""
    listed = sorted(edges)
    by_reads: dict[Vertex, int] = {}
    for kind in (WRITES, READS):
        of_kind = [edge for edge in listed if edge.kind == kind]
        for number, (members, inside) in enumerate(_components(of_kind)):
            yield Knot(kind, members, _shortest(inside, inside))
            if kind == READS:
                by_reads |= dict.fromkeys(members, number)
    for members, inside in _components(listed):
        told = {m: by_reads.get(m) for m in members}
        new = [
            edge
            for edge in inside
            if edge.kind == READS and (told[edge.source] is None or told[edge.source] != told[edge.target])
        ]
        if new:
            yield Knot(MIXED, members, _shortest(inside, new))


# ---------------------------------------------------------------- islands


def merged(intervals: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Closed intervals, sorted by where they begin, as the islands that they cover together.

    Put the vertices on a line, in any order. A cycle that crosses a place on the line crosses it backwards,
    too. So the edges that lead backwards, each as the interval from its target to its source, cover every
    cycle without a gap: a cycle lies in one island, and an edge that leaves its island is on none."""
    begin = end = None
    for low, high in intervals:
        if end is None or low > end:
            if begin is not None and end is not None:
                yield begin, end
            begin, end = low, high
        else:
            end = max(end, high)
    if begin is not None and end is not None:
        yield begin, end


# ---------------------------------------------------------------- knots


def _components(edges: Sequence[Edge]) -> Iterator[tuple[tuple[Vertex, ...], list[Edge]]]:
    """Strongly connected components of two or more vertices, each with the edges inside of it."""
    found = strongly_connected(edges)
    number_of = {vertex: number for number, members in enumerate(found) for vertex in members}
    inside: dict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        number = number_of.get(edge.source)
        if number is not None and number == number_of.get(edge.target):
            inside[number].append(edge)
    for number, members in enumerate(found):
        yield tuple(members), inside[number]


def strongly_connected(edges: Iterable[Edge]) -> list[list[Vertex]]:
    """The components of two or more vertices, in order, each sorted."""
    after: dict[Vertex, list[Vertex]] = defaultdict(list)
    before: dict[Vertex, list[Vertex]] = defaultdict(list)
    for edge in edges:
        after[edge.source].append(edge.target)
        before[edge.target].append(edge.source)
    walked: set[Vertex] = set()
    left = [vertex for root in list(after) for vertex in _walk(root, after, walked)]
    taken: set[Vertex] = set()
    found = (sorted(_walk(root, before, taken)) for root in reversed(left))
    return sorted(members for members in found if len(members) > 1)


def _walk(root: Vertex, ways: Mapping[Vertex, list[Vertex]], seen: set[Vertex]) -> list[Vertex]:
    """All that is reached from a vertex and was not seen before, in the order in which it is left."""
    left: list[Vertex] = []
    path = [] if root in seen else [(root, iter(ways.get(root, ())))]
    seen.add(root)
    while path:
        vertex, rest = path[-1]
        for ahead in rest:
            if ahead not in seen:
                seen.add(ahead)
                path.append((ahead, iter(ways.get(ahead, ()))))
                break
        else:
            left.append(vertex)
            path.pop()
    return left


# ---------------------------------------------------------------- examples


def _shortest(inside: Sequence[Edge], through: Sequence[Edge]) -> tuple[Edge, ...]:
    """A short cycle of a component that goes through one of these edges."""
    after: dict[Vertex, dict[Vertex, Edge]] = defaultdict(dict)
    for edge in inside:
        after[edge.source].setdefault(edge.target, edge)
    best: tuple[Edge, ...] = ()
    steps = 0
    for edge in through[:_TRIES_MAX]:
        way, taken = _way(after, edge.target, edge.source)
        steps += taken
        if not best or len(way) + 1 < len(best):
            best = (edge, *way)
        if len(best) == 2 or steps > _STEPS_MAX:
            break
    first = min(range(len(best)), key=lambda at: best[at].source)
    return (*best[first:], *best[:first])


def _way(
    after: Mapping[Vertex, Mapping[Vertex, Edge]], start: Vertex, goal: Vertex
) -> tuple[list[Edge], int]:
    """The shortest way, breadth first, and how many steps it took to find."""
    came: dict[Vertex, Edge] = {}
    steps, layer = 0, [start]
    while goal not in came:
        ahead = []
        for vertex in layer:
            for target, edge in after[vertex].items():
                steps += 1
                if target not in came and target != start:
                    came[target] = edge
                    ahead.append(target)
        layer = ahead
    way = [came[goal]]
    while way[-1].source != start:
        way.append(came[way[-1].source])
    return way[::-1], steps
