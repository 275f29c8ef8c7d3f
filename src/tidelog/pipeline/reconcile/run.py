"""The continuity proof from beginning to end: topic, table, what else is known, verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.narrate.phrasebook import Phrase
from tidelog.pipeline.audit.engines import OnSpark
from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.pipeline.reconcile import state as states
from tidelog.pipeline.reconcile.bits import OffsetSet
from tidelog.pipeline.reconcile.checkpoint import QueryProgress, read_checkpoint, read_connect_offsets
from tidelog.pipeline.reconcile.compare import Known, compare
from tidelog.pipeline.reconcile.keys import LastRecords, last_records
from tidelog.pipeline.reconcile.result import Continuity
from tidelog.pipeline.reconcile.table_side import (
    Columns,
    PartitionRows,
    TableRows,
    check_columns,
    chosen,
    fold,
)
from tidelog.pipeline.reconcile.topic import PartitionLog, TopicLog
from tidelog.pipeline.reconcile.topic_files import read_logs
from tidelog.pipeline.reconcile.topic_live import look_at, read_topic
from tidelog.pipeline.sources.finding import find_segments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.pipeline.reconcile.values import Compared

FORMATS: Final = ("parquet", "delta", "iceberg")
_VERSION_OPTIONS: Final = {"delta": "versionAsOf", "iceberg": "snapshot-id"}
_CORES: Final = 8
"""Where Spark does not say how many it has."""

Watch = Callable[[str], object]
"""Gets what is being done."""


@dataclass(slots=True)
class Request:
    """What to compare. The topic is read from `bootstrap_servers` or from the folders `logs`."""

    topic: str
    bootstrap_servers: str | None = None
    logs: Sequence[str] = ()
    columns: Columns = field(default_factory=Columns)
    checkpoint: str | None = None
    connect_offsets: str | None = None
    state: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def check(self) -> None:
        """Raises `PipelineError`."""
        if self.columns.key and self.state:
            raise PipelineError("choose one of --state and a key: the last record of a key may be an old one")
        if bool(self.bootstrap_servers) == bool(self.logs):
            raise PipelineError("name the topic's source: --bootstrap-servers, or --logs with log folders")
        if self.checkpoint and self.connect_offsets:
            raise PipelineError("choose one of the query's checkpoint and Connect's offsets")
        if self.state and not (self.since_ms is None and self.until_ms is None):
            raise PipelineError("choose one of --state and --since/--until: a state follows the topic itself")
        if self.since_ms is not None and self.until_ms is not None and self.since_ms >= self.until_ms:
            raise PipelineError("--since must be before --until")


def ready(request: Request, format_: str) -> None:
    """Raises `PipelineError` if the proof cannot succeed, as far as that shows without Spark."""
    request.check()
    if format_ not in FORMATS:
        raise PipelineError(f"{format_} is no format of a table: give one of {', '.join(FORMATS)}")
    for path in request.logs:
        find_segments(path)
    if request.bootstrap_servers:
        look_at(request.bootstrap_servers, request.topic)
    if request.state is not None:
        states.load(request.state, request.topic)
        states.check_folder(request.state)
    _progress(request)


def open_version(spark: SparkSession, version: str, path: str, format_: str) -> DataFrame:
    """An earlier version of a table: one that its format keeps, by number, or a copy of it. Raises
    `PipelineError` with one line."""
    option = _VERSION_OPTIONS.get(format_)
    if option is None or not version.isdecimal():
        return open_table(spark, version, format_)
    return open_table(spark, path, format_, {option: version})


def open_table(
    spark: SparkSession, path: str, format_: str, options: Mapping[str, str] = MappingProxyType({})
) -> DataFrame:
    """Raises `PipelineError` with one line."""
    if format_ not in FORMATS:
        raise PipelineError(f"{format_} is no format of a table: give one of {', '.join(FORMATS)}")
    try:
        table = spark.read.format(format_).options(**options).load(path)
        table.schema  # noqa: B018  # a server of Spark Connect looks at the table only now
    except Exception as error:  # Spark's errors share no class: Java's, py4j's, gRPC's and its own
        said = first_line(error)
        if "DATA_SOURCE_NOT_FOUND" in str(error):
            said = f"this Spark has no {format_}; start it with the package of {format_}"
        elif "PATH_NOT_FOUND" in str(error):
            said = "there is nothing"
        version = "".join(f", {name} {value}," for name, value in options.items())
        raise PipelineError(f"{path}{version} cannot be read as {format_}: {said}") from None
    return table


def prove(
    spark: SparkSession,
    table: DataFrame,
    request: Request,
    history: Sequence[DataFrame] = (),
    watch: Watch = lambda words: None,
) -> Continuity:
    """`history` are earlier versions of the table. Raises `PipelineError` if anything that is needed cannot
    be read."""
    request.check()
    known = (
        states.State(request.topic) if request.state is None else states.load(request.state, request.topic)
    )
    progress = _progress(request)
    for each in (table, *history):
        check_columns(each, request.columns)
    watch("reading the topic")
    topic = _topic(OnSpark(spark), request, known)
    log, judged, created_anew = topic
    keys = _keys(spark, request, log, progress, watch)
    watch("reading the table")
    try:
        rows = _placed(table, request, topic, keys)
        found = fold(rows, _cores(spark))
        earlier = [fold(_placed(each, request, topic, keys), _cores(spark)) for each in history]
        watch("comparing")
        recreated = _recreated(log, created_anew=topic.recreated, progress=progress)
        values = _values(spark, rows, request, log, recreated)
    finally:
        if keys is not None:
            keys.release()
    results = []
    for number, part in sorted(log.partitions.items()):
        own = found.partitions.get(number, PartitionRows())
        facts = _known(number, known, progress, created_anew, earlier)
        if keys is not None:
            # What the topic has no more has no key: nothing says whether it was skipped.
            facts = replace(facts, batches=(), keys=keys.facts[number])
        different = values[number].different if number in values else OffsetSet()
        if number in values and number in recreated:
            own, different = values[number].of_this_topic(own, part), OffsetSet()
        results.append(compare(part, own, facts, different, _window(part, request)))
        if number in recreated and number in values:
            results[-1].earlier_rows = len(values[number].different)
    result = Continuity(spark, request.topic, log.source, results, _rows(found), found.nowhere)
    result.by_key = keys is not None
    if keys is not None and any(part.log_start for part in log.partitions.values()):
        result.unknown_keys, result.nowhere = result.nowhere, 0
    result.earlier_accused = known.accused
    result.problems = [f"{log.topic}-{n}: {words}" for n, p in log.partitions.items() for words in p.problems]
    result.not_checked = _not_checked(result, log, found, request, judged)
    if recreated and request.columns.value is None:
        result.not_checked.append(Phrase("table.rows_of_earlier_topic"))
    if request.state is not None:
        _remember(request.state, known, log, result)
    return result


def _keys(
    spark: SparkSession, request: Request, log: TopicLog, progress: QueryProgress | None, watch: Watch
) -> LastRecords | None:
    """None: rows have offsets."""
    if request.columns.key is None:
        return None
    watch("looking for the last record of each key")
    ends = {} if progress is None else progress.ends
    return last_records(spark, request.bootstrap_servers, log, ends, _cores(spark))


def _placed(table: DataFrame, request: Request, topic: _Topic, keys: LastRecords | None) -> DataFrame:
    """The rows of the topic with partition, offset and, if it is compared, value."""
    if keys is None:
        return chosen(table, request.columns, request.topic, topic.judged)
    return keys.place(table, request.columns, request.topic)


def _progress(request: Request) -> QueryProgress | None:
    if request.checkpoint:
        return read_checkpoint(request.checkpoint, request.topic)
    if request.connect_offsets:
        return read_connect_offsets(request.connect_offsets, request.topic)
    return None


class _Topic(NamedTuple):
    """The topic, from which offset on each of its partitions is judged, and whether it was created anew."""

    log: TopicLog
    judged: Mapping[int, int]
    recreated: bool


def _topic(engine: OnSpark, request: Request, known: states.State) -> _Topic:
    log = _read(engine, request, known.judged)
    recreated = None not in (known.topic_id, log.topic_id) and known.topic_id != log.topic_id
    if recreated:
        return _Topic(_read(engine, request, {}), {}, True)
    judged = dict(known.judged)
    for number, part in log.partitions.items():
        if part.end < judged.get(number, 0):  # truncated: what earlier runs judged is no more
            judged[number] = part.first = part.end
    return _Topic(log, judged, False)


def _read(engine: OnSpark, request: Request, judged: Mapping[int, int]) -> TopicLog:
    asked = [ms for ms in (request.since_ms, request.until_ms) if ms is not None]
    if request.bootstrap_servers:
        return read_topic(engine, request.bootstrap_servers, request.topic, judged, asked)
    return read_logs(engine, list(request.logs), request.topic, judged, asked)


def _window(log: PartitionLog, request: Request) -> range | None:
    """The offsets between two times; what has left the topic has no time."""
    if request.since_ms is None and request.until_ms is None:
        return None
    reached = [log.end if offset is None else offset for offset in log.reached or [None, None]]
    start = 0 if request.since_ms is None else reached[0]
    return range(start, log.end if request.until_ms is None else max(start, reached[-1]))


def _cores(spark: SparkSession) -> int:
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect does not say
        return _CORES


def _recreated(log: TopicLog, *, created_anew: bool, progress: QueryProgress | None) -> set[int]:
    """Partitions whose topic is known to have been deleted and created again."""
    noticed = set() if progress is None else progress.went_back.keys()
    return {number for number in log.partitions if created_anew or number in noticed}


def _values(
    spark: SparkSession, rows: DataFrame, request: Request, log: TopicLog, recreated: set[int]
) -> dict[int, Compared]:
    if request.columns.value is None:
        return {}
    from tidelog.pipeline.reconcile.values import compared

    return compared(spark, rows, request.bootstrap_servers, log, recreated)


def _known(
    number: int,
    known: states.State,
    progress: QueryProgress | None,
    recreated: bool,
    earlier: Sequence[TableRows],
) -> Known:
    removed = OffsetSet()
    for version in earlier:
        if number in version.partitions:
            removed.unite(version.partitions[number].seen)
    query = QueryProgress() if progress is None else progress
    end, went_back = query.ends.get(number), query.went_back.get(number)
    ends = [each for each in (known.ends.get(number), end, went_back) if each is not None]
    return Known(
        query_start=query.starts.get(number),
        query_end=end,
        batches=tuple(query.batches.get(number, ())),
        seen_end=max(ends, default=None),
        recreated=recreated or went_back is not None,
        jumped=query.jumped.get(number, 0),
        removed=removed,
    )


def _rows(found: TableRows) -> int:
    return found.nowhere + sum(own.rows for own in found.partitions.values())


def _not_checked(
    result: Continuity, log: TopicLog, found: TableRows, request: Request, judged: Mapping[int, int]
) -> list[Phrase]:
    said = []
    foreign = sorted(set(found.partitions) - set(log.partitions))
    if foreign:
        said.append(Phrase.of("table.foreign_partitions", partitions=", ".join(map(str, foreign))))
    if request.columns.value is None:
        said.append(Phrase("table.no_values"))
    if not request.checkpoint and not request.connect_offsets:
        said.append(Phrase("table.no_checkpoint"))
    if result.unknown_keys:
        said.append(Phrase.of("table.unknown_keys", count=result.unknown_keys))
    if judged:
        said.append(Phrase("table.added_below"))
    if uncertain := sum(each.uncertain for each in result.partitions):
        said.append(Phrase.of("table.uncertain", count=uncertain))
    return said


def _remember(folder: str, known: states.State, log: TopicLog, result: Continuity) -> None:
    judged = {each.partition: each.settled for each in result.partitions}
    ends = {number: part.end for number, part in log.partitions.items()}
    accused = known.accused + result.accused
    states.save(folder, states.State(log.topic, judged, ends, log.topic_id, accused))
