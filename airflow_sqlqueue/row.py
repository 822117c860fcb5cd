"""Rows of a queue, and their columns with their SQL, Arrow and Spark types.

This is the one place that knows the columns and their order. A new column is a field of :class:`Row` and an entry of
:data:`COLUMNS`: the lists of columns in SQL, what a send, a restore and a move write, the schema of part files and the
schema that Spark reads are made from it (``tests/contract/test_added_column.py`` adds one).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_sqlqueue.message import HeaderNames

if TYPE_CHECKING:
    import pyarrow as pa


class Row(NamedTuple):
    """A row of a queue as the driver returns it, None for NULL; :data:`COLUMNS` names the columns in the same order.

    ``expires`` is in UTC without a time zone, as in the table. ``headers`` is the raw text. ``expired`` says whether
    ``expires`` had passed when the row was read, by the server's clock. ``correlation_id``, ``reply_to_address`` and
    ``recoverable`` are also None where the table does not have these columns. ``id`` and ``headers`` are None only in a
    table that allows it, against the transport's own definition.
    """

    id: str | uuid.UUID
    correlation_id: str | None
    reply_to_address: str | None
    recoverable: bool | None
    expires: datetime | None
    headers: str
    body: bytes | None
    row_version: int
    expired: bool


row_of: Callable[[Iterable[Any]], Row] = partial(tuple.__new__, Row)
"""The row of values in the order of the columns. ``Row._make`` counts them, which takes longer."""


@dataclass(frozen=True)
class Column:
    """A column of :class:`Row`: its name in SQL, Arrow and Spark, and its type in each.

    ``sql`` is a type that holds whatever type a queue gives the column. ``arrow`` is a name of :func:`arrow_schema`'s
    types, ``spark`` one of Spark's JSON schema. ``nullable`` is that of Arrow and Spark. ``definition`` is the column
    in CREATE TABLE, empty where it is computed when a row is read.

    ``legacy`` columns may be dropped by an owner, and those that are ``added`` came with a later layout than the first:
    of both a table may have neither. They are either text, ``varchar(255)``, which a sender fills from a ``header``, or
    a bit that every sender writes as ``sent``.
    """

    name: str
    sql: str
    arrow: str
    spark: str
    definition: str = ""
    nullable: bool = True
    legacy: bool = False
    added: bool = False
    header: str | None = None
    sent: int | None = None

    @property
    def table_type(self) -> str:
        """The type in CREATE TABLE."""
        return self.definition.partition(" ")[0]


_TEXT = ("nvarchar(255)", "string", "string", "varchar(255) NULL")

COLUMNS = (
    Column("Id", "uniqueidentifier", "string", "string", "uniqueidentifier NOT NULL", nullable=False),
    Column("CorrelationId", *_TEXT, legacy=True, header=HeaderNames.CORRELATION_ID),
    Column("ReplyToAddress", *_TEXT, legacy=True, header=HeaderNames.REPLY_TO_ADDRESS),
    Column("Recoverable", "bit", "bool", "boolean", "bit NOT NULL", legacy=True, sent=1),
    Column("Expires", "datetime2", "utc", "timestamp", "datetime NULL"),
    Column("Headers", "nvarchar(max)", "string", "string", "nvarchar(max) NOT NULL", nullable=False),
    Column("Body", "varbinary(max)", "binary", "binary", "varbinary(max) NULL"),
    Column("RowVersion", "bigint", "int64", "long", "bigint IDENTITY(1, 1) NOT NULL", nullable=False),
    Column("Expired", "bit", "bool", "boolean", nullable=False),
)
"""The columns of :class:`Row`, in its order. ``Expired`` is computed; a queue's table has the other eight."""

NAMES = tuple(column.name for column in COLUMNS)
TABLE_NAMES = tuple(column.name for column in COLUMNS if column.definition)
"""The columns that a queue's table can have."""

LEGACY = tuple(column.name for column in COLUMNS if column.legacy)
ADDED = tuple(column.name for column in COLUMNS if column.added)
COLUMN_HEADERS = {column.name: column.header for column in COLUMNS if column.header}
"""The columns that a sender fills from headers, each with the header's name."""

SENT_BITS = {column.name: column.sent for column in COLUMNS if column.sent is not None}
"""The columns that every sender writes alike, each with its bit."""

ROW_VERSION, EXPIRED = NAMES.index("RowVersion"), NAMES.index("Expired")
"""Where they stand in a row as the driver returns it, of which a drain makes no :class:`Row`."""

HALF_A_PAIR = "a text holds half a surrogate pair"
"""Why neither a file nor Spark can keep a row, whose texts are UTF-8 there."""

_NEEDED = tuple(place for place, column in enumerate(COLUMNS) if not column.nullable)


def unreadable(row: Sequence[Any]) -> str | None:
    """Why Spark cannot hold a row, without what it holds; None where it can. It takes no Arrow to know."""
    for place in _NEEDED:
        if row[place] is None:
            return f"{NAMES[place]} is NULL"
    try:
        for value in row:
            if isinstance(value, str):
                value.encode()
    except UnicodeError:
        return HALF_A_PAIR
    return None


BODY_FILE = "BodyFile"
"""What drained rows have besides: the URI of the file with a body that is too large for its row, else null."""


@cache
def drained_row_schema() -> pa.Schema:
    """The Arrow schema of a drained row: :data:`COLUMNS` and :data:`BODY_FILE`.

    ``Id`` is the lower-case text of the GUID; ``Expires`` is UTC in microseconds (without a zone Spark would make it a
    ``timestamp_ntz``); ``Headers`` is the raw text, malformed or not; ``Body`` is null where the column was, and where
    ``BodyFile`` names the file that holds the body.
    """
    import pyarrow as pa

    utc = pa.timestamp("us", tz="UTC")
    types = {"string": pa.string(), "bool": pa.bool_(), "utc": utc, "binary": pa.binary(), "int64": pa.int64()}
    fields = [pa.field(column.name, types[column.arrow], nullable=column.nullable) for column in COLUMNS]
    return pa.schema([*fields, pa.field(BODY_FILE, pa.string())])


def spark_schema() -> dict[str, Any]:
    """:func:`drained_row_schema` in Spark's types, as ``StructType.fromJson`` reads a schema."""
    columns = [(column.name, column.spark, column.nullable) for column in COLUMNS]
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": nullable, "metadata": {}}
            for name, kind, nullable in [*columns, (BODY_FILE, "string", True)]
        ],
    }
