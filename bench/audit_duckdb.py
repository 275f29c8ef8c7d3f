"""Six of the audits in DuckDB, each as one plain query: as one would write it by hand.

    python -m bench.audit_duckdb EVIDENCE SCRATCH

DuckDB cannot read segment files, so these are decoded into Parquet first, by tidelog's decoder and in as many
processes as the queries have threads. Prints one line of JSON like `audit_engine`. What it does not do: the
other fourteen audits, causes, damaged files, logs that do not start at 0, partitions without a leader.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import duckdb
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from bench.audit_engine import Stopwatch

from tidelog.pipeline.segments.columns import arrow_schema
from tidelog.pipeline.segments.reader import read_segment
from tidelog.pipeline.segments.rows import SegmentFile
from tidelog.pipeline.sources.finding import find_segments

CORES = 2
MEMORY = "6GB"
"""At most, on the machine for which this was written."""
COLUMNS = ("broker", "topic", "partition", "offset", "leader_epoch", "control", "value_id", "value_crc32")

VIEWS = """
create view ledger as select * from '{evidence}/ledger/*.parquet';
create view reads as select * from '{evidence}/reads/*.parquet';
create view records as
    select * rename (value_id as value) from '{scratch}/records/*.parquet';
create table ends as
    select topic, partition, broker, max(high_watermark) as "end"
    from '{evidence}/replicas/*.parquet' where leader = broker group by all;
create view final_log as
    select records.* from records join ends using (topic, partition, broker)
    where "offset" < "end" and not control;
"""

QUERIES = {
    "lost": """
        select count(*) from ledger
        anti join final_log using (topic, partition, value) where outcome = 'ok'""",
    "duplicated": """
        select count(*) from (
            select 1 from final_log group by topic, partition, value having count(*) > 1)""",
    "phantom": """
        select count(distinct (topic, partition, value)) from final_log
        anti join ledger using (topic, partition, value)""",
    "reordered": """
        with copies as (
            select topic, partition, value, min("offset") as first_offset from final_log group by all)
        select count(*) from (
            select first_offset < lag(first_offset) over (
                partition by topic, partition, producer order by sequence) as late
            from ledger join copies using (topic, partition, value) where outcome = 'ok') where late""",
    "diverged": """
        select count(*) from (
            select 1 from records group by topic, partition, "offset"
            having min(hash(leader_epoch, control, value, value_crc32))
                != max(hash(leader_epoch, control, value, value_crc32)))""",
    "rewritten": """
        select count(*) from reads join final_log using (topic, partition, "offset")
        where reads.value != final_log.value""",
}


def main(evidence: Path, scratch: Path) -> int:
    watch = Stopwatch()
    watch.phase("decoding into Parquet", None)
    (scratch / "records").mkdir(parents=True)
    segments = find_segments(evidence / "cluster")
    with ProcessPoolExecutor(CORES) as pool:
        list(pool.map(_decode, segments, [scratch / "records"] * len(segments), range(len(segments))))
    connection = duckdb.connect(
        config={"threads": CORES, "memory_limit": MEMORY, "temp_directory": str(scratch / "spilled")}
    )
    connection.execute(VIEWS.format(evidence=evidence, scratch=scratch))
    counts = {}
    for name, query in QUERIES.items():
        watch.phase(name, None)
        [(counts[name],)] = connection.execute(query).fetchall()
    watch.phase("end", None)
    print(json.dumps({"phases": watch.phases, "counts": counts}), flush=True)
    connection.close()
    return 0


def _decode(segment: SegmentFile, into: Path, number: int) -> None:
    with pq.ParquetWriter(into / f"{number}.parquet", arrow_schema(COLUMNS), compression="zstd") as writer:
        for rows in read_segment(segment, COLUMNS):
            writer.write_batch(rows)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
