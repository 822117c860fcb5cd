"""Spark session shared by all tests here, and batches of generated traffic."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.messages.message import Message, encode_headers
from airflow_sqlqueue.messages.row import drained_row_schema
from airflow_sqlqueue.spark import local_session
from airflow_sqlqueue.versions import VersionedFeature

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeBatch = Callable[..., Batch]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session in a zone that is not UTC, so that whatever leans on the session's zone shows.

    It repeats failed tasks as a cluster does, and tells all that a session can tell: in a web UI and an event log.
    """
    config = {
        "spark.sql.session.timeZone": "America/Sao_Paulo",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": tmp_path_factory.mktemp("events").as_uri(),
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
        # A worker that hangs is soon killed after its task.
        "spark.python.task.killTimeout": "100ms",
    }
    with local_session("tests", "local[2,4]", config) as session:
        yield session


def needs(feature: VersionedFeature) -> pytest.MarkDecorator:
    """Mark of a test for a feature that the installed Spark may lack."""
    reason = f"{feature.name} needs {feature.package} {feature.since}, and {feature.installed} is installed"
    return pytest.mark.skipif(not feature.is_available, reason=reason)


def event_log(spark: SparkSession) -> str:
    """Text of the session's event log so far."""
    folder = Path(urlsplit(str(spark.sparkContext.getConf().get("spark.eventLog.dir"))).path)
    return "".join(path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file())


def parquet_rows(table: Path | str, *columns: str) -> list[tuple[Any, ...]]:
    """Columns and fields of them, such as ``Address.Zip``, in a table's files, by batch and RowVersion.

    What a file lacks is None. Spark reads the same with ``mergeSchema``, and takes a second for it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    for path in Path(table).glob("batch_id=*/parse_attempt=*/[!._]*.parquet"):
        own = {"batch_id": path.parts[-3].partition("=")[2], "parse_attempt": int(path.parts[-2].partition("=")[2])}
        found = pq.read_table(path, partitioning=None)
        rows += [own | _with_dicts(pa.struct(found.schema), row) for row in found.to_pylist()]
    rows.sort(key=lambda row: (row["batch_id"], row["RowVersion"]))
    return [tuple(reduce(_field, column.split("."), row) for column in columns) for row in rows]


def _with_dicts(kind: Any, value: Any) -> Any:
    """A value of Arrow with dictionaries in place of the pairs of its maps, for which older versions have no option."""
    import pyarrow.types as kinds

    if value is None:
        return None
    if kinds.is_map(kind):
        return {key: _with_dicts(kind.item_type, item) for key, item in value}
    if kinds.is_list(kind):
        return [_with_dicts(kind.value_type, item) for item in value]
    return {each.name: _with_dicts(each.type, value[each.name]) for each in kind} if kinds.is_struct(kind) else value


def _field(value: Any, name: str) -> Any:
    return None if value is None else value.get(name)


@pytest.fixture
def make_batch(tmp_path: Path) -> MakeBatch:
    """Make a sealed batch of messages in the test's folder."""
    return batches_in(tmp_path)


def batches_in(root: Path) -> MakeBatch:
    """Makes sealed batches of messages, as the drain writes them: expired ones are dropped and counted."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def make(messages: Sequence[Message | str], *, batch_id: str = "batch-1", parts: int = 2, **change: Any) -> Batch:
        folder = root / "key=value" / batch_id
        folder.mkdir(parents=True, exist_ok=True)
        rows, expired = [], 0
        for number, given in enumerate(messages):
            message = Message(given) if isinstance(given, str) else given
            if message.time_to_be_received is not None and message.time_to_be_received < timedelta(0):
                expired += 1
                continue
            text = message.headers if isinstance(message.headers, str) else encode_headers(message.headers)
            row_id = str(message.id) if message.id else f"00000000-0000-4000-a000-{number:012d}"
            rows.append({"Id": row_id, "Headers": text, "Body": message.body, "RowVersion": number, "Expired": False})
        paths = []
        for part in range(parts if rows else 0):
            path = folder / f"part-{uuid.uuid4()}.parquet"
            pq.write_table(pa.Table.from_pylist(rows[part::parts], schema=drained_row_schema()), path)
            paths.append(str(path))
        values = {
            "batch_id": batch_id,
            "queue": "audit@[dbo]@[shop]",
            "state": "sealed",
            "paths": tuple(paths),
            "messages": len(rows),
            "expired": expired,
            "bytes": sum(len(row["Body"]) + len(row["Headers"].encode("utf-8", "replace")) for row in rows),
            "parts": len(paths),
        }
        return Batch(**{**values, **change})

    return make
