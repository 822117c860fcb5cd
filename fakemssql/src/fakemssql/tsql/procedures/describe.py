"""Procedures sp_describe_undeclared_parameters and sp_describe_first_result_set.

Drivers call the first when a parameter is NULL and its type is unknown (pyodbc's None, ``fast_executemany``). It fails
if types cannot be deduced (see ``parameter_types.py``). Drivers do not report this error; under XACT_ABORT ON it still
rolls the transaction back ("SET XACT_ABORT (Transact-SQL)").
"""

from __future__ import annotations

from typing import Any

from fakemssql.tsql.compiler.compiler import compilation, compile_statement
from fakemssql.tsql.datatypes.sqltypes import INT
from fakemssql.tsql.parser import batches, nodes
from fakemssql.tsql.procedures.execution import declarations
from fakemssql.tsql.procedures.parameter_types import ParameterTypes
from fakemssql.tsql.procedures.result_sets import columns_of, send_rows
from fakemssql.tsql.runtime.execution.plans import environment
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.session import Arguments, Session
from fakemssql.types import SqlType

_UNDECLARED = columns_of(
    "parameter_ordinal int, name sysname, suggested_system_type_id int, suggested_system_type_name nvarchar(256), "
    "suggested_max_length smallint, suggested_precision tinyint, suggested_scale tinyint, "
    "suggested_user_type_id int, suggested_user_type_database sysname, suggested_user_type_schema sysname, "
    "suggested_user_type_name sysname, suggested_assembly_qualified_type_name nvarchar(4000), "
    "suggested_xml_collection_id int, suggested_xml_collection_database sysname, "
    "suggested_xml_collection_schema sysname, suggested_xml_collection_name sysname, suggested_is_xml_document bit, "
    "suggested_is_case_sensitive bit, suggested_is_fixed_length_clr_type bit, suggested_is_input bit, "
    "suggested_is_output bit, formal_parameter_name sysname, suggested_tds_type_id int, suggested_tds_length int"
)


def sp_describe_undeclared_parameters(session: Session, arguments: Arguments, frame: Frame) -> int:
    text, params = (each or "" for each in arguments.take("tsql", "params"))
    types = ParameterTypes(session, frame, {item.name: item.type for item in declarations(params)})
    types.deduce(batches.parse(text, session.options.quoted_identifier))
    rows = []
    for number, name in enumerate(sorted(types.found, key=text.lower().find), 1):
        position = text.lower().find(name)
        row = {"parameter_ordinal": number, "name": text[position : position + len(name)], "suggested_is_input": True}
        rows.append(row | {f"suggested_{key}": value for key, value in _type_facts(session, types.found[name]).items()})
    send_rows(session, frame, _UNDECLARED, rows)
    return 0


_FIRST = columns_of(
    "is_hidden bit, column_ordinal int, name sysname, is_nullable bit, system_type_id int, "
    "system_type_name nvarchar(256), max_length smallint, precision tinyint, scale tinyint, collation_name sysname, "
    "user_type_id int, user_type_database sysname, user_type_schema sysname, user_type_name sysname, "
    "assembly_qualified_type_name nvarchar(4000), xml_collection_id int, xml_collection_database sysname, "
    "xml_collection_schema sysname, xml_collection_name sysname, is_xml_document bit, is_case_sensitive bit, "
    "is_fixed_length_clr_type bit, source_server sysname, source_database sysname, source_schema sysname, "
    "source_table sysname, source_column sysname, is_identity_column bit, is_part_of_unique_key bit, "
    "is_updateable bit, is_computed_column bit, is_sparse_column_set bit, ordinal_in_order_by_list smallint, "
    "order_by_is_descending smallint, order_by_list_length smallint, tds_type_id int, tds_length int, "
    "tds_collation_id int, tds_collation_sort_id tinyint"
)


def sp_describe_first_result_set(session: Session, arguments: Arguments, frame: Frame) -> int:
    text, params, _ = arguments.take("tsql", "params", "browse_information_mode")
    env = environment(session, frame)
    env.variables = {item.name: item.type for item in declarations(params or "")}
    columns = None
    for statement in batches.parse(text or "", session.options.quoted_identifier):
        if isinstance(statement, nodes.Declare):
            env.variables[statement.name] = statement.type
        if isinstance(statement, nodes.SelectStatement | nodes.Insert | nodes.Update | nodes.Delete | nodes.Merge):
            columns = compile_statement(compilation(env), statement).columns
        if columns is not None:
            break
    rows = []
    for number, column in enumerate(columns or (), 1):
        kind = column.type or INT
        row = {"column_ordinal": number, "name": column.name or None, "is_nullable": column.nullable}
        row |= _type_facts(session, kind)
        row |= {"is_identity_column": column.identity, "is_updateable": bool(column.origin)}
        if kind.is_string:
            row |= {
                "collation_name": "SQL_Latin1_General_CP1_CI_AS",
                "tds_collation_id": 13632521,
                "tds_collation_sort_id": 52,
            }
        rows.append(row)
    send_rows(session, frame, _FIRST, rows)
    return 0


def _type_facts(session: Session, kind: SqlType) -> dict[str, Any]:
    """Numbers, name and sizes of a type, by the names of the columns that both procedures have for them."""
    if kind not in _FACTS:
        rows = session.pg.query(
            "SELECT type_id, mssql.max_length($1, $2::int, $3::int, $4::int), mssql.precision_of($1, $3::int, $4::int),"
            " mssql.scale_of($1, $4::int) FROM mssql.types WHERE name = $1",
            *(kind.name, kind.length, kind.precision, kind.scale),
        )
        number, length, precision, scale = (int(fact or 0) for fact in rows[0])
        _FACTS[kind] = {
            "system_type_id": number,
            "system_type_name": str(kind),
            "max_length": length,
            "precision": precision,
            "scale": scale,
            "tds_type_id": _TDS_IDS.get(kind.name, number),
            "tds_length": 65535 if length == -1 else length,
        }
    return _FACTS[kind]


_FACTS: dict[SqlType, dict[str, Any]] = {}
_TDS_IDS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), 38),
    **dict.fromkeys(("smalldatetime", "datetime"), 111),
    **dict.fromkeys(("real", "float"), 109),
    **dict.fromkeys(("money", "smallmoney"), 110),
}
"""Type ids of the protocol that are not those of sys.types: it has one for all integers, and so on."""
