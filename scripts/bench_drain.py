"""Speed of a drain against single receives, a bare loop of its statements, and a do-it-yourself move; and its growth.

Two workers can only be faster than one if server and client have free cores: with fewer than four cores that ratio has
no bound. A drain has fixed costs, which raise the cost of a message in a small drain and would hide a growth: therefore
the growth compares the drain of a million messages with that of 100,000 as well.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from bench_report import Comparison, cores
from bench_setting import TURNS, best_rates, drained, fill, rate_of

from airflow_sqlqueue import Batch, DrainOptions, DrainRequest, Redactor
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.messages.row import NAMES
from airflow_sqlqueue.queue import MAX_ROWS_PER_STATEMENT, QueueTable
from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.connection import open_connection
from airflow_sqlqueue.server.sql import Query
from airflow_sqlqueue.server.sql.columns import output

SINGLE, BARE, STAGED, RULES = "single receives", "bare loop", "do it yourself", "drain with rules of other types"
ENOUGH_CORES = 4
_ROW_VERSION = NAMES.index("RowVersion")


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


def compare_drains(
    queue: QueueTable, *, count: int = 100_000, single: int = 500, turns: int = TURNS + 2
) -> list[Comparison]:
    """Compare drains with 1, 2 and 4 workers with their bases, all of the same messages."""
    with staged_move(queue) as move, tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        kinds: dict[str, Callable[[], int]] = {
            SINGLE: lambda: sum(len(queue.receive()) for _ in range(single)),
            BARE: lambda: bare_loop(queue),
            STAGED: lambda: move.run(Path(folder, "moved.parquet")),
            RULES: lambda: drain(queue, 1, redaction=_OTHER_TYPES),
            **{_drained_by(n): (lambda n=n: drain(queue, n)) for n in (1, 2, 4)},  # type: ignore[misc]
        }
        best = best_rates(kinds, turns, before=lambda name: fill(queue, single if name == SINGLE else count))
    one, two, four = map(_drained_by, (1, 2, 4))
    spare = cores() >= ENOUGH_CORES
    note = f"{cores()} cores" + ("" if spare else ": too few for a bound")
    pairs = (
        (four, SINGLE, 25.0, ""),
        (one, BARE, 0.8, ""),
        (RULES, one, 1 / 1.3, "a field of another type"),
        (two, one, 1.5 if spare else None, note),
        (two, STAGED, 1.0, "the default"),
        (four, STAGED, None, ""),
        (one, STAGED, None, ""),
    )
    return [Comparison(name, best[name], base, best[base], bound, note=note) for name, base, bound, note in pairs]


def _drained_by(workers: int) -> str:
    return f"{workers}-worker drain"


def bare_loop(queue: QueueTable) -> int:
    """Return the drain's own DELETE through the driver, in transactions of a part's size; the rows are discarded."""
    layout = queue.layout
    text = queue.query(
        "queue.delete_first_rows", window=Window().condition, **output(layout.types, into=layout.output_into)
    ).text
    options = DrainOptions()
    connection = open_connection(queue.session.settings)
    connection.autocommit = False
    total, after, in_part = 0, FIRST, 0
    try:
        cursor = connection.cursor()
        cursor.execute("SET NOCOUNT ON")
        limits = (LAST, options.inline_body_bytes, options.bytes_per_statement)
        while rows := cursor.execute(text, MAX_ROWS_PER_STATEMENT, after, *limits).fetchall():
            total, in_part = total + len(rows), in_part + len(rows)
            after = max(row[_ROW_VERSION] for row in rows)
            if in_part >= options.rows_per_part:
                connection.commit()
                in_part = 0
        connection.commit()
    finally:
        connection.close()
    return total


_OTHER_TYPES = Redactor.of({"message_type": "Bench.Other", "fields": {"Customer.Email": "mask"}})


def drain(
    queue: QueueTable,
    workers: int = DrainOptions.workers,
    redaction: Redactor | None = None,
) -> int:
    """Drain the queue to files that are then removed; return the number of messages."""
    request = DrainRequest(options=DrainOptions(workers=workers), redaction=redaction)
    with drained_to_files(queue, request) as batch:
        return batch.messages + batch.expired


@contextmanager
def drained_to_files(queue: QueueTable, request: DrainRequest) -> Iterator[Batch]:
    """Drain the queue to files, which are removed at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        yield drained(queue, StagingFolder.of(Path(folder)), request)


GROWTH_TURNS = {10_000: 5, 100_000: 3, 1_000_000: 1}
"""Turns of each size; the best one counts. A short drain gets more, because a short disturbance affects it more."""

GROWTH_BOUND = 1.2


def compare_growth(queue: QueueTable) -> list[Comparison]:
    """Compare the cost of a message in drains of different sizes, with the default settings, one after the other."""
    small, middle, large = GROWTH_TURNS
    _growth_cost(queue, small)  # prepares the statements
    cost = {size: min(_growth_cost(queue, size) for _ in range(turns)) for size, turns in GROWTH_TURNS.items()}
    return [
        Comparison(
            f"drain of {size:,}",
            cost[size],
            f"drain of {base:,}",
            cost[base],
            GROWTH_BOUND,
            limit=True,
            unit="µs/message",
        )
        for size, base in ((middle, small), (large, small), (large, middle))
    ]


def _growth_cost(queue: QueueTable, size: int) -> float:
    """Return the microseconds for each message of a drain."""
    fill(queue, size)
    return 1e6 / rate_of(lambda: drain(queue))


MILLION = 1_000_000
LONG = {"millions"}
"""Parts that run only if they are named."""


def compare_millions(queue: QueueTable, *, count: int = 5 * MILLION, step: int = MILLION) -> list[Comparison]:
    """Compare the cost of a message among the last ``step`` of one drain with that among the first.

    The ledger has the moment of each part. The note has the bytes that the batch takes in XCom and in its manifest.
    """
    fill(queue, count)
    with drained_to_files(queue, DrainRequest()) as batch:
        pass
    if batch.messages != count:
        raise RuntimeError(f"{batch.messages:,} of {count:,} messages were drained.")
    rows = queue.session.run(Query("bench.moments", "read the moments of the parts", _MOMENTS), batch.batch_id)
    xcom, manifest = len(json.dumps(batch.to_reference())), len(json.dumps(batch.to_dict()))
    moments = [0, *moments_of([(int(messages), int(moment)) for messages, moment in rows], step)]
    first, last = moments[1] - moments[0], moments[-1] - moments[-2]
    note = f"{len(batch.paths)} files, {xcom:,} bytes in XCom, {manifest:,} in the manifest"
    names = f"the last {step:,} of {count:,}", f"the first {step:,}"
    bound, unit = GROWTH_BOUND, "µs/message"
    return [
        Comparison(names[0], 1e3 * last / step, names[1], 1e3 * first / step, bound, limit=True, unit=unit, note=note)
    ]


def moments_of(parts: Iterable[tuple[int, int]], step: int) -> list[float]:
    """Return the moments at which ``step`` messages were drained, twice as many, and so on, in a straight line between
    parts.

    :param parts: the messages and the moment of each part, by the moment.
    """
    found: list[float] = []
    drained, before = 0, 0
    for messages, moment in parts:
        while messages and drained + messages >= step * (len(found) + 1):
            share = (step * (len(found) + 1) - drained) / messages
            found.append(before + share * (moment - before))
        drained, before = drained + messages, moment
    return found


_MOMENTS = """
SELECT p.[Messages], DATEDIFF_BIG(millisecond, b.[OpenedAt], p.[CommittedAt])
FROM [sqlqueue].[Part] AS p JOIN [sqlqueue].[Batch] AS b ON b.[BatchId] = p.[BatchId]
WHERE p.[BatchId] = ? ORDER BY p.[CommittedAt];
"""


class StagedMove:
    """The do-it-yourself way to get a queue into a Parquet file, as a team without a drain would write it.

    A stored statement moves the rows, in chunks, to the table ``staging`` of the same database; a SELECT reads that;
    pyarrow writes the rows with its default settings; TRUNCATE empties the staging table. It is written to be fast:
    chunks below lock escalation that skip locked rows, one request for all of them, rows fetched in bulk, columns
    converted as a whole. It has no ledger: if it dies on the way, people must find out which rows were read.
    """

    def __init__(self, queue: QueueTable, staging: str) -> None:
        self._queue, self._staging = queue, staging
        # Every statement commits on its own, so a chunk is locked during its own statement only.
        self._move = _MOVE.format(queue=queue.address.qualified_name, staging=staging)

    def run(self, file: Path) -> int:
        """Move all rows; return their number."""
        count = 0
        with closing(open_connection(self._queue.session.settings)) as connection:
            cursor = connection.cursor()
            cursor.execute(self._move)
            cursor.execute(f"SELECT {_COLUMNS} FROM {self._staging}")  # noqa: S608 - our own names
            with pq.ParquetWriter(file, _SCHEMA) as writer:
                while rows := cursor.fetchmany(FETCH):
                    writer.write_batch(_arrow_batch(rows))
                    count += len(rows)
            cursor.execute(f"TRUNCATE TABLE {self._staging}")
        return count


@contextmanager
def staged_move(queue: QueueTable) -> Iterator[StagedMove]:
    """Create a staging table for the queue, dropped at the end."""
    staging = f"[{queue.address.schema}].[{queue.address.table}.staging]"
    types = ("uniqueidentifier", "varchar(255)", "varchar(255)", "bit", "datetime", "nvarchar(max)", "varbinary(max)")
    definitions = zip(_COLUMNS.split(", "), (*types, "bigint"), strict=True)
    columns = ", ".join(f"{name} {kind} NULL" for name, kind in definitions)
    queue.session.run(Query("bench.create", "create the staging table", f"CREATE TABLE {staging} ({columns})"))
    try:
        yield StagedMove(queue, staging)
    finally:
        queue.session.run(Query("bench.drop", "drop the staging table", f"DROP TABLE {staging}"))


def _arrow_batch(rows: list[Any]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, type=field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=_SCHEMA)
