"""One table for each message type: every message once, new fields, other types, other runs."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sqlqueue.bodies.schemas import fields_of, struct
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError, SparkJobError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.spark import MicroBatch, audit_table, foreach_batch, raw_schema, read_batch
from airflow_sqlqueue.spark.message_tables import (
    compact_message_tables,
    reparse,
    write_message_rows,
    write_message_tables,
)
from airflow_sqlqueue.spark.message_tables import writer as module
from tests.spark.conftest import parquet_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import MakeBatch

ORDER, PAYMENT = "Shop.PlaceOrder", "Shop.PaymentTaken"
GENERIC = "Shop.Wrapped`1[[Shop.PlaceOrder, Shop]]"


def sent(name: str | None, *bodies: bytes) -> list[Message]:
    headers = {"NServiceBus.ContentType": "application/json"}
    if name is not None:
        headers["NServiceBus.EnclosedMessageTypes"] = f"{name}, Shop; Shop.IEvent, Shop"
    return [Message(headers, body) for body in bodies]


def order(number: int, **more: Any) -> bytes:
    return json.dumps({"OrderId": f"o{number}", "Total": number + 0.5, **more}).encode()


def unzipped(body: Any) -> Any:
    from pyspark.sql import functions as sf

    # The rows of other content types go through it too.
    return sf.udf(lambda content: gzip.decompress(content).decode() if content[:2] == b"\x1f\x8b" else None)(body)


def constant(body: bytes) -> Any:
    from pyspark.sql import functions as sf

    return sf.lit(body.decode())


def test_every_message_is_in_one_table(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative location is one of this process: the Java machine stays in the folder where it was started."""
    monkeypatch.chdir(tmp_path)
    wide: dict[str, Any] = {f"f{number}": number for number in range(10_000)}
    deep: Any = 1
    for _ in range(30):
        deep = {"d": deep}
    messages = [
        *sent(ORDER, order(1), order(2), b"not JSON"),
        *sent(PAYMENT, order(1, Inner=wide), order(2, Deep=deep)),
        *sent(GENERIC, b'{"Inner":{"OrderId":"x"}}'),
        *sent(None, b'{"a":1}', b"\xff"),
        *sent(ORDER.lower(), order(3)),
    ]
    tables = write_message_tables(spark, make_batch(messages), "lake")
    found = {(table.message_type, table.is_unparsed): table for table in tables}
    assert {key: table.messages for key, table in found.items()} == {
        (ORDER, False): 2,
        (ORDER, True): 1,
        (PAYMENT, False): 2,
        (GENERIC, False): 1,
        # Types whose names differ in case alone share no table.
        (None, True): 3,
    }
    orders = found[ORDER, False].table
    assert orders == str(tmp_path / "lake" / ORDER)
    assert parquet_rows(orders, "OrderId", "Total", "message_type", "enclosed_types", "batch_id") == [
        ("o1", Decimal("1.5"), ORDER, [ORDER, "Shop.IEvent"], "batch-1"),
        ("o2", Decimal("2.5"), ORDER, [ORDER, "Shop.IEvent"], "batch-1"),
    ]
    assert parquet_rows(found[ORDER, True].table, "Body", "_unparsed") == [(b"not JSON", "json")]
    bodies = [bytes(body) for (body,) in parquet_rows(found[None, True].table, "Body")]
    assert bodies == [b'{"a":1}', b"\xff", order(3)]
    schemas = SchemaFolder(tmp_path / "lake" / "_schemas")
    assert set(schemas.all()) == {ORDER, PAYMENT, GENERIC}
    # A body of too many fields or levels ends no run.
    assert found[PAYMENT, False].rescued == 2
    kinds = fields_of(schemas.all()[PAYMENT])
    assert list(kinds) == ["OrderId", "Total", "Inner"]
    assert 1_900 < len(kinds["Inner"]["fields"]) < 2_000  # type: ignore[index]

    other = SchemaFolder(tmp_path / "other")
    other.put(ORDER.lower(), struct({"OrderId": "string"}))
    (moved,) = reparse(spark, "./lake/", schemas=other)
    assert (moved.message_type, moved.messages, moved.rescued) == (ORDER.lower(), 1, 1)
    assert len(parquet_rows(found[None, True].table, "Body")) == 2


def test_a_second_run_replaces_its_own_rows_alone(spark: SparkSession, make_batch: MakeBatch, tmp_path: Path) -> None:
    """A file and an audit table in the location stay, whose folder may be called as a partition."""
    lake = str(tmp_path / "batch_id=1" / "lake")
    first, second = make_batch(sent(ORDER, order(1), order(2))), make_batch(sent(ORDER, order(3)), batch_id="batch-2")
    audit_table(spark, first, f"{lake}/audit")
    Path(lake, "README.txt").write_text("Tables of orders.")
    for batch in (first, second, first):
        write_message_tables(spark, batch, lake)
    assert sorted(parquet_rows(f"{lake}/{ORDER}", "OrderId")) == [("o1",), ("o2",), ("o3",)]
    assert spark.read.parquet(f"{lake}/audit").count() == 2


def test_new_fields_become_columns_and_other_types_are_rescued(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path
) -> None:
    lake, schemas = str(tmp_path / "lake"), SchemaFolder(tmp_path / "schemas")
    write_message_tables(spark, make_batch(sent(ORDER, order(1, Address={"City": "Bonn"}))), lake, schemas=schemas)
    later = sent(ORDER, *(order(number) for number in range(2, 40)))
    later += sent(ORDER, order(40, Address={"Zip": "53111"}, Coupon="SPRING"), b'{"OrderId":"o41","Total":"free"}')
    (table,) = write_message_tables(spark, make_batch(later, batch_id="batch-2"), lake, schemas=schemas)
    assert (table.messages, table.rescued, table.new_fields) == (40, 1, ("Address.Zip", "Coupon"))
    read = spark.read.option("mergeSchema", "true").parquet(f"{lake}/{ORDER}")
    found = [tuple(row) for row in read.select("OrderId", "Total", "Address.Zip", "Coupon", "_rescued").collect()]
    assert len(found) == 41
    assert sorted(found, key=lambda row: int(row[0][1:]))[-2:] == [
        ("o40", Decimal("40.5"), "53111", "SPRING", None),
        ("o41", None, None, None, '{"Total":"free"}'),
    ]
    assert list(fields_of(schemas.all()[ORDER])) == ["OrderId", "Total", "Address", "Coupon"]


def test_types_beyond_the_limit_are_in_the_table_of_those_without_one(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_TYPES", 2)
    messages = sent(ORDER, order(1), order(2))
    messages += [message for number in range(20) for message in sent(f"Shop.Type{number:02}", b'{"a":1}')]
    tables = write_message_tables(spark, make_batch(messages), str(tmp_path / "lake"))
    assert [(table.message_type, table.messages) for table in tables] == [(ORDER, 2), ("Shop.Type00", 1), (None, 19)]
    assert any("no table for 19 message types," in text and "'Shop.Type01'" in text for text in tables[0].warnings)


def test_types_by_patterns_hints_and_an_unusable_schema(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path
) -> None:
    folder = tmp_path / "lake" / "_schemas"
    folder.mkdir(parents=True)
    (folder / f"{PAYMENT}.json").write_text("{")
    (folder / "_hints.json").write_text('{"Shop.*": {"**.Zip": "string", "Stock": "map", "Stock[]": "decimal(10,2)"}}')
    bodies = [order(number, Zip=1234 + number, Stock={"pen": 2}) for number in range(20)]
    messages = [
        *sent(ORDER, *bodies, b'{"OrderId":["x"],"Total":"much"}'),
        *sent(PAYMENT, b'{"Amount":5}', b'{"Amount":6}'),
        *sent("Audit.Seen", b'{"a":1}'),
    ]
    batch = make_batch(messages)
    options: dict[str, Any] = {"types": ["Shop.*", "!Shop.Internal.*"]}
    tables = write_message_tables(spark, batch, str(tmp_path / "lake"), **options)
    found = {(table.message_type, table.is_unparsed): table for table in tables}
    assert {key: table.messages for key, table in found.items()} == {
        (ORDER, False): 21,
        (PAYMENT, True): 2,
        (None, True): 1,
    }
    assert found[PAYMENT, True].reasons == {"schema": 2}
    assert any("mend or remove the file" in text for table in tables for text in table.warnings)
    (schema,) = SchemaFolder(folder).all({}).values()
    stock = {"type": "map", "keyType": "string", "valueType": "decimal(10,2)", "valueContainsNull": True}
    assert fields_of(schema) == {"OrderId": "string", "Total": "decimal(38,9)", "Zip": "string", "Stock": stock}
    assert found[ORDER, False].rescued == 1
    assert (folder / f"{PAYMENT}.json").read_text() == "{"

    (folder / f"{PAYMENT}.json").write_text(json.dumps(struct({"Amount": "long"})))
    moved = reparse(spark, str(tmp_path / "lake"))
    assert [(table.message_type, table.is_unparsed, table.messages) for table in moved] == [(PAYMENT, False, 2)]


def test_a_short_batch_and_other_options_are_refused(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path
) -> None:
    from dataclasses import replace

    batch = make_batch(sent(ORDER, order(1)))
    with pytest.raises(BatchMismatchError, match="find the missing files"):
        write_message_tables(spark, replace(batch, messages=2), str(tmp_path / "lake"))
    assert not (tmp_path / "lake" / ORDER).exists()
    with pytest.raises(ConfigurationError, match="one of parquet, delta"):
        write_message_tables(spark, batch, str(tmp_path / "lake"), format="csv")
    for location in ("", "/"):
        with pytest.raises(ConfigurationError, match="location of the tables is empty"):
            write_message_tables(spark, batch, location)


def test_unparsed_messages_are_parsed_again(spark: SparkSession, make_batch: MakeBatch, tmp_path: Path) -> None:
    lake, schemas = str(tmp_path / "lake"), SchemaFolder(tmp_path / "lake" / "_schemas")
    kinds = {"json": order(1), "gzip": gzip.compress(order(2)), "x-own": b"?"}
    names = {"NServiceBus.EnclosedMessageTypes": ORDER}
    messages = [Message({**names, "NServiceBus.ContentType": f"application/{kind}"}, kinds[kind]) for kind in kinds]
    write_message_tables(spark, make_batch(messages), lake)
    unzip: dict[str, Any] = {"application/gzip": unzipped}
    (moved,) = reparse(spark, lake, decoders=unzip)
    assert (moved.message_type, moved.messages) == (ORDER, 1)
    assert reparse(spark, lake, decoders=unzip) == []
    assert parquet_rows(f"{lake}/{ORDER}", "OrderId", "parse_attempt") == [("o1", 0), ("o2", 1)]
    assert parquet_rows(f"{lake}/{ORDER}~unparsed", "Body", "parse_attempt") == [(b"?", 1)]
    assert set(schemas.all()) == {ORDER}
    # The batch as a whole takes the place of all its rows, those in the table of unparsed ones as well.
    (table,) = write_message_tables(
        spark, make_batch(messages), lake, decoders={**unzip, "application/x-own": lambda body: constant(order(3))}
    )
    assert (table.is_unparsed, table.messages) == (False, 3)
    assert parquet_rows(f"{lake}/{ORDER}", "OrderId", "parse_attempt") == [("o1", 0), ("o2", 0), ("o3", 0)]
    assert not list(Path(lake, f"{ORDER}~unparsed").iterdir())


def test_micro_batches_are_written_once(spark: SparkSession, make_batch: MakeBatch, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    rows = read_batch(spark, make_batch(sent(ORDER, order(1), order(2))))
    write = foreach_batch(write_message_rows, lake, stream="orders")
    for number in (0, 1, 1):
        write(rows, number)
    assert sorted(parquet_rows(f"{lake}/{ORDER}", "OrderId", "batch_id")) == [
        (f"o{order}", f"orders-{number:09d}") for order in (1, 2) for number in (0, 1)
    ]
    assert not list(Path(lake).glob("_work*"))


@pytest.mark.parametrize("name", ["formt", "spark", "max_rescued", "self"])
def test_an_option_that_a_stream_does_not_have_is_named(spark: SparkSession, name: str) -> None:
    rows = spark.createDataFrame([], raw_schema())
    with pytest.raises(TypeError, match=rf"^write_message_rows\(\) has no option '{name}'\. It has format, schemas, "):
        write_message_rows(rows, "lake", MicroBatch("orders", 0), **{name: "delta"})


def test_tables_that_cannot_be_compacted_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Tables of Parquet cannot be compacted"):
        compact_message_tables(spark, str(tmp_path), format="parquet")
    with pytest.raises(ConfigurationError, match="target_bytes is a whole number"):
        compact_message_tables(spark, str(tmp_path), target_bytes=1_000)


def test_a_session_without_the_format_is_said_to_be_the_cause(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "Shop.PlaceOrder").mkdir()
    with pytest.raises(SparkJobError, match=r"PlaceOrder'; the other 0 tables .* Its error for this table: \w+: ."):
        compact_message_tables(spark, str(tmp_path), format="delta")
