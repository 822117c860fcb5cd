"""Archive of failed messages: a table beside the queues, with who archived a message, when and why."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import cached_property, partial
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError, DataMovedError, MessageNotFoundError
from airflow_sqlqueue.messages.envelope.times import time_before
from airflow_sqlqueue.messages.message import decode_headers
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue.browsing import PAGE_BYTES, row_id
from airflow_sqlqueue.queue.errors.failed_message import Archived, FailedMessage, classify
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.scan import FAILED_PAGE, ShownError, narrowed
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.queue.tables.layout import Layout
from airflow_sqlqueue.queue.tables.own import OwnTable, stored_name
from airflow_sqlqueue.queue.window import Window, padded_chunks, placeholders
from airflow_sqlqueue.server.session import Session, retrying
from airflow_sqlqueue.server.sql import identifier, query
from airflow_sqlqueue.server.sql.columns import (
    STAGED,
    STAGED_DELETED,
    STAGED_NAMES,
    definitions,
    forwarding,
    readable_headers,
)
from airflow_sqlqueue.untrusted import cut, is_text, units

MAX_REASON = 500
"""Most characters of the text that says why messages are archived."""

MAX_BY = 200
"""Most characters of the name of a person or task that archives; a longer name is cut."""

_NEVER = datetime(9999, 12, 31, tzinfo=timezone.utc).replace(tzinfo=None)
"""A time after every other one, for no condition on the time."""


class Archive(OwnTable):
    """Archive table of one database, through one connection; it is created at the first use in a database."""

    name = "Archive"
    made_by = ("error_archive.make",)
    columns = definitions(STAGED)

    def put(self, queue: QueueTable, row_versions: Sequence[int], by: str, reason: str) -> int:
        """Move the messages with these RowVersions out of the queue, except locked ones, and return how many it moved.

        The rows stay as they are, with all columns. Call it in a transaction of the queue's session.
        """
        origin = (stored_name(queue.address.canonical), cut(by, MAX_BY), reason)

        def run(layout: Layout, chunk: Sequence[int]) -> int:
            fragments = queue.staged(layout) | {"row_versions": placeholders(chunk)}
            return int(self.session.value(self.query("error_archive.put", **fragments), *origin, *chunk))

        return sum(queue.run_for_layout(partial(run, chunk=chunk)) for chunk in padded_chunks(row_versions))

    def restore(self, queue: QueueTable, numbers: Sequence[int]) -> int:
        """Move messages back, except locked ones, without an expiry, in the transaction under way; return how many."""

        def run(layout: Layout, chunk: Sequence[int]) -> int:
            moved = forwarding(STAGED, layout.types, expiring=False)
            fragments = moved | {"names": STAGED_NAMES, "deleted": STAGED_DELETED, "numbers": placeholders(chunk)}
            statement = self.query("error_archive.restore", queue=identifier(queue.address), **fragments)
            return int(self.session.value(statement, stored_name(queue.address.canonical), *chunk))

        return sum(queue.run_for_layout(partial(run, chunk=chunk)) for chunk in padded_chunks(numbers))


class ArchivedMessages:
    """Archived messages of one queue, in the order of their numbers, which take the place of RowVersions.

    :param older_than: only messages that were archived longer ago, by the server's clock.
    """

    def __init__(self, archive: Archive, queue: ResolvedAddress, older_than: timedelta | None = None) -> None:
        if older_than is not None and older_than < timedelta(0):
            raise ConfigurationError(f"older_than is {older_than}: give a time that is not below zero.")
        self._archive, self._queue, self._stored = archive, queue, stored_name(queue.canonical)
        self._older_than = older_than

    @property
    def session(self) -> Session:
        return self._archive.session

    @property
    def name(self) -> str:
        return self._queue.canonical

    def window(self, where: ErrorFilter) -> Window:
        if not self._archive.exists():
            return Window(FIRST, FIRST)
        end = self._unlocked("error_archive.end", self._stored)
        return narrowed(where, FIRST if end is None else int(end))

    @cached_property
    def _before(self) -> datetime:
        if self._older_than is None:
            return _NEVER
        now: datetime = self.session.value(query("error_archive.now"))
        return time_before(now, self._older_than)

    def pages(self, window: Window) -> Iterator[list[FailedMessage]]:
        statement = self._archive.query("error_archive.page", headers=readable_headers())
        after = window.after
        while after < window.up_to:
            values = (FAILED_PAGE, self._stored, after, window.up_to, self._before, PAGE_BYTES)
            rows = self.session.run(statement, *values)
            if not rows:
                return
            yield [_message(row) for row in rows]
            after = rows[-1][0]

    def count_left(self, up_to: int) -> int:
        if up_to == FIRST:
            return 0
        return int(self._unlocked("error_archive.count_left", self._stored, up_to, self._before))

    def _unlocked(self, name: str, *values: Any) -> Any:
        """Return the first value of a read without locks, which rows that are moved meanwhile can disturb."""
        return retrying(lambda: self.session.value(self._archive.query(name), *values), only=DataMovedError)

    def warnings(self) -> list[str]:
        return []

    def show(self, number: int, *, with_body: bool = False) -> ShownError:
        """Read one message by its number. Nothing is removed. Raises :class:`MessageNotFoundError`."""
        rows: list[Any] = []
        body: list[Any] = []
        if self._archive.exists():
            statement = self._archive.query("error_archive.page", headers=readable_headers())
            rows = self.session.run(statement, 1, self._stored, number - 1, number, _NEVER, PAGE_BYTES)
        if rows and with_body:
            body = self.session.run(self._archive.query("error_archive.body"), self._stored, number)
        if not rows or (with_body and not body):
            raise MessageNotFoundError(f"No message {number} of {self.name} is in the archive, or it is locked.")
        return ShownError(_message(rows[0]), rows[0][2] or "", bytes(body[0][0] or b"") if with_body else None)

    def delete(self, numbers: Sequence[int]) -> int:
        """Delete messages by their numbers, except locked ones, and return how many it deleted."""
        deleted = 0
        for chunk in padded_chunks(numbers):
            statement = self._archive.query("error_archive.delete", numbers=placeholders(chunk))
            deleted += int(self.session.value(statement, self._stored, *chunk))
        return deleted


def check_reason(reason: str) -> str:
    """Return the reason of an archiving person or task. Raises :class:`ConfigurationError` if no row can hold it."""
    if units(reason) > MAX_REASON or not is_text(reason) or "\0" in reason:
        raise ConfigurationError(f"The reason must be text of at most {MAX_REASON} characters: shorten it.")
    return reason


def current_user() -> str:
    """Name of the account that runs this process, with its host: the archive keeps it unless another name is given."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # The account of a container may have no name.
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"


def _message(row: Any) -> FailedMessage:
    number, identity, headers, header_bytes, body_bytes, archived_at, by, reason = row
    message = classify(
        number, row_id(identity), decode_headers(headers or ""), int(body_bytes or 0), int(header_bytes or 0)
    )
    return replace(message, archived=Archived(archived_at.replace(tzinfo=timezone.utc), by, reason))
