# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Commands of administrators: DBCC CHECKIDENT and KILL."""

from __future__ import annotations

import re

from fakemssql import killing
from fakemssql.contract import SqlError
from fakemssql.tsql.datatypes.sqltypes import RANGES
from fakemssql.tsql.names import quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.execution.interpreter import quiet, text_of
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.session import Session, parse_name
from fakemssql.tsql.security.context import OBJECT
from fakemssql.types import SqlType


def dbcc(session: Session, node: nodes.Dbcc, frame: Frame) -> None:
    """Run DBCC CHECKIDENT."""
    if node.command != "CHECKIDENT":
        raise SqlError(40517, f"DBCC {node.command} is not supported by fakemssql.")

    name = parse_name(text_of(session, node.arguments[0], frame, -1))
    table = session.catalog.find(name, session.database)
    if table is None or table.type != "U":
        raise SqlError(
            2501, f'Cannot find a table or object with the name "{".".join(name)}". Check the system catalog.', state=45
        )
    if not session.security.allowed(session.database, OBJECT, table.object_id, "ALTER"):
        user = session.security.identity(session.database).name
        raise SqlError(
            2557,
            f"User '{user}' does not have permission to run DBCC CHECKIDENT for object '{table.name}'.",
            severity=14,
            state=5,
        )
    column = table.identity
    if column is None:
        raise SqlError(7997, f"'{table.name}' does not contain an identity column.")
    mode = text_of(session, node.arguments[1], frame).upper() if len(node.arguments) > 1 else "RESEED"
    current = session.pg.query("SELECT mssql.ident_last($1::int)", table.object_id)[0][0]
    frame.output.message(
        SqlError(7998, f"Checking identity information: current identity value '{current or 'NULL'}'.", severity=10)
    )
    if mode == "NORESEED":
        quiet(session)
        return
    sequence = session.pg.query("SELECT pg_get_serial_sequence($1, $2)", table.pg, column.pg)[0][0]
    session.transactions.start()
    if len(node.arguments) > 2:
        value = _reseed(text_of(session, node.arguments[2], frame), column.type)
        fresh = current is None
        session.pg.query("SELECT setval($1::regclass, $2::bigint, $3::bool)", sequence, value, "f" if fresh else "t")
    else:
        session.pg.query(
            f"SELECT setval($1::regclass, greatest((SELECT max({quoted(column.pg)}) FROM {table.pg}), 1))", sequence
        )
    quiet(session)


def _reseed(text: str, kind: SqlType) -> int:
    """Identity value that RESEED sets; error 2560 for a text that is no value of the column's type."""
    low, high = RANGES[kind.name]
    # Python reads no int of thousands of digits.
    value = int(text) if re.fullmatch(r"\s*[+-]?[0-9]{1,40}\s*", text) else None
    if value is None or not low <= value <= high:
        raise SqlError(2560, "Parameter 3 is incorrect for this DBCC statement.", state=9)
    return value


def kill(session: Session, node: nodes.Kill, frame: Frame) -> None:
    """Run KILL with the number of a session."""
    if session.transaction_count:
        raise SqlError(6115, "KILL command cannot be used inside user transactions.")
    if not session.security.powerful:
        raise SqlError(6102, "User does not have permission to use the KILL statement.", severity=14)
    if node.session == session.spid:
        raise SqlError(6104, "Cannot use KILL to kill your own process.")
    process = session.activity.process_of(node.session)
    if process is None:
        raise SqlError(6106, f"Process ID {node.session} is not an active process ID.")
    killing.kill(process)
    quiet(session)
