"""Print the page of all faults from their files.

Run from the root of the tree:
``.venv/bin/python docs/reference/make_faults.py > docs/reference/faults.md``.
"""

from tidelog.faults import FAULTS, SEARCH_FAULTS, TRIAL_FAULTS
from tidelog.faults.base import Fault

HEAD = """\
# Faults

What tidelog can do to a cluster. A [trial](../guide/trials.md) injects faults into running processes
(`tidelog trial --faults`), a search into the simulated cluster (`tidelog explore --faults`, and the
[atlas](../guide/atlas.md) with `tidelog sweep --faults`), and a [scenario](scenarios.md) at a line that names
its verb.

| fault | trial | search | in a scenario | undone by |
|---|---|---|---|---|
"""

FOOT = """
*by name*: the fault is not part of `all`, which is the default of a trial.

<!-- Written by docs/reference/make_faults.py. -->
"""


def _code(name: str) -> str:
    return f"`{name}`" if name else ""


def _row(fault: Fault) -> str:
    in_trials = fault.name in TRIAL_FAULTS
    trial = f"{_code(fault.name)}{'' if fault.by_default else ' by name'}" if in_trials else ""
    search = _code(fault.search_name) if fault.search_name in SEARCH_FAULTS else ""
    undone = "" if fault.leaves is None else _code(fault.leaves.verb)
    return f"| {fault.words.en} | {trial} | {search} | {_code(fault.verb)} | {undone} |"


def page() -> str:
    return HEAD + "\n".join(map(_row, FAULTS)) + "\n" + FOOT


if __name__ == "__main__":
    print(page(), end="")
