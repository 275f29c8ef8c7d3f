"""The questions of the guide, answered from counts: Markdown out of a sweep's `cells.json`.

Run from the root of the tree:

    tidelog sweep docs/guide/atlas.toml --out atlas
    .venv/bin/python docs/guide/make_answers.py --keep atlas/cells.json    # a small copy: atlas.json
    .venv/bin/python docs/guide/make_answers.py                            # prints the tables

The copy holds what the tables are made of and nothing else, so that it can be kept with the guide.
"""

import json
import sys
from pathlib import Path
from textwrap import fill
from typing import Any

from tidelog.pipeline.sweep.questions import answers
from tidelog.pipeline.sweep.summary import CellCount, count_from_json

KEPT = Path(__file__).with_name("atlas.json")
WIDTH = 118
_USED = ("cell", "trials", "outcomes", "bad", "measures", "faults", "seen")
_CUTS = (
    "truncated",
    "truncated_to_watermark",
    "truncated_by_epoch",
    "truncated_again",
    "truncated_to_leader",
)


def keep(path: Path) -> None:
    found = json.loads(path.read_text("utf-8"))
    cells = [{key: cell[key] for key in _USED} for cell in found["cells"]]
    for cell in cells:
        cell["seen"] = {mark: number for mark, number in cell["seen"].items() if mark in _CUTS}
    head = {key: found[key] for key in ("command", "made", "rules", "seeds", "trials")}
    lines = ",\n".join(json.dumps(cell, separators=(",", ":")) for cell in cells)
    KEPT.write_text(f'{json.dumps(head)[:-1]}, "cells": [\n{lines}\n]}}\n', "utf-8")


def kept() -> tuple[dict[str, Any], list[CellCount]]:
    found = json.loads(KEPT.read_text("utf-8"))
    return found, [count_from_json(cell) for cell in found["cells"]]


def markdown() -> str:
    found, counts = kept()
    lines = [
        f"{found['trials']:,} trials, {len(counts)} cells of {found['seeds']} seeds, {found['made']}:",
        "",
    ]
    for answer in answers(counts):
        lines += [fill(f"**{answer.question}** {answer.sentence}", WIDTH), ""]
        lines.append(f"| {' | '.join(answer.columns)} |")
        lines.append("|---" * len(answer.columns) + "|")
        lines += [f"| {' | '.join(row)} |" for row in answer.rows]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--keep"]:
        keep(Path(sys.argv[2]))
    else:
        print(markdown(), end="")
