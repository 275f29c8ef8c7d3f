"""Print the page of anomalies from the audits that find them.

Run from the root of the tree:
``.venv/bin/python docs/reference/make_anomalies.py > docs/reference/anomalies.md``.
"""

from tidelog.pipeline.audit.anomalies import AUDITS
from tidelog.pipeline.audit.causes.rules import UNEXPLAINED, CauseRule
from tidelog.pipeline.audit.findings import COLUMNS

HEAD = """\
# Anomalies: what an audit finds, and how it judges

`tidelog audit EVIDENCE` runs every audit below for which the evidence has what it needs, and writes all
findings as one table to `EVIDENCE/audit/anomalies` (Parquet) and their sum to `EVIDENCE/audit/verdict.json`.

A **violation** breaks a promise; a **notice** breaks none and is worth knowing. *Held* means that no
violation was found, and is conclusive only if losses could be judged. Everywhere:

- A send has three outcomes. `unknown` is neither lost when it is absent nor a phantom when it is there.
- Control records belong to the protocol and are nobody's.
- The *final log* of a partition is its leader's log below the high watermark; without a leader the longest
  log of a member of the ISR; where no replica can be seen, what the final reader read. It is the log as
  consumers of committed records see it: what an aborted transaction wrote is not in it.
- Of a value that was sent more often than it stands in the log nothing is said but whether it is lost, and
  nothing of what the evidence does not show. The verdict lists both under `unjudged`.
- Records that exist and cannot be read on any replica make a verdict inconclusive, unless a violation was
  found: `unreadable` in the verdict names them.

<!-- Written by docs/reference/make_anomalies.py. -->
"""


def page() -> str:
    lines = [HEAD, "| anomaly | in short | needs |", "|---|---|---|"]
    for audit in AUDITS:
        needs = ", ".join(sorted(audit.needs)) or "sends or events"
        lines.append(f"| [{audit.name}](#{audit.name.replace(' ', '-')}) | {audit.title} | {needs} |")
    for audit in AUDITS:
        lines += ["", f"## {audit.name}", "", audit.doc.strip()]
    lines += [
        "",
        "## Causes",
        "",
        "Each finding has a `rule`, by which causes are counted, and a `cause`, its",
    ]
    lines += [
        "story in words: who did what, and when. A cause says only what the evidence shows. The rules:",
        "",
    ]
    lines += [f"- {rule}" for rule in CauseRule]
    lines += [f"- {UNEXPLAINED}: nothing in the evidence accounts for it"]
    lines += ["", "## Columns", "", "| column | type |", "|---|---|"]
    lines += [f"| `{name}` | {kind} |" for name, kind in COLUMNS.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
