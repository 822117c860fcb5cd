"""sp_addrolemember and sp_droprolemember, which ALTER ROLE replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakemssql.contract import Parameter, SqlError
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.calls import Arguments, procedure
from fakemssql.tsql.runtime.frames import Frame

if TYPE_CHECKING:
    from fakemssql.tsql.runtime.session import Session


def _change(session: Session, arguments: Arguments, action: str) -> int:
    role, member = arguments.take("rolename", "membername")
    if session.definer.principal(str(member)) is None:
        raise SqlError(15410, f"User or role '{member}' does not exist in this database.", severity=11)
    node = nodes.AlterRole(str(role), action, str(member))
    session.transactions.define(lambda: session.definer.execute(node))
    return 0


@procedure("sp_addrolemember")
def _add(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    return _change(session, arguments, "add")


@procedure("sp_droprolemember")
def _drop(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    return _change(session, arguments, "drop")
