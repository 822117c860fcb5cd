"""Procedures that change the session's own state, or nothing, or that are refused."""

from __future__ import annotations

from fakemssql.contract import Parameter, SqlError
from fakemssql.tsql.runtime.arguments import Arguments
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session import Session


def nothing(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    """What has no effect here."""
    return 0


def sp_set_session_context(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    key, value, _ = arguments.take("key", "value", "read_only")
    session.pg.query(
        "SELECT set_config('mssql_context.k' || md5(lower($1)), $2, false)",
        str(key),
        "" if value is None else str(value),
    )
    return 0


def refused(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    """Error 40517 for a procedure of SQL Server that nobody needs here."""
    raise SqlError(40517, f"{arguments.name} is not supported by fakemssql.")
