"""Drain with a filter: finds matching messages without keeping locks, then takes them by their RowVersions.

The search reads the queue once, in its order, so the work is linear in its length, however few messages match. It reads
a stretch again only where others had locked a message, which may match and may come back.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from airflow_sqlqueue.drain.ledger import Part
from airflow_sqlqueue.drain.worker import LOCKED_PAUSE, CommittedPart, Worker, WorkPlan, next_wait
from airflow_sqlqueue.options.budget import Budget
from airflow_sqlqueue.queue.browsing import MessageHead, Search
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.table_access import LAST
from airflow_sqlqueue.queue.window import Window


@dataclass
class _Found:
    """Matching messages that are not yet taken: the bytes of each by its RowVersion."""

    sizes: dict[int, int] = field(default_factory=dict)
    bytes: int = 0

    def add(self, head: MessageHead) -> None:
        size = head.header_bytes + head.body_bytes
        self.bytes += size - self.sizes.get(head.row_version, 0)
        self.sizes[head.row_version] = size

    def first(self, count: int, max_bytes: int) -> tuple[int, ...]:
        """Return the first RowVersions, within the limits and at least one."""
        chosen: list[int] = []
        for row_version in sorted(self.sizes):
            if chosen and (len(chosen) == count or max_bytes <= 0):
                break
            chosen.append(row_version)
            max_bytes -= self.sizes[row_version]
        return tuple(chosen)

    def remove(self, row_versions: tuple[int, ...]) -> None:
        self.bytes -= sum(self.sizes.pop(row_version) for row_version in row_versions)


class MatchingDrain:
    """Drain of the messages that match a filter, through one worker at a time.

    After an error a new worker continues the search of the earlier one.

    :param up_to: the high-water mark, the highest RowVersion that is taken.
    """

    def __init__(self, work: WorkPlan, where: MessageFilter, up_to: int) -> None:
        self._options, self._where, self._up_to = work.options, where, up_to
        # A part in files has messages with inline bodies or with large ones; a table makes no such difference.
        self._inline_bytes = work.options.inline_body_bytes if work.stage.name == "files" else LAST
        self._searches = deque([Search(where, Window(up_to=up_to))])
        self._inline, self._large = _Found(), _Found()
        self._locked: list[Window] = []

    def run(self, worker: Worker, budget: Budget, on_part: Callable[[Part], None]) -> int:
        """Take parts until no matching message is left or a limit is reached; return the number that stay locked.

        0 is certain. A lock hides whether a message matches, so the number counts all locked messages up to the mark,
        and is at least 1 if locked messages are left that cannot be counted.
        """
        wait_until: float | None = None
        while True:
            for part in self._parts(worker, budget, wait_until):
                on_part(part)
                wait_until = None
            if budget.used or not self._locked:
                return 0
            if wait_until is not None and time.monotonic() >= wait_until:
                return worker.queue.count_locked(self._up_to)
            wait_until = wait_until or time.monotonic() + self._options.locked_wait_seconds
            time.sleep(min(LOCKED_PAUSE, self._options.locked_wait_seconds))
            self._searches = deque(Search(self._where, window) for window in self._locked)
            self._locked = []

    def _parts(self, worker: Worker, budget: Budget, wait_until: float | None) -> Iterator[Part]:
        """Take matching messages that are not locked. Messages reserved for a part that raises are not given back."""
        while reserved := budget.reserve(worker.most_rows):
            done = None
            if self._find(worker, reserved, budget, wait_until):
                done = self._take(worker, reserved)
            budget.give_back(reserved - (done.part.rows if done else 0))
            if done is not None:
                yield done.part
            elif not (self._searches or self._inline.sizes or self._large.sizes):
                return

    def _find(self, worker: Worker, count: int, budget: Budget, wait_until: float | None) -> bool:
        """Search for the messages of the next part; True if any were found."""
        part_until: float | None = None
        while self._searches and not self._is_enough(count) and budget.seconds_left != 0:
            wait = 0.0 if wait_until is None else next_wait(wait_until - time.monotonic())
            page = self._searches[0].page(worker.queue, wait=wait)
            if page is None:
                self._locked += self._searches.popleft().passed
                continue
            for head in page:
                if self._where.matches(head.id, head.decoded):
                    (self._large if head.body_bytes > self._inline_bytes else self._inline).add(head)
            if self._inline.sizes or self._large.sizes:
                part_until = part_until or time.monotonic() + self._options.seconds_per_part
                if time.monotonic() >= part_until:
                    break
        return bool(self._inline.sizes or self._large.sizes)

    def _is_enough(self, count: int) -> bool:
        limit = self._options.bytes_per_part
        return len(self._inline.sizes) >= count or max(self._inline.bytes, self._large.bytes) >= limit

    def _take(self, worker: Worker, count: int) -> CommittedPart | None:
        """Take a part of the found messages; None if others have received or locked all of them."""
        found = self._inline if self._inline.sizes else self._large
        chosen = found.first(count, self._options.bytes_per_part)
        done = worker.drain_part(Window.of(chosen), len(chosen))
        if done is not None and not done.reached_end:
            chosen = tuple(number for number in chosen if number <= done.part.max_row_version)
        found.remove(chosen)
        if done is None or done.part.rows < len(chosen):
            # Others have received or locked some of them meanwhile; the next search finds the locked ones.
            self._locked.append(Window.of(chosen))
        return done
