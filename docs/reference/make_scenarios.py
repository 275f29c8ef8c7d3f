"""Write what is expected of each generation into ``scenarios.md``, below the name of each scenario.

Run from the root of the tree: ``.venv/bin/python docs/reference/make_scenarios.py``. The rest of the page is
written by hand, but for the table at its end (``make_stages.py``). A test compares.
"""

import re
from pathlib import Path

from tidelog.core.generations import GENERATIONS
from tidelog.scenario import catalogue
from tidelog.scenario.scenario import VERDICT_KINDS

PAGE = Path(__file__).resolve().parent / "scenarios.md"
SECTION = re.compile(r"^### (\S+)\n(?:.*\n)*?(?=^#|^<!--)", re.MULTILINE)
EXPECTATIONS = re.compile(r"(?:^- `(?:.*\n)(?:  .*\n)*)+", re.MULTILINE)


def outcome(facts: dict[str, str]) -> str:
    """What becomes of the promises, and how it ends."""
    broken = [
        f"**{kind}** {'at ' if kind == 'diverged' else ''}{facts[kind].replace(',', ' ')}"
        for kind in VERDICT_KINDS
        if facts.get(kind)
    ]
    ends = [f"{fact} {facts[fact]}" for fact in ("leader", "epoch") if fact in facts]
    if "isr" in facts:
        ends.append(f"ISR [{facts['isr']}]")
    if "shrinks" in facts:
        times = {"0": "no shrink", "1": "one shrink"}.get(facts["shrinks"], f"{facts['shrinks']} shrinks")
        ends.append(f"{times} of the ISR")
    return (", ".join(broken) or "held") + (f" (ends with {', '.join(ends)})" if ends else "")


def expected(name: str) -> str:
    """One line for the generations of which the same is expected."""
    scenario = catalogue.load(name)
    lines: dict[str, list[str]] = {}
    for generation in GENERATIONS:
        expectation = scenario.expectation(generation)
        ending = "nothing is expected" if expectation is None else outcome(expectation.facts)
        lines.setdefault(ending, []).append(f"`{generation}`")
    return "".join(f"- {', '.join(generations)}: {ending}\n" for ending, generations in lines.items())


def page() -> str:
    def rewritten(section: re.Match[str]) -> str:
        return EXPECTATIONS.sub(lambda _: expected(section[1]), section[0], count=1)

    return SECTION.sub(rewritten, PAGE.read_text("utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
