"""Remains of an earlier version: tables, staged files and a stream's checkpoint, which later versions have to read.

``python -m tests.upgrades`` makes the folder of the present version in ``tests/fixtures/``: run it once for a release
that writes something in a new form. A folder stays as the released version wrote it.

``tables.sql`` defines the tables and inserts their rows, in a database of its own whose name is part of the addresses;
``state.json`` tells what the version knew; ``staging`` has the files of a batch on a disk, ``many`` those of a batch
with a manifest file, and ``checkpoint`` is that of a stream whose last micro-batch Spark has not noted as done.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue import QueueClient, __version__
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions, batch_after
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.worker import Worker, WorkPlan
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from fakemssql import FakeServer
from tests.drains import drain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent / "fixtures"
VERSIONS = sorted(path.name for path in FOLDER.glob("*.*.*"))

STAGING = "{staging}"
"""Stands for the folder of staged files, in the tables and in manifests."""
MANY = "memory://upgrades/" + "/".join(["x" * 200] * 4)
"""Folder of the batch with a manifest file: paths so long that few of them are too many for XCom."""

SEND_ID = uuid.UUID("6f1f7a34-9c7f-4f06-8d55-4f8a5c1c0b11")
STREAM = "lake"
PARTS = DrainOptions(rows_per_statement=5, rows_per_part=5, locked_wait_seconds=0)
_GO = "\nGO\n"


def database_of(version: str) -> str:
    """The name of the database of a version."""
    return f"upgrade_{version.replace('.', '_')}"


def bodies_of(name: str, count: int) -> list[bytes]:
    """Bodies of the messages that were sent to a queue, in their order."""
    return [f"{name} {number} ☃".encode() for number in range(count)]


@dataclass(frozen=True)
class Remains:
    """A version's remains on a server: a client for their database, and what the version knew of them."""

    version: str
    client: QueueClient
    settings: ConnectionSettings
    folder: Path
    staging: StagingFolder
    state: dict[str, Any]

    def batch(self, name: str) -> Batch:
        """A manifest that the version wrote."""
        return Batch.from_dict(self.state["batches"][name])


@contextmanager
def restored(version: str, settings: ConnectionSettings, folder: Path) -> Iterator[Remains]:
    """Restore the remains of a version in a database and in a folder of their own, and bring its tables up to date."""
    source, name = FOLDER / version, database_of(version)
    shutil.copytree(source, folder)
    staging = StagingFolder.of(folder / "staging")
    with database(name, settings) as own:
        client = QueueClient(own)
        with client.session() as session:
            for statement in (source / "tables.sql").read_text("utf-8").replace(STAGING, staging.uri).split(_GO):
                session.run(Query("restore", "restore a version's tables", statement))
        client.tables.create("audit", ledger=True)
        state = json.loads((source / "state.json").read_text("utf-8").replace(STAGING, staging.uri))
        memory = StagingFolder.of(MANY)
        for path in sorted((source / "many").iterdir()):
            batch_id = state["references"]["many"]["batch_id"]
            memory.filesystem.pipe_file(f"{memory.root}/{batch_id}/{path.name}", path.read_bytes())
        yield Remains(version, client, own, folder, staging, state)


@contextmanager
def database(name: str, settings: ConnectionSettings) -> Iterator[ConnectionSettings]:
    """An empty database for the block."""
    client = QueueClient(settings)
    client.run_sql(f"DROP DATABASE IF EXISTS [{name}]; CREATE DATABASE [{name}]")
    try:
        yield replace(settings, database=name)
    finally:
        client.run_sql(f"DROP DATABASE [{name}]")


def make(folder: Path, settings: ConnectionSettings, spark: SparkSession) -> None:
    """Write the remains of the present version into a folder."""
    client = QueueClient(settings)
    staging = StagingFolder.of(folder / "staging")
    queues = ("audit", "events", "many", "stream")
    script = [client.tables.script(queues[0], ledger=True), *map(client.tables.script, queues[1:])]
    for queue in queues:
        client.tables.create(queue, ledger=True)

    def drained(name: str, count: int, stage: StagingFolder | Stage) -> Batch:
        client.queue(name).send(Message({"n": f"{n}"}, body) for n, body in enumerate(bodies_of(name, count)))
        with client.queue(name).open() as queue:
            return drain(client.session, queue, stage, PARTS, batch_id=uuid.uuid4(), origin="version of the past").batch

    many = StagingFolder.of(MANY)
    batches = {
        "audit": drained("audit", 10, staging),
        "events": drained("events", 10, TableStage()),
        "many": drained("many", 50, many),
    }
    interrupted = _interrupted(client, staging)
    client.queue("events").send_once(SEND_ID, [Message({}, b"once")], "version of the past")
    _stream(client, settings, spark, folder / "checkpoint")

    (folder / "many").mkdir()
    for path in many.filesystem.find(f"{many.root}/{batches['many'].folder}"):
        (folder / "many" / path.rpartition("/")[2]).write_bytes(many.filesystem.cat_file(path))
    state = {
        "batches": {name: batch.to_dict() for name, batch in batches.items() if batch.is_listed},
        "references": {name: batch.to_reference() for name, batch in batches.items()},
        "after": {name: str(batch_after(uuid.UUID(batch.batch_id))) for name, batch in batches.items()},
        "interrupted": str(interrupted),
    }
    _write(folder / "state.json", json.dumps(state, indent=1) + "\n", staging)
    statements = [statement for text in script for statement in text.split("\nGO\n") if statement.strip()]
    _write(folder / "tables.sql", _GO.join([*statements, *_rows(client, settings.database)]) + "\n", staging)


def _interrupted(client: QueueClient, staging: StagingFolder) -> uuid.UUID:
    """A drain of ``audit`` that ended after the first of its parts."""
    client.queue("audit").send(Message({"n": f"{n}"}, body) for n, body in enumerate(bodies_of("open", 12)))
    batch_id = uuid.uuid4()
    with client.queue("audit").open() as queue:
        ledger = Ledger(queue.session, queue.address.catalog)
        ends = queue.ends()
        assert ends is not None
        ledger.open(batch_id, queue.address.canonical, ends[1], "files", DrainRequest(origin="version of the past"))
        work = WorkPlan(batch_id, queue.address, FileStage(staging), PARTS, folder=ledger.folder(batch_id))
        worker = Worker(queue.session, work)
        assert worker.drain_part(Window(), None) is not None
    return batch_id


def stream(settings: ConnectionSettings, spark: SparkSession, checkpoint: Path, *, limit: int = 5) -> list[bytes]:
    """Bodies that the stream gives until its queue is empty, in any order."""
    from airflow_sqlqueue.spark import register

    register(spark, settings)
    found: list[bytes] = []
    rows = spark.readStream.format("sqlqueue").options(queue="stream", stream=STREAM, maxMessages=limit, partitions=1)
    writer = rows.load().select("Body").writeStream.option("checkpointLocation", checkpoint.as_uri())

    def sink(frame: Any, number: int) -> None:
        found.extend(bytes(row["Body"]) for row in frame.collect())

    writer.foreachBatch(sink).trigger(availableNow=True).start().awaitTermination()
    return found


def _stream(client: QueueClient, settings: ConnectionSettings, spark: SparkSession, checkpoint: Path) -> None:
    """Two micro-batches of five messages; the second one is not noted, as if Spark had died, and three are left."""
    sent = bodies_of("stream", 13)
    queue = client.queue("stream")
    queue.send(Message({}, body) for body in sent[:10])
    assert sorted(stream(settings, spark, checkpoint)) == sorted(sent[:10])
    queue.send(Message({}, body) for body in sent[10:])
    (checkpoint / "commits" / "1").unlink()
    for path in [*checkpoint.rglob(".*.crc")]:
        path.unlink()


def _rows(client: QueueClient, catalog: str) -> Iterator[str]:
    """INSERT statements for all rows of a database."""
    tables = client.run_sql(
        "SELECT s.name, t.name FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id "
        "ORDER BY s.name, t.name"
    )
    for schema, table in tables:
        name = f"[{catalog}].[{schema}].[{table}]"
        columns = client.run_sql(
            f"SELECT c.name, c.is_identity FROM sys.columns AS c WHERE c.object_id = OBJECT_ID(N'{name}') "
            "ORDER BY c.column_id"
        )
        names = ", ".join(f"[{column}]" for column, _ in columns)
        inserts = [
            f"INSERT INTO {name} ({names})\nVALUES ({', '.join(map(_literal, row))});"
            for row in client.run_sql(f"SELECT {names} FROM {name}")
        ]
        if any(is_identity for _, is_identity in columns):
            on, off = (f"SET IDENTITY_INSERT {name} {switch};" for switch in ("ON", "OFF"))
            inserts = ["\n".join([on, *inserts, off])] if inserts else []
            last = client.run_sql(f"SELECT IDENT_CURRENT(N'{name}')")[0][0]
            # In a table that has had no row, the next row gets this number itself.
            inserts.append(f"DBCC CHECKIDENT (N'{name}', RESEED, {int(last) + 1});")
        yield from inserts


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, (bytes, bytearray)):
        return f"0x{bytes(value).hex()}"
    if isinstance(value, (bool, int)):
        return str(int(value))
    text = value.isoformat(timespec="milliseconds") if isinstance(value, datetime) else str(value)
    doubled = text.replace("'", "''")
    return f"N'{doubled}'"


def _write(path: Path, text: str, staging: StagingFolder) -> None:
    path.write_text(text.replace(staging.uri, STAGING), "utf-8")


def main() -> None:
    """Make the folder of the present version."""
    from airflow_sqlqueue.spark import local_session

    target = FOLDER / __version__
    if target.exists():
        sys.exit(f"{target.name} is there: it shows what the released version wrote.")
    with tempfile.TemporaryDirectory() as temporary, FakeServer(databases=["sqlqueue"]) as server:
        folder = Path(temporary, __version__)
        folder.mkdir()
        with (
            database(database_of(__version__), ConnectionSettings.from_url(server.url("sqlqueue"))) as settings,
            local_session("remains", config={"spark.executorEnv.PYTHONPATH": os.getcwd()}) as spark,
        ):
            make(folder, settings, spark)
        shutil.copytree(folder, target)


if __name__ == "__main__":
    main()
