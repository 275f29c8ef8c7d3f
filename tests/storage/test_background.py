"""Jobs of one owner: in order, one at a time, none lost, whatever threads there are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tidelog.storage.background import JobQueue, inline


def test_jobs_run_in_order_and_one_at_a_time() -> None:
    """With more threads than jobs, all submitting and running at once."""
    done: list[int] = []
    busy = threading.Lock()

    def job(n: int) -> Callable[[], None]:
        def run() -> None:
            assert busy.acquire(blocking=False), "two jobs at once"
            done.append(n)
            busy.release()

        return run

    with ThreadPoolExecutor(8) as threads:
        queue = JobQueue(threads.submit, failed=lambda _error: None)
        for n in range(500):
            queue.submit(job(n))
        queue.finish()
        assert done == list(range(500))


def test_finish_runs_what_nobody_runs() -> None:
    """The threads may be gone already."""
    done: list[str] = []
    threads = ThreadPoolExecutor(1)
    threads.shutdown()
    queue = JobQueue(threads.submit, failed=lambda _error: None)
    queue.submit(lambda: done.append("a"))
    queue.submit(lambda: done.append("b"))
    queue.finish()
    assert done == ["a", "b"]


def test_a_failed_job_is_reported_and_the_next_one_runs() -> None:
    """One job's trouble is not another's."""
    done: list[str] = []
    failures: list[OSError] = []

    def fail() -> None:
        raise OSError("no")

    queue = JobQueue(inline, failures.append)
    queue.submit(fail)
    queue.submit(lambda: done.append("next"))
    assert done == ["next"]
    assert [str(error) for error in failures] == ["no"]


def test_a_job_may_ask_for_another() -> None:
    """It comes after, also where jobs run inline."""
    done: list[str] = []
    queue = JobQueue(inline, failed=lambda _error: None)

    def first() -> None:
        queue.submit(lambda: done.append("second"))
        done.append("first")

    queue.submit(first)
    assert done == ["first", "second"]
