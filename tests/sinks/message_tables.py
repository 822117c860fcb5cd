"""Cases of killed runs on tables of message types, for each format of tables."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_sqlqueue.bodies.schemas import map_of, struct
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.spark.message_tables import (
    compact_message_tables,
    reparse,
    rewrite_message_table,
    write_message_tables,
)
from tests.faults.conftest import KILLS, LONG, MANY, SEED
from tests.spark.conftest import batches_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

AT_LENGTH = LONG or MANY

TYPES = [f"Shop.Type{number}" for number in range(4)]
NEW = "Shop.Later"

POINTS = [
    ("work.pack", 1, "in"),
    ("work.pack", 1, "after"),
    ("schemas.put", 2, "after"),
    ("work.pack", 2, "after"),
    ("lake.append", 1, "before"),
    ("lake.append", 2, "in"),
    ("lake.append", 3, "after"),
    ("work.remove", 1, "before"),
]
"""Where the second batch's run dies: a method, the number of its call, and the part of the call."""

REPARSE_POINTS = [("lake.replace", 1, "in"), ("lake.replace", 1, "after"), ("lake.replace", 2, "after")]
REPARSE_POINTS += [("lake.remove", 1, "after")]

COMPACT_POINTS = [("lake.compact", 1, "in"), ("lake.compact", 1, "after"), ("lake.compact", 3, "in")]
COMPACT_POINTS += [("lake.compact", 3, "before")]

REWRITE_POINTS = [("lake.rewrite", 1, "in"), ("lake.rewrite", 1, "after")]
PARQUET_POINTS = [("lake.move", 2, "before"), ("lake.make", 1, "in"), ("lake.make", 1, "after")]
PARQUET_POINTS += [("lake.move", 1, "after"), ("lake.move", 3, "after"), ("lake.make", 3, "in")]


def chosen(points: list[tuple[str, int, str]], *short: int) -> list[tuple[str, int, str]]:
    """All points at length, else those of these numbers."""
    return [point for number, point in enumerate(points) if AT_LENGTH or number in short]


def drawn(cases: list[T]) -> list[T]:
    """The cases; with ``SQLQUEUE_KILLS`` that many, each as often as the others, in an order by the seed."""
    if not MANY:
        return cases
    found = (cases * (KILLS // len(cases) + 1))[:KILLS]
    random.Random(f"{SEED} tables").shuffle(found)
    return found


@dataclass(frozen=True)
class Place:
    """Tables of a format, and the session's settings by which a process reaches them.

    :param location: the location of the tables.
    :param folder: the folder that has their files.
    :param is_large: whether Spark writes all tables of Parquet, as it does those that are not small.
    """

    spark: SparkSession
    config: dict[str, str]
    format: str
    location: str
    folder: Path
    tmp_path: Path
    is_large: bool = False

    @property
    def options(self) -> dict[str, Any]:
        return {"format": self.format, "work_folder": str(self.tmp_path / "work")}

    def content(self) -> Counter[tuple[str, str]]:
        """The messages in all tables, by their batch and what their body says."""
        found: Counter[tuple[str, str]] = Counter()
        for path in self.folder.iterdir():
            # Of Iceberg the messages without a type are in __unparsed.
            if path.name.startswith("_") and path.name != "__unparsed":
                continue
            if self.format == "iceberg":
                rows = self.spark.table(f"{self.location}.`{path.name}`")
            else:
                rows = self.spark.read.format(self.format).load(str(path))
            said = "cast(Body AS string)" if path.name.endswith("unparsed") else "cast(N AS string)"
            found.update((row[0], row[1]) for row in rows.selectExpr("batch_id", said).collect())
        return found

    def _method(self, method: str) -> str:
        is_small = self.format == "parquet" and not self.is_large and method == "lake.append"
        return "parquet.append_small" if is_small else method.replace("lake", self.format)

    def rows(self, table: str) -> DataFrame:
        if self.format == "iceberg":
            return self.spark.table(table)
        return self.spark.read.format(self.format).option("mergeSchema", "true").load(table)

    def killed(
        self,
        batch: Any,
        method: str,
        number: int,
        when: str,
        *,
        is_compaction: bool = False,
        rewrite: str | None = None,
        **more: Any,
    ) -> None:
        """Run the program until it kills itself."""
        plan = {
            "config": self.config,
            "batch": batch,
            "is_compaction": is_compaction,
            "rewrite": rewrite,
            "location": self.location,
            "watched": str(self.tmp_path),
            "options": {**self.options, **more},
            "method": self._method(method),
            "is_large": self.is_large,
            "number": number,
            "when": when,
        }
        path = self.tmp_path / "plan.json"
        path.write_text(json.dumps(plan))
        command = [sys.executable, "-m", "tests.sinks.tables_program", str(path)]
        with (self.tmp_path / "log.txt").open("w") as log:
            process = subprocess.run(command, stdout=log, stderr=log, start_new_session=True, timeout=250, check=False)
        assert process.returncode == -signal.SIGKILL, (self.tmp_path / "log.txt").read_text()[-3_000:]


def place(name: str, spark: SparkSession, config: dict[str, str], tmp_path: Path) -> Place:
    """An empty lake on a disk."""
    lake = tmp_path / "lake"
    return Place(spark, config, name.removeprefix("large "), str(lake), lake, tmp_path, name.startswith("large"))


def sent(start: int, count: int, **more: Any) -> list[Message]:
    """Messages of several types; each fifth does not parse."""
    found = []
    for number in range(start, start + count):
        body = json.dumps({"N": number, **more}) if number % 5 else f"message {number}"
        found.append(message(TYPES[number % len(TYPES)], body))
    return found


def message(name: str, body: str) -> Message:
    headers = {"NServiceBus.ContentType": "application/json", "NServiceBus.EnclosedMessageTypes": name}
    return Message(headers, body.encode())


def expected(messages: list[Message], batch_id: str) -> Counter[tuple[str, str]]:
    return Counter((batch_id, said(message.body.decode())) for message in messages)


def said(body: str) -> str:
    return str(json.loads(body)["N"]) if body[0] == "{" else body


def check_killed_run(place: Place, method: str, number: int, when: str) -> None:
    """A killed run is repeated: its batch has new fields and a new type, so that it has two rounds."""
    make = batches_in(place.tmp_path)
    first, second = sent(0, 40), [*sent(40, 30, More="x"), message(NEW, '{"N":1000}')]
    write_message_tables(place.spark, make(first), place.location, **place.options)
    batch = make(second, batch_id="batch-2")
    place.killed(batch.to_dict(), method, number, when)
    for _ in range(2):
        write_message_tables(place.spark, batch, place.location, **place.options)
        assert place.content() == expected(first, "batch-1") + expected(second, "batch-2")
    assert [path.name for path in (place.tmp_path / "work").iterdir()] == ["_schemas"]


def check_killed_reparse(place: Place, method: str, number: int, when: str) -> None:
    """A killed second parse is repeated: messages of two types have a schema now, others stay unparsed."""
    schemas = SchemaFolder(place.tmp_path / "schemas")
    later = [name.lower() for name in TYPES[:3]]
    messages = [*sent(0, 4), *(message(name, json.dumps({"N": n})) for n, name in enumerate(later, start=100))]
    write_message_tables(place.spark, batches_in(place.tmp_path)(messages), place.location, **place.options)
    for name in later[:2]:
        schemas.put(name, struct({"N": "long"}))
    place.killed(None, method, number, when, schemas=str(place.tmp_path / "schemas"))
    for _ in range(2):
        reparse(place.spark, place.location, schemas=schemas, **place.options)
        assert sorted(said for _, said in place.content().elements()) == [
            *("1", "100", "101", "2", "3"),
            *("message 0", '{"N": 102}'),
        ]


def check_other_schemas(place: Place) -> None:
    """A batch is repeated with another schema of its types: each message is in one table, those that are parsed now in
    that of their type.
    """
    folder = place.tmp_path / "schemas"
    folder.mkdir()
    broken = [folder / f"{name}.json" for name in TYPES[:2]]
    for path in broken:
        path.write_text("{")
    messages = [message(TYPES[n % 2], json.dumps({"N": n})) for n in range(4)]
    messages += [message(TYPES[0], "broken"), message("", "no type")]
    batch, wanted = batches_in(place.tmp_path)(messages), expected(messages, "batch-1")
    unparsed = []
    for mended in ((), (0,), (1,), (1,)):
        for number, path in enumerate(broken):
            path.unlink(missing_ok=True)
            if number not in mended:
                path.write_text("{")
        write_message_tables(place.spark, batch, place.location, schemas=folder, **place.options)
        found = list(place.content().elements())
        assert Counter((key, said(text)) for key, text in found) == wanted
        unparsed.append(sum(text[0] == "{" for _, text in found))
    assert unparsed == [4, 2, 0, 0]
    reparse(place.spark, place.location, **place.options)
    assert place.content() == wanted
    # The same with other types that have tables.
    batch, wanted = batches_in(place.tmp_path)(messages, batch_id="batch-2"), wanted + expected(messages, "batch-2")
    for types in (f"!{TYPES[0]}", "*", f"!{TYPES[1]}"):
        write_message_tables(place.spark, batch, place.location, schemas=folder, types=types, **place.options)
        assert Counter((key, said(text)) for key, text in place.content().elements()) == wanted


def check_killed_compaction(place: Place, method: str, number: int, when: str) -> None:
    """A killed compaction is repeated: no message is lost or duplicated, and the tables know their batches still."""
    make = batches_in(place.tmp_path)
    wanted: Counter[tuple[str, str]] = Counter()
    batches = []
    for each in range(3):
        messages = sent(100 * each, 40)
        batches.append(make(messages, batch_id=f"batch-{each}"))
        write_message_tables(place.spark, batches[-1], place.location, **place.options)
        wanted += expected(messages, f"batch-{each}")
    place.killed(None, method, number, when, is_compaction=True)
    assert place.content() == wanted
    done = compact_message_tables(place.spark, place.location, format=place.format)  # type: ignore[arg-type]
    assert len(done) == 2 * len(TYPES)
    assert {each.new_files for each in done} <= {0, 1}
    assert {(each.merged_files, each.new_files) for each in done[4:]} == {(3, 1)}
    assert place.content() == wanted
    again = compact_message_tables(place.spark, place.location, format=place.format)  # type: ignore[arg-type]
    assert {(each.merged_files, each.new_files) for each in again} == {(0, 0)}
    for batch in batches:
        write_message_tables(place.spark, batch, place.location, **place.options)
    assert place.content() == wanted


def check_killed_rewrite(place: Place, method: str, number: int, when: str) -> None:
    """A killed rewrite is repeated: each message is there once, with all values, and the table knows its batches."""
    make, schemas, name = batches_in(place.tmp_path), SchemaFolder(place.tmp_path / "work" / "_schemas"), TYPES[1]
    sends = [
        [message(name, json.dumps({"N": n, "Map": {f"k{n}": n}, "n2": f"x{n}"})) for n in some] for some in BATCHES
    ]
    schemas.put(name, struct({"N": "long", "N2": "long", "Map": struct({"k1": "long"}), "Gone": "date"}))
    batches = [make(some, batch_id=f"batch-{number}") for number, some in enumerate(sends)]
    for batch in batches:
        write_message_tables(place.spark, batch, place.location, new_fields=False, **place.options)
    wanted = sum((expected(some, f"batch-{number}") for number, some in enumerate(sends)), Counter[tuple[str, str]]())
    old = place.content()
    assert old == wanted
    schemas.put(name, struct({"N": "string", "N2": "string", "Map": map_of("long")}))
    place.killed(None, method, number, when, rewrite=name)
    if place.format != "parquet":
        # The old table or the new one.
        assert place.content() == wanted
    for _ in range(2):
        found = rewrite_message_table(place.spark, place.location, name, **place.options)
        assert (found.messages, found.rescued) == (sum(map(len, BATCHES)), 0)
        assert place.content() == wanted
        rows = place.rows(found.table).selectExpr("N", "N2", "to_json(Map)", "_rescued").collect()
        assert sorted(map(tuple, rows)) == sorted(
            (str(n), f"x{n}", json.dumps({f"k{n}": n}, separators=(",", ":")), None) for some in BATCHES for n in some
        )
        for batch in batches:
            write_message_tables(place.spark, batch, place.location, **place.options)
        assert place.content() == wanted
    assert not [path.name for path in place.folder.iterdir() if path.name.startswith("_rewrite")]


BATCHES = (range(1, 4), range(4, 9), range(9, 10))
