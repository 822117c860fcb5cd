"""Zoo of names of fields: a message with all of them, in each format of tables, and the account of its values."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.bodies.names import column_key, column_names, is_column_name, path_text
from airflow_sqlqueue.bodies.schemas import fields_of
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.spark.message_tables import compact_message_tables, reparse, write_message_tables
from airflow_sqlqueue.spark.message_tables.chunks import COLUMNS
from airflow_sqlqueue.spark.sinks.checks import session_settings
from tests.sinks.message_tables import Place
from tests.spark.conftest import batches_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ZOO = "Shop.Zoo"

RESERVED = ["_file", "_pos", "_deleted", "_partition", "_spec_id", "_row_id", "_last_updated_sequence_number"]
RESERVED += ["_change_type", "_commit_version", "_commit_timestamp", "_metadata", "_tmp_metadata_row_index", "__row_id"]
RESERVED += ["_rescued", "_unparsed", "_work", "__index_level_0__", "_", "_SPEC_ID2", "__delta_internal_row_index"]
"""Names of columns that engines add to those of a table."""

OWN = ["message_id", "Message_Type", "BATCH_ID", "parse_attempt", "enclosed_types", "RowVersion", "time_sent"]
"""Names of the columns that every table has."""

ODD = ["body__pos", "body_body__pos", "body_message_id", "filePath", "rowIndexCol", "deletionVectorId", "file_path"]
ODD += ["element", "key", "value", "list", "array", "bag", "key_value", "partition", "filename", "file_row_number", "1"]
ODD += ["@Ccy", "#text", "$x", "a-b", "100%", "a:b", "a<b>", "a|b", "a/b", "a'b", "a&b", "a~b", "a^b", "a!b", "a?b"]
ODD += ["select", "null", "true", "Year", "current_date", "\u540d\u524d", "\U0001f600", "\u2764\ufe0f", "\u0661", "%41"]
ODD += ["\u00e9", "e\u0301", "stra\u00dfe", "strasse", "\u03c3\u03b1\u03c2", "\u0438\u043c\u044f", "n" * 128, "_" * 128]
ODD += ["\u0627\u0633\u0645", "\ufb01", "fi", "body_", "body_time_sent", "a+b", "pos", "col1", "\u00b5", "9"]

TWINS = [
    "_POS",
    "KEY",
    "\u017felect",
    "STRA\u00dfE",
    "\u0130tem",
    "item",
    "\u0131tem",
    "\u212aey",
    "\u03a3\u0391\u03a3",
    "a_x2Db",
    "_9",
]
"""Names that are others to engines: they differ in case alone, by a rule of Java, or Iceberg writes them alike."""

IMPOSSIBLE = ["", " ", "a b", "a.b", "a.b.c", "a,b", "a;b", "{x}", "(x)", "a=b", "a`b", 'a"b', "a\\b", "[0]", "x[]"]
IMPOSSIBLE += ["a\nb", "a\tb", "\0", "\x7f", "\x85", "\u2028", "\u200b", "\u202e", "\ufeff", "\ud800", "\udfff", "*"]
IMPOSSIBLE += ["n" * 129, "\u540d" * 100, "\U0001f600" * 100, "\ue000"]

NAMES = list(dict.fromkeys([*RESERVED, *OWN, *ODD, *TWINS, *IMPOSSIBLE]))


def zoo(number: int) -> Message:
    """A message with all names, at the root and below, each with a value of its own."""
    body: dict[str, Any] = {"N": number, "S": {name: f"s{number} {place}" for place, name in enumerate(NAMES)}}
    body |= {name: f"r{number} {place}" for place, name in enumerate(NAMES)}
    return message(json.dumps(body))


def message(body: str, content_type: str = "application/json") -> Message:
    headers = {"NServiceBus.ContentType": content_type, "NServiceBus.EnclosedMessageTypes": ZOO}
    return Message(headers, body.encode())


def wanted(number: int) -> dict[str, str]:
    """The values of a message by the text of their paths."""
    at_root = {path_text((name,)): f"r{number} {place}" for place, name in enumerate(NAMES)}
    return at_root | {path_text(("S", name)): f"s{number} {place}" for place, name in enumerate(NAMES)}


def check_rows(rows: Iterable[dict[str, Any]], schemas: SchemaFolder, numbers: Iterable[int]) -> None:
    """Check that each value of each message is in the column of its field or in ``_rescued``, and in one of them."""
    schema = schemas.get(ZOO)
    assert schema is not None
    columns = column_names(schema, COLUMNS)
    inner = [each["name"] for each in fields_of(schema)["S"]["fields"]]  # type: ignore[index]
    found = {}
    for row in rows:
        rescued = json.loads(row["_rescued"])
        at_root = {path_text((name,)): row[column] for name, column in columns.items() if name not in ("N", "S")}
        below = {path_text(("S", name)): row["S"][name] for name in inner}
        assert not rescued.keys() & {*at_root, *below}
        found[row["N"]] = rescued | at_root | below
    assert found == {number: wanted(number) for number in numbers}
    assert not set(columns) & set(IMPOSSIBLE)
    assert {column_key(name) for name in columns} >= {column_key(name) for name in NAMES if is_column_name(name)}
    assert {columns[name] for name in RESERVED if name in columns} <= {f"body_{name}" for name in RESERVED} | {
        "body_body_body__pos"
    }


def rows_of(place: Place, table: str) -> DataFrame:
    """All columns of the table."""
    if place.format == "iceberg":
        name = ".".join(f"`{part}`" for part in table.split("."))
        place.spark.catalog.refreshTable(name)
        return place.spark.sql(f"SELECT * FROM {name}")
    if place.format == "delta":
        return place.spark.sql(f"SELECT * FROM delta.`{table}`")
    return place.spark.read.option("mergeSchema", "true").parquet(table)


def check_spark(place: Place, table: str, schemas: SchemaFolder, numbers: list[int]) -> None:
    """Check what Spark reads, with its reader of many values at once and with that of one."""
    for is_vectorized in ("true", "false"):
        names = ("spark.sql.parquet.enableVectorizedReader", "spark.sql.iceberg.vectorization.enabled")
        with session_settings(place.spark, dict.fromkeys(names, is_vectorized)):
            rows = collected(rows_of(place, table))
            check_rows(rows, schemas, numbers)
            # By their names, as people ask for them.
            quoted = [f"`{name.replace('`', '``')}`" for name in rows[0]]
            assert collected(rows_of(place, table).select(quoted)) == rows


def collected(rows: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in rows.collect()), key=lambda row: row["N"])


def write_zoo(place: Place) -> tuple[str, SchemaFolder]:
    """Write two batches with the zoo, the second one with a message that does not parse; return the table."""
    make = batches_in(place.tmp_path)
    schemas = SchemaFolder(place.tmp_path / "schemas")
    first = make([zoo(0), zoo(1)], batch_id="batch-0")
    second = make([zoo(2), zoo(3), message(zoo(4).body.decode(), "application/x-zoo")], batch_id="batch-1")
    for batch in (first, second):
        tables = write_message_tables(place.spark, batch, place.location, schemas=schemas, **place.options)
    assert [(each.is_unparsed, each.messages) for each in tables] == [(False, 2), (True, 1)]
    return tables[0].table, schemas


def delete(place: Place, table: str, number: int) -> None:
    """Delete a message by SQL, as people do."""
    name = f"delta.`{table}`" if place.format == "delta" else ".".join(f"`{part}`" for part in table.split("."))
    place.spark.sql(f"DELETE FROM {name} WHERE N = {number}")


def check_names(place: Place) -> tuple[Path | str, SchemaFolder]:
    """Check the zoo in a format: written, read, parsed again, deleted from and compacted."""
    table, schemas = write_zoo(place)
    decoders = {"application/x-zoo": lambda body: body.cast("string")}
    reparse(place.spark, place.location, schemas=schemas, decoders=decoders, **place.options)
    check_spark(place, table, schemas, [0, 1, 2, 3, 4])
    if place.format != "parquet":
        delete(place, table, 2)
        done = compact_message_tables(place.spark, place.location, format=place.format)  # type: ignore[arg-type]
        assert {each.new_files for each in done if each.merged_files} == {1}
        check_spark(place, table, schemas, [0, 1, 3, 4])
    return table, schemas
