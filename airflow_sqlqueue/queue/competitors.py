"""Who else receives from a queue, as the server's own views show it."""

from __future__ import annotations

from airflow_sqlqueue.errors import PermissionDeniedError, StatementError
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.server.settings import APPLICATION_NAME
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import identifier, query


def competitors(session: Session, queue: ResolvedAddress) -> list[str]:
    """The programs, with their hosts, that have open connections by which they took messages last.

    Sessions of the same program as this one are none of them, nor those of this package. Empty as well where the login
    may not see them, which takes VIEW SERVER STATE, in an Azure SQL database VIEW DATABASE STATE. One that did
    something else last on each of its connections is not seen.
    """
    # The texts of others name their own queue: quoted, with or without the database before it.
    name = f"{identifier(queue.schema)}.{identifier(queue.table)}"
    try:
        found = session.run(query("queue.competitors"), APPLICATION_NAME, name)
    except (PermissionDeniedError, StatementError):
        return []
    return sorted(f"{program or 'a program without a name'}{f' on {host}' if host else ''}" for program, host in found)
