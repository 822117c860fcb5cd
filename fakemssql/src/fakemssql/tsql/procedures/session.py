"""Procedures that change the session's own state, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakemssql.contract import Parameter
from fakemssql.tsql.runtime.calls import Arguments, procedure
from fakemssql.tsql.runtime.frames import Frame

if TYPE_CHECKING:
    from fakemssql.tsql.runtime.session import Session


@procedure("sp_flush_log", "sp_reset_connection", "sp_updatestats", "sp_recompile", "sp_refreshview")
def _nothing(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    return 0


@procedure("sp_set_session_context")
def _session_context(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    key, value, _ = arguments.take("key", "value", "read_only")
    session.pg.query(
        "SELECT set_config('mssql_context.k' || md5(lower($1)), $2, false)",
        str(key),
        "" if value is None else str(value),
    )
    return 0
