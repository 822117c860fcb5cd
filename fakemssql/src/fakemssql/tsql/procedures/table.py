"""Which function is which system procedure."""

from __future__ import annotations

from fakemssql.tsql.procedures import applocks, catalog, describe, execution, relations, renaming, session
from fakemssql.tsql.runtime.session.session import Procedure

PROCEDURES: dict[str, Procedure] = {
    "sp_getapplock": applocks.sp_getapplock,
    "sp_releaseapplock": applocks.sp_releaseapplock,
    "sp_tables": catalog.sp_tables,
    "sp_columns": catalog.sp_columns,
    "sp_columns_100": catalog.sp_columns_100,
    "sp_columns_90": catalog.sp_columns_100,
    "sp_pkeys": catalog.sp_pkeys,
    "sp_statistics": catalog.sp_statistics,
    "sp_statistics_100": catalog.sp_statistics,
    "sp_databases": catalog.sp_databases,
    "sp_datatype_info": catalog.sp_datatype_info,
    "sp_datatype_info_100": catalog.sp_datatype_info,
    "sp_datatype_info_90": catalog.sp_datatype_info,
    "sp_describe_undeclared_parameters": describe.sp_describe_undeclared_parameters,
    "sp_describe_first_result_set": describe.sp_describe_first_result_set,
    "sp_executesql": execution.sp_executesql,
    "sp_fkeys": relations.sp_fkeys,
    "sp_stored_procedures": relations.sp_stored_procedures,
    "sp_special_columns": relations.sp_special_columns,
    "sp_special_columns_100": relations.sp_special_columns,
    "sp_special_columns_90": relations.sp_special_columns,
    "sp_rename": renaming.sp_rename,
    "sp_flush_log": session.nothing,
    "sp_reset_connection": session.nothing,
    "sp_updatestats": session.nothing,
    "sp_recompile": session.nothing,
    "sp_refreshview": session.nothing,
    "sp_set_session_context": session.refused,
    "sp_sproc_columns": session.refused,
    "sp_sproc_columns_100": session.refused,
    "sp_addrolemember": session.refused,
    "sp_droprolemember": session.refused,
    "sp_spaceused": session.refused,
    "sp_help": session.refused,
    "sp_helpindex": session.refused,
    "sp_helptext": session.refused,
    "sp_lock": session.refused,
    "sp_who": session.refused,
    "sp_who2": session.refused,
}
