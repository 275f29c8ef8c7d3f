"""All logs of a broker on disk: opened together, closed together, and the checkpoints they share.

Four checkpoints in the folder cover all logs: how far each is durable, where it starts, how far it was
compacted, and its high watermark. One job at a time writes them, always from the latest state, so an older
write can never replace a newer one. A deleted partition must be removed from them before one of the same name
is created; otherwise recovery would apply the old offsets to the new log.

A log that cannot be opened at the start costs its partition only (``unopened.py``): ``open`` tries again. If
none of the logs can be opened, the folder is refused.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from threading import Lock

from tidelog.core.log_port import StorageFailure
from tidelog.core.types import Millis, Offset, TopicPartition
from tidelog.settings.topic import LogConfig
from tidelog.storage.background import Background, Job, JobQueue, inline
from tidelog.storage.checkpoints import (
    CLEANED,
    HIGH_WATERMARKS,
    LOG_STARTS,
    NEVER_CLEANED,
    RECOVERY_POINTS,
    Checkpointed,
    read_offsets,
    write_offsets,
)
from tidelog.storage.compaction.scheduler import DEDUPE_BYTES, UNLIMITED, CompactionScheduler
from tidelog.storage.durable import unlink_all
from tidelog.storage.errors import StorageRefused
from tidelog.storage.log.file_log import FileLog, LogDescription
from tidelog.storage.log.missing_offsets import MissingOffsets, missing_at_the_end
from tidelog.storage.log.recovery import LogOpener, Recovered, new_log
from tidelog.storage.log.retention import retained_from
from tidelog.storage.log.tail import ALL_TAILS_BYTES, TAIL_BYTES, TailBudget
from tidelog.storage.log_folder import DELETE_SUFFIX, STRAY_SUFFIX, LogFolder
from tidelog.storage.reserves import Reserves
from tidelog.storage.resources import OPEN_SEGMENTS_MAX, OpenFiles, Shared
from tidelog.storage.unopened import CANNOT_OPEN, UnopenedLog

PRODUCER_EXPIRATION_MS: Millis = 86_400_000
SYNC_THREADS = 8
"""A file system merges concurrent syncs: with 8 threads they take a quarter of the time of 1."""


def wall_clock() -> Millis:
    return time.time_ns() // 1_000_000


class FileStorage:
    def __init__(
        self,
        folder: Path,
        *,
        broker_id: int,
        cluster_id: str | None = None,
        defaults: Mapping[str, str] | None = None,
        background: Background = inline,
        clock: Callable[[], Millis] = wall_clock,
        verify_epochs: bool = True,
        tail_bytes: int = TAIL_BYTES,
        all_tails_bytes: int = ALL_TAILS_BYTES,
        open_segments_max: int = OPEN_SEGMENTS_MAX,
        producer_expiration_ms: Millis = PRODUCER_EXPIRATION_MS,
        dedupe_bytes: int = DEDUPE_BYTES,
        cleaner_bytes_per_second: float = UNLIMITED,
    ) -> None:
        """Open the folder and every log in it. After ``StorageRefused`` no lock or file is held."""
        self.trouble = ""
        """The last error in the background, for the broker to log."""
        self.recovered: list[Recovered] = []
        """What recovery found when the logs were opened."""
        self._default_config = LogConfig.from_properties(defaults or {})
        self._configs: dict[str, LogConfig] = {}
        self._shared = Shared(
            broker_id=broker_id,
            clock=clock,
            background=background,
            epochs=JobQueue(background, self._failed),
            verify_epochs=verify_epochs,
            tail_bytes=tail_bytes,
            tails=TailBudget(all_tails_bytes),
            open_files=OpenFiles(open_segments_max, Reserves()),
            checkpoint_soon=self.write_checkpoints,
            checkpoint_now=self._checkpoint_now,
            after_checkpoint=self._after_checkpoint,
            report=self._report,
        )
        self._producer_expiration_ms = producer_expiration_ms
        self._jobs = JobQueue(background, self._failed)
        self._sync_threads = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="sync")
        self._logs: dict[TopicPartition, FileLog] = {}
        self._unopened: dict[TopicPartition, UnopenedLog] = {}
        self._high_watermarks: dict[TopicPartition, Offset] = {}
        self._gone: set[TopicPartition] = set()
        """Deleted partitions that may still be in the checkpoints."""
        self._half_made: set[TopicPartition] = set()
        """Partitions that could not be created. If the folder could not be removed either, the next attempt
        does it."""
        self._offsets_due = self._high_watermarks_due = False
        self._cleaned_written: dict[TopicPartition, Offset] | None = None
        """The content of the file; None if a write has failed."""
        self._writing = Lock()
        self._closed = False
        """Another process may use the folder now, so a late thread must not write to it."""
        self._unsynced_since: dict[FileLog, Millis] = {}
        self._compaction = CompactionScheduler(
            self._logs,
            self._write_offsets,
            self._report,
            dedupe_bytes=dedupe_bytes,
            bytes_per_second=cleaner_bytes_per_second,
        )
        self._folder = LogFolder(folder, broker_id)
        self._open_or_let_go(cluster_id)

    def _open_or_let_go(self, cluster_id: str | None) -> None:
        try:
            if cluster_id is not None:
                self.claim(cluster_id)
            self._open_all()
        except OSError as error:
            self._let_go()
            where = error.filename or self._folder.path
            raise StorageRefused(f"cannot open the logs in {where}: {error.strerror or error}") from None
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        with self._writing:
            self._closed = True
        self._shared.epochs.finish()
        for log in self._logs.values():
            log.release()
        self._logs.clear()
        self._sync_threads.shutdown()
        self._folder.release()

    def claim(self, cluster_id: str) -> None:
        """Record that the logs belong to this cluster. ``StorageRefused`` if they belong to another."""
        self._folder.claim(cluster_id)

    # ------------------------------------------------------------ logs

    def _open_all(self) -> None:
        checkpointed, taken_out = self._read_checkpoints(), list[Path]()
        self.clean_shutdown = self._folder.was_left_cleanly()
        self.broker_epoch = self._folder.epoch_of_clean_shutdown()
        for tp, folder in self._folder.logs():
            known = checkpointed.pop(tp, Checkpointed())
            try:
                taken_out += self._open_log(tp, folder, known, clean=self.clean_shutdown)
            except CANNOT_OPEN as error:
                self._unopened[tp] = UnopenedLog(folder, known, error)
        if self._unopened and not self._logs:
            raise StorageRefused(next(iter(self._unopened.values())).reason)
        for tp, gone in checkpointed.items():
            # Removed by hand, or deleted just before a kill. A new log must not get these offsets.
            self._gone.add(tp)
            self._high_watermarks.pop(tp, None)
            if self.clean_shutdown:
                self._found(tp, gone.start_offset, 0, missing_at_the_end(gone, gone.start_offset), ())
        self._folder.remove_clean_mark()
        if taken_out or self.recovered:
            self._after_checkpoint(lambda: unlink_all(taken_out))

    def _open_log(self, tp: TopicPartition, folder: Path, known: Checkpointed, *, clean: bool) -> list[Path]:
        """Returns the files to remove once the checkpoints are written."""
        opened = LogOpener(folder, self._config(tp), self._shared, known).open(clean=clean)
        try:
            self._logs[tp] = FileLog(tp, folder, opened, self._config(tp), self._shared)
        except BaseException:
            for segment in opened.segments:
                segment.close()
            raise
        self._found(tp, opened.end_offset, opened.truncated_bytes, opened.missing, opened.findings)
        if tp in self._high_watermarks:
            # Lowered, so that the next start does not report the same loss again.
            self._high_watermarks[tp] = min(self._high_watermarks[tp], opened.end_offset)
        return opened.taken_out

    def _open_again(self, tp: TopicPartition, unopened: UnopenedLog) -> None:
        """The first attempt may have changed files, so the log is scanned."""
        try:
            taken_out = self._open_log(tp, unopened.folder, unopened.checkpointed, clean=False)
        except CANNOT_OPEN as error:
            raise StorageFailure(replace(unopened, error=error).reason) from None
        del self._unopened[tp]
        self._after_checkpoint(lambda: unlink_all(taken_out))

    def _read_checkpoints(self) -> dict[TopicPartition, Checkpointed]:
        path = self._folder.path
        recovery_points, starts = read_offsets(path / RECOVERY_POINTS), read_offsets(path / LOG_STARTS)
        cleaned, watermarks = read_offsets(path / CLEANED), read_offsets(path / HIGH_WATERMARKS)
        self._cleaned_written = cleaned
        self._high_watermarks = watermarks
        return {
            tp: Checkpointed(
                recovery_points.get(tp, 0),
                starts.get(tp, 0),
                watermarks.get(tp, 0),
                cleaned.get(tp, NEVER_CLEANED),
            )
            for tp in {**recovery_points, **starts, **cleaned, **watermarks}
        }

    def _found(
        self,
        tp: TopicPartition,
        end_offset: Offset,
        truncated_bytes: int,
        missing: Sequence[MissingOffsets],
        findings: Sequence[str],
    ) -> None:
        if missing or findings:
            finding = "; ".join([*findings, *map(str, missing)])
            self.recovered.append(Recovered(tp, end_offset, truncated_bytes, tuple(missing), finding))

    def _config(self, tp: TopicPartition) -> LogConfig:
        return self._configs.get(tp.topic, self._default_config)

    def configure(self, topic: str, config: LogConfig) -> None:
        """Set the configuration of a topic, for its existing and future logs."""
        if config == self._default_config:
            self._configs.pop(topic, None)
        else:
            self._configs[topic] = config
        for tp, log in self._logs.items():
            if tp.topic == topic:
                log.configure(config)

    def open(self, tp: TopicPartition) -> FileLog:
        if tp not in self._logs:
            if tp in self._unopened:
                self._open_again(tp, self._unopened[tp])
            else:
                self._logs[tp] = self._create(tp)
        return self._logs[tp]

    def _create(self, tp: TopicPartition) -> FileLog:
        """Create the log, or nothing: the remains of a failed attempt would block the next one."""
        if tp in self._gone:
            self._checkpoint_now()
        try:
            folder = self._folder.path_of(tp)
            if tp in self._half_made:
                shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        except ValueError as error:
            raise StorageFailure(str(error)) from None
        except FileExistsError:
            raise StorageFailure(f"cannot create {folder}: something has its name; move it away") from None
        except OSError as error:
            raise _not_created(folder, error) from None
        try:
            opened = new_log(folder, self._config(tp), self._shared)
        except OSError as error:
            self._half_made.add(tp)
            shutil.rmtree(folder, ignore_errors=True)
            raise _not_created(folder, error) from None
        self._half_made.discard(tp)
        return FileLog(tp, folder, opened, self._config(tp), self._shared)

    def partitions(self) -> Sequence[TopicPartition]:
        """Those that could not be opened too: they can be deleted."""
        return (*self._logs, *self._unopened)

    def describe(self) -> list[LogDescription]:
        return [log.describe() for log in self._logs.values()]

    def delete(self, tp: TopicPartition) -> None:
        """Renaming the folder deletes the log. If the disk refuses the rename, nothing has changed."""
        renamed = self._take_out(tp, DELETE_SUFFIX)
        if renamed is not None:
            self._jobs.submit(lambda: shutil.rmtree(renamed, ignore_errors=True))

    def set_aside(self, tp: TopicPartition) -> None:
        self._take_out(tp, STRAY_SUFFIX)

    def _take_out(self, tp: TopicPartition, suffix: str) -> Path | None:
        log = self._logs.get(tp) or self._unopened.get(tp)
        if log is None:
            self._high_watermarks.pop(tp, None)
            return None
        renamed = self._renamed(log.folder, suffix)
        self._high_watermarks.pop(tp, None)
        self._gone.add(tp)
        if isinstance(log, FileLog):
            del self._logs[tp]
            self._unsynced_since.pop(log, None)
            log.abandon()
        else:
            del self._unopened[tp]
        self._jobs.submit(self._write_offsets)
        self._jobs.submit(self._write_high_watermarks)
        return renamed

    def _renamed(self, folder: Path, suffix: str) -> Path | None:
        """The renamed folder; None if the folder was removed by hand."""
        try:
            return self._folder.take_out(folder, suffix)
        except FileNotFoundError:
            return None
        except OSError as error:
            what = "delete" if suffix == DELETE_SUFFIX else "put aside"
            raise StorageFailure(f"cannot {what} {folder}: {error.strerror or error}") from None

    # ------------------------------------------------------------ checkpoints

    def checkpointed_high_watermark(self, tp: TopicPartition) -> Offset:
        return self._high_watermarks.get(tp, 0)

    def checkpoint_high_watermarks(self, offsets: dict[TopicPartition, Offset]) -> None:
        self._high_watermarks.update(offsets)
        if not self._high_watermarks_due:
            self._high_watermarks_due = True
            self._jobs.submit(self._write_high_watermarks)

    def write_checkpoints(self) -> None:
        """Schedule a write of the recovery points, log starts and compacted offsets."""
        if not self._offsets_due:
            self._offsets_due = True
            self._jobs.submit(self._write_offsets)

    def _after_checkpoint(self, job: Job) -> None:
        self.write_checkpoints()
        self._jobs.submit(job)

    def _checkpoint_now(self) -> None:
        try:
            self._write_offsets()
            self._write_high_watermarks()
        except OSError as error:
            raise StorageFailure(f"cannot write checkpoints: {error.strerror or error}") from None

    def _write_offsets(self) -> None:
        with self._writing:
            self._offsets_due = False
            if self._closed:
                return
            gone = frozenset(self._gone)
            # In this order: one that is opened meanwhile is in one of them at least.
            unopened = {tp: log.checkpointed for tp, log in self._unopened.copy().items()}
            logs = unopened | self._logs.copy()
            path = self._folder.path
            write_offsets(path / RECOVERY_POINTS, {tp: log.recovery_point for tp, log in logs.items()})
            starts = {tp: log.start_offset for tp, log in logs.items() if log.start_offset}
            write_offsets(path / LOG_STARTS, starts)
            cleaned = {tp: log.cleaned_to for tp, log in logs.items() if log.cleaned_to != NEVER_CLEANED}
            if cleaned != self._cleaned_written:
                self._cleaned_written = None
                write_offsets(path / CLEANED, cleaned)
                self._cleaned_written = cleaned
            self._gone -= gone

    def _write_high_watermarks(self) -> None:
        with self._writing:
            self._high_watermarks_due = False
            if not self._closed:
                write_offsets(self._folder.path / HIGH_WATERMARKS, self._high_watermarks.copy())

    def _failed(self, error: OSError) -> None:
        self._report(f"{error.filename or self._folder.path}: {error.strerror or error}")

    def _report(self, trouble: str) -> None:
        self.trouble = trouble

    # ------------------------------------------------------------ syncs

    @property
    def any_failed(self) -> bool:
        """Whether a log has failed: nothing can be written to it until the broker is started again."""
        return self._shared.any_failed

    def dirty(self) -> bool:
        """Whether a log with ``flush=always`` has appends that no sync covers: then the broker must not
        acknowledge yet."""
        return bool(self._shared.dirty)

    def begin_sync(self) -> Callable[[], None]:
        """Returns a function that syncs all those appends. It blocks, may run in any thread, must be called,
        and raises ``StorageFailure`` if the sync fails."""
        logs = list(self._shared.dirty)
        self._shared.dirty.clear()
        return self._together(logs)

    def sync_due(self, now_ms: Millis) -> Callable[[], None] | None:
        """The same for logs with ``flush=interval`` that are due; None if there are none."""
        due = []
        for log in self._shared.flushed_by_interval:
            waiting = log.end_offset - log.recovery_point
            if waiting > 0:
                since = self._unsynced_since.setdefault(log, now_ms)
                if now_ms - since >= log.config.flush_ms or waiting >= log.config.flush_messages:
                    del self._unsynced_since[log]
                    due.append(log)
        return self._together(due) if due else None

    def _together(self, logs: Sequence[FileLog]) -> Callable[[], None]:
        calls = [log.begin_sync() for log in logs]
        return lambda: self._run_all(calls)

    def _run_all(self, calls: Sequence[Callable[[], None]]) -> None:
        """Run blocking calls in parallel. If one fails, the others still run; then raise the first
        failure."""
        started = [self._sync_threads.submit(call) for call in calls[1:]]
        try:
            for call in calls[:1]:
                call()
        finally:
            wait(started)
        for future in started:
            future.result()

    # ------------------------------------------------------------ retention

    def enforce_retention(
        self, now_ms: Millis, high_watermarks: Mapping[TopicPartition, Offset]
    ) -> dict[TopicPartition, Offset]:
        """The new start offset of each log that retention shortens. The caller passes them through the core
        to ``advance_start``, which deletes. Also expires idle producers."""
        starts = {}
        for tp, log in self._logs.items():
            log.expire_producers(now_ms - self._producer_expiration_ms)
            try:
                start = retained_from(log, now_ms, high_watermarks.get(tp, 0))
            except (StorageFailure, OSError) as error:
                self._report(str(error))
                continue
            if start > log.start_offset:
                starts[tp] = start
        return starts

    def next_compaction(
        self, now_ms: Millis, high_watermarks: Mapping[TopicPartition, Offset]
    ) -> Iterator[Job] | None:
        """See ``CompactionScheduler.next_compaction``."""
        return self._compaction.next_compaction(now_ms, high_watermarks)

    @property
    def last_compaction(self) -> str:
        """Message about the last compaction; empty if there was none, or if it changed nothing."""
        return self._compaction.last

    # ------------------------------------------------------------ the end

    def close(self) -> bool:
        """Make everything durable, then close the files and the lock. True on success: only then the next
        start may skip the scan."""
        self._compaction.stop()
        self._shared.epochs.finish()
        self._shared.dirty.clear()
        clean = True
        try:
            self._run_all([log.begin_close() for log in self._logs.values()])
            self._jobs.finish()
            self._checkpoint_now()
            if self._unopened:
                clean = False  # the next start must scan them
            else:
                self._folder.leave_clean_mark(self.broker_epoch)
        except (StorageFailure, OSError) as failure:
            self._report(str(failure))
            clean = False
        self._let_go()
        return clean


def _not_created(folder: Path, error: OSError) -> StorageFailure:
    return StorageFailure(f"cannot create {folder}: {error.strerror or error}")
