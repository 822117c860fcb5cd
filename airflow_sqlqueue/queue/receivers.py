"""Other receivers of a queue, by the server's own views."""

from __future__ import annotations

from airflow_sqlqueue.errors import PermissionDeniedError, StatementError
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import APPLICATION_NAME
from airflow_sqlqueue.server.sql import Query, identifier, query


def other_receivers(session: Session, queue: ResolvedAddress) -> list[str]:
    """Return the other programs, with their hosts, whose last statement on an open connection took messages.

    Sessions of this program and of this package are left out, and so is a program whose last statement was another one
    on each of its connections. The list is empty where the login may not see the sessions of others: that takes VIEW
    SERVER STATE, or VIEW DATABASE STATE in an Azure SQL database.
    """
    try:
        return programs(session, query("queue.other_receivers"), queue)
    except (PermissionDeniedError, StatementError):
        return []


def programs(session: Session, statement: Query, queue: ResolvedAddress) -> list[str]:
    """Return the programs, with their hosts, that a statement finds by the name of the queue."""
    # The statements of other programs quote the queue's name, with or without the database before it.
    name = f"{identifier(queue.schema)}.{identifier(queue.table)}"
    found = session.run(statement, APPLICATION_NAME, name)
    return sorted(
        {f"{program or 'a program without a name'}{f' on {host}' if host else ''}" for program, host in found}
    )
