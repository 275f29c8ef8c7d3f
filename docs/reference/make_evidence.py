"""Print the page of evidence from the tables that trials write by.

Run from the root of the tree:
``.venv/bin/python docs/reference/make_evidence.py > docs/reference/evidence.md``.
"""

from tidelog.evidence.tables import SCHEMA_VERSION, TABLES, Table

HEAD = f"""\
# Evidence: what a trial leaves

A trial, on whichever stage it plays, leaves a folder from which an audit can tell what became of every
promise. The simulator, a cluster of real processes and a foreign Kafka fill the same tables. This page
describes schema {SCHEMA_VERSION}.

## The folder

| | |
|---|---|
| `trial.json` | what was tried, with which seed and settings; how it ended; what is missing, and why |
| `ledger/` `reads/` `client_events/` `events/` `faults/` `replicas/` `records/` | the tables below |
| `cluster/broker-N/` | the replica logs, in Kafka's own format (not of the simulator or a foreign Kafka) |
| `logs/` | what brokers and clients said |
| `journal/` | only while the trial runs, or after it was killed: what is not in the tables yet |

A Parquet file appears under its name when it is complete, so the tables can be read while they grow; one that
is missing altogether is an empty table. `spark.read.parquet("DIR/ledger")` and `pyarrow.dataset` read them
as they are.

`state` in `trial.json` is `running`, `complete`, `interrupted` (by Ctrl-C: healed, drained and collected all
the same), `failed` or `recovered`. If the process of the trial was killed, nothing that was written down is
lost: `tidelog evidence recover DIR` turns the journals into tables.

## How it is written

- **Intent comes first.** A send is in the ledger before the client library gets it. If the producer's process
  dies at any moment, each send that may have reached a broker has a row; its outcome is `unknown`.
- The journal behind `ledger` and `reads` is a memory-mapped file of fixed-size rows (`*.slots`), so a row is
  safe from the death of its process as soon as it is stored, without any flush, for about 2 µs a send.
- A journal of 65,536 rows becomes a Parquet file when it is full and all its sends are settled. Memory does
  not grow with the length of the trial.
- A full disk ends the trial with one line; what was written until then stays.

## Clocks

Times of clients (`_us`: ledger, reads, client events, faults) are by the clock of the machine of the load;
times of events (`time_ms`) by that of the broker that recorded them. They may differ, and an audit estimates
by how much. Moves of a partition's high watermark within a quarter of a second are one event, with the time
of the last of them: a record may have been committed that much earlier.

## The three outcomes

`ok`: the broker acknowledged the record as `acks` asks (with `acks=0` no broker answers: `ok` only
says that it was sent). `failed`: it is certain that it was not written. `unknown`: it may have been. Unknown
sends are neither lost when they are absent nor phantoms when they are there.

A client library reports the last error of a send, so an error is certain only if it would have met every
attempt alike: the record is too large, its timestamp is refused and the like (see
`tidelog.trials.load.librdkafka`), or the library did not take it at all. `NOT_LEADER_OR_FOLLOWER` is not
certain, because a leader may be deposed while the record waits for its followers; librdkafka then tries again
by itself, even without retries, so `NOT_ENOUGH_REPLICAS` is not certain either. Time-outs never are.

## Transactions

Sends of one transaction have its name in `transaction`, and one outcome, that of the transaction: `ok` if it
committed, `failed` if it aborted, `unknown` if no answer arrived. A read has the name of the transaction that
commits its position. Trials of tidelog's own use no transactions; histories that were imported do. Files of
tables that were written before there was such a column are read as if it were null.

## Imported histories

`tidelog evidence import-jepsen HISTORY DIR` makes a folder of a history of Jepsen's Kafka workload (see the
[guide](../guide/audit.md#jepsen-histories)). Such a history has no final read of everything. Its
`final_reader`, `everyone`, is derived: what the processes polled, each offset once, with the latest value.
`reads_to_end` in `trial.json` is false then: records that were acknowledged behind the last offset may exist.
`starts` and `ends` of a topic give the range of offsets that is known of each partition.

## Imported log folders

`tidelog evidence import-kafka DIR…` makes a folder of the log folders of Apache Kafka brokers (see the
[guide](../guide/your_kafka.md)). `keeps_ledger` in `trial.json` is false then: there are no sends and no
reads, and what depends on them is not judged.

- **Segment files** are in `cluster/broker-N/TOPIC-PARTITION/`: closed ones as symbolic links (`--segments
  link`: hard links, `copy`: copies), the last of each partition as a copy. Indexes, `.snapshot`, `.txnindex`,
  checkpoints and `meta.properties` are copied beside them; of a broker with several disks, to `disk-1`, ….
- **Checkpoints** of a broker fill columns of `replicas`: `high_watermark` (replication-offset-checkpoint),
  `recovery_point`, `log_start_offset`, `epochs` and `epoch_starts` (leader-epoch-checkpoint).
- **`__cluster_metadata-0`** (KRaft), the longest of its copies, fills `events` (`partition_state_written`,
  `became_leader`), the settings of topics, and leader and ISR in `replicas`.
- **server.log, controller.log, state-change.log** give the same where there is no metadata log, and
  `truncated` events.
- **Producer snapshots, transactional batches, their markers and `__transaction_state`** fill `transactions`.

`time_ms` of an event is the time of the metadata record, or of the line. `broker` of a state is the
controller or leader that wrote it; -1: unknown. A leader of which no log file tells begins its epoch where
the leader-epoch checkpoint says. While an import is under way, `journal/import.jsonl` lists the replicas
that are done; a second import with the same folders goes on behind them.

<!-- Written by docs/reference/make_evidence.py. -->
"""


def section(table: Table) -> str:
    rows = [f"| `{column.name}` | {column.type} | {column.doc} |\n" for column in table.columns]
    lines = [f"## `{table.name}`\n\n{table.doc}"]
    if table.identity:
        lines.append(f" No two rows have the same {', '.join(f'`{name}`' for name in table.identity)}.")
    lines.append("\n\n| column | type | |\n|---|---|---|\n")
    return "".join([*lines, *rows])


def page() -> str:
    return "\n".join([HEAD, *map(section, TABLES)])


if __name__ == "__main__":
    print(page(), end="")
