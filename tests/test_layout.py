"""The rules of the tree that a reader relies on, checked: sizes, docstrings, nothing left undone, imports."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from bench.processes import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tidelog"

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
UNFINISHED = re.compile(r"\b(TODO|FIXME)\b")

# Replication decisions and bytes: what the simulator can only search if nothing in them reaches outside.
PURE = ("core", "wire", "groups", "keeper/tree.py")


def faults(source: str) -> Iterator[str]:
    """What a module's text does against the rules, each as `line: what`."""
    lines = source.splitlines()
    if len(lines) > MODULE_LINES_MAX:
        yield f"1: module of {len(lines)} lines, at most {MODULE_LINES_MAX}"
    for number, line in enumerate(lines, start=1):
        if found := UNFINISHED.search(line):
            yield f"{number}: {found[0]}"
    tree = ast.parse(source)
    if not ast.get_docstring(tree):
        yield "1: module without a docstring"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield f"{node.lineno}: {node.name} has {length} lines, at most {FUNCTION_LINES_MAX}"


def test_modules_follow_the_rules() -> None:
    """No module is over-long, holds an over-long function, lacks a docstring or is marked unfinished."""
    modules = sorted(SOURCE.rglob("*.py"))
    assert modules
    found = [
        f"{path.relative_to(ROOT)}:{fault}" for path in modules for fault in faults(path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


def test_each_rule_catches_its_breach() -> None:
    """A module that breaks every rule is reported for every rule, and a blameless one for none."""
    long_function = "def sprawl():\n" + "    pass\n" * FUNCTION_LINES_MAX
    breach = long_function + "# FIXME\n" + "\n" * MODULE_LINES_MAX
    assert list(faults(breach)) == [
        f"1: module of {FUNCTION_LINES_MAX + MODULE_LINES_MAX + 2} lines, at most {MODULE_LINES_MAX}",
        f"{FUNCTION_LINES_MAX + 2}: FIXME",
        "1: module without a docstring",
        f"1: sprawl has {FUNCTION_LINES_MAX + 1} lines, at most {FUNCTION_LINES_MAX}",
    ]
    assert list(faults('"""Says what it owns."""\n')) == []


def test_pure_modules_are_under_the_contract() -> None:
    """Every pure module that exists is named in the contract that keeps it pure."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = {contract["id"]: contract for contract in config["tool"]["importlinter"]["contracts"]}
    present = {
        "tidelog." + name.removesuffix(".py").replace("/", ".") for name in PURE if (SOURCE / name).exists()
    }
    assert present == set(contracts["pure"]["source_modules"])


def test_the_diagram_shows_the_layers() -> None:
    """The one picture of the architecture has the rows of the contract, from top to bottom."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = {contract["id"]: contract for contract in config["tool"]["importlinter"]["contracts"]}
    rows = [re.findall(r"\w+", layer) for layer in contracts["layers"]["layers"]]
    packages = {package for row in rows for package in row}
    diagram = re.search(
        r"```text\n(cli .*?)```", (ROOT / "docs/design/architecture.md").read_text("utf-8"), re.DOTALL
    )
    assert diagram is not None
    shown = [list(takewhile(packages.__contains__, line.split())) for line in diagram[1].splitlines()]
    assert shown == rows


def test_every_dependency_is_under_the_contract() -> None:
    """A package that tidelog depends on is forbidden where the standard library must do."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = {contract["id"]: contract for contract in config["tool"]["importlinter"]["contracts"]}
    extras = config["project"]["optional-dependencies"]
    needed = [*config["project"]["dependencies"]]
    for extra in ("fast", "spark", "connect", "zookeeper"):
        needed += extras[extra]
    packages = {re.split(r"[^\w-]", each)[0].replace("-", "_") for each in needed} - {"tidelog"}
    assert packages == set(contracts["stdlib"]["forbidden_modules"])


def test_the_architecture_names_files_of_the_core_that_exist() -> None:
    page = (ROOT / "docs/design/architecture.md").read_text("utf-8")
    table = page[page.index("### Its files") : page.index("### A produce with acks=all")]
    files = {path.stem for path in (ROOT / "src/tidelog/core").rglob("*.py")}
    named = set(re.findall(r"`(\w+)\.py`", table))
    assert named
    assert named <= files


def test_import_contracts_hold() -> None:
    """Imports point down, and no package imports what its contract forbids."""
    lint_imports = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run(
        [lint_imports, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert run.returncode == 0, run.stdout + run.stderr
