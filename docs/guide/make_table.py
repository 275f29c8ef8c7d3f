"""Play the whole catalogue under every generation and print what became of the promises, as a Markdown table.

Run from the root of the tree: ``.venv/bin/python docs/guide/make_table.py``.
"""

import json
import subprocess
import sys
from typing import Any

GENERATIONS = ("hw", "kip101", "epoch", "majority")
TIDELOG = (sys.executable, "-m", "tidelog.cli", "scenario")


def ask(*arguments: str) -> Any:
    done = subprocess.run([*TIDELOG, *arguments, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def cell(run: dict[str, Any]) -> str:
    """What was lost, duplicated, diverged or rewritten; and how many sends failed."""
    words = []
    for kind, findings in run["verdict"].items():
        if findings:
            key, at = ("offset", "at ") if kind == "diverged" else ("value", "")
            words.append(f"**{kind}** {at}{' '.join(str(finding[key]) for finding in findings)}")
    if run["failed"]:
        sends = len(run["failed"]) + len(run["acknowledged"])
        words.append(f"{len(run['failed'])} of {sends} failed")
    return ", ".join(words) or "held"


def main() -> None:
    print(f"| scenario | {' | '.join(f'`{g}`' for g in GENERATIONS)} |")
    print("|---" * (len(GENERATIONS) + 1) + "|")
    for scenario in ask("list"):
        name = scenario["name"]
        cells = [cell(ask("run", name, "-g", generation)) for generation in GENERATIONS]
        print(f"| `{name}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
