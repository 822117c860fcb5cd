"""Options of a drain, checked; ids of batches and of the tasks that own them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.budget import MIB, Limits, check_limits
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue import MAX_ROWS_PER_STATEMENT

MAX_WORKERS = 32

FILE_MODES = {"owner": 0o600, "group": 0o640, "all": 0o644}
"""Permissions of staged files, by their readers; the readers can also enter the folders."""

_NAMESPACE = uuid.UUID("6f7a1f0c-52f3-5d0e-9a53-0f3a3c1b7d11")


def batch_id_for(dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> uuid.UUID:
    """Return the batch id of one task of one run: the same for every try, so that a retry resumes its batch."""
    return uuid.uuid5(_NAMESPACE, "\0".join([dag_id, run_id, task_id, str(map_index)]))


def owner_of(dag_id: str, task_id: str, map_index: int = -1) -> uuid.UUID:
    """Return the id of the task that owns a batch, the same in every run: a run finds earlier batches by it."""
    return uuid.uuid5(_NAMESPACE, "\0".join([dag_id, task_id, str(map_index)]))


def batch_after(batch_id: uuid.UUID) -> uuid.UUID:
    """Return the batch id for a task that runs again after its batch was consumed or put back."""
    return uuid.uuid5(_NAMESPACE, str(batch_id))


@dataclass(frozen=True)
class DrainOptions(Limits):
    """Limits of a drain. Rows of a statement bound locks, a part's rows, bytes and seconds bound a transaction.

    :param rows_per_statement: maximum rows of one DELETE, 1 to 2,000; lock escalation starts at 5,000 locks.
    :param bytes_per_statement: maximum bytes of headers and bodies that one DELETE returns, and one row more.
    :param rows_per_part: rows of one part: one transaction, one file.
    :param bytes_per_part: bytes of headers and bodies of one part.
    :param seconds_per_part: seconds for which a part's transaction gathers rows before it commits.
    :param workers: threads that take parts side by side, each with a connection; more than one only if the messages
        are enough for several parts.
    :param inline_body_bytes: a larger body goes to a file of its own, piece by piece, and its row carries the URI.
    :param until_empty: drain until the queue is empty, instead of up to the last message that was in it when the batch
        was opened. A queue that fills faster than it is drained needs another limit then.
    :param up_to: leave messages with a higher RowVersion than this; None: only messages that are sent later.
    :param max_messages: stop after this number of messages of the batch, counted by the ledger over all tries; None:
        all.
    :param max_seconds: begin no part later than this after the batch was opened, by the ledger, over all tries.
    :param max_bytes: stop once the batch has this number of bytes of headers and bodies, counted like messages; None:
        all. The last statement may exceed it. One worker in this process drains such a batch.
    :param keep_expired: write expired messages to the files, flagged, instead of dropping and counting them.
    :param settle_seconds: seconds for which locked rows are retried before they are left and reported.
    :param readable_by: the readers of the files on a disk: their ``owner``, the account of the drain; also their
        ``group``, for Spark under another account; or ``all``. A store has permissions of its own.
    """

    rows_per_statement: int = MAX_ROWS_PER_STATEMENT
    bytes_per_statement: int = 16 * MIB
    rows_per_part: int = 20_000
    bytes_per_part: int = 128 * MIB
    seconds_per_part: float = 20.0
    workers: int = 2
    inline_body_bytes: int = 8 * MIB
    until_empty: bool = False
    up_to: int | None = None
    max_bytes: int | None = None
    keep_expired: bool = False
    settle_seconds: float = 5.0
    readable_by: str = "owner"

    @property
    def file_mode(self) -> int:
        """The permissions of files on a disk."""
        return FILE_MODES[self.readable_by]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> DrainOptions:
        """Make options of a mapping. Raises :class:`ConfigurationError` for an unknown option."""
        try:
            return cls(**values)
        except TypeError as error:
            raise ConfigurationError(f"The drain_options cannot be used: {error}.") from error

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limits(max_bytes=self.max_bytes)
        if not 1 <= self.rows_per_statement <= MAX_ROWS_PER_STATEMENT:
            raise ConfigurationError(f"rows_per_statement must be 1 to {MAX_ROWS_PER_STATEMENT}: locks would escalate.")
        for name in ("bytes_per_statement", "rows_per_part", "bytes_per_part", "seconds_per_part", "inline_body_bytes"):
            if vars(self)[name] <= 0:
                raise ConfigurationError(f"{name} must be more than 0.")
        if not 1 <= self.workers <= MAX_WORKERS:
            raise ConfigurationError(f"workers must be 1 to {MAX_WORKERS}: each takes a connection.")
        if self.readable_by not in FILE_MODES:
            raise ConfigurationError(f"readable_by must be one of {', '.join(FILE_MODES)}.")
        if self.settle_seconds < 0:
            raise ConfigurationError("settle_seconds must be 0 or more.")
