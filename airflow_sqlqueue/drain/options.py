"""Options of drains and sweeps; ids of batches and of the tasks that own them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

from airflow_sqlqueue.options import BYTES, Options, argument, option
from airflow_sqlqueue.options.budget import MIB, Limits
from airflow_sqlqueue.queue import MAX_ROWS_PER_STATEMENT

MAX_WORKERS = 32

NO_TIME = timedelta(0)

FILE_MODES = {"owner": 0o600, "group": 0o640, "all": 0o644}
"""Permissions of staged files, by their readers; the readers can also enter the folders."""

_NAMESPACE = uuid.UUID("6f7a1f0c-52f3-5d0e-9a53-0f3a3c1b7d11")


def batch_id_for(dag_id: str, run_id: str, task_id: str, map_index: int = -1, try_number: int = 1) -> uuid.UUID:
    """Return the id of the batch that a try of one task of one run opens; later tries resume it."""
    # An id is not given twice: a sink would take the messages for those of the batch that was swept.
    opener = [] if try_number <= 1 else [str(try_number)]
    return uuid.uuid5(_NAMESPACE, "\0".join([dag_id, run_id, task_id, str(map_index), *opener]))


def owner_of(dag_id: str, task_id: str, map_index: int = -1) -> uuid.UUID:
    """Return the id of the task that owns a batch, the same in every run: a run finds earlier batches by it."""
    return uuid.uuid5(_NAMESPACE, "\0".join([dag_id, task_id, str(map_index)]))


def batch_after(batch_id: uuid.UUID) -> uuid.UUID:
    """Return the batch id for a task that runs again after its batch was consumed or put back."""
    return uuid.uuid5(_NAMESPACE, str(batch_id))


@dataclass(frozen=True, kw_only=True)
class DrainOptions(Limits):
    """Limits of a drain. Rows of a statement bound locks, a part's rows, bytes and seconds bound a transaction.

    A drain ends at the last message that was in the queue when its batch was opened, or at one of its limits, which
    hold for all tries together, by the ledger. Lock escalation starts at 5,000 locks.
    """

    max_messages: int | None = option(
        None, "stop after this many messages, expired ones that the drain drops among them", above=0
    )
    max_seconds: float | None = option(
        None, "begin no part later than this many seconds after the batch was opened", above=0
    )
    until_empty: bool = option(
        False, "drain later messages too, until the queue is empty; one that fills faster needs another limit"
    )
    keep_expired: bool = option(
        False,
        "write expired messages too, flagged; else they are dropped and counted",
        form="--keep-expired/--no-keep-expired",
    )
    workers: int = option(
        2,
        "largest number of threads, each with a connection; more than one only if the messages fill several parts",
        least=1,
        most=MAX_WORKERS,
        because="each takes a connection",
    )
    rows_per_statement: int = option(
        MAX_ROWS_PER_STATEMENT,
        "largest number of rows of one DELETE",
        least=1,
        most=MAX_ROWS_PER_STATEMENT,
        because="locks would escalate",
    )
    bytes_per_statement: int = option(
        16 * MIB, "headers and bodies that one DELETE returns; its last row may exceed it", unit=BYTES, above=0
    )
    rows_per_part: int = option(20_000, "rows of one part, which is one transaction and one file", above=0)
    bytes_per_part: int = option(128 * MIB, "headers and bodies of one part", unit=BYTES, above=0)
    seconds_per_part: float = option(20.0, "seconds in which a part's transaction collects rows", above=0)
    inline_body_bytes: int = option(
        8 * MIB, "write a larger body to a file of its own, whose URI the message's row has", unit=BYTES, above=0
    )
    max_bytes: int | None = option(
        None,
        "stop when the batch has this many bytes of headers and bodies, exceeded by at most one statement; one worker "
        "in this process drains such a batch",
        unit=BYTES,
        above=0,
        form=None,
    )
    up_to: int | None = option(None, "leave messages with a higher RowVersion than this", form=None)
    locked_wait_seconds: float = option(
        5.0, "seconds in which to retry rows that others have locked, before they are left and reported", least=0
    )
    readable_by: str = option(
        "owner",
        "users who may read files on a disk: ``owner``, the account of the drain; also its ``group``, for Spark under "
        "another account; or ``all``",
        choices=tuple(FILE_MODES),
    )

    @property
    def file_mode(self) -> int:
        """The permissions of files on a disk."""
        return FILE_MODES[self.readable_by]


@dataclass(frozen=True, kw_only=True)
class SweepOptions(Options):
    """Options of a sweep. A task that is cleared after its batch was swept drains a new batch."""

    retain: timedelta = option(
        timedelta(days=7),
        "time to keep a batch after it was consumed or requeued",
        least=NO_TIME,
    )
    grace: timedelta = option(
        timedelta(days=1),
        "keep orphaned files that are younger, by the filesystem's clock, and messages that Spark has staged for a "
        "send that never ended",
        least=NO_TIME,
    )
    unknown: bool = option(
        False,
        "remove files of batches that the ledger does not know too: only if no other database's ledger lists files "
        "in this folder",
    )
    forget_sent: timedelta | None = option(
        None,
        "forget sends in the send ledger that are older than this; a send that is repeated after that sends again",
        least=NO_TIME,
    )
    dry_run: bool = argument(False, "remove nothing, only count what a sweep would remove")
