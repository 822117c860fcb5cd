"""Dropping a queue."""

from __future__ import annotations

from airflow_sqlqueue.errors import NotAQueueError, QueueNotEmptyError
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Query, identifier, query
from airflow_sqlqueue.tables.reading import read_layout


def drop_queue(session: Session, table: ResolvedAddress, *, force: bool = False) -> int:
    """Drop a queue, or a table of delayed messages, and return how many messages went with it.

    Raises :class:`QueueNotFoundError` where there is none, :class:`NotAQueueError` for another table, synonym or view,
    and :class:`QueueNotEmptyError` where it holds messages, those that others have locked included, unless ``force`` is
    set. The table is locked before it is counted, so no message comes in between; :class:`LockTimeoutError` where a
    transaction keeps one locked for too long.
    """
    layout = read_layout(session, table, advice="there is nothing to drop, check the address")
    layout.require("queue", "delayed")
    if layout.object_type != "table":
        raise NotAQueueError(f"{table.canonical} is a {layout.object_type}: drop the table {layout.table.canonical}.")
    with session.transaction():
        holds_messages = session.value(_on(table, "create.lock_whole")) is not None
        if holds_messages and not force:
            raise QueueNotEmptyError(
                f"The queue {table.canonical} holds messages: drain or purge it first, or force the drop and lose them."
            )
        count = int(session.value(_on(table, "create.count_whole"))) if holds_messages else 0
        session.run(_on(table, "create.drop"))
    return count


def _on(table: ResolvedAddress, name: str) -> Query:
    found = query(name, table=identifier(table))
    return Query(found.name, found.purpose.replace("the table", f"the table {table.canonical}"), found.text)
