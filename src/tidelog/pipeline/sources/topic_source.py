"""`tidelog_topic`: live topics of any Kafka-compatible cluster, as a table or as a stream.

    spark.readStream.format("tidelog_topic")
         .option("kafka.bootstrap.servers", "127.0.0.1:9092").option("subscribe", "events").load()

Options: `subscribe` (topics, by commas) or `subscribePattern`; `startingOffsets` and, for a table,
`endingOffsets`: `earliest`, `latest` or `{"topic": {"0": 17}}`; `max_rows`: how many offsets a micro-batch
takes at most; `failOnDataLoss`: `false` goes on where offsets have vanished; `recheck`: each micro-batch of a
stream reads that many offsets once more, to see whether they have changed; `kafka.…`: librdkafka's own.

Rules of the file:

* Offsets alone determine what a micro-batch reads, so it can be read again after a crash and is the same.
* Offsets without a record (compacted, or control records) are passed; a partition is done when its reader
  has come to the end, not when it has counted.
* Records that were there when the batch was planned and are gone when it is read (an unclean election does
  that) are an error, unless the query says that it does not mind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from time import monotonic
from typing import Any, Final
from zlib import crc32

import pyarrow as pa  # type: ignore[import-untyped]
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.segments import texts
from tidelog.pipeline.segments.columns import BY_NAME, arrow_schema
from tidelog.pipeline.sources.log_source import chosen_columns
from tidelog.pipeline.sources.topic_client import (
    ANSWER_WITHIN_S,
    Position,
    TopicOptions,
    Topics,
    entries,
    limited,
)

COLUMNS: Final = (
    "topic",
    "partition",
    "offset",
    "leader_epoch",
    "timestamp_ms",
    "key",
    "value",
    "headers",
    "key_text",
    "value_id",
    "value_bytes",
    "value_crc32",
)
SPARK_SCHEMA: Final = ", ".join(f"{name} {BY_NAME[name].spark}" for name in COLUMNS)
ROWS_MAX: Final = 10_000
_POLL_S: Final = 1.0
_SILENT_S: Final = 60.0
"""So long may a partition give nothing, not even its end, before its reader gives up."""


class TopicSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "tidelog_topic"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _TableReader(dict(self.options), chosen_columns(schema, self.name(), COLUMNS))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _StreamReader(dict(self.options), chosen_columns(schema, self.name(), COLUMNS))


class _Span(InputPartition):
    """Offsets of one partition, `end` exclusive; and how many of those before are read once more."""

    def __init__(self, topic: str, partition: int, start: int, end: int, recheck: int = 0) -> None:
        super().__init__(None)
        self.topic, self.partition, self.start, self.end = topic, partition, start, end
        self.recheck = recheck

    @property
    def words(self) -> str:
        return f"{self.topic}-{self.partition}, offsets {self.start} to {self.end - 1}"


def _spans(start: Position, end: Position, recheck: int = 0) -> list[InputPartition]:
    """A partition that is new in `end` is read from its first record on."""
    return [
        _Span(topic, partition, begin, offset, recheck)
        for topic, partition, offset in entries(end)
        if (begin := start.get(topic, {}).get(str(partition), OFFSET_BEGINNING)) < offset and offset > 0
    ]


class _Readers:
    """What both readers are: options, columns, and the reading of a span in a worker."""

    def __init__(self, options: dict[str, str], columns: list[str]) -> None:
        TopicOptions(options)  # refuse bad options here, not in the first worker
        self._options = options
        self._columns = columns

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Where there is nothing to read, Spark makes up a partition of its own.
        if isinstance(partition, _Span):
            yield from read_span(TopicOptions(self._options), partition, self._columns)


class _TableReader(_Readers, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        options = TopicOptions(self._options)
        topics = Topics(options)
        try:
            return _spans(topics.position(options.starting), topics.position(options.ending))
        finally:
            topics.close()


class _StreamReader(_Readers, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: dict[str, str], columns: list[str]) -> None:
        super().__init__(options, columns)
        self._topics: Topics | None = None
        self._last: Position | None = None
        """Where a query that takes what there is now, and no more, will stop."""

    def __getstate__(self) -> dict[str, Any]:
        """Without the connection: workers open their own."""
        return self.__dict__ | {"_topics": None}

    def _cluster(self) -> Topics:
        if self._topics is None:
            self._topics = Topics(TopicOptions(self._options))
        return self._topics

    def initialOffset(self) -> Position:
        return self._cluster().position(TopicOptions(self._options).starting)

    def getDefaultReadLimit(self) -> ReadLimit:
        rows_max = TopicOptions(self._options).max_rows
        return ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._cluster().position("latest")

    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:
        latest = deepcopy(self._last) if self._last is not None else self._cluster().position("latest")
        first: Position | None = None
        for topic, partition, offset in entries(latest):
            before = start.get(topic, {}).get(str(partition))
            if before is None:
                first = first or self._cluster().position("earliest")
                before = first[topic][str(partition)]
                start = start | {topic: start.get(topic, {}) | {str(partition): before}}
            # A high watermark that went back is found out by the reader; a position never does.
            latest[topic][str(partition)] = max(before, offset)
        return limited(start, latest, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def partitions(self, start: Position, end: Position) -> Sequence[InputPartition]:
        return _spans(start, end, TopicOptions(self._options).recheck)

    def stop(self) -> None:
        if self._topics is not None:
            self._topics.close()
            self._topics = None


# ---------------------------------------------------------------- reading


def read_span(options: TopicOptions, span: _Span, columns: Sequence[str]) -> Iterator[Any]:
    """The records of a span, in Arrow batches."""
    consumer = options.consumer()
    try:
        consumer.assign([TopicPartition(span.topic, span.partition, _begin(consumer, span))])
        for messages in _messages(consumer, span, options):
            yield _rows(messages, columns)
    finally:
        consumer.close()


def _begin(consumer: Consumer, span: _Span) -> int:
    """The start, or as far before it as shall be read once more and is still there."""
    if not span.recheck or span.start <= 0:
        return span.start
    place = TopicPartition(span.topic, span.partition)
    known: tuple[int, int] | None = consumer.get_watermark_offsets(place, timeout=ANSWER_WITHIN_S)
    return span.start if known is None else min(span.start, max(known[0], span.start - span.recheck))


def _messages(consumer: Consumer, span: _Span, options: TopicOptions) -> Iterator[list[Message]]:
    silent_since = monotonic()
    while True:
        messages: list[Message] = []
        ended = False
        for message in consumer.consume(ROWS_MAX, _POLL_S):
            error, offset = message.error(), message.offset() or 0
            if error is None and offset < span.end:
                messages.append(message)
                ended |= offset == span.end - 1
            elif error is None:
                ended = True
            elif error.code() == KafkaError._PARTITION_EOF:
                ended |= options.tolerant or offset >= span.end
            elif not error.retriable() or error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise (
                    _gone(span)
                    if error.code() in _VANISHED
                    else PipelineError(f"{span.words}: {error.str()}")
                )
        if messages:
            silent_since = monotonic()
            yield messages
        if ended:
            return
        if monotonic() - silent_since > _SILENT_S:
            raise _gone(span)


_VANISHED: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def _gone(span: _Span) -> PipelineError:
    return PipelineError(
        f"{span.words}: records are gone or cannot be had; failOnDataLoss=false reads what there is"
    )


def _rows(messages: list[Message], columns: Sequence[str]) -> Any:
    schema = arrow_schema(columns)
    arrays = [pa.array([_CELLS[field.name](m) for m in messages], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _timestamp(message: Message) -> int | None:
    kind, time_ms = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else int(time_ms)


def _headers(message: Message) -> list[dict[str, Any]]:
    found: Any = message.headers() or ()
    return [{"key": name, "value": content} for name, content in found]


def _value_size(message: Message) -> int | None:
    value = message.value()
    return None if value is None else len(value)


def _value_crc(message: Message) -> int | None:
    value = message.value()
    return None if value is None else crc32(value)


_CELLS: Final[dict[str, Any]] = {
    "topic": lambda m: m.topic(),
    "partition": lambda m: m.partition(),
    "offset": lambda m: m.offset(),
    "leader_epoch": lambda m: m.leader_epoch(),
    "timestamp_ms": _timestamp,
    "key": lambda m: m.key(),
    "value": lambda m: m.value(),
    "headers": _headers,
    "key_text": lambda m: texts.key_text(m.key()),
    "value_id": lambda m: texts.id_text(m.value()),
    "value_bytes": _value_size,
    "value_crc32": _value_crc,
}
