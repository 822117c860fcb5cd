"""Security context of a session: its login, and the permissions of the login.

The engine checks permissions when it compiles a statement, and caches the plan together with the context of the check.
Answers are cached until the catalog changes. For the administrator there is no check.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from fakemssql.tsql.catalog.catalog import Catalog
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.names import fold
from fakemssql.tsql.pg import Pg
from fakemssql.tsql.security import errors
from fakemssql.tsql.security.accounts import ServerPrincipal

DATABASE, OBJECT, SCHEMA, PRINCIPAL, SERVER = 0, 1, 3, 4, 100
"""Classes of securables, with their numbers in sys.database_permissions."""

DBO = 1


@dataclass(frozen=True)
class Identity:
    """User of a login in one database, with the ids of its roles and logins as PostgreSQL arrays."""

    database_id: int
    user_id: int
    name: str
    schema: str
    token: str
    logins: str

    @property
    def arguments(self) -> str:
        """First arguments of the functions in 70_security.sql."""
        return f"{self.database_id}, '{self.token}'::int[], '{self.logins}'::int[]"


class SecurityContext:
    """Login of one session, with cached answers about its permissions."""

    def __init__(self, pg: Pg, catalog: Catalog, account: ServerPrincipal) -> None:
        self.pg, self.catalog = pg, catalog
        self.account = account
        self.powerful = account.powerful
        self._chain: tuple[str, int] | None = None  # database and owner of the running module
        self._schema: str | None = None  # schema of the running module
        self._identities: dict[str, Identity | None] = {}
        self._answers: dict[tuple[str, int, int, str], bool] = {}
        self._generation = catalog.generation
        catalog.default_schema = self.default_schema

    @property
    def key(self) -> tuple[ServerPrincipal, int] | None:
        """Part of a plan's key: the login and the state of its permissions, or None for the administrator."""
        return None if self.powerful else (self.account, self.catalog.generation)

    def module(self, database: str, owner: int, schema: str) -> AbstractContextManager[None]:
        """Run a module's text: permissions on objects of the module's owner are not checked (ownership chaining)."""
        return self._acting((fold(database), owner), schema)

    def dynamic(self) -> AbstractContextManager[None]:
        """Run a dynamic text: ownership chaining does not apply to it."""
        return self._acting(None, None)

    @contextmanager
    def _acting(self, chain: tuple[str, int] | None, schema: str | None) -> Iterator[None]:
        saved = self._chain, self._schema
        self._chain, self._schema = chain, schema
        try:
            yield
        finally:
            self._chain, self._schema = saved

    # --- questions -------------------------------------------------------------------------------------------------

    def identity(self, database: str) -> Identity:
        """User in ``database``. Error 916 if the login has no user there."""
        found = self.entrant(database)
        if found is None:
            entry = self.catalog.database(database)
            raise errors.no_access(self.account.name, entry[1] if entry else database)
        return found

    def enter(self, database: str) -> None:
        """Raise error 916 if the database exists and the login has no user in it."""
        if not self.powerful and self.catalog.database(database) is not None:
            self.identity(database)

    def entrant(self, database: str) -> Identity | None:
        """User in ``database``; None if the login has no user there."""
        self._refresh()
        key = fold(database)
        if key not in self._identities:
            self._identities[key] = self._identify(key)
        return self._identities[key]

    def _identify(self, database: str) -> Identity | None:
        entry = self.catalog.database(database)
        if entry is None:
            return None
        if self.powerful:
            return Identity(entry[0], DBO, "dbo", "dbo", "{0,1,16384}", "{1,2,3}")
        rows = self.pg.query(
            "SELECT user_id, name, default_schema, token, logins FROM mssql.identify($1::int, $2::int)",
            entry[0],
            self.account.login_id,
        )
        if not rows:
            return None
        user, name, schema, token, logins = rows[0]
        return Identity(entry[0], int(user or 0), str(name), str(schema), str(token), str(logins))

    def allowed(self, database: str, kind: int, major: int, permission: str) -> bool:
        """Return whether the login has ``permission`` on the securable ``major`` of class ``kind``."""
        if self.powerful:
            return True
        identity = self.identity(database)
        key = (fold(database), kind, major, permission)
        if key not in self._answers:
            rows = self.pg.query(
                f"SELECT mssql.allowed({identity.arguments}, $1::int, $2::int, $3)",
                kind,
                major,
                permission,
            )
            self._answers[key] = rows[0][0] == "t"
        return self._answers[key]

    def require(self, table: TableInfo, permission: str) -> None:
        """Raise error 229 if neither the login nor ownership chaining gives the permission on an object."""
        if self.powerful or table.local or table.type == "S":
            return
        if self._chain == (fold(table.database), table.owner):
            return
        if not self.allowed(table.database, OBJECT, table.object_id, permission):
            raise errors.denied(permission, table)

    def require_database(self, database: str, permission: str) -> None:
        """Raise error 262 if the login lacks a permission of a database."""
        if not self.allowed(database, DATABASE, 0, permission):
            entry = self.catalog.database(database)
            raise errors.denied_in_database(permission, entry[1] if entry else database)

    def require_state(self, database: str, permission: str, server: bool) -> None:
        """Raise the two errors of a dynamic management view: 300 or 262, and 297."""
        if not self.allowed(database, SERVER if server else DATABASE, 0, permission):
            first = errors.denied_on_server(permission) if server else errors.denied_in_database(permission, database)
            first.then = errors.no_permission()
            raise first

    def default_schema(self, database: str) -> str:
        """Schema for names without one: that of the running module, that of the user, or dbo."""
        if self._schema is not None:
            return self._schema
        if self.powerful:
            return "dbo"
        found = self.entrant(database)
        return found.schema if found is not None else "dbo"

    def _refresh(self) -> None:
        if self._generation != self.catalog.generation:
            self._generation = self.catalog.generation
            self._identities.clear()
            self._answers.clear()
