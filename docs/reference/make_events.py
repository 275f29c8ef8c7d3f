"""Print the page of recorded events from the tables that brokers write by.

Run from the root of the tree:
``.venv/bin/python docs/reference/make_events.py > docs/reference/events.md``.
"""

from tidelog.evidence.event_schema import COLUMNS, KINDS, REASONS
from tidelog.narrate.phrasebook import ENGLISH
from tidelog.narrate.reasons import reason_key

HEAD = """\
# Events: what happened to each broker

With `tidelog.evidence.dir=DIR` a broker writes down what happens to it and by which rule, for an audit to say
later *why* a record was lost. The simulator's events become the same rows.

## Files

`events-<broker>-<start>.jsonl`, where start is the start of the process in ms since 1970: JSON lines, one
object per event. A process that fills its file goes on in `events-<broker>-<start>.1.jsonl`, `.2` and so on;
the next process begins a file of its own. A file holds 16 MiB; of each broker's files the oldest are deleted
beyond 256 MiB.

- An event is handed to the operating system before the broker goes on, so it survives `kill -9`; a power cut
  may take the last seconds. Only moves of the high watermark are held back for up to 250 ms, and one row then
  represents all of them.
- Rows of one partition, and rows that concern the whole broker, are in the order in which things happened.
  Between different partitions moves of the high watermark may be late by those 250 ms; `time_ms` is right.
- `broker`, `process_start_ms` and `sequence` together identify a row; `sequence` counts from 0 without gaps.
- A file that cannot be written (a full disk, say) ends the recording with one line in the broker's log and
  `tidelog_evidence_recording 0` among its [metrics](metrics.md). The broker goes on.
- The last line of a killed process's file may be torn, and is passed over. Any other line that is no event
  is damage: `read_events` (`tidelog.evidence.journals.event_files`) names the file and the line.

```
{"time_ms":1731715203120,"broker":2,"process_start_ms":1731715200000,"sequence":17,"event":"truncated",\
"topic":"t","partition":0,"previous_log_end_offset":3,"log_end_offset":2,\
"rule":"epoch_end_on_leader","rule_epoch":0,"rule_epoch_end":2}
```

To read a folder of them with Spark, all brokers at once: `spark.read.schema(...).json("DIR/events-*.jsonl")`,
with the columns below.

<!-- Written by docs/reference/make_events.py. -->
"""


RULES = """\
## Rules

Where the brokers' own rules decide, `rule` names the one that fired; the columns that begin with `rule_` say
what it is about. Evidence of schema 1 has a sentence in `cause` instead.
"""


def columns() -> str:
    rows = [f"| `{column.name}` | {column.type} | {column.doc} |\n" for column in COLUMNS]
    return "".join(["| column | type | |\n|---|---|---|\n", *rows])


def kinds() -> str:
    lines = ["| `event` | what happened | columns |\n|---|---|---|\n"]
    for kind in KINDS.values():
        filled = ", ".join(f"`{column}`" for column in kind.sources)
        lines.append(f"| `{kind.name}` | {kind.doc} | {filled} |\n")
    return "".join(lines)


def rules() -> str:
    lines = ["| `event` | `rule` | in words |\n|---|---|---|\n"]
    for kind, enumerations in REASONS.items():
        for rule in (rule for enumeration in enumerations for rule in enumeration):
            words = ENGLISH.templates[reason_key(rule)].replace("{", "*").replace("}", "*")
            lines.append(f"| `{KINDS[kind].name}` | `{rule}` | {words} |\n")
    return "".join(lines)


def page() -> str:
    return (
        f"{HEAD}\n## Kinds\n\nEvery row has `time_ms`, `broker`, `process_start_ms`, `sequence` and `event`; "
        f"what else it has depends on the kind.\n\n{kinds()}"
        f"\n{RULES}\n{rules()}"
        f"\n## Columns\n\nA column that a kind does not have is absent, which means null.\n\n{columns()}"
    )


if __name__ == "__main__":
    print(page(), end="")
