"""Fields of bodies as columns of Spark."""

from __future__ import annotations

import gzip
import json
import unicodedata
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sqlqueue.bodies.names import ENVELOPE, column_names, is_column_name, name_key
from airflow_sqlqueue.bodies.schemas import struct
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.spark import parse_bodies, typed_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDER = "Shop.PlaceOrder"
SCHEMA: Any = struct({"Id": "string", "Total": "decimal(38,2)", "Lines": {"type": "array", "elementType": "long"}})


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """Messages of two types as ``read_batch`` gives them."""
    bodies: list[tuple[str, str, bytes | None, str | None]] = [
        (ORDER, "application/json", b'{"Id":"a","Total":1.5,"Lines":[1,2]}', None),
        (ORDER, "application/json", b'{"Id":"b","Total":"much","More":{"x":1.10}}', None),
        (ORDER, "text/xml", b"<PlaceOrder><Id>c</Id><Total>2</Total></PlaceOrder>", None),
        (ORDER, "application/json", b"{", None),
        (ORDER, "application/json", None, "file:///elsewhere/body-1.bin"),
        (ORDER, "application/gzip", gzip.compress(b'{"Id":"g","Total":3}'), None),
        ("Shop.Other", "application/json", b'{"Id":"z"}', None),
    ]
    values = [
        (f"id-{number}", _headers(name, kind), body, file, number, False)
        for number, (name, kind, body, file) in enumerate(bodies)
    ]
    columns = "Id string, Headers string, Body binary, BodyFile string, RowVersion bigint, Expired boolean"
    return typed_columns(spark.createDataFrame(values, columns))


def _headers(name: str, content_type: str) -> str:
    return json.dumps(
        {
            "NServiceBus.EnclosedMessageTypes": f"{name}, Shop",
            "NServiceBus.ContentType": content_type,
            "NServiceBus.TimeSent": "2030-01-31 08:00:00:000000 Z",
        }
    )


def test_each_message_of_the_type_stands_there_once(rows: DataFrame) -> None:
    parsed = parse_bodies(rows, SCHEMA, message_type=ORDER)
    assert parsed.columns[:2] == ["message_id", "message_type"]
    assert parsed.columns[-6:] == ["Expired", "Id", "Total", "Lines", "_rescued", "_unparsed"]
    found = [
        (row.Id, row.Total, row.Lines, row._rescued, row._unparsed) for row in parsed.orderBy("RowVersion").collect()
    ]
    assert found == [
        ("a", Decimal("1.50"), [1, 2], None, None),
        ("b", None, None, '{"Total":"much","More":{"x":1.10}}', None),
        ("c", Decimal("2.00"), None, None, None),
        (None, None, None, None, "json"),
        (None, None, None, None, "file"),
        (None, None, None, None, "content type"),
    ]
    assert parsed.where("time_sent = TIMESTAMP '2030-01-31 08:00:00Z'").count() == len(found)


def test_a_field_with_the_name_of_a_column_of_the_envelope_is_renamed(rows: DataFrame) -> None:
    schema = struct({"TIME_SENT": "string", "rowversion": "long", "Id": "string"})
    parsed = parse_bodies(rows, schema, message_type=ORDER, envelope=[])
    assert parsed.columns == ["body_TIME_SENT", "body_rowversion", "Id", "_rescued", "_unparsed"]


def test_fields_that_are_not_asked_for_are_not_read(rows: DataFrame) -> None:
    parsed = parse_bodies(rows, SCHEMA, message_type=ORDER, fields=["Total"], envelope=["RowVersion"])
    assert parsed.columns == ["RowVersion", "Total", "_unparsed"]
    assert [row.Total for row in parsed.orderBy("RowVersion").collect()][:3] == [Decimal("1.50"), None, Decimal("2.00")]


def test_a_decoder_of_ones_own(rows: DataFrame) -> None:
    from pyspark.sql import Column
    from pyspark.sql import functions as sf

    def unzip(body: Column) -> Column:
        import gzip

        return sf.udf(lambda content: gzip.decompress(content).decode() if content else None)(body)

    decoders = {"application/GZIP": lambda body: unzip(sf.when(sf.col("content_type") == "application/gzip", body))}
    parsed = parse_bodies(rows, SCHEMA, message_type=ORDER, decoders=decoders)
    (row,) = parsed.where("RowVersion = 5").collect()
    assert (row.Id, row.Total, row._unparsed) == ("g", Decimal("3.00"), None)


def test_a_schema_may_be_a_struct_type_or_a_json_schema(rows: DataFrame) -> None:
    from pyspark.sql.types import LongType, StringType, StructType

    by_type = StructType().add("Id", StringType()).add("Total", LongType())
    by_schema = {"properties": {"Id": {"type": "string"}, "Total": {"type": "integer"}}}
    found = [
        [tuple(row) for row in parse_bodies(rows, schema, envelope=["RowVersion"]).orderBy("RowVersion").collect()]
        for schema in (by_type, by_schema)
    ]
    assert found[0] == found[1]
    assert len(found[0]) == rows.count()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"fields": ["Nope"]}, "no field 'Nope'"),
        ({"envelope": ["nope"]}, "no column nope"),
        ({"schema": struct({"a": "text"})}, "'text' of the field a"),
        ({"schema": None}, "A schema is a JSON object: a StructType"),
        ({"schema": "{}"}, "A schema is a JSON object: a StructType"),
    ],
)
def test_unusable_arguments_are_refused(rows: DataFrame, options: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        parse_bodies(rows, **{"schema": SCHEMA, **options})


def test_columns_keep_their_names_when_fields_are_added() -> None:
    names = column_names(struct({"time_sent": "long", "body_Time_sent": "long", "batch_id": "string"}), ENVELOPE)
    assert names == {
        "time_sent": "body_time_sent",
        "body_Time_sent": "body_body_Time_sent",
        "batch_id": "body_batch_id",
    }


def test_rows_without_bodies_are_refused(rows: DataFrame) -> None:
    with pytest.raises(ConfigurationError, match="no column Body"):
        parse_bodies(rows.drop("Body"), SCHEMA)


def test_names_are_the_same_where_java_says_so(spark: SparkSession) -> None:
    """Each character with a case, by the rule of ``String.equalsIgnoreCase``, which Spark's analyzer asks."""
    characters = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    cased = [each for each in characters if is_column_name(each) and (each.lower(), each.upper()) != (each, each)]
    upper = "java_method('java.lang.Character', 'toUpperCase', point)"
    folded = f"java_method('java.lang.Character', 'toLowerCase', cast({upper} AS int))"
    rows = spark.createDataFrame([(ord(each),) for each in cased], "point int").selectExpr("point", folded).collect()
    assert len(rows) > 2_000
    by_java = {chr(point): chr(int(other)) for point, other in rows}
    assert [name for name, other in by_java.items() if name_key(name) != name_key(other)] == []
    # Python may know characters that an older Java does not know yet; to that they are different.
    old = {name: other for name, other in by_java.items() if unicodedata.ucd_3_2_0.category(name) != "Cn"}
    groups: dict[str, set[str]] = {}
    for name, other in old.items():
        groups.setdefault(name_key(name), set()).add(other)
    assert {key: found for key, found in groups.items() if len(found) > 1} == {}
