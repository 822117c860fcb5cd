"""Tables and the schemas of their types: a difference is refused before a batch is written, and mended by a rewrite."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.bodies.schemas import array, fields_of, map_of, struct
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.spark.message_tables import reparse, rewrite_message_table, table_formats, write_message_tables
from airflow_sqlqueue.spark.message_tables.rewriting import Rewriting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import MakeBatch

ORDER, PAYMENT = "Shop.PlaceOrder", "Shop.PaymentTaken"


def sent(name: str, *bodies: Any, content_type: str = "application/json") -> list[Message]:
    headers = {"NServiceBus.ContentType": content_type, "NServiceBus.EnclosedMessageTypes": name}
    return [Message(headers, (each if isinstance(each, str) else json.dumps(each)).encode()) for each in bodies]


def rows_of(spark: SparkSession, path: str, *columns: str) -> list[Any]:
    read = spark.read.option("mergeSchema", "true").parquet(path)
    return [tuple(row) for row in read.orderBy("batch_id", "RowVersion").selectExpr(*columns).collect()]


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def schemas(lake: str) -> SchemaFolder:
    return SchemaFolder(f"{lake}/_schemas")


def retype(schemas: SchemaFolder, name: str, **kinds: Any) -> None:
    schemas.put(name, struct({**fields_of(schemas.get(name) or struct({})), **kinds}))


def test_a_type_that_was_changed_is_refused_and_mended(
    spark: SparkSession, make_batch: MakeBatch, lake: str, schemas: SchemaFolder
) -> None:
    schemas.put(ORDER, struct({"Id": "string", "Total": "long"}))
    first = make_batch([*sent(ORDER, {"Id": "a", "Total": 100}, {"Id": "b", "Total": 19.99})])
    write_message_tables(spark, first, lake)
    retype(schemas, ORDER, Total="decimal(38,2)")
    messages = [*sent(ORDER, {"Id": "c", "Total": 1.5}), *sent(PAYMENT, {"Amount": 5})]
    second = make_batch(messages, batch_id="batch-2")
    said = (
        r"'.*Shop.PlaceOrder' has the column 'Total' as long, the schema of 'Shop.PlaceOrder' has it as "
        r"decimal\(38,2\): run `sqlqueue tables rewrite`"
    )
    with pytest.raises(ConfigurationError, match=said):
        write_message_tables(spark, second, lake)
    assert rows_of(spark, f"{lake}/{PAYMENT}", "Amount") == [(5,)]
    found = rewrite_message_table(spark, lake, ORDER)
    assert (found.messages, found.rescued, found.new_fields) == (2, 0, ())
    assert rows_of(spark, f"{lake}/{ORDER}", "Id", "Total", "_rescued", "batch_id", "parse_attempt") == [
        ("a", Decimal("100.00"), None, "batch-1", 0),
        ("b", Decimal("19.99"), None, "batch-1", 0),
    ]
    write_message_tables(spark, second, lake)
    write_message_tables(spark, first, lake)
    wanted = [("a", Decimal("100.00")), ("b", Decimal("19.99")), ("c", Decimal("1.50"))]
    assert rows_of(spark, f"{lake}/{ORDER}", "Id", "Total") == wanted
    assert rows_of(spark, f"{lake}/{PAYMENT}", "Amount") == [(5,)]
    assert sorted(path.name for path in Path(lake).iterdir()) == [
        "Shop.PaymentTaken",
        "Shop.PlaceOrder",
        "_schemas",
    ]


def test_a_field_within_a_column_is_set_back_or_gets_another_case_by_a_rewrite(
    spark: SparkSession, make_batch: MakeBatch, lake: str, schemas: SchemaFolder
) -> None:
    write_message_tables(spark, make_batch(sent(ORDER, {"Id": "a", "Inner": {"N": 1}})), lake)
    second = make_batch(sent(ORDER, {"id": "b", "inner": {"n": 2}}), batch_id="batch-2")
    retype(schemas, ORDER, Inner=struct({"n": "long"}))
    with pytest.raises(
        ConfigurationError, match=r"has the column 'Inner.n' as N, .* has it as n: run `sqlqueue tables"
    ):
        write_message_tables(spark, second, lake)
    retype(schemas, ORDER, Inner=struct({"N": "long"}))
    write_message_tables(spark, second, lake)
    retype(schemas, ORDER, Inner=struct({"n": "long"}))
    rewrite_message_table(spark, lake, ORDER)
    write_message_tables(spark, make_batch(sent(ORDER, {"inner": {"n": 3}}), batch_id="batch-3"), lake)
    assert rows_of(spark, f"{lake}/{ORDER}", "Inner.n") == [(1,), (2,), (3,)]


def test_a_field_that_was_removed_keeps_its_type_in_the_table(
    spark: SparkSession, make_batch: MakeBatch, lake: str, schemas: SchemaFolder
) -> None:
    """It may also be one that a killed run made: the table has the column, and the schema's file has it not."""
    write_message_tables(spark, make_batch(sent(ORDER, {"Id": 1, "_Left": 2, "O": {"X": 3, "Left": 4}})), lake)
    shorter = struct({"Id": "long", "O": struct({"X": "long"})})
    schemas.put(ORDER, shorter)
    begun = Path(lake, ORDER, "batch_id=batch-9", "parse_attempt=0", "_temporary", "part-0.zstd.parquet")
    begun.parent.mkdir(parents=True)
    begun.touch()
    write_message_tables(spark, make_batch(sent(ORDER, {"Id": 2}), batch_id="batch-2"), lake)
    assert schemas.get(ORDER) == shorter
    text = {"Id": 3, "_Left": "a", "O": {"X": 5, "Left": "b"}}
    batch = make_batch(sent(ORDER, text), batch_id="batch-3")
    write_message_tables(spark, batch, lake, cluster_by="message_id")
    assert fields_of(schemas.get(ORDER) or {}) == {
        "Id": "long", "O": struct({"X": "long", "Left": "long"}), "_Left": "long"
    }  # fmt: skip
    assert rows_of(spark, f"{lake}/{ORDER}", "Id", "body__Left", "O.X", "O.Left", "_rescued") == [
        (1, 2, 3, 4, None),
        (2, None, None, None, None),
        (3, None, 5, None, '{"_Left":"a","O.Left":"b"}'),
    ]
    schemas.put(ORDER, struct({"Id": "long", "_Left": "string"}))
    with pytest.raises(ConfigurationError, match="has the column '_Left' as long"):
        write_message_tables(spark, batch, lake)
    schemas.put(ORDER, struct({"Id": "long"}))
    rewrite_message_table(spark, lake, ORDER)
    assert not {"body__Left", "O"} & set(spark.read.option("mergeSchema", "true").parquet(f"{lake}/{ORDER}").columns)


def test_mistakes_of_several_kinds_are_mended_at_once(
    spark: SparkSession, make_batch: MakeBatch, lake: str, schemas: SchemaFolder
) -> None:
    schemas.put(ORDER, struct({"Id": "string", "_pos": "long", "Stock": struct({"k1": "long"}), "Gone": "date"}))
    bodies = [
        {"Id": "a", "_pos": 1, "Stock": {"k1": 1, "k2": 2}, "Gone": "2030-01-31", "Late": [1, 2]},
        {"Id": "b", "Stock": {"k3": 3}, "Extra": {"x": 1}},
    ]
    xml = sent(ORDER, "<M><Id>c</Id><Late>7</Late><Late>8</Late></M>", content_type="text/xml")
    before = schemas.get(ORDER)
    batch = make_batch([*sent(ORDER, *bodies), *xml])
    (table,) = write_message_tables(spark, batch, lake, new_fields=False)
    # The schemas of a review stay as they are.
    assert (table.rescued, table.new_fields, schemas.get(ORDER)) == (3, (), before)
    schemas.put(
        ORDER,
        struct({"Id": "string", "_pos": "string", "Stock": map_of("long"), "Late": array("long")}),
    )
    found = rewrite_message_table(spark, lake, ORDER)
    assert (found.messages, found.rescued, found.new_fields) == (3, 2, ("Late",))
    assert rows_of(spark, f"{lake}/{ORDER}", "Id", "body__pos", "Stock", "Late", "_rescued") == [
        ("a", "1", {"k1": 1, "k2": 2}, [1, 2], '{"Gone":"2030-01-31"}'),
        ("b", None, {"k3": 3}, None, '{"Extra":{"x":1}}'),
        ("c", None, None, [7, 8], None),
    ]


def test_a_broken_text_in_rescued_stops_no_rewrite(
    spark: SparkSession, make_batch: MakeBatch, lake: str, schemas: SchemaFolder
) -> None:
    schemas.put(ORDER, struct({"Id": "string"}))
    bodies = [{"Id": each, "Late": number} for number, each in enumerate("abcd")]
    write_message_tables(spark, make_batch(sent(ORDER, *bodies)), lake, new_fields=False)
    (path,) = Path(lake, ORDER).rglob("*.parquet")
    rows = pq.read_table(path)
    by_hand = {"a": '{"Late":', "b": '["Late"]', "c": '{"Late": 2}', "d": '{"Late": 3}'}
    at = rows.schema.get_field_index("_rescued")
    texts = pa.array([by_hand[each] for each in rows["Id"].to_pylist()])
    pq.write_table(rows.set_column(at, rows.schema.field(at), texts), path)
    schemas.put(ORDER, struct({"Id": "string", "Late": "long"}))
    for _ in range(2):
        found = rewrite_message_table(spark, lake, ORDER)
        assert (found.messages, found.rescued) == (4, 2)
        (warning,) = found.warnings
        assert warning.startswith("In 2 of 4 rows _rescued is no JSON object")
    assert rows_of(spark, f"{lake}/{ORDER}", "Id", "Late", "_rescued") == [
        ("a", None, '{"Late":'),
        ("b", None, '["Late"]'),
        ("c", 2, None),
        ("d", 3, None),
    ]


def test_a_type_that_another_job_gave_a_new_field_meanwhile_is_said(
    spark: SparkSession, make_batch: MakeBatch, lake: str, schemas: SchemaFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, append = make_batch(sent(ORDER, {"Id": "a", "New": 1})), table_formats.ParquetFormat.append_small

    def overtaken(*given: Any) -> None:
        append(*given)
        schemas.put(ORDER, struct({"Id": "string", "New": "string"}))

    monkeypatch.setattr(table_formats.ParquetFormat, "append_small", overtaken)
    with pytest.raises(ConfigurationError, match=r"'New' of 'Shop.PlaceOrder' the type string meanwhile"):
        write_message_tables(spark, batch, lake)
    monkeypatch.setattr(table_formats.ParquetFormat, "append_small", append)
    rewrite_message_table(spark, lake, ORDER)
    write_message_tables(spark, batch, lake)
    assert rows_of(spark, f"{lake}/{ORDER}", "Id", "New") == [("a", "1")]


def test_whole_bodies_are_kept_and_parsed_again(
    spark: SparkSession, make_batch: MakeBatch, lake: str, schemas: SchemaFolder
) -> None:
    schemas.put(ORDER, struct({"Id": "string"}))
    messages = [
        *sent(ORDER, '{"Id":"a", "At":"2030-01-31T08:00:00.1234567+01:00"}'),
        *sent(ORDER, '<M><Id>b</Id><At kind="x">never</At></M>', content_type="text/xml"),
    ]
    for form in ("text", "variant"):
        location = f"{lake}-{form}"
        write_message_tables(spark, make_batch(messages), location, schemas=schemas, body=form, new_fields=False)  # type: ignore[arg-type]
    texts = rows_of(spark, f"{lake}-text/{ORDER}", "body_text")
    assert texts == [(message.body.decode(),) for message in messages]
    found = rows_of(spark, f"{lake}-variant/{ORDER}", "to_json(body_variant)")
    assert [json.loads(text) for (text,) in found] == [
        {"Id": "a", "At": "2030-01-31T08:00:00.1234567+01:00"},
        {"Id": "b", "At": {"@kind": "x", "#text": "never"}},
    ]
    schemas.put(ORDER, struct({"Id": "string", "At": "string"}))
    for form in ("text", "variant"):
        rewrite_message_table(spark, f"{lake}-{form}", ORDER, schemas=schemas)
        at = rows_of(spark, f"{lake}-{form}/{ORDER}", "Id", "At", f"body_{form} IS NOT NULL")
        assert at[0] == ("a", "2030-01-31T08:00:00.1234567+01:00", True)
        assert at[1][0] == "b"
    assert rows_of(spark, f"{lake}-text/{ORDER}", "body_text") == texts
    with pytest.raises(ConfigurationError, match="kept as 'text' or 'variant'"):
        write_message_tables(spark, make_batch(messages), lake, body="json")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="no variant here"):
        write_message_tables(spark, make_batch(messages), "a.b", format="iceberg", work_folder=lake, body="variant")


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
    retype(schemas, ORDER, Id="string")
    retype(schemas, PAYMENT, Id="long")
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


def test_a_type_that_waits_for_its_rewrite_stops_no_other(
    spark: SparkSession, make_batch: MakeBatch, lake: str
) -> None:
    check_other_types_are_parsed_again(spark, make_batch, lake)


def write_batch_often(spark: SparkSession, make: MakeBatch, lake: str, times: int) -> None:
    """Write a batch of one message, and copy its partition to others, as if there were more batches."""
    write_message_tables(spark, make(sent(ORDER, {"Id": 1}), batch_id="batch-0"), lake)
    for number in range(1, times):
        shutil.copytree(f"{lake}/{ORDER}/batch_id=batch-0", f"{lake}/{ORDER}/batch_id=batch-{number}")


def test_no_batch_is_written_until_a_killed_rewrite_has_ended(
    spark: SparkSession, make_batch: MakeBatch, lake: str, schemas: SchemaFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_batch_often(spark, make_batch, lake, 2)
    later = make_batch(sent(ORDER, {"Id": 2}), batch_id="batch-2")
    retype(schemas, ORDER, Id="string")
    move = table_formats.ParquetFormat.move

    def once(self: Any, table: str, partition: str) -> None:
        monkeypatch.setattr(table_formats.ParquetFormat, "move", lambda self, table, partition: 1 / 0)
        move(self, table, partition)

    monkeypatch.setattr(table_formats.ParquetFormat, "move", once)
    with pytest.raises(ZeroDivisionError):
        rewrite_message_table(spark, lake, ORDER)
    monkeypatch.setattr(table_formats.ParquetFormat, "move", move)
    with pytest.raises(ConfigurationError, match="was killed, or runs: wait for it"):
        write_message_tables(spark, later, lake)
    rewrite_message_table(spark, lake, ORDER)
    write_message_tables(spark, later, lake)
    assert rows_of(spark, f"{lake}/{ORDER}", "Id") == [("1",), ("1",), ("2",)]


@pytest.mark.timeout(300)
def test_an_interrupted_command_says_what_to_do(
    spark: SparkSession, make_batch: MakeBatch, lake: str, schemas: SchemaFolder
) -> None:
    write_batch_often(spark, make_batch, lake, 3)
    retype(schemas, ORDER, Id="string")
    command = [sys.executable, "-m", "airflow_sqlqueue", "tables", "rewrite", ORDER, "--location", lake]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    begun = Path(lake, f"_rewrite-{ORDER}", "_running")
    while not begun.exists() and process.poll() is None:
        # The file is all that the other process shows of its progress.
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stdout) == (130, ""), stderr
    # Spark may still report the tasks that it cancelled.
    assert (
        "Interrupted. No row is lost: run the same command again. A table of Parquet takes no batch until then."
    ) in stderr.splitlines()
    rewrite_message_table(spark, lake, ORDER)
    assert rows_of(spark, f"{lake}/{ORDER}", "Id") == [("1",)] * 3


def test_a_table_or_a_schema_that_is_missing_is_said(
    spark: SparkSession, make_batch: MakeBatch, lake: str, schemas: SchemaFolder
) -> None:
    with pytest.raises(ConfigurationError, match=r"There is no schema of 'Shop.PlaceOrder'"):
        rewrite_message_table(spark, lake, ORDER)
    schemas.put(ORDER, struct({"Id": "string"}))
    with pytest.raises(ConfigurationError, match=r"There is no table .*Shop.PlaceOrder of this format"):
        rewrite_message_table(spark, lake, ORDER)
    assert not list(Path(lake).glob("_rewrite*"))
    assert table_formats.table_format(spark, "parquet", lake).columns(f"{lake}/{ORDER}") is None
