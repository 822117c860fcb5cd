"""Engines of connections. :meth:`Engines.open` is the entry for the TDS front; see :mod:`fakemssql.contract`."""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.contract import Client, SqlError, Wait
from fakemssql.switches import Switches
from fakemssql.tsql.procedures.table import PROCEDURES
from fakemssql.tsql.runtime.connection.backend import Backend
from fakemssql.tsql.runtime.requests import SessionEngine
from fakemssql.tsql.runtime.session.session import StatementTables
from fakemssql.tsql.runtime.statements.table import STATEMENTS
from fakemssql.tsql.security.accounts import administrator, authenticate

TABLES = StatementTables(STATEMENTS, PROCEDURES)


class Engines:
    """Factory of engines for connections; the backend of a closed engine is used again.

    ``switches`` is called at each login.
    """

    def __init__(self, conninfo: str, switches: Callable[[], Switches] = Switches) -> None:
        self._conninfo, self._switches = conninfo, switches
        self._spare: list[Backend] = []

    def open(self, database: str, login: str, wait: Wait, password: str | None = None) -> SessionEngine:
        """Open an engine for the administrator or, with ``password``, for a login of CREATE LOGIN.

        Raises :class:`SqlError` 18456 and 18470 for a failed login; 4060 for a database that does not exist or in which
        the login has no user; 4064 if that is the login's default database.
        """
        switches = self._switches()
        backend = self._backend(wait, switches)
        try:
            account = administrator(login) if password is None else authenticate(backend.pg, login, password)
            engine = SessionEngine(backend, database or account.database, account, switches, TABLES, self._let_go)
        except BaseException:
            self._let_go(backend)
            raise
        session = engine.session
        try:
            entry = session.catalog.database(session.database)
            if entry is None or session.security.entrant(session.database) is None:
                if not database:
                    raise SqlError(4064, "Cannot open user default database. Login failed.", severity=11)
                text = f'Cannot open database "{database}" requested by the login. The login failed.'
                raise SqlError(4060, text, severity=11)
            session.database = session.home = entry[1]
            engine.introduce(Client(login))
        except BaseException:
            engine.close()
            raise
        return engine

    def close(self) -> None:
        """Close the connections that no engine uses."""
        while self._spare:
            self._spare.pop().close()

    def _backend(self, wait: Wait, switches: Switches) -> Backend:
        while self._spare:
            backend = self._spare.pop()
            if backend.take(wait, switches):
                return backend
            backend.close()
        backend = Backend(self._conninfo, wait)
        backend.take(wait, switches)
        return backend

    def _let_go(self, backend: Backend) -> None:
        if backend.clean():
            self._spare.append(backend)
        else:
            backend.close()
