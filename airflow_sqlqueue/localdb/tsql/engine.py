"""The engine of one connection. :func:`open_engine` is the entry for the TDS front; see
:mod:`airflow_sqlqueue.localdb.contract`.
"""

from __future__ import annotations

import airflow_sqlqueue.localdb.tsql.procedures  # noqa: F401 - the system procedures register themselves
from airflow_sqlqueue.localdb.contract import Client, SqlError, Wait
from airflow_sqlqueue.localdb.tsql.pg import Pg
from airflow_sqlqueue.localdb.tsql.runtime.session import Session


def open_engine(conninfo: str, database: str, login: str, wait: Wait) -> Session:
    """An engine for one connection. Raises :class:`SqlError` 4060 for a database that does not exist."""
    pg = Pg(conninfo, wait)
    try:
        session = Session(pg, database or "master", login)
        entry = session.catalog.database(session.database)
        if entry is None:
            raise SqlError(
                4060, f'Cannot open database "{database}" requested by the login. The login failed.', severity=11
            )
        session.database = session.home = entry[1]
        session.introduce(Client(login))
    except BaseException:
        pg.close()
        raise
    return session
