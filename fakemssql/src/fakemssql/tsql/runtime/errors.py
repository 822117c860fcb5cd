"""Translation of PostgreSQL's errors to SQL Server's, and the effect of errors on batch and transaction.

Source of numbers and texts: "Database Engine events and errors", sys.messages.
"""

from __future__ import annotations

import re

from fakemssql.contract import SqlError
from fakemssql.faults import PLANNING, RUNNING, fault
from fakemssql.killing import killed_error
from fakemssql.tsql.pg import Pg, PgError
from fakemssql.tsql.security.errors import database_exists, not_created, object_exists

STALE = frozenset(["42P01", "42703", "42P07", "3F000", "0A000", "42883", "26000"])
"""SQLSTATEs that a plan may cause if it was compiled with an old catalog."""

DEADLOCK = frozenset(["40P01", "40001"])

_COMPILE = frozenset([102, 105, 107, 109, 110, 120, 121, 137, 141, 145, 156, 207, 208, 209, 213, 264, 4104, 4145, 1087])
"""Errors of compilation: they end the batch, and a CATCH of the same batch does not catch them."""

_BATCH = frozenset(
    [241, 3609, 3616, 242, 245, 248, 295, 1205, 3930, 3951, 3960, 3998, 8169, 650, 911, 40517, 535, PLANNING, RUNNING]
)
"""Errors at run time that end the batch."""

_DOOM = frozenset([241, 242, 245, 248, 295, 3951, 8169])
"""Errors that roll the transaction back, or make it uncommittable if a CATCH catches them."""


_NOT_A_DATE = (241, "Conversion failed when converting date and/or time from character string.", 16, 1)
_NEGATIVE = (127, "A TOP N or FETCH rowcount value may not be negative.", 15, 1)
_NO_PLAN = "The query processor ran out of internal resources and could not produce a query plan."
_PLAIN = {
    "22012": (8134, "Divide by zero error encountered.", 16, 1),
    "55P03": (1222, "Lock request time out period exceeded.", 16, 51),
    **dict.fromkeys(("22007", "22008"), _NOT_A_DATE),
    **dict.fromkeys(("2201W", "2201X"), _NEGATIVE),
    "53100": (1105, "Could not allocate space: the disk is full.", 17, 2),
    "54001": (8623, _NO_PLAN, 16, 1),
}
"""SQLSTATEs that always mean one error: its number, text, severity and state."""


def is_compile(error: SqlError) -> bool:
    return error.number in _COMPILE


def ends_batch(error: SqlError) -> bool:
    return error.number in _COMPILE or error.number in _BATCH or error.severity >= 20


def dooms(error: SqlError) -> bool:
    return error.number in _DOOM


def _where(pg: Pg, error: PgError) -> dict[str, str]:
    """Names, as written, of the table, schema, database and index or constraint of an error."""
    rows = pg.query(
        "SELECT o.name, s.name, d.name, COALESCE((SELECT i.name FROM mssql.indexes i WHERE i.object_id = o.object_id"
        " AND i.pg_name = $3), (SELECT c.name FROM mssql.objects c WHERE"
        " c.parent_object_id = o.object_id AND c.pg_name = $3), $3),"
        " COALESCE((SELECT CASE WHEN i.is_primary_key = 1 THEN 'PRIMARY"
        " KEY' WHEN i.is_unique_constraint = 1 THEN 'UNIQUE KEY' END"
        "   FROM mssql.indexes i WHERE i.object_id = o.object_id AND i.pg_name = $3), ''),"
        " COALESCE((SELECT c.name FROM mssql.columns c WHERE c.object_id = o.object_id AND c.pg_name = $4), $4)"
        " FROM mssql.objects o JOIN mssql.schemas s USING (database_id,"
        " schema_id) JOIN mssql.databases d USING (database_id)"
        " WHERE s.pg_name = $1 AND o.pg_name = $2",
        error.schema,
        error.table,
        error.constraint,
        error.column,
    )
    if not rows:
        rows = _local(pg, error)
    keys = ("table", "schema", "database", "index", "kind", "column")
    found = {key: value or "" for key, value in zip(keys, rows[0], strict=True)}
    # A constraint that fails while it is made has no row yet, only its name in PostgreSQL.
    found["index"] = re.sub(r"^(ck|fk|ix)\d+\.", "", found["index"])
    return found


def _local(pg: Pg, error: PgError) -> list[list[str | None]]:
    """Return the same names for a temporary table or table variable, from the comments of table and index."""
    rows = pg.query(
        "SELECT obj_description(to_regclass(format('%I.%I', $1, $2)), 'pg_class'),"
        " obj_description(to_regclass(format('%I.%I', $1, $3)), 'pg_class')",
        error.schema,
        error.table,
        error.constraint,
    )
    table, comment = rows[0]
    kind = re.match(r"(PRIMARY KEY|UNIQUE KEY)? (.*)", comment or "", re.DOTALL)
    index = kind[2] if kind else error.constraint
    return [[table or error.table, "dbo", "tempdb", index, kind[1] if kind else "", error.column]]


def translate(pg: Pg, error: PgError, statement: str = "INSERT") -> SqlError:
    """Translate an error of PostgreSQL to a :class:`SqlError`."""
    state = error.sqlstate
    if state == "MS001":
        return SqlError(int(error.hint or 50000), error.message, state=1)
    if state in ("23505", "23502", "23514", "23503"):
        return _constraint(pg, error, statement)
    if state in _PLAIN:
        number, text, severity, message_state = _PLAIN[state]
        return SqlError(number, text, severity=severity, state=message_state)
    if state == "22003":
        return _overflow(error)
    if state == "2200H":
        return _identity_end(error)
    if state == "42803" and "are not allowed in" in error.message:
        return SqlError(147, "An aggregate may not appear in a CHECK constraint or in a DEFAULT.", severity=15)
    if state == "42P19":
        return _recursion(error)
    if state == "54000" and (match := re.search(r'index row size (\d+) exceeds .* for index "([^"]*)"', error.message)):
        return SqlError(
            1946,
            f"Operation failed. The index entry of length {match[1]} bytes for the index '{match[2]}' exceeds the"
            " maximum length of 1700 bytes for nonclustered indexes.",
            state=3,
        )
    if state in DEADLOCK and (state == "40P01" or "deadlock" in error.message):
        return _deadlock()
    if state == "40001":
        if "could not serialize access due to read/write" in error.message:
            return _deadlock()
        return SqlError(
            3960,
            "Snapshot isolation transaction aborted due to update"
            " conflict. Retry the transaction or change the isolation"
            " level for the update/delete statement.",
            state=2,
        )
    if state == "22P02":
        return SqlError(8114, f"Error converting data type: {error.message}.", state=5)
    if state == "21000":
        if "MERGE" in error.message:
            return SqlError(
                8672,
                "The MERGE statement attempted to UPDATE or DELETE the"
                " same row more than once. This happens when a target row"
                " matches more than one source row.",
            )
        return SqlError(
            512,
            "Subquery returned more than 1 value. This is not permitted"
            " when the subquery follows =, !=, <, <= , >, >= or when"
            " the subquery is used as an expression.",
        )
    if state in ("57P01", "57P02", "57P03", "08006", "08003", "08000"):
        return killed_error()
    if state == "42P07":
        name = re.search(r'"(.*)"', error.message)
        return object_exists(name[1] if name else "")
    if state == "0A000":
        return SqlError(40517, f"The statement is not supported by fakemssql ({error.message}).")
    # The engine sent an invalid statement, or the error is unknown: a fault of fakemssql.
    return fault(error, PLANNING if state.startswith("42") else RUNNING, f"SQLSTATE {state}")


def uncommittable() -> SqlError:
    return SqlError(
        3930,
        "The current transaction cannot be committed and cannot support operations that write to the log file. Roll"
        " back the transaction.",
    )


def no_way_back() -> SqlError:
    return SqlError(
        3931,
        "The current transaction cannot be committed and cannot be rolled back to a savepoint. Roll back the entire"
        " transaction.",
    )


def _deadlock() -> SqlError:
    return SqlError(
        1205,
        "Transaction was deadlocked on lock resources with another"
        " process and has been chosen as the deadlock victim. Rerun"
        " the transaction.",
        severity=13,
        state=51,
    )


def _overflow(error: PgError) -> SqlError:
    if "numeric field overflow" in error.message:
        return SqlError(8115, "Arithmetic overflow error converting numeric to data type numeric.", state=8)
    match = re.search(r"^(smallint|integer|bigint) out of range|is out of range for type (\w+)$", error.message)
    name = (match[1] or match[2]).replace("integer", "int") if match else "float"
    return SqlError(8115, f"Arithmetic overflow error converting expression to data type {name}.", state=2)


_ENDS = {"255": "tinyint", "0": "tinyint", "32767": "smallint", "-32768": "smallint"} | dict.fromkeys(
    ("2147483647", "-2147483648"), "int"
)
"""Types of identity columns by the last value of their sequences; else bigint."""


def _identity_end(error: PgError) -> SqlError:
    match = re.search(r"\((-?\d+)\)$", error.message)
    name = _ENDS.get(match[1] if match else "", "bigint")
    return SqlError(8115, f"Arithmetic overflow error converting IDENTITY to data type {name}.", state=1)


_RECURSION = (
    ("subquery", 465, "Recursive references are not allowed in subqueries."),
    ("outer join", 462, "Outer join is not allowed in the recursive part of a recursive common table expression."),
    (
        "aggregate",
        467,
        "GROUP BY, HAVING, or aggregate functions are not allowed in the recursive part of a recursive common table"
        " expression.",
    ),
    ("more than once", 253, "Recursive member of a common table expression has multiple recursive references."),
)


def _recursion(error: PgError) -> SqlError:
    """Return the error for a reference of a common table expression to itself in a place that allows no such
    reference.
    """
    for word, number, text in _RECURSION:
        if word in error.message:
            return SqlError(number, text)
    return fault(error, PLANNING, "SQLSTATE 42P19")


def _key(detail: str) -> str:
    match = re.search(r"=\((.*)\) (?:already exists|is duplicated)", detail, re.DOTALL)
    return match[1] if match else ""


def _constraint(pg: Pg, error: PgError, statement: str) -> SqlError:
    if error.schema == "mssql":
        return _metadata(error)
    where = _where(pg, error)
    place = f"{where['schema']}.{where['table']}"
    if error.sqlstate == "23502":
        return SqlError(
            515,
            f"Cannot insert the value NULL into column '{where['column']}',"
            f" table '{where['database']}.{place}'; column does"
            f" not allow nulls. {statement} fails.",
            state=2,
        )
    if error.sqlstate == "23505":
        value = f" The duplicate key value is ({_key(error.detail)})."
        if error.message.startswith("could not create unique index"):
            return SqlError(
                1505,
                "The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for the object name"
                f" '{place}' and the index name '{where['index']}'.{value}",
                then=not_created() if error.is_of_constraint else None,
            )
        if where["kind"]:
            return SqlError(
                2627,
                f"Violation of {where['kind']} constraint '{where['index']}'. Cannot insert duplicate key in object"
                f" '{place}'.{value}",
                severity=14,
            )
        return SqlError(
            2601,
            f"Cannot insert duplicate key row in object '{place}' with unique index '{where['index']}'.{value}",
            severity=14,
        )
    kind = "REFERENCE" if "still referenced" in error.detail or statement == "DELETE" else "FOREIGN KEY"
    kind = "CHECK" if error.sqlstate == "23514" else kind
    if kind == "FOREIGN KEY":
        place = _referenced(pg, error) or place
    return SqlError(
        547,
        f'The {statement} statement conflicted with the {kind} constraint "{where["index"]}". The conflict occurred in'
        f' database "{where["database"]}", table "{place}".',
        state=0,
    )


def _referenced(pg: Pg, error: PgError) -> str | None:
    """Schema and name of the table that a foreign key refers to."""
    rows = pg.query(
        "SELECT s.name || '.' || o.name FROM pg_constraint k JOIN pg_class c ON c.oid = k.confrelid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace JOIN mssql.schemas s ON s.pg_name = n.nspname"
        " JOIN mssql.objects o ON o.database_id = s.database_id AND o.schema_id = s.schema_id AND o.pg_name = c.relname"
        " WHERE k.conname = $1 AND k.conrelid = to_regclass(format('%I.%I', $2, $3))",
        error.constraint,
        error.schema,
        error.table,
    )
    return rows[0][0] if rows else None


def _metadata(error: PgError) -> SqlError:
    """Return the error for a duplicate in the metadata tables: two sessions made the same object at the same time."""
    value = _key(error.detail).split(", ")[-1]
    if error.constraint == "columns_name":
        return SqlError(
            2705,
            f"Column names in each table must be unique. Column name '{value}' is specified more than once.",
            state=3,
        )
    if error.constraint == "indexes_name":
        return SqlError(
            1913,
            f"The operation failed because an index or statistics with name '{value}' already exists on the table.",
        )
    if error.table == "databases":
        return database_exists(value)
    return object_exists(value)
