"""Private queues for replies: made for one request, dropped after it, and swept if their process was killed.

A process that waits for a reply holds an application lock on its queue, so a sweep drops no queue in use.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from airflow_sqlqueue.errors import QueueNotFoundError, SqlQueueError, TransactionError
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.tables.create import create_queue, drop_queue
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import identifier, query

log = logging.getLogger(__name__)

PRIVATE_PREFIX = "sqlqueue.replies"
"""Prefix in the name of a private queue; a GUID follows."""


@contextmanager
def private_queue(session: Session, resolver: AddressResolver, *, prefix: str = PRIVATE_PREFIX) -> Iterator[QueueTable]:
    """Create a private queue for replies, in the default schema, and drop it at the end of the block in any case.

    The login needs the permissions to create and drop tables there. A killed process leaves its queue behind, until
    :func:`sweep_private_queues`. Raises :class:`TransactionError` inside a transaction.
    """
    check_outside(session)
    table = resolver.resolve(f"{prefix}.{uuid.uuid4()}")
    with _lock(session, table):
        create_queue(session, table)
        try:
            yield QueueTable(session, table)
        finally:
            try:
                drop_queue(session, table, force=True)
            except SqlQueueError as error:
                # The result or the error of the block is more important.
                log.warning("The private queue %s is left behind for a sweep: %s", table.canonical, error)


def check_outside(session: Session) -> None:
    """Raise :class:`TransactionError` inside a transaction, in which no receiver could see a request."""
    if session.in_transaction:
        raise TransactionError("A request is answered only after it is committed: send it outside the transaction.")


def sweep_private_queues(
    session: Session, resolver: AddressResolver, *, prefix: str = PRIVATE_PREFIX, dry_run: bool = False
) -> list[ResolvedAddress]:
    """Drop the private queues of killed processes in the default schema, with their messages, and return them.

    A queue whose process waits for a reply is locked and stays. So does a queue that the login may not drop, with a
    warning in the log. ``dry_run`` drops none.
    """
    place = resolver.resolve(prefix)
    lists = query("reply_queue.list", catalog=identifier(place.catalog))
    start, found = f"{prefix}.", []
    for (name,) in session.run(lists, place.schema, len(start), start):
        if not _is_guid(name[len(start) :]):
            continue
        table = ResolvedAddress(name, place.schema, place.catalog)
        with _lock(session, table) as granted:
            if not granted:
                continue
            try:
                if not dry_run:
                    drop_queue(session, table, force=True)
            except QueueNotFoundError:
                continue
            except SqlQueueError as error:
                log.warning("The private queue %s is not dropped: %s", table.canonical, error)
                continue
            found.append(table)
    return found


def _is_guid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


@contextmanager
def _lock(session: Session, table: ResolvedAddress) -> Iterator[bool]:
    """Hold the application lock of a private queue for the block, if it is free."""
    # Without the schema, whose spelling comes from the settings: lock names are compared with case.
    catalog, resource = identifier(table.catalog), table.table
    granted = session.value(query("reply_queue.lock", catalog=catalog), resource) >= 0
    try:
        yield granted
    finally:
        if granted:
            # The server releases the lock of a connection that has ended.
            with suppress(SqlQueueError):
                session.run(query("reply_queue.release", catalog=catalog), resource)
