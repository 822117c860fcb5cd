"""Workers side by side, with invented parts: their windows and their ends."""

from __future__ import annotations

import signal
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.drain.ledger import Part
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.worker import CancelledError, CommittedPart
from airflow_sqlqueue.drain.worker_pool import Windows, WorkerPool
from airflow_sqlqueue.errors import ConnectionLostError, DeadlockError, StagingError
from airflow_sqlqueue.options.budget import Budget
from airflow_sqlqueue.queue.window import Window


class Queue:
    """A queue as far as windows need one."""

    def __init__(self, row_versions: list[int]) -> None:
        self.row_versions = sorted(row_versions)
        self.looks = 0

    def window_end(self, rows: int, after: int, up_to: int) -> int | None:
        self.looks += 1
        found = [number for number in self.row_versions if after < number <= up_to][:rows]
        return found[-1] if found else None

    def between(self, after: int, up_to: int) -> list[int]:
        return [number for number in self.row_versions if after < number <= up_to]


class Session:
    def close(self) -> None: ...


Take = Callable[[int, int, int], "CommittedPart | None"]


class Worker:
    """Worker that takes parts of invented rows, after an action of the test."""

    def __init__(self, queue: Queue, before: Callable[[], None]) -> None:
        self.queue, self.before, self.rows_per_part, self.most_rows = queue, before, 10, 10

    def drain_part(self, window: Window, limit: int, *, max_bytes: int | None = None) -> CommittedPart | None:
        self.before()
        rows = self.queue.between(window.after, window.up_to)[:limit]
        if not rows:
            return None
        self.queue.row_versions = [number for number in self.queue.row_versions if number not in rows]
        return CommittedPart(
            Part(uuid.uuid4(), "file", messages=len(rows), min_row_version=rows[0], max_row_version=rows[-1]), False
        )


def pool_of(
    queue: Queue, before: Callable[[threading.Event], None], *, left: int | None = None, **options: Any
) -> tuple[WorkerPool, list[Part]]:
    parts: list[Part] = []

    def worker(session: Any, cancelled: threading.Event) -> Any:
        return Worker(queue, lambda: before(cancelled))

    return (
        WorkerPool(
            lambda: Session(),  # type: ignore[arg-type, return-value]
            worker,
            parts.append,
            DrainOptions(**{"rows_per_part": 10, "workers": 4, **options}),
            Budget(left),
            max(queue.row_versions, default=0),
        ),
        parts,
    )


def rows(parts: list[Part]) -> list[tuple[int, int]]:
    return sorted((part.min_row_version, part.max_row_version) for part in parts)


@given(st.sets(st.integers(-1000, 1000), max_size=60), st.integers(1, 9), st.integers(-1000, 1000))
def test_windows_cover_every_row_once(numbers: set[int], size: int, up_to: int) -> None:
    queue, windows = Queue(list(numbers)), Windows(up_to)
    covered: list[int] = []
    while (window := windows.take(queue, size)) is not None:  # type: ignore[arg-type]
        inside = queue.between(window.after, window.up_to)
        assert 1 <= len(inside) <= size
        covered += inside
    assert covered == [number for number in sorted(numbers) if number <= up_to]


def test_workers_work_side_by_side() -> None:
    """Every worker waits in its first part for the three others."""
    barrier = threading.Barrier(4)
    first = threading.local()

    def meet(_: threading.Event) -> None:
        if not hasattr(first, "met"):
            first.met = True
            barrier.wait(30)

    pool, parts = pool_of(Queue(list(range(100))), meet)
    pool.run()
    assert rows(parts) == [(n, n + 9) for n in range(0, 100, 10)]


def test_an_idle_queue_is_read_once() -> None:
    queue = Queue([])
    pool, parts = pool_of(queue, lambda _: None)
    pool.run()
    assert (queue.looks, parts) == (1, [])


def test_an_interrupt_ends_everybody() -> None:
    """It comes while the workers are in their first parts."""
    main, together, left = threading.get_ident(), threading.Barrier(4), list[int]()

    def wait_for_the_end(cancelled: threading.Event) -> None:
        if together.wait(30) == 0:
            signal.pthread_kill(main, signal.SIGINT)
        assert cancelled.wait(30)
        left.append(1)
        raise CancelledError

    pool, parts = pool_of(Queue(list(range(100))), wait_for_the_end)
    # A process that was started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            pool.run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert (len(left), parts) == (4, [])


def test_an_error_ends_everybody() -> None:
    """A worker fails while another one is in the middle of a part: that one sees the stop signal."""
    waiting, seen = threading.Event(), threading.Event()
    failed = threading.Lock()

    def fail(cancelled: threading.Event) -> None:
        if failed.acquire(blocking=False):
            assert waiting.wait(30)
            raise StagingError("the disk is full")
        waiting.set()
        assert cancelled.wait(30)
        seen.set()
        raise CancelledError

    pool, parts = pool_of(Queue(list(range(100))), fail, workers=2)
    with pytest.raises(StagingError, match="disk is full"):
        pool.run()
    assert seen.is_set()
    assert parts == []


def test_a_transient_error_is_one_workers_own() -> None:
    """The window of a part that was undone is left to the pass that comes afterwards; all others are drained."""
    errors = [DeadlockError("1205")]

    def fail_once(_: threading.Event) -> None:
        if errors:
            raise errors.pop()

    pool, parts = pool_of(Queue(list(range(100))), fail_once, workers=1)
    pool.run()
    assert rows(parts) == [(n, n + 9) for n in range(10, 100, 10)]


@pytest.mark.parametrize("workers", [1, 4])
def test_a_limit_is_shared(workers: int) -> None:
    """It leaves the messages at the head of the queue."""
    pool, parts = pool_of(Queue(list(range(100))), lambda _: None, left=35, workers=workers)
    pool.run()
    assert rows(parts) == [(0, 9), (10, 19), (20, 29), (30, 34)]


def test_messages_possibly_committed_count_against_the_limit() -> None:
    errors = [ConnectionLostError("08S01")]

    def lose_once(_: threading.Event) -> None:
        if errors:
            raise errors.pop()

    pool, parts = pool_of(Queue(list(range(100))), lose_once, left=30, workers=1)
    pool.run()
    assert sum(part.messages for part in parts) == 20
