"""Procedures that change the session's own state, or nothing, or that are refused."""

from __future__ import annotations

from fakemssql.contract import Parameter, SqlError
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.arguments import Arguments
from fakemssql.tsql.runtime.session.session import Session


def nothing(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    """What has no effect here."""
    return 0


def refused(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    """Error 40517 for a procedure of SQL Server that nobody needs here."""
    raise SqlError(40517, f"{arguments.name} is not supported by fakemssql.")
