"""Rows of a queue, and their columns with their SQL, Arrow and Spark types.

No other module knows the columns and their order. A new column is a field of :class:`Row` and an entry of
:data:`COLUMNS`. The lists of columns in SQL, the values of a send, a restore and a move, the schema of part files and
the schema that Spark reads are all derived from it (``tests/contract/test_added_column.py`` adds a column).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_sqlqueue.messages.message import HeaderNames

if TYPE_CHECKING:
    import pyarrow as pa


class Row(NamedTuple):
    """A row of a queue as the driver returns it, None for NULL; :data:`COLUMNS` names the columns in the same order.

    ``expires`` is in UTC without a time zone, as in the table. ``headers`` is the raw text. ``expired`` is true if
    ``expires`` had passed when the row was read, by the server's clock. ``correlation_id``, ``reply_to_address`` and
    ``recoverable`` are also None in a table without these columns. ``id`` and ``headers`` are None only in a table that
    allows NULL there, against the transport's own definition.
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
"""Make a row of values in the order of the columns. ``Row._make`` counts them, which takes longer."""


@dataclass(frozen=True)
class Column:
    """A column of :class:`Row`: its name in SQL, Arrow and Spark, and its type in each.

    ``sql`` is a type that can hold the column of every queue, whose type varies. ``arrow`` is a name of a type in
    :func:`drained_row_schema`, ``spark`` a name of Spark's JSON schema. ``nullable`` applies to Arrow and Spark.
    ``definition`` is the column in CREATE TABLE, empty if the column is computed when a row is read.

    An owner may drop ``legacy`` columns, and ``added`` columns came with a layout later than the first: a table may
    lack both kinds. Such a column is either text, ``varchar(255)``, which a sender fills from a ``header``, or a bit
    that every sender writes as ``sent``.
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
"""Columns of :class:`Row`, in its order. ``Expired`` is computed; a queue's table has the other eight."""

NAMES = tuple(column.name for column in COLUMNS)
TABLE_NAMES = tuple(column.name for column in COLUMNS if column.definition)
"""Columns that a queue's table can have."""

LEGACY = tuple(column.name for column in COLUMNS if column.legacy)
ADDED = tuple(column.name for column in COLUMNS if column.added)
COLUMN_HEADERS = {column.name: column.header for column in COLUMNS if column.header}
"""Columns that a sender fills from headers, each with the header's name."""

SENT_BITS = {column.name: column.sent for column in COLUMNS if column.sent is not None}
"""Columns in which every sender writes the same bit, each with that bit."""

ROW_VERSION, EXPIRED = NAMES.index("RowVersion"), NAMES.index("Expired")
"""Positions in a row as the driver returns it, for a drain, which makes no :class:`Row` of it."""

HALF_A_PAIR = "a text holds half a surrogate pair"
"""The reason why neither a file nor Spark can hold a row: their texts are UTF-8."""

_NEEDED = tuple(place for place, column in enumerate(COLUMNS) if not column.nullable)


def unreadable(row: Sequence[Any]) -> str | None:
    """Return the reason why Spark cannot hold a row, without the row's values; None if it can. Does not need Arrow."""
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
"""An additional column of drained rows: the URI of the file with a body that is too large for its row, else null."""


@cache
def drained_row_schema() -> pa.Schema:
    """Return the Arrow schema of a drained row: :data:`COLUMNS` and :data:`BODY_FILE`.

    ``Id`` is the lower-case text of the GUID. ``Expires`` is UTC in microseconds (without a zone Spark would make it a
    ``timestamp_ntz``). ``Headers`` is the raw text, malformed or not. ``Body`` is null if the column was NULL or if
    ``BodyFile`` names the file with the body.
    """
    import pyarrow as pa

    utc = pa.timestamp("us", tz="UTC")
    types = {"string": pa.string(), "bool": pa.bool_(), "utc": utc, "binary": pa.binary(), "int64": pa.int64()}
    fields = [pa.field(column.name, types[column.arrow], nullable=column.nullable) for column in COLUMNS]
    return pa.schema([*fields, pa.field(BODY_FILE, pa.string())])


def spark_schema() -> dict[str, Any]:
    """Return :func:`drained_row_schema` in Spark's types, as JSON for ``StructType.fromJson``."""
    columns = [(column.name, column.spark, column.nullable) for column in COLUMNS]
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": nullable, "metadata": {}}
            for name, kind, nullable in [*columns, (BODY_FILE, "string", True)]
        ],
    }
