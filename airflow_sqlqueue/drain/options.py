"""How a drain is to be done."""

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
"""The permissions of staged files by who may read them; a folder can also be entered by those."""

_NAMESPACE = uuid.UUID("6f7a1f0c-52f3-5d0e-9a53-0f3a3c1b7d11")


def batch_id_for(dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> uuid.UUID:
    """The batch id of one task of one run: the same for every try, so that a retry resumes its batch."""
    return uuid.uuid5(_NAMESPACE, "\0".join([dag_id, run_id, task_id, str(map_index)]))


def owner_of(dag_id: str, task_id: str, map_index: int = -1) -> uuid.UUID:
    """The task that a batch belongs to, the same in every run: by it a run finds what an earlier one left behind."""
    return uuid.uuid5(_NAMESPACE, "\0".join([dag_id, task_id, str(map_index)]))


def batch_after(batch_id: uuid.UUID) -> uuid.UUID:
    """The batch that a task drains when it is run again after its batch was consumed or put back."""
    return uuid.uuid5(_NAMESPACE, str(batch_id))


@dataclass(frozen=True)
class DrainOptions(Limits):
    """The limits of a drain. Rows of a statement bound locks, a part's rows, bytes and seconds bound a transaction.

    :param rows_per_statement: the most rows one DELETE takes, 1 to 2,000; lock escalation starts at 5,000 locks.
    :param bytes_per_statement: the most bytes of headers and bodies one DELETE returns, and one row more.
    :param rows_per_part: rows of one part: one transaction, one file.
    :param bytes_per_part: bytes of headers and bodies of one part.
    :param seconds_per_part: how long a part's transaction gathers rows before it commits.
    :param workers: threads that take parts side by side, each with a connection; more than one only where several
        parts' worth of messages wait.
    :param inline_body_bytes: a larger body goes to a file of its own, piece by piece, and its row carries the URI.
    :param until_empty: go on until the queue is found empty, instead of up to the last message that was there when the
        batch was opened. On a queue that is sent to faster than it is drained, that needs another limit.
    :param up_to: leave messages with a higher RowVersion than this; None: only those that are sent later.
    :param max_messages: stop after this many messages of the batch, counted by the ledger over all tries; None: all.
    :param max_seconds: begin no part later than this after the batch was opened, by the ledger, over all tries.
    :param max_bytes: stop once the batch has so many bytes of headers and bodies, counted like messages; None: all. The
        last statement may exceed it. Such a batch is drained by one worker, in this process.
    :param keep_expired: write expired messages to the files, flagged, instead of dropping and counting them.
    :param settle_seconds: how long to retry rows that others have locked before they are left and reported.
    :param readable_by: who may read the files on a disk: their ``owner``, the account of the drain; their ``group``
        too, for Spark under another account; or ``all``. A store has permissions of its own.
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
        """The options of a mapping. Raises :class:`ConfigurationError` for one that there is not."""
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
