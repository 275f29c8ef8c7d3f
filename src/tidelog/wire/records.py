"""Record batches and the records in them: the door to the four modules that own them.

`batch` is all a broker needs; `record_reader`, `record_builder` and `compression` are for those who look
inside or make batches of their own.
"""

from tidelog.wire.batch import HEADER_SIZE, MAGIC, CorruptBatch, RecordBatch, TimestampType, split
from tidelog.wire.compression import Compression, compress, decompress
from tidelog.wire.record_builder import build_batch, leader_change_batch
from tidelog.wire.record_reader import Header, Record, read_records

__all__ = [
    "HEADER_SIZE",
    "MAGIC",
    "Compression",
    "CorruptBatch",
    "Header",
    "Record",
    "RecordBatch",
    "TimestampType",
    "build_batch",
    "compress",
    "decompress",
    "leader_change_batch",
    "read_records",
    "split",
]
