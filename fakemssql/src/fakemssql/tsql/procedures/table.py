"""Table of the system procedures by their names; sp_rename, and those that are refused."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.definitions.indexes import rename_index
from fakemssql.tsql.procedures import applocks, catalog, describe, execution
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.session import Arguments, Procedure, Session, parse_name


def sp_rename(session: Session, arguments: Arguments, frame: Frame) -> int:
    old, new, kind = arguments.take("objname", "newname", "objtype")
    name = parse_name(old or "")
    session.transactions.define(lambda: rename_index(session.definer, name, str(new), (kind or "OBJECT").upper()))
    text = "Caution: Changing any part of an object name could break scripts and stored procedures."
    frame.output.message(SqlError(15477, text, severity=0))
    return 0


def refused(session: Session, arguments: Arguments, frame: Frame) -> int:
    """Error 40517 for a procedure of SQL Server that fakemssql does not have."""
    raise SqlError(40517, f"{arguments.name} is not supported by fakemssql.")


_REFUSED = (
    *("sp_addrole", "sp_column_privileges", "sp_cursor", "sp_cursorclose", "sp_cursorexecute", "sp_cursorfetch"),
    *("sp_cursoropen", "sp_cursoroption", "sp_cursorprepare", "sp_cursorprepexec", "sp_cursorunprepare"),
    *("sp_droprole", "sp_helpdb", "sp_helpdbfixedrole", "sp_helpsrvrolemember", "sp_oledb_ro_usrname"),
    *("sp_enum_oledb_providers", "sp_table_privileges", "sp_tablecollations_100", "xp_instance_regread", "xp_qv"),
    *("sp_addrolemember", "sp_databases", "sp_droprolemember", "sp_fkeys", "sp_flush_log", "sp_help", "sp_helpindex"),
    *("sp_helptext", "sp_lock", "sp_recompile", "sp_refreshview", "sp_reset_connection", "sp_set_session_context"),
    *("sp_spaceused", "sp_special_columns", "sp_special_columns_90", "sp_special_columns_100", "sp_sproc_columns"),
    *("sp_sproc_columns_100", "sp_statistics", "sp_statistics_100", "sp_stored_procedures", "sp_updatestats", "sp_who"),
    *("sp_who2", "sp_execute", "sp_prepare", "sp_prepexec", "sp_unprepare"),
)
PROCEDURES: dict[str, Procedure] = {
    "sp_getapplock": applocks.sp_getapplock,
    "sp_releaseapplock": applocks.sp_releaseapplock,
    "sp_tables": catalog.sp_tables,
    "sp_columns": catalog.sp_columns,
    "sp_columns_90": catalog.sp_columns_100,
    "sp_columns_100": catalog.sp_columns_100,
    "sp_pkeys": catalog.sp_pkeys,
    "sp_datatype_info": catalog.sp_datatype_info,
    "sp_datatype_info_90": catalog.sp_datatype_info,
    "sp_datatype_info_100": catalog.sp_datatype_info,
    "sp_describe_undeclared_parameters": describe.sp_describe_undeclared_parameters,
    "sp_describe_first_result_set": describe.sp_describe_first_result_set,
    "sp_executesql": execution.sp_executesql,
    "sp_rename": sp_rename,
    **dict.fromkeys(_REFUSED, refused),
}
