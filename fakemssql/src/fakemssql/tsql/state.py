"""State of a session that its parts share: settings, transaction, created and dropped tables."""

from __future__ import annotations

from dataclasses import dataclass

from fakemssql.contract import ResponseWriter, SqlError
from fakemssql.switches import Switches
from fakemssql.tsql.catalog.catalog import Catalog
from fakemssql.tsql.options import Options
from fakemssql.tsql.pg import Pg
from fakemssql.tsql.security.accounts import ServerPrincipal
from fakemssql.tsql.security.context import SecurityContext


@dataclass
class MadeIdentity:
    """Generated identity value: its sequence (table and column), and the value after it was read."""

    sequence: tuple[str, str]
    value: int | None = None


def identity_value(pg: Pg, made: MadeIdentity | None) -> int | None:
    """Return a generated identity value; it is read from PostgreSQL at the first call."""
    if made is not None and made.value is None:
        rows = pg.query(
            # Meanwhile another session may have dropped the table or created another one with its name.
            "SELECT mssql.last_identity($1, $2)",
            *made.sequence,
        )
        made.value = int(rows[0][0]) if rows and rows[0][0] is not None else None
    return made.value if made is not None else None


class SessionState:
    """State of a session that its definitions, transactions, application locks and file read and change."""

    def __init__(self, pg: Pg, catalog: Catalog, database: str, account: ServerPrincipal, switches: Switches) -> None:
        self.pg, self.catalog, self.switches = pg, catalog, switches
        self.home = self.database = database
        self.security = SecurityContext(pg, catalog, account)
        self.options = Options()
        self.output: ResponseWriter | None = None
        self.rowcount = 0
        self.error_number = 0
        self.trying = 0  # number of TRY blocks that run
        self.identity: MadeIdentity | None = None  # of @@IDENTITY
        self.scope_identity: MadeIdentity | None = None  # of SCOPE_IDENTITY()
        self.transaction_count = 0  # @@TRANCOUNT
        self.transaction_descriptor = 0  # 0 outside a transaction
        self.transaction_began = 0.0
        self.outer_tables: frozenset[str] = frozenset()  # temporary tables of the callers of the running procedure

    def keep_identities(self) -> None:
        """Read the identity values that were not read yet, before their tables or their scope end."""
        if self.pg.usable:
            identity_value(self.pg, self.identity)
            identity_value(self.pg, self.scope_identity)

    def apply_lock_timeout(self) -> None:
        """Set PostgreSQL's lock timeout: -1 waits for ever, 0 does not wait (the shortest wait is 1 ms).

        A rollback in PostgreSQL undoes SET; a rollback in SQL Server does not.
        """
        level = self.options.lock_timeout
        self.pg.execute(f"SET lock_timeout = {0 if level < 0 else max(level, 1)}")

    def info(self, message: SqlError) -> None:
        """Send a message to the client of the running request."""
        if self.output is not None:
            self.output.message(message)
