"""The columns of the transport's tables: how they are made, and the lists of them that fit what a table has.

Versions 7 and later let an owner drop the three legacy columns, so every list is built from what is there
(docs/transport/queue-tables.md, "Columns"). Selected or returned by OUTPUT, a row always has the columns of
:class:`~airflow_sqlqueue.row.Row`, in its order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from airflow_sqlqueue.row import COLUMNS, TABLE_NAMES
from airflow_sqlqueue.sql import Fragment

LEGACY = {"CorrelationId": "varchar(255)", "ReplyToAddress": "varchar(255)", "Recoverable": "bit"}
ADDRESSED = ("CorrelationId", "ReplyToAddress")
"""The legacy columns that a sender fills from headers."""

REQUIRED = ("Id", "Expires", "Headers", "Body", "RowVersion")

BODY_STRING = "CONVERT(varchar(max), [Body])"
"""What a BodyString column computes. Right for ASCII everywhere, and for UTF-8 in a database with a UTF-8 collation
(SQL Server 2019 and later); the transport's own, through nvarchar, is right for neither.
(docs/transport/queue-tables.md, "Columns")
"""

DAY = 86_400_000
"""Milliseconds."""

NEVER = (2**31 - 1) * DAY
"""The milliseconds of a life that stand for a message that does not expire.

A sentinel, as is the empty text of the legacy columns: for a parameter that is None the driver asks the server to
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

_BYTES = "COALESCE(DATALENGTH([{}]), 0)"
_EXPIRES = (
    f"DATEADD(millisecond, CAST(m.[Life] % {DAY} AS int), "
    f"DATEADD(day, CAST(NULLIF(m.[Life], {NEVER}) / {DAY} AS int), GETUTCDATE()))"
)
STAGED = {column.name: f"{column.sql} NULL" for column in COLUMNS}
"""The columns of a row that was taken, as a table has them that can hold the rows of every queue.

``Expires`` of a queue is mostly ``datetime``. From compatibility level 130 on its conversion to ``datetime2`` has all
digits of a third of a hundredth (.0033333), where the value itself is shown with three (.003): by way of a table it
comes out a fraction of a millisecond later. The way back rounds to the same ``datetime``. (Source: "Breaking changes to
Database Engine features in SQL Server 2016".)
"""

STAGED_NAMES = Fragment(", ".join(f"[{name}]" for name in STAGED))
STAGED_HEADS = Fragment(
    ", ".join("CAST(NULL AS varbinary(max)) AS [Body]" if name == "Body" else f"[{name}]" for name in STAGED)
)
STAGED_DELETED = Fragment(", ".join(f"deleted.[{name}]" for name in STAGED))


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
    return Fragment(", ".join(f"[{name}]" for name in TABLE_NAMES if name in present))


def row_columns(types: Mapping[str, str], source: str = "", *, body: bool = True) -> Fragment:
    """The columns of a :class:`~airflow_sqlqueue.row.Row`, from ``deleted.`` in OUTPUT or from the table itself.

    ``types`` are the base types of the columns that the table has. ``Expired`` compares ``Expires`` with the server's
    clock at the moment of the statement. Without ``body`` NULL stands for it.
    """
    columns = _columns(types, source)
    if not body:
        columns["Body"] = "CAST(NULL AS varbinary(max)) AS [Body]"
    return Fragment(", ".join(columns.values()))


def page(types: Mapping[str, str], chosen: Sequence[str]) -> dict[str, Fragment]:
    """The fragments of a page of some columns of a row: ``columns``, ``names`` and ``size``, the bytes of those."""
    columns = _columns(types)
    sizes = [_BYTES.format(name) for name in ("Headers", "Body") if name in chosen]
    return {
        "columns": Fragment(", ".join(columns[name] for name in chosen)),
        "names": row_names(types),
        "size": Fragment(" + ".join(sizes) or "CAST(0 AS bigint)"),
    }


def head_page(types: Mapping[str, str]) -> dict[str, Fragment]:
    """:func:`page` of the columns of :func:`head_columns`: bodies are not read, and their bytes not counted."""
    return {
        "columns": Fragment(f"[RowVersion], [Id], {_expires(types)}, [Headers], [BodyBytes], {_expired()}"),
        "names": Fragment(f"{row_names(types)}, DATALENGTH([Body]) AS [BodyBytes]"),
        "size": Fragment(_BYTES.format("Headers")),
    }


def copied_page(types: Mapping[str, str], max_body: int) -> dict[str, Fragment]:
    """:func:`page` of a whole row, and ``BodyBytes``; of a body with more bytes than ``max_body`` it has NULL."""
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
    columns = {
        name: f"{source}[{name}]" if name in types else f"CAST(NULL AS {LEGACY[name]}) AS [{name}]"
        for name in TABLE_NAMES
    }
    return {**columns, "Expires": _expires(types, source), "Expired": _expired(source)}


def suspect(types: Mapping[str, str]) -> Fragment:
    """The condition that holds for every staged row that a reader may refuse, and for few others.

    Half a surrogate pair stands in UTF-16 only, and outside of what a binary collation has between blank and tilde; a
    row with other such characters is checked by the client.
    """
    texts = [name for name in ("Headers", *ADDRESSED) if types.get(name) in {"nvarchar", "nchar"}]
    found = [f"[{name}] LIKE N'%[^ -~]%' COLLATE Latin1_General_BIN2" for name in texts]
    return Fragment(" OR ".join(["[Id] IS NULL", "[Headers] IS NULL", *found]))


def head_columns(types: Mapping[str, str]) -> Fragment:
    """The columns of a row without its body: RowVersion, Id, Expires, Headers, the body's length in bytes, Expired."""
    return Fragment(f"[RowVersion], [Id], {_expires(types)}, [Headers], DATALENGTH([Body]), {_expired()}")


def _expires(types: Mapping[str, str], source: str = "") -> str:
    if types["Expires"] != "datetimeoffset":
        return f"{source}[Expires]"
    # The driver has no Python type for it.
    return f"CAST(SWITCHOFFSET({source}[Expires], '+00:00') AS datetime2) AS [Expires]"


def _expired(source: str = "") -> str:
    return f"CAST(CASE WHEN {source}[Expires] <= GETUTCDATE() THEN 1 ELSE 0 END AS bit) AS [Expired]"


def output(types: Mapping[str, str], *, into: bool, body: bool = True) -> dict[str, Fragment]:
    """The fragments of a deleting statement: ``names``, ``output`` and ``declare``.

    With ``into`` the rows go by way of a table variable: a table with triggers allows no OUTPUT without INTO
    (error 334, docs/transport/queue-tables.md, "Receiving"). Without ``body`` NULL stands for it.
    """
    columns = row_columns(types, "deleted.", body=body)
    return {
        "names": row_names(types),
        "declare": Fragment(f"DECLARE @taken TABLE ({definitions(STAGED)});\n" if into else ""),
        "output": Fragment(f"{columns}\nINTO @taken;\nSELECT * FROM @taken" if into else columns),
    }


def forwarding(types: Mapping[str, str], target: Collection[str]) -> dict[str, Fragment]:
    """The fragments of a statement that moves rows of a table with columns of these types to one that has ``target``.

    They are ``staged``, ``names``, ``deleted``, ``columns`` and ``values``. Where only the target has ``Recoverable``,
    it gets the 1 that every sender writes.
    """
    columns = [name for name in TABLE_NAMES if name in target and name != "RowVersion"]
    values = ["COALESCE([Recoverable], 1)" if name == "Recoverable" else f"[{name}]" for name in columns]
    return {
        "staged": definitions(STAGED),
        "names": row_names(types),
        "deleted": row_columns(types, "deleted."),
        "columns": Fragment(", ".join(f"[{name}]" for name in columns)),
        "values": Fragment(", ".join(values)),
    }


def insertion(types: Collection[str], given: Collection[str], count: int) -> dict[str, Fragment]:
    """The fragments of a send of ``count`` rows to a table with these columns.

    They are ``columns``, ``values``, ``names`` and ``rows``.

    The parameters of a row, in this order: Id, its life in milliseconds (for Expires), Headers, Body, CorrelationId and
    ReplyToAddress, the last two empty for NULL; of Id, Expires and the legacy columns those that are ``given``. A row
    without an Id gets a new one from the server. ``Recoverable`` is always 1, as versions 4.1 and later write it.
    """
    filled = {
        "Id": "m.[Id]" if "Id" in given else "NEWID()",
        "Expires": _EXPIRES if "Expires" in given else "NULL",
        "Headers": "m.[Headers]",
        "Body": "m.[Body]",
        # Blanks alone compare equal to the empty text: of such a value, which means nothing, NULL is kept as well.
        **{name: f"NULLIF(m.[{name}], '')" if name in given else "NULL" for name in ADDRESSED if name in types},
        **({"Recoverable": "1"} if "Recoverable" in types else {}),
    }
    parameters = {"Id": ["Id"], "Expires": ["Life"], "Headers": ["Headers"], "Body": ["Body"]}
    present = [
        parameter
        for name in filled
        if name in given or name in {"Headers", "Body"}
        for parameter in parameters.get(name, [name])
    ]
    return _rows(filled, present, count)


NULL_CORRELATION_ID, NULL_REPLY_TO_ADDRESS, NULL_BODY, NOT_RECOVERABLE = 1, 2, 4, 8
"""Bits of ``Flags``, a parameter of :func:`restoration`."""


def restoration(types: Collection[str], count: int) -> dict[str, Fragment]:
    """The fragments of a statement that puts back ``count`` rows as they were, as :func:`insertion` has them.

    The parameters of a row, in this order: Id, Flags, Expires (ISO 8601 in UTC, empty for NULL), Headers, Body,
    CorrelationId and ReplyToAddress, the last two where the table has the columns. What Flags call NULL is NULL, so
    that an empty text or body comes back as it was.
    """
    filled = {
        "Id": "m.[Id]",
        "CorrelationId": _unless(NULL_CORRELATION_ID, "CorrelationId"),
        "ReplyToAddress": _unless(NULL_REPLY_TO_ADDRESS, "ReplyToAddress"),
        "Recoverable": f"CASE WHEN m.[Flags] & {NOT_RECOVERABLE} = 0 THEN 1 ELSE 0 END",
        "Expires": "CONVERT(datetime2, NULLIF(m.[Expires], ''), 126)",
        "Headers": "m.[Headers]",
        "Body": _unless(NULL_BODY, "Body"),
    }
    filled = {name: value for name, value in filled.items() if name in types}
    present = ["Id", "Flags", "Expires", "Headers", "Body", *(name for name in ADDRESSED if name in types)]
    return _rows(filled, present, count)


def _unless(flag: int, name: str) -> str:
    return f"CASE WHEN m.[Flags] & {flag} = 0 THEN m.[{name}] END"


def _rows(filled: Mapping[str, str], present: Collection[str], count: int) -> dict[str, Fragment]:
    placeholders = ", ?" * len(present)
    return {
        "columns": Fragment(", ".join(f"[{name}]" for name in filled)),
        "values": Fragment(", ".join(filled.values())),
        "names": Fragment(", ".join(f"[{name}]" for name in ["Position", *present])),
        "rows": Fragment(", ".join(f"({position}{placeholders})" for position in range(count))),
    }
