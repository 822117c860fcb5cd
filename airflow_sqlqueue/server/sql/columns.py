"""Columns of the transport's tables: their definitions, and the lists of columns in statements.

Versions 7 and later let an owner drop the three legacy columns, so every list is made from the columns of the table
(docs/transport/queue-tables.md, "Columns"). A row of a SELECT or of OUTPUT always has the columns of
:class:`~airflow_sqlqueue.messages.row.Row`, in its order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from airflow_sqlqueue.messages.message import MAX_HEADER_BYTES
from airflow_sqlqueue.messages.row import ADDED, COLUMN_HEADERS, COLUMNS, SENT_BITS, TABLE_NAMES
from airflow_sqlqueue.server.sql import Fragment

BODY_STRING = "CONVERT(varchar(max), [Body])"
"""The expression of a BodyString column. It is right for ASCII, and for UTF-8 in a database with a UTF-8 collation (SQL
Server 2019 and later); the transport's own expression, with nvarchar, is right for neither
(docs/transport/queue-tables.md, "Columns").
"""

DAY = 86_400_000
"""Milliseconds of a day."""

NEVER = (2**31 - 1) * DAY
"""The lifetime, in milliseconds, of a message that does not expire.

This is a sentinel like the empty text of the legacy columns: for a parameter None the driver asks the server to
describe the whole statement, which may end the transaction (docs/transport/transactions.md, "Transactions that end in
silence").
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

_NULLS = {column.name: f"CAST(NULL AS {column.table_type}) AS [{column.name}]" for column in COLUMNS}
_BYTES = "COALESCE(DATALENGTH([{}]), 0)"
_EXPIRES = (
    f"DATEADD(millisecond, CAST(m.[Life] % {DAY} AS int), "
    f"DATEADD(day, CAST(NULLIF(m.[Life], {NEVER}) / {DAY} AS int), GETUTCDATE()))"
)
STAGED = {column.name: f"{column.sql} NULL" for column in COLUMNS}
"""Columns of a table that can hold the rows of every queue.

``Expires`` of a queue is mostly ``datetime``. From compatibility level 130 on, its conversion to ``datetime2`` has all
digits of a third of a hundredth (.0033333), while the value itself is shown with three (.003): through such a table it
becomes a fraction of a millisecond later. The conversion back rounds to the same ``datetime``. (Source: "Breaking
changes to Database Engine features in SQL Server 2016".)
"""

STAGED_NAMES = Fragment(", ".join(f"[{name}]" for name in STAGED))
STAGED_HEADS = Fragment(
    ", ".join("CAST(NULL AS varbinary(max)) AS [Body]" if name == "Body" else f"[{name}]" for name in STAGED)
)
STAGED_DELETED = Fragment(", ".join(f"deleted.[{name}]" for name in STAGED))


def queue_columns(headers: str, *, legacy: bool, body_string: bool, added: Collection[str] = ADDED) -> dict[str, str]:
    """Return the columns of a queue table for CREATE TABLE, by name; ``headers`` is varchar or nvarchar."""
    columns = {
        column.name: column.definition
        for column in COLUMNS
        if column.definition and (legacy or not column.legacy) and (column.name in added or not column.added)
    }
    columns["Headers"] = f"{headers}(max) NOT NULL"
    if body_string:
        columns["BodyString"] = f"AS {BODY_STRING}"
    return columns


def definitions(columns: Mapping[str, str]) -> Fragment:
    """Return column definitions for CREATE TABLE, from the mappings of this module."""
    return Fragment(",\n    ".join(f"[{name}] {text}" for name, text in columns.items()))


def row_names(present: Collection[str]) -> Fragment:
    """Return the names of the columns of a row that the table has."""
    return Fragment(", ".join(f"[{name}]" for name in TABLE_NAMES if name in present))


def row_columns(
    types: Mapping[str, str], source: str = "", *, body: bool = True, cut_headers: bool = False
) -> Fragment:
    """Return the columns of a :class:`~airflow_sqlqueue.messages.row.Row`, from ``deleted.`` in OUTPUT or the table.

    ``Expired`` compares ``Expires`` with the server's clock at the moment of the statement. Without ``body`` the body
    is NULL; ``cut_headers`` cuts headers that are too long to read.
    """
    columns = _columns(types, source)
    if cut_headers:
        columns["Headers"] = readable_headers(source)
    if not body:
        columns["Body"] = "CAST(NULL AS varbinary(max)) AS [Body]"
    return Fragment(", ".join(columns.values()))


def page(types: Mapping[str, str], chosen: Sequence[str], *, cut_headers: bool = False) -> dict[str, Fragment]:
    """Return the fragments of a page of some columns: ``columns``, ``names``, and ``size``, the bytes of the columns.

    ``cut_headers`` cuts headers that are too long to read.
    """
    columns = _columns(types)
    if cut_headers:
        columns["Headers"] = readable_headers()
    sizes = [_BYTES.format(name) for name in ("Headers", "Body") if name in chosen]
    return {
        "columns": Fragment(", ".join(columns[name] for name in chosen)),
        "names": row_names(types),
        "size": Fragment(" + ".join(sizes) or "CAST(0 AS bigint)"),
    }


def head_page(types: Mapping[str, str]) -> dict[str, Fragment]:
    """Return the fragments of a :func:`page` of rows without bodies, whose bytes do not count.

    The columns are RowVersion, Id, Expires, Headers (cut if they are too long to read), the bytes of the headers and of
    the body, Expired.
    """
    return {
        "columns": Fragment(
            f"[RowVersion], [Id], {_expires(types)}, {readable_headers()}, [HeaderBytes], [BodyBytes], {_expired()}"
        ),
        "names": Fragment(
            f"{row_names(types)}, DATALENGTH([Headers]) AS [HeaderBytes], DATALENGTH([Body]) AS [BodyBytes]"
        ),
        "size": Fragment(_BYTES.format("Headers")),
    }


def copied_page(types: Mapping[str, str], max_body: int) -> dict[str, Fragment]:
    """Return the fragments of a :func:`page` of rows and ``BodyBytes``; a body of over ``max_body`` bytes is NULL."""
    columns = {
        **_columns(types),
        "Body": f"CASE WHEN [BodyBytes] <= {int(max_body)} THEN [Body] END AS [Body]",
        "BodyBytes": "[BodyBytes]",
    }
    return {
        **page(types, TABLE_NAMES),
        "columns": Fragment(", ".join(columns.values())),
        "names": Fragment(f"{row_names(types)}, {_BYTES.format('Body')} AS [BodyBytes]"),
    }


def _columns(types: Mapping[str, str], source: str = "") -> dict[str, str]:
    columns = {name: f"{source}[{name}]" if name in types else _NULLS[name] for name in TABLE_NAMES}
    return {**columns, "Expires": _expires(types, source), "Expired": _expired(source)}


def suspect(types: Mapping[str, str]) -> Fragment:
    """Return a condition that holds for every staged row that a reader may refuse, and for few others.

    Half a surrogate pair is possible in UTF-16 only, and a binary collation sorts it outside of blank to tilde. The
    client checks rows with other characters outside of that range.
    """
    texts = [name for name in ("Headers", *COLUMN_HEADERS) if types.get(name) in {"nvarchar", "nchar"}]
    found = [f"[{name}] LIKE N'%[^ -~]%' COLLATE Latin1_General_BIN2" for name in texts]
    return Fragment(" OR ".join(["[Id] IS NULL", "[Headers] IS NULL", *found]))


def readable_headers(source: str = "") -> Fragment:
    """Return the headers for a reader outside of a drain: of headers too long to read, only a piece leaves the server.

    The piece is too long to read as well, so that a reader does not take it for the whole.
    """
    headers = f"{source}[Headers]"
    return Fragment(
        f"CASE WHEN DATALENGTH({headers}) > {MAX_HEADER_BYTES} "
        f"THEN SUBSTRING({headers}, 1, {MAX_HEADER_BYTES // 2}) ELSE {headers} END AS [Headers]"
    )


def _expires(types: Mapping[str, str], source: str = "") -> str:
    if types["Expires"] != "datetimeoffset":
        return f"{source}[Expires]"
    # The driver has no Python type for it.
    return f"CAST(SWITCHOFFSET({source}[Expires], '+00:00') AS datetime2) AS [Expires]"


def _expired(source: str = "") -> str:
    return f"CAST(CASE WHEN {source}[Expires] <= GETUTCDATE() THEN 1 ELSE 0 END AS bit) AS [Expired]"


def output(
    types: Mapping[str, str], *, into: bool, body: bool = True, cut_headers: bool = False
) -> dict[str, Fragment]:
    """Return the fragments of a deleting statement: ``names``, ``output`` and ``declare``.

    With ``into`` the rows go through a table variable: a table with triggers allows no OUTPUT without INTO (error 334,
    docs/transport/queue-tables.md, "Receiving"). ``body`` and ``cut_headers`` are those of :func:`row_columns`.
    """
    columns = row_columns(types, "deleted.", body=body, cut_headers=cut_headers)
    return {
        "names": row_names(types),
        "declare": Fragment(f"DECLARE @taken TABLE ({definitions(STAGED)});\n" if into else ""),
        "output": Fragment(f"{columns}\nINTO @taken;\nSELECT * FROM @taken" if into else columns),
    }


def forwarding(types: Mapping[str, str], target: Collection[str], *, expiring: bool = True) -> dict[str, Fragment]:
    """Return the fragments of a statement that moves rows of a table with these types to one with columns ``target``.

    The fragments are ``staged``, ``names``, ``deleted``, ``columns`` and ``values``. If only the target has
    ``Recoverable``, it gets the 1 that every sender writes. Without ``expiring`` the moved rows do not expire.
    """
    columns = [name for name in TABLE_NAMES if name in target and name != "RowVersion"]
    replaced = {name: f"COALESCE([{name}], {bit})" for name, bit in SENT_BITS.items()}
    if not expiring:
        replaced["Expires"] = "NULL"
    values = [replaced.get(name, f"[{name}]") for name in columns]
    return {
        "staged": definitions(STAGED),
        "names": row_names(types),
        "deleted": row_columns(types, "deleted."),
        "columns": Fragment(", ".join(f"[{name}]" for name in columns)),
        "values": Fragment(", ".join(values)),
    }


def transferring(types: Mapping[str, str], target: Collection[str], count: int) -> dict[str, Fragment]:
    """Return the fragments of :func:`forwarding` for ``count`` :func:`numbered` rows, which do not expire.

    An empty text keeps the text of the row.
    """
    columns = [name for name in TABLE_NAMES if name in target and name != "RowVersion"]
    values = {
        "Expires": "NULL",
        "Headers": "COALESCE(NULLIF(g.[Headers], N''), t.[Headers])",
        **{name: f"COALESCE(t.[{name}], {bit})" for name, bit in SENT_BITS.items()},
        **{name: f"COALESCE(NULLIF(g.[{name}], ''), t.[{name}])" for name in COLUMN_HEADERS},
    }
    return {
        **forwarding(types, target),
        **numbered(count),
        "values": Fragment(", ".join(values.get(name, f"t.[{name}]") for name in columns)),
    }


def delayed_move(types: Collection[str], count: int) -> dict[str, Fragment]:
    """Return the fragments of a statement that moves ``count`` delayed messages to a queue with these columns.

    The messages are :func:`numbered` rows; empty headers keep those of the row.
    """
    filled = {
        "Id": "NEWID()",
        "Expires": "NULL",
        # The table's column may have another collation than the table variable, which has the database's: in a list of
        # columns that would be error 451 ("Collation precedence").
        "Headers": "COALESCE(NULLIF(m.[Headers], N'') COLLATE Latin1_General_BIN2, d.[Headers])",
        "Body": "d.[Body]",
        **_filled_by_sender(types, COLUMN_HEADERS),
    }
    return {**_columns_and_values(filled), **numbered(count)}


def numbered(count: int) -> dict[str, Fragment]:
    """Return the fragments of a table variable with ``count`` rows, each for a message with its RowVersion.

    The fragments are ``rows`` and ``addressed``, definitions of columns. The parameters of a row, in this order:
    RowVersion, Headers, and the columns of :data:`~airflow_sqlqueue.messages.row.COLUMN_HEADERS`.
    """
    row = f"({', '.join(['?'] * (2 + len(COLUMN_HEADERS)))})"
    return {
        "addressed": Fragment(", ".join(f"[{name}] varchar(255) NOT NULL" for name in COLUMN_HEADERS)),
        "rows": Fragment(", ".join([row] * count)),
    }


def insertion(types: Collection[str], given: Collection[str], count: int) -> dict[str, Fragment]:
    """Return the fragments of a send of ``count`` rows to a table with these columns.

    The fragments are ``columns``, ``values``, ``names`` and ``rows``. The parameters of a row, in this order: Id, its
    lifetime in milliseconds (for Expires), Headers, Body, and the columns of
    :data:`~airflow_sqlqueue.messages.row.COLUMN_HEADERS`, empty for NULL. All of these except Headers and Body are
    parameters only if they are ``given``. A row without an Id gets a new one from the server. ``Recoverable`` is always
    1, as in versions 4.1 and later.
    """
    filled = {
        "Id": "m.[Id]" if "Id" in given else "NEWID()",
        "Expires": _EXPIRES if "Expires" in given else "NULL",
        "Headers": "m.[Headers]",
        "Body": "m.[Body]",
        **_filled_by_sender(types, given),
    }
    parameters = {"Expires": "Life"}
    present = [parameters.get(name, name) for name in filled if name in given or name in {"Headers", "Body"}]
    return _rows(filled, present, count)


def _filled_by_sender(types: Collection[str], given: Collection[str]) -> dict[str, str]:
    # A value of blanks only, which has no meaning, is equal to the empty text and so becomes NULL as well.
    texts = {name: f"NULLIF(m.[{name}], '')" if name in given else "NULL" for name in COLUMN_HEADERS if name in types}
    return {**texts, **{name: str(bit) for name, bit in SENT_BITS.items() if name in types}}


FLAGS = {name: 1 << place for place, name in enumerate((*COLUMN_HEADERS, "Body", *SENT_BITS))}
"""Bits of ``Flags``, a parameter of :func:`restoration`: the column is NULL, or not the bit that senders write."""


_REDACTED = (*COLUMN_HEADERS, "Headers", "Body")
KEPT = {name: 1 << 2 * place for place, name in enumerate(_REDACTED)}
NULLED = {name: 2 << 2 * place for place, name in enumerate(_REDACTED)}
"""Bits of ``Flags``, a parameter of :func:`redaction`: the column stays as it is, or becomes NULL."""


def redaction(owner: str, count: int) -> dict[str, Fragment]:
    """Return the fragments of a statement that redacts ``count`` rows of a table with the columns :data:`STAGED`.

    ``owner`` is the column that names, with ``BatchId``, the owner of the rows. The parameters of a row, in this order:
    RowVersion, its Id, the new Id, Flags, and the columns of :data:`KEPT`.
    """
    given = {name: STAGED[name].removesuffix(" NULL") for name in _REDACTED}
    values = {
        name: f"CASE WHEN g.[Flags] & {KEPT[name]} <> 0 THEN t.[{name}] "
        f"WHEN g.[Flags] & {NULLED[name]} = 0 THEN g.[{name}] END"
        for name in _REDACTED
    }
    row = f"({', '.join(['?'] * (4 + len(_REDACTED)))})"
    return {
        "owner": Fragment(f"[{owner}]"),
        "addressed": definitions({name: f"{kind} NOT NULL" for name, kind in given.items()}),
        "changes": Fragment(",\n    ".join(f"[{name}] = {value}" for name, value in values.items())),
        "rows": Fragment(", ".join([row] * count)),
    }


def restoration(types: Collection[str], count: int) -> dict[str, Fragment]:
    """Return the fragments of a statement that puts back ``count`` rows unchanged; they are those of :func:`insertion`.

    The parameters of a row, in this order: Id, Flags, Expires (ISO 8601 in UTC, empty for NULL), Headers, Body, and
    those columns of :data:`~airflow_sqlqueue.messages.row.COLUMN_HEADERS` that the table has. Flags distinguish NULL
    from an empty text or body.
    """
    present = ["Id", "Flags", "Expires", "Headers", "Body", *(name for name in COLUMN_HEADERS if name in types)]
    values = {name: f"m.[{name}]" for name in present} | {"Expires": "CONVERT(datetime2, NULLIF(m.[Expires], ''), 126)"}
    for name, flag in FLAGS.items():
        bit = SENT_BITS.get(name)
        value = f"m.[{name}]" if bit is None else f"{bit} ELSE {1 - bit}"
        values[name] = f"CASE WHEN m.[Flags] & {flag} = 0 THEN {value} END"
    return _rows({name: values[name] for name in TABLE_NAMES if name in types and name in values}, present, count)


def _rows(filled: Mapping[str, str], present: Collection[str], count: int) -> dict[str, Fragment]:
    placeholders = ", ?" * len(present)
    return {
        **_columns_and_values(filled),
        "names": Fragment(", ".join(f"[{name}]" for name in ["Position", *present])),
        "rows": Fragment(", ".join(f"({position}{placeholders})" for position in range(count))),
    }


def _columns_and_values(filled: Mapping[str, str]) -> dict[str, Fragment]:
    return {
        "columns": Fragment(", ".join(f"[{name}]" for name in filled)),
        "values": Fragment(", ".join(filled.values())),
    }
