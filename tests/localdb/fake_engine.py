"""A tiny engine: PostgreSQL's own SQL, typed by what PostgreSQL answers. It lets the front be tested by itself."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

from psycopg import pq

from airflow_sqlqueue.localdb import text
from airflow_sqlqueue.localdb.contract import Column, Output, Parameter, SqlError, Wait
from airflow_sqlqueue.localdb.postgres import connect, execute
from airflow_sqlqueue.localdb.types import MAX, SqlType

log = logging.getLogger(__name__)

TYPES = {
    16: SqlType("bit"),
    17: SqlType("varbinary", MAX),
    20: SqlType("bigint"),
    21: SqlType("smallint"),
    23: SqlType("int"),
    25: SqlType("nvarchar", MAX),
    700: SqlType("real"),
    701: SqlType("float"),
    1043: SqlType("nvarchar", 4000),
    1082: SqlType("date"),
    1083: SqlType("time", scale=7),
    1114: SqlType("datetime2", scale=7),
    1184: SqlType("datetimeoffset", scale=7),
    1700: SqlType("decimal", None, 38, 10),
    2950: SqlType("uniqueidentifier"),
}
_CASTS = {
    "bit": "bool",
    "tinyint": "int2",
    "smallint": "int2",
    "int": "int4",
    "bigint": "int8",
    "real": "float4",
    "float": "float8",
    "decimal": "numeric",
    "numeric": "numeric",
    "money": "numeric",
    "varbinary": "bytea",
    "binary": "bytea",
    "uniqueidentifier": "uuid",
    "date": "date",
    "time": "time",
    "datetime": "timestamp",
    "datetime2": "timestamp",
    "datetimeoffset": "timestamptz",
}


_TYPE_INFO = """SELECT 'a type' AS "TYPE_NAME", @type AS "DATA_TYPE",
    CASE WHEN @type IN (-8, -9) THEN 4000 WHEN @type = 93 THEN 27 ELSE 8000 END AS "PRECISION" """
_UNDECLARED = """SELECT 1::int4 AS parameter_ordinal, (chr(64) || 'P1')::varchar AS name,
    127::int4 AS suggested_system_type_id, 'bigint'::varchar AS suggested_system_type_name,
    8::int2 AS suggested_max_length, 19::int2 AS suggested_precision, 0::int2 AS suggested_scale,
    NULL::int4 AS suggested_user_type_id, NULL::varchar AS suggested_user_type_database,
    NULL::varchar AS suggested_user_type_schema, NULL::varchar AS suggested_user_type_name,
    NULL::varchar AS suggested_assembly_qualified_type_name, NULL::int4 AS suggested_xml_collection_id,
    NULL::varchar AS suggested_xml_collection_database, NULL::varchar AS suggested_xml_collection_schema,
    NULL::varchar AS suggested_xml_collection_name, false AS suggested_is_xml_document,
    false AS suggested_is_case_sensitive, false AS suggested_is_fixed_length_clr_type, true AS suggested_is_input,
    false AS suggested_is_output, NULL::varchar AS formal_parameter_name, 38::int4 AS suggested_tds_type_id,
    8::int4 AS suggested_tds_length"""


class FakeEngine:
    def __init__(self, conninfo: str, database: str, login: str, wait: Wait) -> None:
        if database == "missing":
            raise SqlError(4060, f'Cannot open database "{database}" requested by the login.', severity=11)
        self.database = database
        self.transaction_descriptor = 0
        self._wait = wait
        self._connection = pq.PGconn.connect(conninfo.encode())
        self.resets = 0

    def batch(self, text: str, output: Output) -> None:
        for statement in text.split(";"):
            if statement.strip():
                self._run(statement, (), output)

    def parameterised(self, text: str, parameters: Sequence[Parameter], output: Output) -> None:
        self._run(text, parameters, output)

    def call(self, procedure: str, parameters: Sequence[Parameter], output: Output) -> int:
        log.info("call of %s with %d parameters: %s", procedure, len(parameters), [str(p.type) for p in parameters])
        if procedure.startswith("sp_datatype_info"):
            self._run(_TYPE_INFO, (Parameter("@type", SqlType("smallint"), parameters[0].value),), output)
            return 0
        if procedure == "sp_describe_undeclared_parameters":
            self._run(_UNDECLARED, (), output)
            return 0
        if procedure != "echo":
            raise SqlError(2812, f"Could not find stored procedure '{procedure}'.")
        for parameter in parameters:
            if parameter.output:
                output.return_value(parameter)
        return 7

    def prepare(self, text: str, parameters: Sequence[Parameter]) -> None:
        if "syntax error" in text:
            raise SqlError(102, "Incorrect syntax.", severity=15)

    def transaction_request(self, kind: str, isolation: int, name: str, output: Output) -> None:
        self._command({"begin": "begin", "commit": "commit", "rollback": "rollback"}[kind])
        output.transaction(kind, 1)

    def reset(self, keep_transaction: bool) -> None:
        self.resets += 1

    def close(self) -> None:
        self._connection.finish()

    def _run(self, statement: str, parameters: Sequence[Parameter], output: Output) -> None:
        if match := re.fullmatch(r"\s*PRINT '(.*)'\s*", statement):
            output.message(SqlError(0, match[1], severity=0))
            output.done(None)
            return
        if match := re.fullmatch(r"\s*RAISERROR (\d+) (\d+)\s*", statement):
            output.message(SqlError(int(match[1]), "raised", severity=int(match[2])))
            output.done(None)
            return
        if re.match(r"\s*(SET|IF|DECLARE)\b", statement):
            return
        names = {p.name.casefold(): i + 1 for i, p in enumerate(parameters)}
        casts = [_CASTS.get(p.type.name, "text") for p in parameters]
        statement = re.sub(
            r"@\w+", lambda m: f"${names[m[0].casefold()]}::{casts[names[m[0].casefold()] - 1]}", statement
        )
        values = [_pg_text(p.value) for p in parameters]
        self._connection.send_query_params(statement.encode(), values, result_format=1)
        self._connection.set_chunked_rows_mode(500) if hasattr(self._connection, "set_chunked_rows_mode") else None
        self._results(output)

    def _results(self, output: Output) -> None:
        shown, total = False, 0
        try:
            while (result := self._next()) is not None:
                if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.SINGLE_TUPLE, 12):
                    if not shown:
                        output.columns(columns(result))
                        shown = True
                    output.rows(result)
                    total += result.ntuples
                elif result.status == pq.ExecStatus.COMMAND_OK:
                    output.done(result.command_tuples)
                    return self._drain()
                else:
                    output.message(SqlError(50000, "PostgreSQL: " + result.get_error_message()))
        except BaseException:
            self._connection.get_cancel().cancel()
            self._drain()
            raise
        output.done(total if shown else None)

    def _next(self) -> Any:
        while True:
            self._connection.consume_input()
            if not self._connection.is_busy():
                return self._connection.get_result()
            self._wait(self._connection.socket)

    def _drain(self) -> None:
        while self._connection.get_result() is not None:
            pass

    def _command(self, statement: str) -> None:
        self._connection.exec_(statement.encode())


def columns(result: Any) -> list[Column]:
    return [
        Column(result.fname(i).decode(), TYPES.get(result.ftype(i), SqlType("nvarchar", MAX)), result.ftype(i))
        for i in range(result.nfields)
    ]


def _pg_text(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return b"\\x" + value.hex().encode()
    return text.to_pg(str(value))


def install(conninfo: str) -> None:
    with connect(conninfo) as connection:
        execute(connection, "SELECT 1")


def create_database(conninfo: str, name: str) -> None:
    """The fake keeps one database."""
