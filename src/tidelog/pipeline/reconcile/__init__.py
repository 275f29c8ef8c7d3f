"""Topic against table: which offsets of a topic a table holds once, twice, with other bytes, or not at all.

`facts` names what may be found. The topic's side comes from segment files (`topic_files`) or from brokers
(`topic_live`), through one kernel (`log_facts`), and is put together by `topic`. The table's side is columns
of a DataFrame (`table_side`). Both become bitmaps of `bits.STRETCH` offsets, so nothing is joined row by row:
`compare` holds one bitmap against the other, with what else is known of the partition: how far a query came
(`checkpoint`) and what it skipped (`skips`), and what earlier runs saw (`state`). Values are compared by
CRC-32 (`values`). `run` puts it all together, and `result` is what comes out.
"""
