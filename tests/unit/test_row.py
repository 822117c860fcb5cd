"""The columns of a row, in SQL, Arrow and Spark."""

from __future__ import annotations

import re

from airflow_sqlqueue.messages.row import (
    BODY_FILE,
    COLUMNS,
    LEGACY,
    NAMES,
    TABLE_NAMES,
    Row,
    drained_row_schema,
    spark_schema,
)
from airflow_sqlqueue.queue.sending import numbered_sizes
from airflow_sqlqueue.server.sql.columns import STAGED, numbered, row_columns


def test_a_row_has_a_field_for_each_column_in_the_same_order() -> None:
    assert Row._fields == tuple(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in NAMES)


def test_every_schema_has_the_same_columns_in_the_same_order() -> None:
    drained = [*NAMES, BODY_FILE]
    assert drained_row_schema().names == drained
    assert [field["name"] for field in spark_schema()["fields"]] == drained
    assert tuple(STAGED) == NAMES


def test_statements_return_the_columns_in_the_order_of_a_row() -> None:
    for present in (TABLE_NAMES, [name for name in TABLE_NAMES if name not in LEGACY]):
        columns = row_columns(dict.fromkeys(present, "int")).split(", ")
        assert [re.findall(r"\[(\w+)\]$", column) for column in columns] == [[name] for name in NAMES]


def test_the_types_of_a_table_have_no_rule_of_null() -> None:
    types = {column.name: column.table_type for column in COLUMNS if column.name in TABLE_NAMES}
    assert (types["Id"], types["Body"], types["RowVersion"]) == ("uniqueidentifier", "varbinary(max)", "bigint")


def test_columns_that_identify_a_row_are_never_null() -> None:
    assert {column.name for column in COLUMNS if not column.nullable} == {"Id", "Headers", "RowVersion", "Expired"}


def test_each_parameter_of_numbered_rows_has_a_type() -> None:
    """A parameter without a type gets that of its value, and each length of a text makes another plan."""
    assert str(numbered(3)["rows"]).count("?") == len(numbered_sizes(3))
