"""Play the catalogue in the simulator and on real processes, and put the table of both into ``scenarios.md``.

Run from the root of the tree, on a machine that has little else to do (it takes minutes):
``.venv/bin/python docs/reference/make_stages.py [GENERATION …]``. Only the rows of the generations named are
played again, several at once; without any, all are. ``missing`` instead of a generation plays the rows that
the table lacks. What Apache Kafka did is copied from ``tests/lab/test_recordings.py``.
"""

import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tidelog.core.generations import GENERATIONS
from tidelog.lab.play import run
from tidelog.process_stage.clock import Pace
from tidelog.process_stage.play import compare_stages
from tidelog.process_stage.processes import Processes
from tidelog.scenario import catalogue
from tidelog.scenario.run import Run

PAGE = Path("docs/reference/scenarios.md")
BEGIN, END = "<!-- stages: written by make_stages.py -->", "<!-- end of stages -->"
AT_ONCE = int(os.environ.get("AT_ONCE", "5"))
MISSING = "missing"
PACES = (Pace(0.25), Pace(0.5), Pace(1.0))

RECORDED = {
    ("hw-loss", "hw"): "0.10.1: elected without c",
    ("hw-loss", "epoch"): "2.7.1: held",
    ("hw-divergence", "hw"): "0.10.1: lost c, diverged at 2",
    ("hw-divergence", "epoch"): "2.7.1: held",
    ("isolate-leader-zone", "epoch"): "2.7.1: lost what the cut-off leader took, epochs 1 and 2",
    ("isolate-leader-and-controller", "epoch"): "2.7.1: epochs 2 and 3",
    ("unclean-election", "epoch"): "2.7.1: lost c, epoch 3",
}


def outcome(played: Run) -> str:
    """What became of the promises, and how it ended."""
    facts = played.facts()
    kinds = ("lost", "duplicated", "diverged", "rewritten", "reordered", "phantom")
    words = [
        f"**{kind}** {'at ' if kind == 'diverged' else ''}{facts[kind].replace(',', ' ')}"
        for kind in kinds
        if facts[kind]
    ]
    return f"{', '.join(words) or 'held'}; {facts['leader']}, {facts['epoch']}, [{facts['isr']}]"


def row(name: str, generation: str) -> str:
    scenario = catalogue.load(name)
    played = scenario.under(generation)
    kafka = RECORDED.get((scenario.name, generation), "")
    if scenario.setup.without:
        cells = [outcome(run(played)), "refused: no broker can switch guards off"]
    else:
        with Processes() as processes:
            compared = compare_stages(played, processes, PACES)
        cells = [outcome(compared.first), "the same" if compared.same else outcome(compared.second)]
    print(f"{scenario.name} {generation}: {cells[1]}", file=sys.stderr, flush=True)
    return f"| `{scenario.name}` | `{generation}` | {' | '.join(cells)} | {kafka} |"


def known_rows(table: str) -> dict[tuple[str, str], str]:
    rows = {}
    for line in table.splitlines():
        found = re.match(r"\| `([^`]+)` \| `([^`]+)` \|", line)
        if found:
            rows[found[1], found[2]] = line
    return rows


def wanted(chosen: list[str], known: dict[tuple[str, str], str]) -> list[tuple[str, str]]:
    return [
        (name, generation)
        for name in catalogue.names()
        for generation in GENERATIONS
        if catalogue.load(name).expectation(generation) is not None
        and (generation in chosen or (MISSING in chosen and (name, generation) not in known))
    ]


def play_all(keys: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
    with ProcessPoolExecutor(AT_ONCE, mp_context=get_context("spawn")) as players:
        return dict(zip(keys, players.map(row, *zip(*keys, strict=True)), strict=True))


def main(chosen: list[str]) -> None:
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    table, after = rest.split(END)
    known = known_rows(table)
    rows = known | play_all(wanted(chosen, known))
    lines = ["", "| scenario | rules | simulator | real processes | Apache Kafka |", "|---|---|---|---|---|"]
    keys = [(name, generation) for name in catalogue.names() for generation in GENERATIONS]
    lines += [rows[key] for key in keys if key in rows]
    PAGE.write_text(f"{before}{BEGIN}{chr(10).join(lines)}\n\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or list(GENERATIONS))
