"""The engine of one connection. :func:`open_engine` is the entry for the TDS front; see
:mod:`fakemssql.contract`.
"""

from __future__ import annotations

from collections.abc import Callable

import fakemssql.tsql.procedures  # noqa: F401 - the system procedures register themselves
from fakemssql.contract import Client, SqlError, Wait
from fakemssql.switches import Switches
from fakemssql.tsql.pg import Pg
from fakemssql.tsql.runtime.session import Session
from fakemssql.tsql.security.accounts import administrator, authenticate


def open_engine(
    conninfo: str,
    database: str,
    login: str,
    wait: Wait,
    password: str | None = None,
    *,
    switches: Callable[[], Switches] = Switches,
) -> Session:
    """An engine for one connection of the administrator, or with ``password`` of a login of CREATE LOGIN.

    ``switches`` are asked for once, now.

    Raises :class:`SqlError` 18456 and 18470 for a login that fails, 4060 for a database that is not there or in which
    the login has no user, 4064 where that is its default database.
    """
    pg = Pg(conninfo, wait)
    try:
        account = administrator(login) if password is None else authenticate(pg, login, password)
        session = Session(pg, database or account.database, account, switches())
        entry = session.catalog.database(session.database)
        if entry is None or session.security.entrant(session.database) is None:
            raise _no_database(database)
        session.database = session.home = entry[1]
        session.introduce(Client(login))
    except BaseException:
        pg.close()
        raise
    return session


def _no_database(asked: str) -> SqlError:
    if not asked:
        return SqlError(4064, "Cannot open user default database. Login failed.", severity=11)
    return SqlError(4060, f'Cannot open database "{asked}" requested by the login. The login failed.', severity=11)
