"""Cost of a drain's rows through pyodbc and through mssql-python, which makes Arrow of them without objects of Python.

``python scripts/bench_drivers.py [--json]``, as ``bench_queue.py``. Both sides run the drain's own DELETE and write the
same Parquet files; there is no ledger. The CPU time is that of this process. docs/design.md, "The driver of a drain",
decides between the two.
"""

from __future__ import annotations

import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import mssql_python
import pyarrow as pa
import pyarrow.compute as pc
from bench_consume import second_queue
from bench_report import Comparison, report
from bench_setting import TURNS, messages
from bench_shop import costs, refill

from airflow_sqlqueue import ConnectionSettings, DrainOptions, Message
from airflow_sqlqueue.drain.stages.part_file import PartFile
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.queue import MAX_ROWS_PER_STATEMENT, QueueTable
from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.row import BODY_FILE, ROW_VERSION, drained_row_schema
from airflow_sqlqueue.server.connection import open_connection
from airflow_sqlqueue.sql.columns import output
from airflow_sqlqueue.traffic import generate

PYODBC, ARROW = "rows of pyodbc", "Arrow of mssql-python"
_REPLACEMENT = "\ufffd".encode()


def compare_drivers(
    queue: QueueTable, *, count: int = 40_000, different: int = 10_000, turns: int = TURNS
) -> list[Comparison]:
    """Compare the client's CPU for messages of three sizes, in one run."""
    kinds: dict[str, Callable[[int], Iterator[Message]]] = {
        "200 bytes": lambda n: _sized(n, 200),
        "1 kB": lambda n: _sized(n, 1_000),
        "shop": lambda n: generate(n, seed=1),
    }
    compared = []
    for name, make in kinds.items():
        with second_queue(queue, f"stock {name}") as stock:
            stock.send(make(min(count, different)))
            ways = {PYODBC: lambda: _drain(queue, _rows), ARROW: lambda: _drain(queue, _arrow)}
            found = costs(ways, turns, lambda stock=stock: refill(queue, stock, count))  # type: ignore[misc]
        compared.append(
            Comparison(f"{name}: {ARROW}", found[ARROW].cpu, PYODBC, found[PYODBC].cpu, unit="µs of client CPU")
        )
    return compared


def _sized(count: int, size: int) -> Iterator[Message]:
    for message in messages(count):
        yield replace(message, body=(message.body * (size // len(message.body) + 1))[:size])


Fetch = Callable[[ConnectionSettings, str], Iterator[list[Any] | pa.RecordBatch]]


def _drain(queue: QueueTable, fetch: Fetch) -> int:
    """Empty the queue into one Parquet file; return the number of messages."""
    layout = queue.layout
    text = queue.query(
        "queue.take_head", window=Window().condition, **output(layout.types, into=layout.output_into)
    ).text
    with tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        file = PartFile(StagingFolder.of(Path(folder)), uuid.uuid4(), uuid.uuid4())
        for rows in fetch(queue.session.settings, text):
            if isinstance(rows, pa.RecordBatch):
                file.write_batch(rows)
            else:
                file.write(rows)
        total = file.messages
        file.close()
    return total


def _values(after: int) -> tuple[int, ...]:
    options = DrainOptions()
    return MAX_ROWS_PER_STATEMENT, after, LAST, options.inline_body_bytes, options.bytes_per_statement


def _rows(settings: ConnectionSettings, text: str) -> Iterator[list[Any]]:
    after = FIRST
    with closing(open_connection(settings, autocommit=False)) as connection:
        cursor = connection.cursor()
        cursor.execute("SET NOCOUNT ON")
        while rows := cursor.execute(text, *_values(after)).fetchall():
            after = max(row[ROW_VERSION] for row in rows)
            yield rows
        connection.commit()


def _arrow(settings: ConnectionSettings, text: str) -> Iterator[pa.RecordBatch]:
    after = FIRST
    with closing(_connect(settings)) as connection:
        cursor = connection.cursor()
        cursor.execute("SET NOCOUNT ON")
        while True:
            cursor.execute(text, _values(after))
            while cursor.description is None:
                cursor.nextset()
            found = cursor.arrow_batch(MAX_ROWS_PER_STATEMENT)
            if not found.num_rows:
                break
            after = pc.max(found.column(ROW_VERSION)).as_py()
            yield _drained(found)
        connection.commit()


def _connect(settings: ConnectionSettings) -> mssql_python.Connection:
    mssql_python.pooling(enabled=False)
    located = settings.located()
    fields = {"Server": f"{located.host},{located.port}", "Database": located.database}
    fields |= {"UID": located.user or "", "PWD": located.password or ""}
    fields |= {name: text for name, text in located.keywords.items() if name in {"Encrypt", "TrustServerCertificate"}}
    text = ";".join(f"{name}={{{value.replace('}', '}}')}}}" for name, value in fields.items())
    return mssql_python.connect(text, autocommit=False)


def _drained(found: pa.RecordBatch) -> pa.RecordBatch:
    """Make rows of a drain's schema, with the check that no half of a surrogate pair was replaced."""
    columns = []
    for field, column in zip(drained_row_schema(), found.columns, strict=False):
        if field.name == "Id":
            column = pc.ascii_lower(column)
        columns.append(pc.assume_timezone(column, "UTC") if field.name == "Expires" else column.cast(field.type))
    data = columns[drained_row_schema().get_field_index("Headers")].buffers()[2]
    if data is not None and data.to_pybytes().find(_REPLACEMENT) >= 0:
        raise ValueError("A text may have held half a surrogate pair.")
    columns.append(pa.nulls(found.num_rows, drained_row_schema().field(BODY_FILE).type))
    return pa.record_batch(columns, schema=drained_row_schema())


if __name__ == "__main__":
    sys.exit(report(__doc__ or "", {"drivers": compare_drivers}))
