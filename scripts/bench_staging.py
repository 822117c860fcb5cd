"""The do-it-yourself way to get a queue into Parquet, as a team would write it that has no drain.

A stored statement moves the rows, in chunks, to a staging table of the same database; a SELECT reads that; pyarrow
writes what it gives, with the settings that it has unless told; TRUNCATE empties the staging table. It is written to
be fast: chunks below lock escalation that pass over locked rows, one request for all of them, rows fetched in bulk,
columns converted as a whole. It has no ledger: where it dies on the way, somebody has to find out what was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.connection import open_connection
from airflow_sqlqueue.sql import Query

CHUNK = 4_000
"""Rows of one DELETE: lock escalation starts at 5,000 locks."""

FETCH = 20_000
"""Rows that are read, converted and written at a time."""

_COLUMNS = "[Id], [CorrelationId], [ReplyToAddress], [Recoverable], [Expires], [Headers], [Body], [RowVersion]"
_MOVE = f"""
SET NOCOUNT ON;
DECLARE @moved int = 1;
WHILE @moved > 0
BEGIN
    WITH head AS (
        SELECT TOP ({CHUNK}) {_COLUMNS} FROM {{queue}} WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY [RowVersion]
    )
    DELETE FROM head OUTPUT {_COLUMNS.replace("[", "deleted.[")} INTO {{staging}} ({_COLUMNS});
    SET @moved = @@ROWCOUNT;
END;
"""  # noqa: S608 - our own names
_SCHEMA = pa.schema(
    {
        "Id": pa.string(),
        "CorrelationId": pa.string(),
        "ReplyToAddress": pa.string(),
        "Recoverable": pa.bool_(),
        "Expires": pa.timestamp("us"),
        "Headers": pa.string(),
        "Body": pa.binary(),
        "RowVersion": pa.int64(),
    }
)


class StagedMove:
    """Moves what a queue holds to a file, by way of the table ``staging``."""

    def __init__(self, queue: QueueTable, staging: str) -> None:
        self._queue, self._staging = queue, staging
        # Every statement commits on its own: a chunk is locked no longer than it takes.
        self._move = _MOVE.format(queue=queue.address.qualified_name, staging=staging)

    def run(self, file: Path) -> int:
        """Move all rows; return how many."""
        count = 0
        with closing(open_connection(self._queue.session.settings)) as connection:
            cursor = connection.cursor()
            cursor.execute(self._move)
            cursor.execute(f"SELECT {_COLUMNS} FROM {self._staging}")  # noqa: S608 - our own names
            with pq.ParquetWriter(file, _SCHEMA) as writer:
                while rows := cursor.fetchmany(FETCH):
                    writer.write_batch(_to_arrow(rows))
                    count += len(rows)
            cursor.execute(f"TRUNCATE TABLE {self._staging}")
        return count


@contextmanager
def staged_move(queue: QueueTable) -> Iterator[StagedMove]:
    """A staging table for the queue, dropped at the end."""
    staging = f"[{queue.address.schema}].[{queue.address.table}.staging]"
    types = ("uniqueidentifier", "varchar(255)", "varchar(255)", "bit", "datetime", "nvarchar(max)", "varbinary(max)")
    definitions = zip(_COLUMNS.split(", "), (*types, "bigint"), strict=True)
    columns = ", ".join(f"{name} {kind} NULL" for name, kind in definitions)
    queue.session.run(Query("bench.create", "create the staging table", f"CREATE TABLE {staging} ({columns})"))
    try:
        yield StagedMove(queue, staging)
    finally:
        queue.session.run(Query("bench.drop", "drop the staging table", f"DROP TABLE {staging}"))


def _to_arrow(rows: list[Any]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, type=field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=_SCHEMA)
