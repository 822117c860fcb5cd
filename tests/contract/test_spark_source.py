"""Tasks of the data source ``sqlqueue``, without Spark: peeks at a queue, and parts of a batch."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchError, BatchMismatchError, BatchNotFoundError, ConfigurationError, StagingError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.row import drained_row_schema, spark_schema
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import browse, read
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark.source import peek
from airflow_sqlqueue.spark.source.columns import SelectedColumns
from airflow_sqlqueue.spark.source.options import BatchOptions, PeekOptions, ServerAccess, SourceOptions
from airflow_sqlqueue.spark.source.peek import RowVersionRange, plan_ranges, read_range, split
from airflow_sqlqueue.spark.source.staged import plan_shares, read_share
from tests.contract.conftest import Connect, run_sql
from tests.drains import drain

Drained = Callable[[str], Batch]
ALL = SelectedColumns.of(StructType.fromJson(spark_schema()))
STAGES = ("files", "table")


def columns(ddl: str) -> SelectedColumns:
    """The columns of a schema as a user writes it: ``"Id string, RowVersion bigint"``."""
    types = {"bigint": "long"}
    fields = [field.split() for field in ddl.split(", ")]
    return SelectedColumns.of(
        StructType.fromJson(
            {
                "type": "struct",
                "fields": [
                    {"name": name, "type": types.get(kind, kind), "nullable": True, "metadata": {}}
                    for name, kind in fields
                ],
            }
        )
    )


@pytest.fixture
def access(settings: ConnectionSettings) -> ServerAccess:
    return ServerAccess.of(SourceOptions({}), settings)


@pytest.fixture
def look(access: ServerAccess, queue: QueueTable) -> Callable[..., list[dict[str, Any]]]:
    """The rows that a peek with some options and columns gives, task by task."""

    def rows(ddl: str | None = None, **options: Any) -> list[dict[str, Any]]:
        given = SourceOptions({"queue": queue.address.canonical, **options}, *PeekOptions.OPTIONS)
        chosen = ALL if ddl is None else columns(ddl)
        read = PeekOptions.of(given)
        found: list[dict[str, Any]] = []
        for wanted in plan_ranges(access, read):
            for batch in read_range(access, read.queue, chosen, wanted):
                assert batch.schema == chosen.schema
                found += batch.to_pylist()
        return found

    return rows


def versions_of(rows: list[dict[str, Any]]) -> list[int]:
    return [row["RowVersion"] for row in rows]


def test_a_peek_removes_no_message(queue: QueueTable, look: Callable[..., Any]) -> None:
    queue.send(Message({"n": f"{n} ☃ 😀"}, bytes([n])) for n in range(30))
    run_sql(
        queue.session,
        f"UPDATE {queue.address.qualified_name} SET [Body] = NULL, [Expires] = '2020-02-29T23:59:59.997', "
        "[CorrelationId] = '' WHERE [Body] = 0x07",
    )
    assert ALL.schema == drained_row_schema()
    rows = look()
    seen = queue.peek(100)
    assert versions_of(rows) == [message.row_version for message in seen]
    for row, message in zip(rows, seen, strict=True):
        assert (row["Id"], row["Headers"], row["Body"] or b"") == (str(message.id), message.headers, message.body)
        assert (row["Expires"], row["Expired"]) == (message.expires, message.expired)
        assert (row["CorrelationId"], row["Recoverable"]) == (message.correlation_id, message.recoverable)
        assert (row["Body"] is None, row["BodyFile"]) == (message.expired, None)
    assert sum(message.expired for message in seen) == 1


def test_every_range_and_every_page_once(
    queue: QueueTable, look: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With gaps in the RowVersions, and bodies so large that few fill a page."""
    queue.send(Message({}, b"x" * 3_000 if n % 5 == 0 else b"") for n in range(40))
    queue.take([head.row_version for head in browse(queue, 100)][10:15])
    expected = [head.row_version for head in browse(queue, 100)]
    monkeypatch.setattr(peek, "PAGE_BYTES", 7_000)
    for partitions in ("1", "3", "1000"):
        rows = look("RowVersion bigint, Body binary", partitions=partitions)
        assert versions_of(rows) == expected
        assert sum(len(row["Body"]) for row in rows) == 7 * 3_000


def test_a_page_is_bounded_by_the_bytes_that_it_brings(queue: QueueTable) -> None:
    queue.send(Message({}, b"x" * 1_000) for _ in range(10))
    high = [head.row_version for head in browse(queue, 100)][-1]
    assert len(read(queue, ["Body"], Window(0, high), rows=100, max_bytes=2_500)) == 3
    assert len(read(queue, ["Body"], Window(0, high), rows=2, max_bytes=2_500)) == 2
    assert len(read(queue, ["Body"], Window(0, high), rows=100, max_bytes=1)) == 1
    assert len(read(queue, ["Id"], Window(0, high), rows=100, max_bytes=1)) == 10


def test_an_empty_queue(look: Callable[..., Any]) -> None:
    assert look() == look(limit="3") == []


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_limits_and_ranges(queue: QueueTable, look: Callable[..., Any], partitions: int) -> None:
    queue.send(Message({}, b"") for _ in range(20))
    versions = [head.row_version for head in browse(queue, 100)]

    def found(**options: Any) -> list[int]:
        return versions_of(look("RowVersion bigint", partitions=str(partitions), **options))

    assert found(limit="5") == versions[:5]
    assert found(limit="50") == versions
    assert found(minRowVersion=str(versions[3]), maxRowVersion=str(versions[7])) == versions[3:8]
    assert found(min_row_version=str(versions[3]), limit="2") == versions[3:5]
    assert found(minRowVersion=str(versions[7]), maxRowVersion=str(versions[3])) == []


def test_a_schema_selects_columns_on_the_server(
    queue: QueueTable, look: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.send([Message({"a": "b"}, b"body")])
    (head,) = browse(queue)
    (row,) = look("rowversion bigint, ID string, Expired boolean, BodyFile string")
    assert row == {"rowversion": head.row_version, "ID": str(head.id), "Expired": False, "BodyFile": None}
    texts: list[str] = []
    run = queue.session.run

    def record(statement: Any, *values: Any, **sizes: Any) -> Any:
        texts.append(statement.text)
        return run(statement, *values, **sizes)

    monkeypatch.setattr(queue.session, "run", record)
    read(queue, ["Id"], Window(0, head.row_version), rows=1, max_bytes=1)
    assert "\nSELECT [Id], [RowVersion]\nFROM" in texts[-1]
    assert "DATALENGTH" not in texts[-1]


def test_locked_messages_are_passed_over(queue: QueueTable, connect: Connect, look: Callable[..., Any]) -> None:
    queue.send(Message({}, b"") for _ in range(5))
    with connect() as other:
        other.begin()
        taken = {message.row_version for message in QueueTable(other, queue.address).receive(2)}
        seen = set(versions_of(look()))
        other.roll_back()
    assert len(seen) == 3
    assert not seen & taken
    assert len(look()) == 5


def test_a_message_that_spark_cannot_hold_is_reported_and_not_quoted(
    queue: QueueTable, look: Callable[..., Any]
) -> None:
    queue.send([Message("secret", b"")])
    run_sql(queue.session, f"UPDATE {queue.address.qualified_name} SET [Headers] = N'secret ' + NCHAR(0xD83D)")
    (head,) = browse(queue)
    with pytest.raises(StagingError, match=rf"{head.row_version} \(RowVersion\) .*half a surrogate pair") as raised:
        look()
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is raised.value.__context__ is None
    assert len(look("RowVersion bigint")) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"colour": "kitten-7"}, "no option 'colour'"),
        ({"partitions": "0"}, "The option 'partitions' must be a whole number, 1 to"),
        ({"limit": "kitten-7"}, "The option 'limit' must be a whole number, 1 or more"),
        ({"queue": " "}, "The option 'queue' is missing"),
    ],
)
def test_invalid_options_raise_a_sentence(look: Callable[..., Any], options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as raised:
        look(**options)
    assert "kitten" not in str(raised.value)


def test_unknown_columns() -> None:
    with pytest.raises(ConfigurationError, match="has no column 'Colour': choose from Id, CorrelationId"):
        columns("Colour string")
    with pytest.raises(ConfigurationError, match="The column RowVersion is of type bigint"):
        columns("RowVersion integer")


def test_the_server_comes_from_options_or_the_environment(
    monkeypatch: pytest.MonkeyPatch, settings: ConnectionSettings
) -> None:
    monkeypatch.delenv("SQLQUEUE_URL", raising=False)
    with pytest.raises(ConfigurationError, match="No server is named"):
        ServerAccess.of(SourceOptions({}), None)
    monkeypatch.setenv("SQLQUEUE_URL", "mssql://u:p@h/d")
    known = ServerAccess.OPTIONS
    access = ServerAccess.of(SourceOptions({"Password": "other", "ledger_schema": "mine"}, *known), None)
    client = access.client()
    assert (client.settings.host, client.settings.password, client.settings.ledger_schema) == ("h", "other", "mine")
    assert "other" not in repr(access)
    assert ServerAccess.of(SourceOptions({}), settings).client().settings == settings
    named = ServerAccess.of(SourceOptions({"url": "mssql://u:p@named/d"}, *known), settings)
    assert named.client().settings.host == "named"
    with pytest.raises(ConfigurationError, match="must have the form mssql://"):
        ServerAccess.of(SourceOptions({"url": "http://kitten@h"}, *known), None)


def test_ranges() -> None:
    assert split(5, 5, 8) == [RowVersionRange(4, 5)]
    assert split(1, 10, 3) == [RowVersionRange(0, 3), RowVersionRange(3, 6), RowVersionRange(6, 10)]


@pytest.fixture
def drained(connect: Connect, queue: QueueTable, tmp_path: Path) -> Drained:
    """250 messages in three parts, some of them without a body or with one in a file of its own."""

    def run(stage_name: str) -> Batch:
        queue.send(Message({"n": f"{n} ☃"}, b"b" * (n % 7) * (10_000 if n % 70 == 3 else 1)) for n in range(250))
        run_sql(queue.session, f"UPDATE {queue.address.qualified_name} SET [Body] = NULL WHERE DATALENGTH([Body]) = 1")
        stage: Stage = TableStage() if stage_name == "table" else FileStage(StagingFolder.of(tmp_path))
        options = DrainOptions(rows_per_statement=30, rows_per_part=100, inline_body_bytes=20_000, workers=1)
        return drain(connect, queue, stage, options).batch

    return run


def batch_rows(access: ServerAccess, batch: Batch, chosen: SelectedColumns = ALL, **options: str) -> list[Any]:
    given = SourceOptions(options, *BatchOptions.OPTIONS)
    shares = plan_shares(access, BatchOptions.of(given, uuid.UUID(batch.batch_id)))
    rows: list[Any] = []
    for share in shares:
        for page in read_share(access, chosen, share):
            assert page.schema == chosen.schema
            rows += page.to_pylist()
    return rows


@pytest.mark.parametrize("stage", STAGES)
def test_a_batch(access: ServerAccess, queue: QueueTable, drained: Drained, stage: str) -> None:
    batch = drained(stage)
    rows = batch_rows(access, batch, partitions="2")
    assert sorted(versions_of(rows)) == list(range(min(versions_of(rows)), min(versions_of(rows)) + 250))
    bodies = {row["Body"] for row in rows if row["BodyFile"] is None}
    assert bodies >= {None, b"", b"bb"}
    assert sum(row["BodyFile"] is not None for row in rows) == (4 if stage == "files" else 0)
    some = batch_rows(access, batch, columns("headers string, rowVersion bigint"))
    assert [(row["headers"], row["rowVersion"]) for row in some] == [
        (row["Headers"], row["RowVersion"]) for row in rows
    ]
    assert batch_rows(access, batch, columns("BodyFile string, Body binary")) == [
        {"BodyFile": row["BodyFile"], "Body": row["Body"]} for row in rows
    ]
    Ledger(queue.session, queue.address.catalog).consume(batch)
    assert batch_rows(access, batch, queue=batch.queue) == rows


@pytest.mark.parametrize("state", ["open", "requeued"])
def test_a_batch_in_another_state(access: ServerAccess, queue: QueueTable, drained: Drained, state: str) -> None:
    batch = drained("table")
    run_sql(queue.session, f"UPDATE [sqlqueue].[Batch] SET [State] = '{state}' WHERE [BatchId] = '{batch.batch_id}'")
    with pytest.raises(BatchError, match=f"Batch {batch.batch_id} is (still )?{state}"):
        batch_rows(access, batch)


def test_the_ledger_counts_every_part(access: ServerAccess, queue: QueueTable, drained: Drained) -> None:
    batch = drained("table")
    lowest = f"SELECT MIN([RowVersion]) FROM [sqlqueue].[BatchMessage] WHERE [BatchId] = '{batch.batch_id}'"
    of_batch = f"WHERE [BatchId] = '{batch.batch_id}' AND [RowVersion] = ({lowest})"
    run_sql(queue.session, f"DELETE FROM [sqlqueue].[BatchMessage] {of_batch}")
    with pytest.raises(BatchMismatchError, match="has 99 messages, the ledger says 100"):
        batch_rows(access, batch)


def test_the_ledger_counts_every_file(access: ServerAccess, drained: Drained) -> None:
    batch = drained("files")
    file = Path(urlsplit(batch.paths[1]).path)
    table = pq.read_table(file, partitioning=None)
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), file)
    with pytest.raises(BatchMismatchError, match="messages, the ledger says"):
        batch_rows(access, batch)
    file.unlink()
    with pytest.raises(StagingError, match="cannot be read"):
        batch_rows(access, batch)


def test_files_that_no_drain_wrote_are_refused(access: ServerAccess, queue: QueueTable, drained: Drained) -> None:
    batch = drained("files")
    change = f"UPDATE [sqlqueue].[Part] SET [Path] = '/etc/passwd' WHERE [BatchId] = '{batch.batch_id}'"
    run_sql(queue.session, f"{change} AND [Path] = N'{batch.paths[0]}'")
    with pytest.raises(BatchMismatchError, match="is not one that its drain wrote"):
        batch_rows(access, batch)


def test_an_unknown_batch(access: ServerAccess, connect: Connect, queue: QueueTable) -> None:
    empty = Drain(connect, queue.address, TableStage()).run().batch
    assert batch_rows(access, empty) == []
    with pytest.raises(BatchNotFoundError, match="does not know batch"):
        batch_rows(access, Batch(str(uuid.uuid4()), "q", "sealed", (), 0))
    with pytest.raises(ConfigurationError, match="A batch is read whole: remove the option 'limit'"):
        BatchOptions.of(SourceOptions({"limit": "3"}, *PeekOptions.OPTIONS), uuid.uuid4())
    with pytest.raises(ConfigurationError, match="The option 'batch' must be a UUID"):
        SourceOptions({"batch": "kitten"}, "batch").identifier("batch")
    with pytest.raises(ConfigurationError, match="The option 'pushdown' must be true or false"):
        SourceOptions({"pushdown": "kitten"}, "pushdown").flag("pushdown")
