"""Play the whole catalogue under every generation and print what became of the promises, as a Markdown table.

Run from the root of the tree: ``.venv/bin/python docs/guide/make_table.py``.
"""

from collections.abc import Iterator

from tidelog.core.generations import GENERATIONS
from tidelog.lab.play import run
from tidelog.scenario import catalogue
from tidelog.scenario.clients.events import Outcome
from tidelog.scenario.run import Run


def cell(played: Run) -> str:
    """What was lost, duplicated, diverged or rewritten; and how many sends failed."""
    words = []
    for kind, findings in played.verdict.as_json().items():
        if findings:
            key, at = ("offset", "at ") if kind == "diverged" else ("value", "")
            words.append(f"**{kind}** {at}{' '.join(str(finding[key]) for finding in findings)}")
    if failed := sum(sent.outcome is not Outcome.OK for sent in played.ledger):
        words.append(f"{failed} of {len(played.ledger)} failed")
    return ", ".join(words) or "held"


def lines() -> Iterator[str]:
    yield f"| scenario | {' | '.join(f'`{name}`' for name in GENERATIONS)} |"
    yield "|---" * (len(GENERATIONS) + 1) + "|"
    for name in catalogue.names():
        scenario = catalogue.load(name)
        cells = [cell(run(scenario.under(generation))) for generation in GENERATIONS]
        yield f"| `{name}` | {' | '.join(cells)} |"


if __name__ == "__main__":
    print("\n".join(lines()))
