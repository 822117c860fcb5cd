"""The column lists of a queue table, fitted to the columns that a table has.

Versions 7 and later let an owner drop the three legacy columns, so every list is built from what is there
(reference/statements.md 2.3). Selected or put out, a row always has the same nine columns in the same order.
"""

from __future__ import annotations

from collections.abc import Collection

from airflow_sqlqueue.sql import Fragment

LEGACY = {"CorrelationId": "varchar(255)", "ReplyToAddress": "varchar(255)", "Recoverable": "bit"}
REQUIRED = ("Id", "Expires", "Headers", "Body", "RowVersion")

_ORDER = ("Id", "CorrelationId", "ReplyToAddress", "Recoverable", "Expires", "Headers", "Body", "RowVersion")
NEVER = 2**31 - 1
"""The number of days that stands for a message that does not expire.

A sentinel, as is the empty text of the legacy columns: for a parameter that is None the driver asks the server to
describe the whole statement.
"""

_EXPIRES = f"DATEADD(millisecond, ?, DATEADD(day, NULLIF(?, {NEVER}), GETUTCDATE()))"


def row_columns(present: Collection[str], source: str = "") -> Fragment:
    """The nine columns of a row, from ``deleted.`` in an OUTPUT clause or from the table itself.

    The ninth, ``Expired``, is the server's word on ``Expires``, by its own clock, at the moment of the statement.
    """
    columns = [
        f"{source}[{name}]" if name in present else f"CAST(NULL AS {LEGACY[name]}) AS [{name}]" for name in _ORDER
    ]
    columns.append(f"CAST(CASE WHEN {source}[Expires] <= GETUTCDATE() THEN 1 ELSE 0 END AS bit) AS [Expired]")
    return Fragment(", ".join(columns))


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
