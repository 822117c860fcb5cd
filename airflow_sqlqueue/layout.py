"""What a table looks like, as far as statements must know it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_sqlqueue.errors import NotAQueueError, QueueNotFoundError
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import identifier, query
from airflow_sqlqueue.sql.columns import REQUIRED


@dataclass(frozen=True)
class Layout:
    """The columns of a queue table, by name as the transport spells them, with their base types."""

    columns: dict[str, str]


def exists(session: Session, table: ResolvedAddress) -> bool:
    """Whether an object of that name stands in the database."""
    return session.value(query("create.object"), table.qualified_name) is not None


def read_layout(session: Session, table: ResolvedAddress) -> Layout:
    """Read a queue table's columns.

    Raises :class:`QueueNotFoundError` where there is no table, and :class:`NotAQueueError` where it lacks a column that
    every version has; the legacy columns may be missing (reference/statements.md 2.3).
    """
    if session.value(query("create.database"), table.catalog) is None:
        raise QueueNotFoundError(
            f"The database {table.catalog!r} of the queue {table.canonical} does not exist: check the address."
        )
    rows = session.run(query("create.columns", catalog=identifier(table.catalog)), table.qualified_name)
    if not rows:
        raise QueueNotFoundError(
            f"The queue {table.canonical} does not exist: create it with 'sqlqueue create' or check the address."
        )
    known = {name.lower(): name for name in (*REQUIRED, "CorrelationId", "ReplyToAddress", "Recoverable")}
    columns = {known.get(name.lower(), name): type_name for name, type_name, *_ in rows}
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise NotAQueueError(
            f"The table {table.canonical} is not a queue table (no column {', '.join(missing)}): check the address."
        )
    return Layout(columns)
