"""The columns of the transport's tables: how they are made, and the lists of them that fit what a table has.

Versions 7 and later let an owner drop the three legacy columns, so every list is built from what is there
(reference/statements.md 2.3). Selected or put out, a row always has the same nine columns in the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_sqlqueue.sql import Fragment

LEGACY = {"CorrelationId": "varchar(255)", "ReplyToAddress": "varchar(255)", "Recoverable": "bit"}
REQUIRED = ("Id", "Expires", "Headers", "Body", "RowVersion")

BODY_STRING = "CONVERT(varchar(max), [Body])"
"""What a BodyString column computes. Right for ASCII everywhere, and for UTF-8 in a database with a UTF-8 collation
(SQL Server 2019 and later); the transport's own, through nvarchar, is right for neither. (reference/statements.md 2.3)
"""

NEVER = 2**31 - 1
"""The number of days that stands for a message that does not expire.

A sentinel, as is the empty text of the legacy columns: for a parameter that is None the driver asks the server to
describe the whole statement.
"""

DELAYED = {
    "Headers": "nvarchar(max) NOT NULL",
    "Body": "varbinary(max) NULL",
    "Due": "datetime NOT NULL",
    "RowVersion": "bigint IDENTITY(1, 1) NOT NULL",
}
SUBSCRIPTION = {
    "QueueAddress": "nvarchar(200) NOT NULL",
    "Endpoint": "nvarchar(200) NOT NULL",
    "Topic": "nvarchar(200) NOT NULL",
}

_ORDER = ("Id", "CorrelationId", "ReplyToAddress", "Recoverable", "Expires", "Headers", "Body", "RowVersion")
_EXPIRES = f"DATEADD(millisecond, ?, DATEADD(day, NULLIF(?, {NEVER}), GETUTCDATE()))"
_TAKEN = (
    "[Id] uniqueidentifier, [CorrelationId] nvarchar(255), [ReplyToAddress] nvarchar(255), [Recoverable] bit, "
    "[Expires] datetime2, [Headers] nvarchar(max), [Body] varbinary(max), [RowVersion] bigint, [Expired] bit"
)


def queue_columns(headers: str, *, legacy: bool, body_string: bool) -> dict[str, str]:
    """The columns of a queue table as CREATE TABLE has them, by name; ``headers`` is varchar or nvarchar."""
    columns = {
        "Id": "uniqueidentifier NOT NULL",
        "CorrelationId": "varchar(255) NULL",
        "ReplyToAddress": "varchar(255) NULL",
        "Recoverable": "bit NOT NULL",
        "Expires": "datetime NULL",
        "Headers": f"{headers}(max) NOT NULL",
        "Body": "varbinary(max) NULL",
        "RowVersion": "bigint IDENTITY(1, 1) NOT NULL",
    }
    if body_string:
        columns["BodyString"] = f"AS {BODY_STRING}"
    return {name: text for name, text in columns.items() if legacy or name not in LEGACY}


def definitions(columns: Mapping[str, str]) -> Fragment:
    """Column definitions for CREATE TABLE, from the mappings of this module."""
    return Fragment(",\n    ".join(f"[{name}] {text}" for name, text in columns.items()))


def row_names(present: Collection[str]) -> Fragment:
    """The columns of a row that the table has, by their names alone."""
    return Fragment(", ".join(f"[{name}]" for name in _ORDER if name in present))


def row_columns(types: Mapping[str, str], source: str = "") -> Fragment:
    """The nine columns of a row, from ``deleted.`` in an OUTPUT clause or from the table itself.

    ``types`` are the base types of the columns that the table has. The ninth column, ``Expired``, is the server's word
    on ``Expires``, by its own clock, at the moment of the statement.
    """
    columns = [f"{source}[{name}]" if name in types else f"CAST(NULL AS {LEGACY[name]}) AS [{name}]" for name in _ORDER]
    if types["Expires"] == "datetimeoffset":
        # The driver has no Python type for it.
        columns[4] = f"CAST(SWITCHOFFSET({source}[Expires], '+00:00') AS datetime2) AS [Expires]"
    columns.append(f"CAST(CASE WHEN {source}[Expires] <= GETUTCDATE() THEN 1 ELSE 0 END AS bit) AS [Expired]")
    return Fragment(", ".join(columns))


def output(types: Mapping[str, str], *, into: bool) -> dict[str, Fragment]:
    """The fragments of a deleting statement: ``names``, ``output`` and ``declare``.

    With ``into`` the rows go by way of a table variable: a table with triggers allows no OUTPUT without INTO
    (error 334, reference/statements.md 2.4).
    """
    columns = row_columns(types, "deleted.")
    return {
        "names": row_names(types),
        "declare": Fragment(f"DECLARE @taken TABLE ({_TAKEN});\n" if into else ""),
        "output": Fragment(f"{columns}\nINTO @taken;\nSELECT * FROM @taken" if into else columns),
    }


def insert_columns(present: Collection[str]) -> Fragment:
    """The columns a send fills, in the order of :func:`insert_rows`."""
    legacy = [f"[{name}]" for name in LEGACY if name in present]
    return Fragment(", ".join(["[Id]", "[Expires]", "[Headers]", "[Body]", *legacy]))


def insert_rows(present: Collection[str], expiring: bool, count: int) -> Fragment:
    """``count`` row constructors. Parameters of each: Id, milliseconds and days where ``expiring``, Headers, Body, and
    CorrelationId and ReplyToAddress, empty for NULL, where the table has them; ``Recoverable`` is always 1, as versions
    4.1 and later write it."""
    expires = _EXPIRES if expiring else "NULL"
    legacy = ["1" if name == "Recoverable" else "NULLIF(?, '')" for name in LEGACY if name in present]
    return Fragment(", ".join([f"({', '.join(['?', expires, '?', '?', *legacy])})"] * count))
