"""Creating a queue table, once, however many ask for it at the same moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_sqlqueue.errors import ConfigurationError, LockTimeoutError, QueueNotFoundError
from airflow_sqlqueue.layout import exists, read_layout
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import identifier, query

LAYOUTS = ("modern", "clustered")
LEDGER_SCHEMA = "sqlqueue"
"""The schema of the drain's ledger, unless another is set."""

LOCK_TIMEOUT = 60.0
"""Seconds to wait for others who create the same table."""


def create_queue(
    session: Session, address: ResolvedAddress, *, layout: str = "modern", create_schema: bool = False
) -> bool:
    """Create the table and its indexes if it is missing; True when this call made it.

    ``modern`` is a heap with a nonclustered index on RowVersion, as versions 5.0.3 and later make it; ``clustered``
    clusters on RowVersion. An existing queue is left as it is; an existing table that is none raises
    :class:`NotAQueueError`. ``create_schema`` makes a missing schema.
    """
    if layout not in LAYOUTS:
        raise ConfigurationError(f"There is no layout {layout!r}: choose one of {', '.join(LAYOUTS)}.")
    index = "create.index_row_version" + ("_clustered" if layout == "clustered" else "")
    with create_lock(session, address, create_schema=create_schema):
        made = not exists(session, address)
        if made:
            for name in ("create.queue", index, "create.index_expires"):
                session.run(query(name, queue=identifier(address)))
    read_layout(session, address)
    return made


@contextmanager
def create_lock(session: Session, table: ResolvedAddress, *, create_schema: bool = False) -> Iterator[None]:
    """A transaction that holds the application lock for creating ``table`` and has made sure that its schema exists.

    Endpoints take the same lock when they start (reference/statements.md 2.8). Raises :class:`QueueNotFoundError` where
    the database or the schema is missing, and :class:`LockTimeoutError` where somebody holds the lock for too long.
    """
    if session.value(query("create.database"), table.catalog) is None:
        raise QueueNotFoundError(f"The database {table.catalog!r} does not exist: check the address.")
    catalog = identifier(table.catalog)
    with session.transaction():
        resource = f"{table.qualified_name}_lock"[:255]
        if session.value(query("create.lock", catalog=catalog), resource, int(LOCK_TIMEOUT * 1000)) < 0:
            raise LockTimeoutError(
                f"Could not create {table.canonical}: another process has held its application lock for "
                f"{LOCK_TIMEOUT:g} seconds; try again later."
            )
        if not session.value(query("create.schema", catalog=catalog), table.schema):
            if not create_schema:
                raise QueueNotFoundError(
                    f"The schema {table.schema!r} does not exist in the database {table.catalog!r}: "
                    "create it, or ask for it with create_schema."
                )
            make = query("create.make_schema", schema=identifier(table.schema))
            session.run(query("create.run_there", catalog=catalog), make.text)
        yield
