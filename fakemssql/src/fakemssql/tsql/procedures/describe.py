"""sp_describe_undeclared_parameters and sp_describe_first_result_set: what a statement needs and gives before it runs.

Drivers ask for the first when a parameter is NULL and its type unknown (pyodbc's None, ``fast_executemany``). Where
types cannot be deduced it fails (see ``guesses.py``), which drivers keep to themselves; under XACT_ABORT ON the
transaction has gone then all the same ("SET XACT_ABORT (Transact-SQL)").
"""

from __future__ import annotations

from typing import Any

from fakemssql.contract import Parameter, ResultColumn
from fakemssql.tsql.compiler.compiler import compilation, compile_statement
from fakemssql.tsql.datatypes.codec import encode
from fakemssql.tsql.datatypes.sqltypes import BIT, INT, SYSNAME, nvarchar, oid, storage
from fakemssql.tsql.parser import batches, nodes
from fakemssql.tsql.pg import Request
from fakemssql.tsql.procedures.execution import declarations
from fakemssql.tsql.procedures.parameter_types import Guess
from fakemssql.tsql.procedures.typefacts import TDS_IDS, type_row
from fakemssql.tsql.runtime.execution.plans import environment
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.arguments import Arguments
from fakemssql.tsql.runtime.session.session import Session
from fakemssql.types import SqlType

_SMALL, _TINY = SqlType("smallint"), SqlType("tinyint")


def send(session: Session, frame: Frame, columns: list[tuple[str, SqlType]], rows: list[list[Any]]) -> None:
    """A result set of Python values, made a PostgreSQL result by a VALUES list of parameters."""
    values: list[bytes | None] = []
    oids: list[int] = []
    texts = []
    for row in rows:
        cells = []
        for (_, kind), value in zip(columns, row, strict=True):
            values.append(encode(kind, value))
            oids.append(oid(kind))
            cells.append(f"${len(values)}")
        texts.append(f"({', '.join(cells)})")
    if rows:
        sql = f"VALUES {', '.join(texts)}"
    else:
        sql = "SELECT " + ", ".join(f"NULL::{storage(kind)}" for _, kind in columns) + " WHERE false"
    result = session.transactions.run([Request(sql, values, oids)])
    frame.output.columns([ResultColumn(name, kind, result.ftype(i)) for i, (name, kind) in enumerate(columns)])
    if result.ntuples:
        frame.output.rows(result)
    session.rowcount = len(rows)
    frame.output.done(None if session.options.nocount else len(rows))


_UNDECLARED = [
    ("parameter_ordinal", INT),
    ("name", SYSNAME),
    ("suggested_system_type_id", INT),
    ("suggested_system_type_name", nvarchar(256)),
    ("suggested_max_length", _SMALL),
    ("suggested_precision", _TINY),
    ("suggested_scale", _TINY),
    ("suggested_user_type_id", INT),
    ("suggested_user_type_database", SYSNAME),
    ("suggested_user_type_schema", SYSNAME),
    ("suggested_user_type_name", SYSNAME),
    ("suggested_assembly_qualified_type_name", nvarchar(4000)),
    ("suggested_xml_collection_id", INT),
    ("suggested_xml_collection_database", SYSNAME),
    ("suggested_xml_collection_schema", SYSNAME),
    ("suggested_xml_collection_name", SYSNAME),
    ("suggested_is_xml_document", BIT),
    ("suggested_is_case_sensitive", BIT),
    ("suggested_is_fixed_length_clr_type", BIT),
    ("suggested_is_input", BIT),
    ("suggested_is_output", BIT),
    ("formal_parameter_name", SYSNAME),
    ("suggested_tds_type_id", INT),
    ("suggested_tds_length", INT),
]


def sp_describe_undeclared_parameters(
    session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]
) -> int:
    text, params = arguments.take("tsql", "params")
    declared = {item.name: item.type for item in declarations(params or "")}
    guess = Guess(session, frame, declared)
    guess.whole(batches.parse(text or "", session.options.quoted_identifier))
    rows = []
    order = sorted(guess.found, key=lambda name: (text or "").lower().find(name))
    for number, name in enumerate(order, 1):
        kind = guess.found[name]
        identifier, full, length, precision, scale = type_row(kind)
        position = (text or "").lower().find(name)
        shown = (text or "")[position : position + len(name)]
        rows.append(
            [
                number,
                shown,
                identifier,
                full,
                length,
                precision,
                scale,
                None,
                None,
                None,
                None,
                None,
                None,
                None,
                None,
                None,
                False,
                False,
                False,
                True,
                False,
                None,
                TDS_IDS[kind.name],
                65535 if length == -1 else length,
            ]
        )
    send(session, frame, _UNDECLARED, rows)
    return 0


_FIRST = [
    ("is_hidden", BIT),
    ("column_ordinal", INT),
    ("name", SYSNAME),
    ("is_nullable", BIT),
    ("system_type_id", INT),
    ("system_type_name", nvarchar(256)),
    ("max_length", _SMALL),
    ("precision", _TINY),
    ("scale", _TINY),
    ("collation_name", SYSNAME),
    ("user_type_id", INT),
    ("user_type_database", SYSNAME),
    ("user_type_schema", SYSNAME),
    ("user_type_name", SYSNAME),
    ("assembly_qualified_type_name", nvarchar(4000)),
    ("xml_collection_id", INT),
    ("xml_collection_database", SYSNAME),
    ("xml_collection_schema", SYSNAME),
    ("xml_collection_name", SYSNAME),
    ("is_xml_document", BIT),
    ("is_case_sensitive", BIT),
    ("is_fixed_length_clr_type", BIT),
    ("source_server", SYSNAME),
    ("source_database", SYSNAME),
    ("source_schema", SYSNAME),
    ("source_table", SYSNAME),
    ("source_column", SYSNAME),
    ("is_identity_column", BIT),
    ("is_part_of_unique_key", BIT),
    ("is_updateable", BIT),
    ("is_computed_column", BIT),
    ("is_sparse_column_set", BIT),
    ("ordinal_in_order_by_list", _SMALL),
    ("order_by_is_descending", _SMALL),
    ("order_by_list_length", _SMALL),
    ("tds_type_id", INT),
    ("tds_length", INT),
    ("tds_collation_id", INT),
    ("tds_collation_sort_id", _TINY),
]


def sp_describe_first_result_set(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    text, params, _ = arguments.take("tsql", "params", "browse_information_mode")
    env = environment(session, frame)
    env.variables = {item.name: item.type for item in declarations(params or "")}
    rows: list[list[Any]] = []
    for statement in batches.parse(text or "", session.options.quoted_identifier):
        if isinstance(statement, nodes.Declare):
            env.variables[statement.name] = statement.type
        if isinstance(statement, nodes.SelectStatement | nodes.Insert | nodes.Update | nodes.Delete | nodes.Merge):
            columns = compile_statement(compilation(env), statement).columns
            if columns is None:
                continue
            for number, column in enumerate(columns, 1):
                kind = column.type or INT
                identifier, full, length, precision, scale = type_row(kind)
                collation = "SQL_Latin1_General_CP1_CI_AS" if kind.is_string else None
                row = [
                    False,
                    number,
                    column.name or None,
                    column.nullable,
                    identifier,
                    full,
                    length,
                    precision,
                    scale,
                    collation,
                ]
                row += [None] * 9 + [False, False, False] + [None] * 5
                row += [column.identity, False, bool(column.origin), False, False, None, None, None, TDS_IDS[kind.name]]
                row += [65535 if length == -1 else length, 13632521 if collation else None, 52 if collation else None]
                rows.append(row)
            break
    send(session, frame, _FIRST, rows)
    return 0
