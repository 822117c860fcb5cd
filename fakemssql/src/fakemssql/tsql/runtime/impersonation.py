"""EXECUTE AS and REVERT, and modules that run as another user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fakemssql.contract import SqlError
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.steps import Steps
from fakemssql.tsql.security import accounts
from fakemssql.tsql.security.accounts import Account
from fakemssql.tsql.security.context import PRINCIPAL, SERVER, Context

if TYPE_CHECKING:
    from fakemssql.tsql.runtime.session import Session

_OWNER = -2


class Impersonation(Steps):
    """Runs EXECUTE AS and REVERT."""

    def _run_executeas(self, node: nodes.ExecuteAs, frame: Frame) -> None:
        name = self.text(node.name, frame, 128)
        session = self.session
        session.security.push(_user(session, name) if node.kind == "user" else _login(session, name))
        self.quiet()

    def _run_revert(self, node: nodes.Revert, frame: Frame) -> None:
        """Back to the context before the last EXECUTE AS of this module or text; nothing where there was none."""
        security = self.session.security
        if len(security.contexts) > frame.contexts:
            if security.context.origin != fold(self.session.database):
                raise SqlError(
                    15199,
                    "The current security context cannot be reverted. Please switch to the original database where"
                    " 'Execute As' was called and try it again.",
                )
            security.unwind(len(security.contexts) - 1)
        self.quiet()


def _user(session: Session, name: str) -> Context:
    """The context of a user of the current database. Error 15517."""
    database = session.database
    identity = session.security.identity(database)
    rows = session.pg.query(
        "SELECT principal_id, login_id FROM mssql.principals WHERE database_id = $1::int AND folded = $2"
        " AND kind = 'S' AND principal_id NOT IN (3, 4)",
        identity.database_id,
        fold(name),
    )
    number = int(rows[0][0] or 0) if rows else 0
    own = number == identity.user_id
    if not rows or not (own or session.security.allowed(database, PRINCIPAL, number, "IMPERSONATE")):
        raise SqlError(
            15517,
            f'Cannot execute as the database principal because the principal "{name}" does not exist, this type of'
            " principal cannot be impersonated, or you do not have permission.",
        )
    context = as_user(session, database, number)
    if session.security.pg.query("SELECT 1 FROM mssql.identify($1::int, 0, $2::int)", identity.database_id, number):
        return context
    raise SqlError(
        916,
        f'The server principal "{context.account.name}" is not able to access the database "{database}" under the'
        " current security context.",
        severity=14,
    )


def as_user(session: Session, database: str, number: int) -> Context:
    """The context of a user: known by its login, or by a text made of its SID where it has none."""
    rows = session.pg.query(
        "SELECT COALESCE(l.name, 'S-1-9-3-' || abs(hashtext(p.sid::text))),"
        " COALESCE(l.principal_id, 0) FROM mssql.principals p JOIN mssql.databases d USING (database_id)"
        " LEFT JOIN mssql.logins l ON l.principal_id = CASE p.principal_id WHEN 1 THEN d.owner_id ELSE p.login_id END"
        " WHERE d.folded = $1 AND p.principal_id = $2::int",
        fold(database),
        number,
    )
    account = Account(int(rows[0][1] or 0), str(rows[0][0]))
    return Context(account, number, fold(database), fold(session.database))


def _login(session: Session, name: str) -> Context:
    """The context of a login. Error 15406."""
    account = accounts.find(session.pg, name)
    security = session.security
    own = account is not None and account.login_id == security.context.account.login_id
    if account is None or not (own or security.allowed(session.database, SERVER, 0, "IMPERSONATE ANY LOGIN")):
        raise SqlError(
            15406,
            f'Cannot execute as the server principal because the principal "{name}" does not exist, this type of'
            " principal cannot be impersonated, or you do not have permission.",
        )
    return Context(account, origin=fold(session.database))


@contextmanager
def module(session: Session, database: str, owner: int, schema: str, as_whom: int | None) -> Iterator[None]:
    """The run of a procedure or trigger: its chain of ownership, and the user it runs as, if not its caller."""
    security = session.security
    depth = len(security.contexts)
    with security.module(database, owner, schema):
        if as_whom is not None and not (as_whom in (1, _OWNER) and owner == 1 and security.powerful):
            security.push(as_user(session, database, owner if as_whom == _OWNER else as_whom))
        try:
            yield
        finally:
            security.unwind(depth)
