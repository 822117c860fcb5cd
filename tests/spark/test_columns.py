"""Columns of a table against a schema, without Spark: fields, differences, and types that new fields take over."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_sqlqueue.bodies.schemas import array, map_of, struct
from airflow_sqlqueue.spark.message_tables.columns import adopted, as_fields, differences
from airflow_sqlqueue.spark.message_tables.table_formats import IcebergFormat


@pytest.mark.parametrize(
    ("has", "wanted", "found"),
    [
        ({"a": "long"}, {"a": "long", "b": "date"}, []),
        ({"a": "long", "gone": "date"}, {"a": "long"}, []),
        (
            {"a": "long", "B": "long"},
            {"a": "string", "b": "decimal(38,2)"},
            [("a", "long", "string"), ("b", "long", "decimal(38,2)")],
        ),
        (
            {"a": struct({"b": array(struct({"c": "long"}))})},
            {"a": struct({"b": array(struct({"c": "date"}))})},
            [("a.b[].c", "long", "date")],
        ),
        ({"a": map_of("long")}, {"a": map_of("double")}, [("a[]", "long", "double")]),
        ({"a": struct({"k": "long"})}, {"a": map_of("long")}, [("a", "struct", "map")]),
        ({"a": "string"}, {"a": array("string")}, [("a", "string", "array")]),
        ({"a": {"type": "array", "elementType": "long", "containsNull": False}}, {"a": array("long")}, []),
        ({"x.y": "long"}, {"x.y": "date"}, [('["x.y"]', "long", "date")]),
    ],
)
def test_differences(has: Any, wanted: Any, found: list[Any]) -> None:
    assert list(differences(struct(has), struct(wanted))) == found


def test_names_within_columns_are_compared_exactly_where_readers_do() -> None:
    has = struct({"A": struct({"Xy": "long", "L": array(struct({"P": "date"}))})})
    wanted = struct({"A": struct({"xy": "string", "L": array(struct({"p": "date"}))})})
    assert list(differences(has, wanted)) == [("A.xy", "long", "string")]
    found = [("A.xy", "Xy", "xy"), ("A.xy", "long", "string"), ("A.L[].p", "P", "p")]
    assert list(differences(has, wanted, exact=True)) == found


def test_types_that_a_format_writes_as_others_are_the_same() -> None:
    has, wanted = struct({"a": "integer", "b": "integer"}), struct({"a": "short", "b": "long"})
    assert list(differences(has, wanted, IcebergFormat.same_types)) == [("b", "integer", "long")]


def test_columns_are_the_fields_that_have_them() -> None:
    schema = struct({"Id": "long", "_pos": "date", "batch_id": "string", "body_text": "string"})
    columns = {"Id": "long", "body__pos": "date", "body_batch_id": "string", "body_body_text": "string"}
    more = struct(
        {"message_id": "string", "body_text": "string", "_rescued": "string", "body_x": "long", "body__y": "long"}
    )
    table = struct(
        {
            **columns,
            **{each["name"]: each["type"] for each in more["fields"]},
        }
    )
    assert as_fields(table, schema) == struct(
        {"Id": "long", "_pos": "date", "batch_id": "string", "body_text": "string", "body_x": "long", "_y": "long"}
    )
    # Two columns are never one field.
    both = as_fields(
        struct({"body__y": "long", "_z": "long", "body_message_id": "date"}), struct({"message_id": "date"})
    )
    assert both == struct({"_y": "long", "message_id": "date"})


def test_new_fields_take_the_types_of_the_table() -> None:
    known = struct({"a": "long", "s": struct({"x": "long"})})
    schema = struct({"a": "long", "s": struct({"x": "long", "y": "string"}), "n": "string", "o": struct({"p": "long"})})
    table = struct(
        {"A": "date", "s": struct({"X": "date", "Y": "double"}), "N": "long", "o": struct({"P": "date"}), "z": "long"}
    )
    assert adopted(schema, known, table) == struct(
        {"a": "long", "s": struct({"x": "long", "Y": "double"}), "n": "long", "o": struct({"P": "date"})}
    )
