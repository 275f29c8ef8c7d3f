"""Print the page of the public Python API from the signatures and docstrings of the code.

Run from the root of the tree:
``.venv/bin/python docs/reference/make_api.py > docs/reference/api.md``.

`PUBLIC` is the list of what is public: a name that is not on it may change without notice.
"""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import Any

HEAD = """\
# The Python API

What programs may import. These names stay between minor versions
([versions](../../CHANGELOG.md#versions)); everything else in the package may change. Functions raise
`tidelog.errors.Refusal`, whose message is one line that says what to do.

"""

PUBLIC = (
    (
        "A cluster from Python",
        "Guide: [in a test or a script](../guide/cluster.md#in-a-test-or-a-script).",
        (
            "tidelog.Cluster",
            "tidelog.AsyncCluster",
            "tidelog.ClusterSpec",
            "tidelog.cluster.broker_handle.BrokerHandle",
            "tidelog.cluster.active_fault.ActiveFault",
        ),
    ),
    (
        "Tests of applications",
        "What the fixtures of the pytest plugin are. Guide: [Kafka in your test suite](../guide/testing.md).",
        (
            "tidelog.testing.faults.Faults",
            "tidelog.testing.ledger.Ledger",
        ),
    ),
    (
        "A ledger of your own Kafka",
        "Guide: [a ledger of your own Kafka](../guide/ledger.md).",
        (
            "tidelog.ledger.wrap",
            "tidelog.ledger.watch",
            "tidelog.ledger.continuity",
            "tidelog.ledger.Continuity",
            "tidelog.ledger.Stream",
            "tidelog.ledger.Flawed",
        ),
    ),
    (
        "The lab",
        "Scenarios, searches and stories. Guide: [a tour of the lab](../guide/lab.md).",
        (
            "tidelog.scenario.scenario.parse",
            "tidelog.scenario.scenario.print_scenario",
            "tidelog.lab.play.run",
            "tidelog.lab.story.Story",
            "tidelog.lab.search.search.find",
            "tidelog.lab.search.search.SearchOptions",
            "tidelog.lab.search.search.SearchResult",
        ),
    ),
    (
        "Trials and audits",
        "Guide: [trials from Python](../guide/trials.md#from-python), [the audit](../guide/audit.md).",
        (
            "tidelog.trials.plan.run_trial",
            "tidelog.trials.plan.TrialOptions",
            "tidelog.trials.plan.TrialResult",
            "tidelog.pipeline.audit.run.audit",
            "tidelog.pipeline.audit.run.Audited",
            "tidelog.pipeline.spark.session.open_session",
        ),
    ),
    (
        "Errors",
        "",
        ("tidelog.errors.Refusal",),
    ),
)

FOOT = "\n<!-- Written by docs/reference/make_api.py. -->\n"
_LINE_MAX = 100
OPTIONS = ("SearchOptions", "SearchResult", "TrialOptions", "TrialResult", "ClusterSpec", "Audited")
"""Values to fill in or to read: their fields are public, their methods are not."""
GIVEN = ("BrokerHandle", "ActiveFault", "Faults", "Ledger")
"""Objects that a program is given and does not make."""
TWINS = {"AsyncCluster": "Cluster"}
"""A method without words does what that of the twin does."""


def find(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def _doc(found: Any) -> str:
    """Its own docstring, as Markdown; not one that a dataclass or a base class made up."""
    text = inspect.cleandoc(found.__doc__ or "")
    if inspect.isclass(found) and text.startswith(f"{found.__name__}("):
        return ""
    return text.replace("``", "`")


def _signature(name: str, found: Any, *, drop_self: bool = False) -> str:
    signature = inspect.signature(found)
    if drop_self:
        parameters = [each for key, each in signature.parameters.items() if key not in ("self", "cls")]
        signature = signature.replace(parameters=parameters)
    # Annotations are texts (PEP 563), which inspect puts in quotes; defaults that are objects have no source.
    shown = re.sub(r"(: |-> )'([^']*)'", r"\1\2", f"{name}{signature}")
    shown = re.sub(r"<class '([\w.]+)'>", r"\1", shown)
    shown = re.sub(r"<function (?!<)([\w.]+) at 0x[0-9a-f]+>", r"\1", shown)
    shown = re.sub(r"<function <lambda> at 0x[0-9a-f]+>", "…", shown)
    if len(shown) <= _LINE_MAX:
        return shown
    inside, _, answer = shown.rpartition(")")
    opening, _, inside = inside.partition("(")
    lines = [f"    {each}," for each in _split(inside)]
    return "\n".join([f"{opening}(", *lines, f"){answer}"])


def _split(parameters: str) -> list[str]:
    """Parameters at the commas between them, not at those inside brackets."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _fields(found: Any) -> Iterator[str]:
    """The annotated fields of a dataclass, each with the text below it in the source."""
    defaults = {field.name: field for field in dataclasses.fields(found)}
    body = ast.parse(textwrap.dedent(inspect.getsource(found))).body[0]
    assert isinstance(body, ast.ClassDef)
    for number, node in enumerate(body.body):
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        if node.target.id.startswith("_"):
            continue
        after = body.body[number + 1] if number + 1 < len(body.body) else None
        words = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            words = " ".join(str(after.value.value).split())
        kind = ast.unparse(node.annotation).replace("|", "\\|")
        yield f"| `{node.target.id}` | `{kind}` | {_default(defaults[node.target.id])} | {words} |"


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return "empty"
    return "required" if field.default is dataclasses.MISSING else f"`{field.default!s}`"


def _members(found: type) -> Iterator[tuple[str, Any]]:
    """Its public methods and properties, in the order of the source, those of its own bases last."""
    seen: set[str] = set()
    for owner in found.__mro__:
        if not owner.__module__.startswith("tidelog"):
            continue
        for name, member in vars(owner).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if inspect.isfunction(plain) or isinstance(plain, property):
                yield name, plain


def _class(found: type) -> Iterator[str]:
    if "__dataclass_fields__" in vars(found):
        yield "| field | type | default | |\n|---|---|---|---|\n" + "\n".join(_fields(found)) + "\n"
    elif "__init__" in vars(found) and found.__name__ not in GIVEN:
        initial = vars(found)["__init__"]
        made = _signature(found.__name__, initial, drop_self=True).removesuffix(" -> None")
        yield f"```python\n{made}\n```\n"
        if text := _doc(initial):
            yield text + "\n"
    if found.__name__ in OPTIONS:
        return
    twin = dict(_members(find(f"tidelog.{TWINS[found.__name__]}"))) if found.__name__ in TWINS else {}
    rows = []
    for name, member in _members(found):
        if isinstance(member, property):
            shown, words = name, member.fget
        else:
            prefix = "await " if inspect.iscoroutinefunction(member) else ""
            shown, words = prefix + " ".join(_signature(name, member, drop_self=True).split()), member
        text = " ".join((_doc(words) or _doc(twin.get(name, words))).split())
        shown = shown.replace("( ", "(").replace(", )", ")").replace("|", "\\|")
        rows.append(f"| `{shown}` | {text.replace('|', chr(92) + '|')} |\n")
    if rows:
        yield "| | |\n|---|---|\n" + "".join(rows)


def page() -> str:
    parts = [HEAD]
    for title, lead, names in PUBLIC:
        parts.append(f"## {title}\n\n" + (f"{lead}\n\n" if lead else ""))
        for name in names:
            found = find(name)
            parts.append(f"### {name.rpartition('.')[2]}\n\n`{name}`\n\n")
            if inspect.isclass(found):
                words = [_doc(found) + "\n"] if _doc(found) else []
                parts.append("\n".join([*words, *_class(found)]) + "\n")
            else:
                parts.append(f"```python\n{_signature(found.__name__, found)}\n```\n\n{_doc(found)}\n\n")
    return "".join(parts).rstrip() + "\n" + FOOT


if __name__ == "__main__":
    print(page(), end="")
