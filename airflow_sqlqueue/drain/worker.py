"""One part: rows deleted, written, made durable and entered in the ledger in one transaction."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, current_thread
from typing import Any

from airflow_sqlqueue.drain.files import PartFile
from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.staging import StagingFolder
from airflow_sqlqueue.queue import QueueTable

_HEADERS, _BODY, _ROW_VERSION, _EXPIRED = 5, 6, 7, 8
_FIRST_STATEMENT = 32


class CancelledError(Exception):
    """The drain ends with an error of somebody else; the part that was being taken is undone."""


@dataclass(frozen=True)
class PartDone:
    """A committed part, and whether the head of the queue was empty when it ended (locked rows do not show)."""

    part: Part
    reached_end: bool


class Worker:
    """Drains parts of one batch through one connection."""

    def __init__(
        self,
        queue: QueueTable,
        ledger: Ledger,
        batch_id: uuid.UUID,
        staging: StagingFolder,
        options: DrainOptions,
        cancelled: Event | None = None,
    ) -> None:
        self._queue, self._ledger, self._batch_id = queue, ledger, batch_id
        self._staging, self._options = staging, options
        self._cancelled = cancelled or Event()
        self._rows_next = min(_FIRST_STATEMENT, options.rows_per_statement)
        self._name = f"{socket.gethostname()}:{os.getpid()}:{current_thread().name}"

    def drain_part(self, after: int, up_to: int, at_most: int | None) -> PartDone | None:
        """Take one part of the rows above ``after`` and not above ``up_to``; None where there was no row to take.

        When this raises, the part is undone: its rows are in the queue (or, where a COMMIT was under way, the ledger
        knows better) and its file, if any, is an orphan. The caller takes a new part and never repeats this one.
        """
        part_id = uuid.uuid4()
        file = PartFile(self._staging, self._batch_id, part_id)
        session = self._queue.session
        session.begin()
        try:
            taken, reached_end = self._gather(file, after, up_to, at_most)
            if not taken.rows:
                session.roll_back()
                return None
            file.close()
            part = Part(
                part_id, file.path, file.messages, taken.rows - file.messages, file.bytes, taken.low, taken.high
            )
            self._ledger.commit_part(self._batch_id, part, self._name)
            session.committed()
            return PartDone(part, reached_end)
        except BaseException:
            with suppress(Exception):
                file.abandon()
            session.roll_back()
            raise

    def _gather(self, file: PartFile, after: int, up_to: int, at_most: int | None) -> tuple[_Taken, bool]:
        options = self._options
        limit = options.rows_per_part if at_most is None else min(options.rows_per_part, at_most)
        deadline = time.monotonic() + options.seconds_per_part
        taken = _Taken()
        while taken.rows < limit and file.bytes < options.bytes_per_part and time.monotonic() < deadline:
            if self._cancelled.is_set():
                raise CancelledError
            if not self._take(file, taken, min(self._rows_next, limit - taken.rows), after, up_to):
                return taken, True
        return taken, False

    def _take(self, file: PartFile, taken: _Taken, ask: int, after: int, up_to: int) -> bool:
        """Take the rows of one statement; False where there was none. They are let go of before the next are read."""
        options = self._options
        rows = self._queue.take_head(ask, max(after, taken.high), up_to, options.bytes_per_statement)
        if not rows:
            return False
        rows.sort(key=lambda row: row[_ROW_VERSION])
        taken.add(rows)
        self._adapt(rows)
        file.write(rows if options.keep_expired else [row for row in rows if not row[_EXPIRED]])
        return True

    def _adapt(self, rows: Sequence[Any]) -> None:
        """The next statement's rows: what the byte limit allows at this mean size, growing fourfold at the most."""
        size = sum(len(row[_HEADERS]) + len(row[_BODY] or b"") for row in rows)
        fitting = int(self._options.bytes_per_statement * len(rows) / max(size, 1))
        self._rows_next = max(1, min(fitting, self._rows_next * 4, self._options.rows_per_statement))


class _Taken:
    """What the statements of a part have taken so far."""

    def __init__(self) -> None:
        self.rows = 0
        self.low = 2**63 - 1
        self.high = -(2**63)

    def add(self, rows: Sequence[Any]) -> None:
        self.rows += len(rows)
        self.low = min(self.low, rows[0][_ROW_VERSION])
        self.high = max(self.high, rows[-1][_ROW_VERSION])
