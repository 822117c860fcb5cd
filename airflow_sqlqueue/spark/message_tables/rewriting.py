"""Tables made anew by today's schemas of their types: mistakes of an older schema are mended without the batches.

Source: docs/guides/bodies.md, "Mend a table".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_sqlqueue.bodies.names import BODY_COLUMNS, RESCUED, is_own_column
from airflow_sqlqueue.bodies.schemas import Struct, struct
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.schemas.files import SchemaFolder
from airflow_sqlqueue.spark.bodies import result_schema
from airflow_sqlqueue.spark.message_tables.columns import as_fields, field_names
from airflow_sqlqueue.spark.message_tables.lakes import Format, lake_of
from airflow_sqlqueue.spark.message_tables.packing import blocks
from airflow_sqlqueue.spark.message_tables.reports import MessageTypeTable
from airflow_sqlqueue.spark.message_tables.tables import COLUMNS, schema_folder, with_variant
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_JSON = re.compile(r"(application|text)/([\w.+-]+\+)?json", re.IGNORECASE)
_TEXT, _VARIANT = BODY_COLUMNS["text"], BODY_COLUMNS["variant"]


def rewrite_message_table(
    spark: SparkSession,
    location: str,
    message_type: str,
    *,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    schemas: SchemaFolder | str | os.PathLike[str] | None = None,
    work_folder: str | None = None,
) -> MessageTypeTable:
    """Make the table of a type anew by today's schema of the type, from its columns and ``_rescued``.

    Use it after you changed a type in the schema's file, and for values that were rescued under an older schema. Values
    move to the columns that they fit, and values without a column are rescued. Where the table has whole bodies
    (``body="text"`` or ``"variant"``), these are parsed again. No value is lost; rows keep ``batch_id`` and
    ``parse_attempt``, so that a batch that is repeated still finds its rows. The batches are not needed.

    Delta Lake and Iceberg take the new table in one commit; readers see the old one until then, and their history has
    it afterwards. Of a table of Parquet the batches are replaced one after the other, each once its rows are complete,
    and meanwhile its columns have old and new types. A run may be killed at any point and run again: it begins
    anew, or ends the replacement. Until then no batch is written to the table. Run it alone: beside a writer of the
    same table one of the two fails, or has to be repeated.

    The parameters are those of :func:`write_message_tables`. Returns the table with its messages, those of them that
    have rescued values, and the fields that it has since.

    Raises :class:`ConfigurationError` for a type without a table or a schema, :class:`TransientError` if another job
    wrote to the table meanwhile.
    """
    from pyspark.sql.types import StructType

    lake = lake_of(spark, format, location)
    schema = schema_folder(schemas, location, format, work_folder).get(message_type)
    if schema is None:
        raise ConfigurationError(f"There is no schema of {quoted(message_type)}: write one, or name another folder.")
    table, old = lake.table(message_type), set[str]()

    def rewritten(rows: DataFrame) -> DataFrame:
        old.update(field_names(rows.columns, schema).values())
        return _rewritten(rows, schema)

    lake.rewrite(message_type, rewritten)
    new = tuple(each["name"] for each in schema["fields"] if each["name"] not in old)
    rows = lake.read(table, StructType().add(RESCUED, "string"))
    ((messages, rescued),) = rows.selectExpr("count(*)", f"count({RESCUED})").collect()
    return MessageTypeTable(message_type, table, False, messages, rescued, new)


def _rewritten(rows: DataFrame, schema: Struct) -> DataFrame:
    """The rows of a table, or of a part of it, by the schema."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    has_variant = _VARIANT in rows.columns
    if has_variant:
        rows = rows.withColumn(_VARIANT, sf.to_json(_VARIANT))
    own = [each for each in rows.columns if is_own_column(each) and each != RESCUED]
    first = [each for each in own if each in COLUMNS]
    last = [each for each in own if each not in COLUMNS]
    envelope = StructType([rows.schema[each] for each in first])
    result = result_schema(envelope, schema, unparsed=False)
    for each in last:
        result = result.add(rows.schema[each])
    columns = struct({each.name: each.dataType.jsonValue() for each in rows.schema if not is_own_column(each.name)})
    found = rows.mapInArrow(Rewriting(schema, columns, first, last), result)
    return with_variant(found) if has_variant else found


class Rewriting:
    """Function for ``mapInArrow`` that gives rows of a table by a schema.

    :param columns: the columns of fields in the table, with their types.
    :param first: the columns that are kept in front of the fields, ``last`` those behind ``_rescued``.
    """

    def __init__(self, schema: Struct, columns: Struct, first: Sequence[str], last: Sequence[str]) -> None:
        self._schema, self._columns = schema, columns
        self._first, self._last = list(first), list(last)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from airflow_sqlqueue.bodies.blocks import BodyParser
        from airflow_sqlqueue.bodies.refitting import Refitting

        names = field_names([each["name"] for each in self._columns["fields"]], self._schema)
        refitting, parser = Refitting(self._schema, as_fields(self._columns, self._schema)), BodyParser(self._schema)
        for rows in blocks(batches):
            types = rows["content_type"].to_pylist()
            is_json = [_JSON.fullmatch((each or "").partition(";")[0].strip()) is not None for each in types]
            found = refitting.rows({name: rows[column] for column, name in names.items()}, rows[RESCUED], is_json)
            for column in (_TEXT, _VARIANT):
                if column in self._last:
                    found = _parsed(parser, rows[column], found)
            fields, rescued = found.flatten()
            columns = [*(rows[each] for each in self._first), *fields.flatten(), rescued]
            columns += [rows[each] for each in self._last]
            yield pa.RecordBatch.from_arrays(columns, [str(number) for number in range(len(columns))])


def _parsed(parser: object, bodies: pa.Array, found: pa.StructArray) -> pa.StructArray:
    """The rows with what their bodies have, where these are there and are parsed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # A body that was kept is JSON or XML, whatever its content type was, and is decoded: a text in UTF-8.
    is_xml = pc.starts_with(pc.utf8_ltrim_whitespace(bodies), "<")
    types = pc.if_else(is_xml, "text/xml; charset=utf-8", "application/json; charset=utf-8")
    parsed = parser.parse(bodies.cast(pa.binary()), types)  # type: ignore[attr-defined]
    is_there = pc.and_(pc.is_valid(bodies), pc.is_null(parsed.field("unparsed")))
    both = pa.StructArray.from_arrays([parsed.field("fields"), parsed.field("rescued")], fields=list(found.type))
    return pc.if_else(pc.fill_null(is_there, False), both, found)
