"""Tables of message types where a run is killed: each message is in one table, once, when it was run again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sqlqueue.bodies.schemas import struct
from airflow_sqlqueue.message import Message
from airflow_sqlqueue.schemas.files import SchemaFolder
from airflow_sqlqueue.spark.message_tables import reparse, write_message_tables
from tests.faults.conftest import LONG
from tests.spark.conftest import batches_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = [f"Shop.Type{number}" for number in range(4)]
NEW = "Shop.Later"

POINTS = [
    (method.replace("lake", name), number, when)
    for name in ("parquet", "delta")
    for method, number, when in (
        ("work.pack", 1, "in"),
        ("work.pack", 1, "after"),
        ("schemas.put", 2, "after"),
        ("work.pack", 2, "after"),
        ("lake.append", 1, "before"),
        ("lake.append", 2, "in"),
        ("lake.append", 3, "after"),
        ("work.remove", 1, "before"),
    )
]
"""Where the second batch's run dies: a method, the number of its call, and the part of the call."""

REPARSE_POINTS = [
    (f"{name}.{method}", number, when)
    for name in ("parquet", "delta")
    for method, number, when in (
        ("replace", 1, "in"),
        ("replace", 1, "after"),
        ("replace", 2, "after"),
        ("remove", 1, "after"),
    )
]
SHORT = {("parquet.append", 2, "in"), ("delta.append", 3, "after"), ("delta.replace", 2, "after")}


def chosen(points: list[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    return [point for point in points if LONG or point in SHORT]


def sent(start: int, count: int, **more: Any) -> list[Message]:
    """Messages of several types; each fifth does not parse."""
    found = []
    for number in range(start, start + count):
        name = TYPES[number % len(TYPES)]
        headers = {"NServiceBus.ContentType": "application/json", "NServiceBus.EnclosedMessageTypes": name}
        body = json.dumps({"N": number, **more}) if number % 5 else f"message {number}"
        found.append(Message(headers, body.encode()))
    return found


def content(spark: SparkSession, lake: Path, kind: str) -> Counter[tuple[str, str]]:
    """The messages in all tables, by their batch and what their body says."""
    found: Counter[tuple[str, str]] = Counter()
    for path in lake.iterdir():
        if path.name.startswith("_"):
            continue
        rows = spark.read.format(kind).load(str(path))
        said = "cast(Body AS string)" if path.name.endswith("~unparsed") else "cast(N AS string)"
        found.update(tuple(row) for row in rows.selectExpr("batch_id", said).collect())
    return found


def expected(messages: list[Message], batch_id: str) -> Counter[tuple[str, str]]:
    bodies = [message.body.decode() for message in messages]
    return Counter((batch_id, str(json.loads(body)["N"]) if body[0] == "{" else body) for body in bodies)


def killed(folder: Path, **plan: Any) -> None:
    """Run the program until it kills itself."""
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    command = [sys.executable, "-m", "tests.sinks.tables_program", str(path)]
    with (folder / "log.txt").open("w") as log:
        process = subprocess.run(command, stdout=log, stderr=log, start_new_session=True, timeout=250, check=False)
    assert process.returncode == -signal.SIGKILL, (folder / "log.txt").read_text()[-3_000:]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("method", "number", "when"), chosen(POINTS))
def test_a_killed_run_is_repeated(
    method: str, number: int, when: str, spark: SparkSession, config: dict[str, str], tmp_path: Path
) -> None:
    """The batch has new fields and a new type, so that its run has two rounds."""
    kind = "delta" if method.startswith("delta") else "parquet"
    lake, make = tmp_path / "lake", batches_in(tmp_path)
    first, second = sent(0, 40), sent(40, 30, More="x")
    second += [Message({**second[0].headers, "NServiceBus.EnclosedMessageTypes": NEW}, b'{"N":1000}')]  # type: ignore[dict-item]
    write_message_tables(spark, make(first), str(lake), format=kind)  # type: ignore[arg-type]
    batch = make(second, batch_id="batch-2")
    plan = {"config": config, "batch": batch.to_dict(), "root": str(lake), "format": kind}
    killed(tmp_path, method=method, number=number, when=when, **plan)
    for _ in range(2):
        write_message_tables(spark, batch, str(lake), format=kind)  # type: ignore[arg-type]
        assert content(spark, lake, kind) == expected(first, "batch-1") + expected(second, "batch-2")
    assert not list(lake.glob("_work*"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("method", "number", "when"), chosen(REPARSE_POINTS))
def test_a_killed_second_parse_is_repeated(
    method: str, number: int, when: str, spark: SparkSession, config: dict[str, str], tmp_path: Path
) -> None:
    """Messages of two types without a schema get one; others stay unparsed."""
    kind = "delta" if method.startswith("delta") else "parquet"
    lake, schemas = tmp_path / "lake", SchemaFolder(tmp_path / "schemas")
    messages = sent(1, 3)
    messages += [
        Message({**messages[0].headers, "NServiceBus.EnclosedMessageTypes": name}, b'{"N":%d}' % number)  # type: ignore[dict-item]
        for number, name in enumerate((TYPES[1].lower(), TYPES[2].lower(), TYPES[3].lower()), start=100)
    ]
    write_message_tables(spark, batches_in(tmp_path)(messages), str(lake), format=kind)  # type: ignore[arg-type]
    for name in (TYPES[1].lower(), TYPES[2].lower()):
        schemas.put(name, struct({"N": "long"}))
    plan = {"config": config, "batch": None, "root": str(lake), "format": kind, "schemas": str(tmp_path / "schemas")}
    killed(tmp_path, method=method, number=number, when=when, **plan)
    for _ in range(2):
        reparse(spark, str(lake), format=kind, schemas=schemas)  # type: ignore[arg-type]
        found = content(spark, lake, kind)
        assert sorted(said for _, said in found) == ["1", "100", "101", "2", "3", '{"N":102}']
        assert found.total() == 6
    assert not list(lake.glob("_work*"))
