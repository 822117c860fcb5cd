"""Tables and the schemas of their types: a difference is refused before a batch is written, and mended by a rewrite."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.bodies.schemas import array, fields_of, map_of, struct
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.spark.message_tables import (
    parquet,
    reparse,
    rewrite_message_table,
    table_formats,
    write_message_tables,
)
from airflow_sqlqueue.spark.message_tables.rewriting import Rewriting
from tests.spark.conftest import parquet_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_sqlqueue.spark.message_tables import MessageTypeTable
    from tests.spark.conftest import MakeBatch

ORDER, PAYMENT = "Shop.PlaceOrder", "Shop.PaymentTaken"


def sent(name: str, *bodies: Any, content_type: str = "application/json") -> list[Message]:
    headers = {"NServiceBus.ContentType": content_type, "NServiceBus.EnclosedMessageTypes": name}
    return [Message(headers, (each if isinstance(each, str) else json.dumps(each)).encode()) for each in bodies]


@dataclass
class Lake:
    """Tables of Parquet, and what is done with them."""

    spark: SparkSession
    make: MakeBatch
    location: str

    @property
    def schemas(self) -> SchemaFolder:
        return SchemaFolder(f"{self.location}/_schemas")

    def put(self, **kinds: Any) -> None:
        """Write the schema of orders."""
        self.schemas.put(ORDER, struct(kinds))

    def retype(self, **kinds: Any) -> None:
        self.put(**{**fields_of(self.schemas.get(ORDER) or struct({})), **kinds})

    def write(self, given: Batch | list[Message], number: int = 1, **options: Any) -> list[MessageTypeTable]:
        """Write a batch, or messages as one of this number."""
        batch = given if isinstance(given, Batch) else self.make(given, batch_id=f"batch-{number}")
        return write_message_tables(self.spark, batch, self.location, **options)

    def rewrite(self) -> MessageTypeTable:
        return rewrite_message_table(self.spark, self.location, ORDER)

    def read(self) -> DataFrame:
        """The table of orders as Spark reads it."""
        return self.spark.read.option("mergeSchema", "true").parquet(f"{self.location}/{ORDER}")

    def rows(self, *columns: str, name: str = ORDER) -> list[Any]:
        return parquet_rows(f"{self.location}/{name}", *columns)

    def write_often(self, times: int) -> None:
        """Write a batch of one message, and copy its partition to others, as if there were more batches."""
        self.write(sent(ORDER, {"Id": 1}), 0)
        for number in range(1, times):
            partitions = (f"{self.location}/{ORDER}/batch_id=batch-{each}" for each in (0, number))
            shutil.copytree(*partitions)


@pytest.fixture
def lake(spark: SparkSession, make_batch: MakeBatch, tmp_path: Path) -> Lake:
    return Lake(spark, make_batch, str(tmp_path / "lake"))


def test_a_type_that_was_changed_is_refused_and_mended(lake: Lake) -> None:
    lake.put(Id="string", Total="long")
    first = lake.make([*sent(ORDER, {"Id": "a", "Total": 100}, {"Id": "b", "Total": 19.99})])
    lake.write(first)
    lake.retype(Total="decimal(38,2)")
    messages = [*sent(ORDER, {"Id": "c", "Total": 1.5}), *sent(PAYMENT, {"Amount": 5})]
    second = lake.make(messages, batch_id="batch-2")
    said = (
        r"'.*Shop.PlaceOrder' has the column 'Total' as long, the schema of 'Shop.PlaceOrder' has it as "
        r"decimal\(38,2\): run `sqlqueue tables rewrite`"
    )
    with pytest.raises(ConfigurationError, match=said):
        lake.write(second)
    assert lake.rows("Amount", name=PAYMENT) == [(5,)]
    found = lake.rewrite()
    assert (found.messages, found.rescued, found.new_fields) == (2, 0, ())
    assert lake.rows("Id", "Total", "_rescued", "batch_id", "parse_attempt") == [
        ("a", Decimal("100.00"), None, "batch-1", 0),
        ("b", Decimal("19.99"), None, "batch-1", 0),
    ]
    lake.write(second)
    lake.write(first)
    wanted = [("a", Decimal("100.00")), ("b", Decimal("19.99")), ("c", Decimal("1.50"))]
    assert sorted(map(tuple, lake.read().select("Id", "Total").collect())) == wanted
    assert lake.rows("Amount", name=PAYMENT) == [(5,)]
    assert sorted(path.name for path in Path(lake.location).iterdir()) == [
        "Shop.PaymentTaken",
        "Shop.PlaceOrder",
        "_schemas",
    ]


def test_a_field_within_a_column_is_set_back_or_gets_another_case_by_a_rewrite(lake: Lake) -> None:
    lake.write(sent(ORDER, {"Id": "a", "Inner": {"N": 1}}))
    second = lake.make(sent(ORDER, {"id": "b", "inner": {"n": 2}}), batch_id="batch-2")
    lake.retype(Inner=struct({"n": "long"}))
    with pytest.raises(
        ConfigurationError, match=r"has the column 'Inner.n' as N, .* has it as n: run `sqlqueue tables"
    ):
        lake.write(second)
    lake.retype(Inner=struct({"N": "long"}))
    lake.write(second)
    lake.retype(Inner=struct({"n": "long"}))
    lake.rewrite()
    lake.write(sent(ORDER, {"inner": {"n": 3}}), 3)
    assert lake.rows("Inner.n") == [(1,), (2,), (3,)]


def test_a_field_that_was_removed_keeps_its_type_in_the_table(lake: Lake) -> None:
    """It may also be one that a killed run made: the table has the column, and the schema's file has it not."""
    lake.write(sent(ORDER, {"Id": 1, "_Left": 2, "O": {"X": 3, "Left": 4}, "L": [{"Y": 5, "Left": 6}]}))
    items = array(struct({"Y": "long"}))
    shorter = struct({"Id": "long", "O": struct({"X": "long"}), "L": items})
    lake.schemas.put(ORDER, shorter)
    begun = Path(lake.location, ORDER, "batch_id=batch-9", "parse_attempt=0", "_temporary", "part-0.zstd.parquet")
    begun.parent.mkdir(parents=True)
    begun.touch()
    lake.write(sent(ORDER, {"Id": 2}), 2)
    assert lake.schemas.get(ORDER) == shorter
    text = {"Id": 3, "_Left": "a", "O": {"X": 5, "Left": "b"}}
    batch = lake.make(sent(ORDER, text), batch_id="batch-3")
    lake.write(batch, cluster_by="message_id")
    assert fields_of(lake.schemas.get(ORDER) or {}) == {
        "Id": "long", "O": struct({"X": "long", "Left": "long"}), "L": items, "_Left": "long"
    }  # fmt: skip
    assert lake.rows("Id", "body__Left", "O.X", "O.Left", "_rescued") == [
        (1, 2, 3, 4, None),
        (2, None, None, None, None),
        (3, None, 5, None, '{"_Left":"a","O.Left":"b"}'),
    ]
    for name, kinds in (
        ("_Left", {"_Left": "string"}),
        (r"L\[\].Left", {"L": array(struct({"Y": "long", "Left": "string"}))}),
    ):
        lake.put(Id="long", **kinds)
        with pytest.raises(ConfigurationError, match=f"has the column '{name}' as long"):
            lake.write(batch)
    lake.put(Id="long")
    lake.rewrite()
    assert not {"body__Left", "O"} & set(lake.read().columns)


def test_mistakes_of_several_kinds_are_mended_at_once(lake: Lake) -> None:
    lake.schemas.put(ORDER, struct({"Id": "string", "_pos": "long", "Stock": struct({"k1": "long"}), "Gone": "date"}))
    bodies = [
        {"Id": "a", "_pos": 1, "Stock": {"k1": 1, "k2": 2}, "Gone": "2030-01-31", "Late": [1, 2]},
        {"Id": "b", "Stock": {"k3": 3}, "Extra": {"x": 1}},
    ]
    xml = sent(ORDER, "<M><Id>c</Id><Late>7</Late><Late>8</Late></M>", content_type="text/xml")
    before = lake.schemas.get(ORDER)
    batch = lake.make([*sent(ORDER, *bodies), *xml])
    (table,) = lake.write(batch, new_fields=False)
    # The schemas of a review stay as they are.
    assert (table.rescued, table.new_fields, lake.schemas.get(ORDER)) == (3, (), before)
    lake.schemas.put(
        ORDER,
        struct({"Id": "string", "_pos": "string", "Stock": map_of("long"), "Late": array("long")}),
    )
    found = lake.rewrite()
    assert (found.messages, found.rescued, found.new_fields) == (3, 2, ("Late",))
    assert lake.rows("Id", "body__pos", "Stock", "Late", "_rescued") == [
        ("a", "1", {"k1": 1, "k2": 2}, [1, 2], '{"Gone":"2030-01-31"}'),
        ("b", None, {"k3": 3}, None, '{"Extra":{"x":1}}'),
        ("c", None, None, [7, 8], None),
    ]


def test_a_broken_text_in_rescued_stops_no_rewrite(lake: Lake) -> None:
    lake.put(Id="string")
    bodies = [{"Id": each, "Late": number} for number, each in enumerate("abcd")]
    lake.write(sent(ORDER, *bodies), new_fields=False)
    (path,) = Path(lake.location, ORDER).rglob("*.parquet")
    rows = pq.read_table(path)
    by_hand = {"a": '{"Late":', "b": '["Late"]', "c": '{"Late": 2}', "d": '{"Late": 3}'}
    at = rows.schema.get_field_index("_rescued")
    texts = pa.array([by_hand[each] for each in rows["Id"].to_pylist()])
    pq.write_table(rows.set_column(at, rows.schema.field(at), texts), path)
    lake.put(Id="string", Late="long")
    for _ in range(2):
        found = lake.rewrite()
        assert (found.messages, found.rescued) == (4, 2)
        (warning,) = found.warnings
        assert warning.startswith("In 2 of 4 rows _rescued is no JSON object")
    assert lake.rows("Id", "Late", "_rescued") == [
        ("a", None, '{"Late":'),
        ("b", None, '["Late"]'),
        ("c", 2, None),
        ("d", 3, None),
    ]


def test_a_type_that_another_job_gave_a_new_field_meanwhile_is_said(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, append = lake.make(sent(ORDER, {"Id": "a", "New": 1})), table_formats.ParquetFormat.append_small

    def overtaken(*given: Any) -> None:
        append(*given)
        lake.put(Id="string", New="string")

    monkeypatch.setattr(table_formats.ParquetFormat, "append_small", overtaken)
    with pytest.raises(ConfigurationError, match=r"'New' of 'Shop.PlaceOrder' the type string meanwhile"):
        lake.write(batch)
    monkeypatch.setattr(table_formats.ParquetFormat, "append_small", append)
    lake.rewrite()
    lake.write(batch)
    assert lake.rows("Id", "New") == [("a", "1")]


def test_whole_bodies_are_kept_and_parsed_again(lake: Lake) -> None:
    messages = [
        *sent(ORDER, '{"Id":"a", "At":"2030-01-31T08:00:00.1234567+01:00"}'),
        *sent(ORDER, '<M><Id>b</Id><At kind="x">never</At></M>', content_type="text/xml"),
    ]
    lakes = {form: replace(lake, location=f"{lake.location}-{form}") for form in ("text", "variant")}
    for form, each in lakes.items():
        each.put(Id="string")
        each.write(messages, body=form, new_fields=False)
    texts = lakes["text"].rows("body_text")
    assert texts == [(message.body.decode(),) for message in messages]
    found = lakes["variant"].read().orderBy("RowVersion").selectExpr("to_json(body_variant)").collect()
    assert [json.loads(text) for (text,) in found] == [
        {"Id": "a", "At": "2030-01-31T08:00:00.1234567+01:00"},
        {"Id": "b", "At": {"@kind": "x", "#text": "never"}},
    ]
    for form, each in lakes.items():
        each.put(Id="string", At="string")
        each.rewrite()
        (number, at, kept), (other, *_) = each.rows("Id", "At", f"body_{form}")
        assert (number, at, other) == ("a", "2030-01-31T08:00:00.1234567+01:00", "b")
        assert kept is not None
    assert lakes["text"].rows("body_text") == texts
    with pytest.raises(ConfigurationError, match="kept as 'text' or 'variant'"):
        lake.write(messages, body="json")
    with pytest.raises(ConfigurationError, match="no variant here"):
        replace(lake, location="a.b").write(messages, format="iceberg", work_folder=lake.location, body="variant")


JSON, XML = '{"Id":6,"Tags":["7"],"Total":{"@Ccy":"EUR"}}', "<M><Id>6</Id><Tags><T>7</T></Tags><Total Ccy='EUR'/></M>"
JSON_OF_XML = '{"Id":"6","Tags":{"T":"7"},"Total":{"@Ccy":"EUR"}}'


@pytest.mark.parametrize(
    ("column", "content_type", "text"),
    [
        ("body_text", "application/json", JSON),
        ("body_text", "text/xml", XML),
        ("body_text", "application/cloudevents+json", f'{{"data":{JSON}}}'),
        ("body_text", "Application/CloudEvents+JSON; charset=utf-8", f'{{"data":{JSON}}}'),
        ("body_text", "application/cloudevents+json", f'{{"datacontenttype":"text/xml","data":"{XML}"}}'),
        ("body_variant", "application/json", JSON),
        ("body_variant", "application/cloudevents+json", f'{{"data":{JSON}}}'),
        ("body_variant", "application/x-protobuf", JSON),
        ("body_variant", "text/xml", JSON_OF_XML),
        ("body_variant", None, JSON_OF_XML),
        ("body_variant", "text/plain", JSON),
    ],
)
def test_a_body_that_was_kept_is_parsed_as_what_it_was(column: str, content_type: str | None, text: str) -> None:
    row = {"content_type": content_type, column: text, "_rescued": '{"Id":"old"}'}
    rows = pa.RecordBatch.from_pylist([row], pa.schema(dict.fromkeys(row, pa.string())))
    rewriting = Rewriting(struct({"Id": "long", "Tags": array("string")}), struct({}), ["content_type", column])
    ((*_, number, tags, rescued),) = [list(each.to_pylist()[0].values()) for each in rewriting(iter([rows]))]
    assert (number, tags) == (6, ["7"])
    assert json.loads(rescued) == {"Total": {"@Ccy": "EUR"}}


@pytest.mark.parametrize(
    ("content_type", "value", "found"),
    [
        ("application/json", '{"N":1,"L":["x"],"E":[]}', '{"N":1,"L":["x"],"E":[]}'),
        (None, '{"N":1,"L":["x"],"E":[]}', '{"N":1,"L":["x"],"E":[]}'),
        ("text/plain", '{"L":["x"],"E":"2"}', '{"L":["x"],"E":"2"}'),
        ("application/x-protobuf", '{"L":["x","y"],"E":"2"}', '{"L":["x","y"],"E":"2"}'),
        ("text/xml", '{"L":["x","y"],"E":null}', '{"L":["x","y"],"E":null}'),
        (None, '{"L":["x","y"],"E":{"@a":""}}', '{"L":["x","y"],"E":{"@a":""}}'),
    ],
)
def test_a_rescued_object_stays_as_it_was(content_type: str | None, value: str, found: str) -> None:
    row = {"content_type": content_type, "_rescued": f'{{"O":{value}}}'}
    rows = pa.RecordBatch.from_pylist([row], pa.schema(dict.fromkeys(row, pa.string())))
    rewriting = Rewriting(struct({"O": "string"}), struct({}), ["content_type"])
    assert [list(each.to_pylist()[0].values()) for each in rewriting(iter([rows]))] == [[content_type, found, None]]


@pytest.mark.parametrize(
    ("content_type", "number"), [("application/json", None), ("application/x-protobuf", None), ("text/xml", 12)]
)
def test_a_text_of_json_stays_a_text(content_type: str, number: int | None) -> None:
    row = {"content_type": content_type, "_rescued": '{"N":"12"}'}
    rows = pa.RecordBatch.from_pylist([row], pa.schema(dict.fromkeys(row, pa.string())))
    rewriting = Rewriting(struct({"N": "long"}), struct({}), ["content_type"])
    ((_, found, _),) = [list(each.to_pylist()[0].values()) for each in rewriting(iter([rows]))]
    assert found == number


def check_other_types_are_parsed_again(spark: SparkSession, make: MakeBatch, lake: str, **options: Any) -> None:
    """Check that a type whose table waits for its rewrite keeps no other one from its table."""
    schemas = SchemaFolder(f"{lake}/_schemas")
    read = spark.read.format(options.get("format", "parquet"))
    messages = [*sent(ORDER, {"Id": 1}, "no"), *sent(PAYMENT, {"Id": 2}, "no")]
    write_message_tables(spark, make(messages), lake, types="Shop.Nothing", **options)
    write_message_tables(spark, make(sent(ORDER, {"Id": 3}), batch_id="batch-2"), lake, **options)
    schemas.put(ORDER, struct({"Id": "string"}))
    schemas.put(PAYMENT, struct({"Id": "long"}))
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="has the column 'Id' as long"):
            reparse(spark, lake, **options)
        assert [row["Id"] for row in read.load(f"{lake}/{PAYMENT}").collect()] == [2]
        waiting = read.load(f"{lake}/~unparsed").select("message_type", "_unparsed", "Body").collect()
        assert sorted((row[0], row[1], bytes(row[2])) for row in waiting) == [
            (PAYMENT, "json", b"no"),
            (ORDER, "type", b"no"),
            (ORDER, "type", b'{"Id": 1}'),
        ]
    rewrite_message_table(spark, lake, ORDER, **options)
    (moved,) = reparse(spark, lake, **options)
    assert (moved.message_type, moved.messages) == (ORDER, 1)
    assert sorted(row["Id"] for row in read.load(f"{lake}/{ORDER}").collect()) == ["1", "3"]


def test_a_type_that_waits_for_its_rewrite_stops_no_other(lake: Lake) -> None:
    check_other_types_are_parsed_again(lake.spark, lake.make, lake.location)


def test_no_batch_is_written_until_a_killed_rewrite_has_ended(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.write_often(2)
    later = lake.make(sent(ORDER, {"Id": 2}), batch_id="batch-2")
    lake.retype(Id="string")
    move = table_formats.ParquetFormat.move

    def once(self: Any, table: str, partition: str) -> None:
        monkeypatch.setattr(table_formats.ParquetFormat, "move", lambda self, table, partition: 1 / 0)
        move(self, table, partition)

    monkeypatch.setattr(table_formats.ParquetFormat, "move", once)
    with pytest.raises(ZeroDivisionError):
        lake.rewrite()
    monkeypatch.setattr(table_formats.ParquetFormat, "move", move)
    with pytest.raises(ConfigurationError, match="was killed, or runs: wait for it"):
        lake.write(later)
    lake.rewrite()
    lake.write(later)
    assert lake.rows("Id") == [("1",), ("1",), ("2",)]


def test_a_rewrite_that_was_killed_between_two_folders_loses_no_row(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session leaves out the mark of complete folders, as those of many lakes do."""
    lake.write_often(2)
    lake.retype(Id="string")
    mark = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
    lake.spark.conf.set(mark, "false")
    try:
        with monkeypatch.context() as patch:
            patch.setattr(parquet.os, "rename", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                lake.rewrite()
        lake.rewrite()
    finally:
        lake.spark.conf.unset(mark)
    assert lake.rows("Id") == [("1",), ("1",)]


@pytest.mark.timeout(300)
def test_an_interrupted_command_says_what_to_do(lake: Lake) -> None:
    lake.write_often(3)
    command = [sys.executable, "-m", "airflow_sqlqueue", "tables", "rewrite", ORDER, "--location", lake.location]
    begun = Path(lake.location, f"_rewrite-{ORDER}", "_running")
    for kind in ("string", "long", "string"):
        lake.retype(Id=kind)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not begun.exists() and process.poll() is None:
            # The file is all that the other process shows of its progress.
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
        # Python drops an interruption that meets a finalizer, and the rewrite goes on to its end.
        if process.returncode:
            break
    assert (process.returncode, stdout) == (130, ""), stderr
    # Spark may still report the tasks that it cancelled.
    assert (
        "Interrupted. No row is lost: run the same command again. A table of Parquet takes no batch until then."
    ) in stderr.splitlines()
    lake.retype(Id="string")
    lake.rewrite()
    assert lake.rows("Id") == [("1",)] * 3


def test_a_table_or_a_schema_that_is_missing_is_said(lake: Lake) -> None:
    with pytest.raises(ConfigurationError, match=r"There is no schema of 'Shop.PlaceOrder'"):
        lake.rewrite()
    lake.put(Id="string")
    with pytest.raises(ConfigurationError, match=r"There is no table .*Shop.PlaceOrder of this format"):
        lake.rewrite()
    assert not list(Path(lake.location).glob("_rewrite*"))
    assert table_formats.table_format(lake.spark, "parquet", lake.location).columns(f"{lake.location}/{ORDER}") is None
