# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Procedures of tools and administrators: sp_who, sp_spaceused, sp_helpindex, sp_rename."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakemssql.contract import Parameter, SqlError
from fakemssql.tsql.datatypes.sqltypes import SYSNAME, nvarchar, varchar
from fakemssql.tsql.names import literal
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.procedures.catalog import SMALLINT
from fakemssql.tsql.runtime.calls import Arguments, parse_name, procedure, result_set
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.security.context import SERVER
from fakemssql.tsql.security.visibility import sees
from fakemssql.types import SqlType

if TYPE_CHECKING:
    from fakemssql.tsql.runtime.session import Session


def _own(session: Session) -> str:
    """The condition that a session is one's own, for who may not see others' (VIEW SERVER STATE)."""
    allowed = session.security.allowed(session.database, SERVER, 0, "VIEW SERVER STATE")
    return "" if allowed else " WHERE spid = pg_backend_pid() % 32768"


@procedure("sp_who2")
def _who2(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    """The thirteen columns of the server's own, among them the session's number twice."""
    char = SqlType("char", length=5)
    columns = [
        ("SPID", char),
        ("Status", nvarchar(30)),
        ("Login", SYSNAME),
        ("HostName", SYSNAME),
        ("BlkBy", char),
        ("DBName", SYSNAME),
        ("Command", nvarchar(32)),
        ("CPUTime", varchar(30)),
        ("DiskIO", varchar(30)),
        ("LastBatch", varchar(48)),
        ("ProgramName", SYSNAME),
        ("SPID", char),
        ("REQUESTID", char),
    ]
    sql = (
        "SELECT rpad(spid::text, 5), upper(status), loginame, COALESCE(NULLIF(hostname, ''), '  .'),"
        " rpad(COALESCE(NULLIF(blocked, 0)::text, '  .'), 5), d.name, cmd, '0', '0',"
        " to_char(last_batch, 'MM/DD HH24:MI:SS'), program_name, rpad(spid::text, 5), '0    '"
        " FROM mssql_sys.sysprocesses JOIN mssql.databases d ON d.database_id = dbid"
        f"{_own(session)} ORDER BY spid"
    )
    result_set(frame.output, session, sql, columns)
    return 0


@procedure("sp_who")
def _who(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    columns = [
        ("spid", SMALLINT),
        ("ecid", SMALLINT),
        ("status", nvarchar(30)),
        ("loginame", SYSNAME),
        ("hostname", SYSNAME),
        ("blk", SqlType("char", length=5)),
        ("dbname", SYSNAME),
        ("cmd", nvarchar(16)),
    ]
    sql = (
        "SELECT spid, ecid, status, loginame, hostname, rpad(blocked::text, 5), d.name, cmd"
        " FROM mssql_sys.sysprocesses JOIN mssql.databases d ON d.database_id = dbid"
        f"{_own(session)} ORDER BY spid"
    )
    result_set(frame.output, session, sql, columns)
    return 0


@procedure("sp_spaceused")
def _spaceused(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    name, *_ = arguments.take("objname", "updateusage", "mode", "oneresultset", "include_total_xtp_storage")
    if not name:
        raise SqlError(40517, "sp_spaceused without a table is not supported by fakemssql.")
    table = session.catalog.find(parse_name(name), session.database)
    if table is None or not sees(session.security, table):
        raise SqlError(
            15009,
            f"The object '{name}' does not exist in database '{session.database}' or is invalid for this operation.",
        )
    columns = [
        ("name", SYSNAME),
        ("rows", SqlType("char", length=20)),
        ("reserved", varchar(18)),
        ("data", varchar(18)),
        ("index_size", varchar(18)),
        ("unused", varchar(18)),
    ]
    size = f"(mssql.page_count({table.object_id}) * 8)::text || ' KB'"
    count = f"rpad(mssql.row_count({table.object_id})::text, 20)"
    sql = f"SELECT {literal(table.name)}::text, {count}, {size}, {size}, '0 KB', '0 KB'"
    result_set(frame.output, session, sql, columns)
    return 0


@procedure("sp_helpindex")
def _helpindex(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    (name,) = arguments.take("objname")
    table = session.catalog.find(parse_name(name or ""), session.database)
    if table is None or not sees(session.security, table):
        raise SqlError(
            15009,
            f"The object '{name}' does not exist in database '{session.database}' or is invalid for this operation.",
        )
    columns = [("index_name", SYSNAME), ("index_description", varchar(210)), ("index_keys", nvarchar(2078))]
    sql = (
        "SELECT i.name, CASE i.type WHEN 1 THEN 'clustered' ELSE 'nonclustered'"
        " END || CASE i.is_unique WHEN 1 THEN ', unique' ELSE '' END"
        " || CASE i.is_primary_key WHEN 1 THEN ', primary key' ELSE '' END || '"
        " located on PRIMARY', (SELECT string_agg(c.name || CASE k.descending WHEN 1"
        " THEN '(-)' ELSE '' END, ', ' ORDER BY k.key_ordinal) FROM"
        " mssql.index_columns k JOIN mssql.columns c USING (object_id, column_id)"
        " WHERE k.object_id = i.object_id AND k.index_id = i.index_id AND k.included = 0)"
        f" FROM mssql.indexes i WHERE i.object_id = {table.object_id} ORDER BY i.name"
    )
    result_set(frame.output, session, sql, columns)
    return 0


@procedure("sp_rename")
def _rename(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    old, new, kind = arguments.take("objname", "newname", "objtype")
    kind = (kind or "OBJECT").upper()
    name: nodes.Name = parse_name(old or "")
    session.transactions.define(lambda: session.definer.rename(name, str(new), kind))
    frame.output.message(
        SqlError(
            15477, "Caution: Changing any part of an object name could break scripts and stored procedures.", severity=0
        )
    )
    return 0
