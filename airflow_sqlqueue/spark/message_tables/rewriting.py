"""Unparsed messages parsed again, and tables made anew by today's schemas, without the batches.

Source: docs/guides/bodies.md, "Parse again" and "Mend a table".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from airflow_sqlqueue.bodies.decoding import MAX_BYTES, named_kind
from airflow_sqlqueue.bodies.names import BODY_COLUMNS, RESCUED, UNPARSED, is_own_column
from airflow_sqlqueue.bodies.schemas import Struct, struct
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.errors import BodyError, ConfigurationError, SqlQueueError
from airflow_sqlqueue.exports import LazyModule
from airflow_sqlqueue.messages.envelope import cloud_events
from airflow_sqlqueue.spark.batch import raw_schema, typed_columns
from airflow_sqlqueue.spark.bodies import IF_UNPARSED, mapped, result_schema
from airflow_sqlqueue.spark.message_tables.chunks import COLUMNS, PARSED, blocks, to_pack
from airflow_sqlqueue.spark.message_tables.columns import as_fields, field_names
from airflow_sqlqueue.spark.message_tables.packed import BodyForm, unparsed_schema, with_variant
from airflow_sqlqueue.spark.message_tables.parquet import ATTEMPT
from airflow_sqlqueue.spark.message_tables.reports import MessageTypeTable
from airflow_sqlqueue.spark.message_tables.table_formats import Format
from airflow_sqlqueue.spark.message_tables.work_folder import WorkFolder
from airflow_sqlqueue.spark.message_tables.writer import TableWriter
from airflow_sqlqueue.spark.sinks import checks
from airflow_sqlqueue.spark.sinks.keys import partition_of
from airflow_sqlqueue.spark.sinks.partitions import COLUMN
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql import functions as sf
else:
    pa, pc, sf = LazyModule("pyarrow"), LazyModule("pyarrow.compute"), LazyModule("pyspark.sql.functions")

_TEXT, _VARIANT = BODY_COLUMNS["text"], BODY_COLUMNS["variant"]


def reparse(
    spark: SparkSession,
    location: str,
    *,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    schemas: SchemaFolder | str | os.PathLike[str] | None = None,
    decoders: Mapping[str, Callable[[Column], Column]] | None = None,
    max_bytes: int = MAX_BYTES,
    work_folder: str | None = None,
    body: BodyForm | None = None,
) -> list[MessageTypeTable]:
    """Parse the messages of all ``~unparsed`` tables again, and move those that are parsed now to their tables.

    Use it once their type has a schema, with decoders for another format, or with a larger ``max_bytes``; for rows with
    values in ``_rescued`` there is :func:`rewrite_message_table`. The schemas are used as they are. Rows that were
    moved have the number of the run in ``parse_attempt``. A run may be killed at any point and run again: a message is
    then in one table, or still in both until the next run. Run it alone.

    The parameters are those of :func:`write_message_tables`. Returns what each table got; a message that stays where it
    is does not count. A body in a file of its own (reason
    ``file``) stays. Raises :class:`ConfigurationError` at the end for a type whose table has other types than its
    schema: its messages stay until the table is rewritten.
    """
    writer = TableWriter(
        spark, location, format, schemas, decoders=decoders, max_bytes=max_bytes, work_folder=work_folder, body=body
    )
    given = to_pack(typed_columns(spark.createDataFrame([], raw_schema())), {}).schema
    columns = unparsed_schema(given).add(COLUMN, "string").add(ATTEMPT, "integer")
    found: list[MessageTypeTable] = []
    refused: list[SqlQueueError] = []
    writer.lake.check_exists()
    for table in writer.lake.unparsed_tables():
        rows = writer.lake.read(table, columns)
        attempts = rows.select(COLUMN, ATTEMPT).distinct().orderBy(COLUMN, ATTEMPT)
        # A run that was killed may have left two attempts: the older one comes first, as it has all of its messages.
        for batch_id, attempt in attempts.collect():
            key = partition_of(batch_id)
            own = writer.lake.read(table, rows.schema).where((sf.col(COLUMN) == key) & (sf.col(ATTEMPT) == attempt))
            moved, errors = _moved(writer, table, own, key, attempt)
            found += moved
            refused += errors
    if refused:
        raise refused[0]
    return found


def _moved(
    writer: TableWriter, table: str, rows: DataFrame, batch_id: str, attempt: int
) -> tuple[list[MessageTypeTable], list[SqlQueueError]]:
    """Move what is parsed; return the tables that got rows, and an error for each type whose messages stay."""
    lake, work = writer.lake, WorkFolder(rows.sparkSession, f"{writer.folder}/_work-{batch_id}-{attempt}")
    try:
        packed = writer.pack(work, rows, batch_id, is_again=True)
        errors = writer.refused(packed)
        for error in errors.values():
            if not isinstance(error, ConfigurationError):
                raise error
        refused = [name for name, _ in errors]
        moving = [key for key in packed.ordered() if key[0] not in refused]
        parsed = [key for key in moving if key[1] == PARSED]
        if not parsed:
            return [], list(errors.values())
        for name, kind in parsed:
            lake.replace(packed.rows(name, kind), lake.table(name), batch_id, attempt + 1)
        rest = [packed.rows(*key) for key in moving if key[1] != PARSED]
        if refused:
            rest.append(rows.where(sf.col("message_type").isin(refused)).select(*COLUMNS, *IF_UNPARSED, UNPARSED))
        if rest:
            lake.replace(reduce(lambda one, other: one.union(other), rest), table, batch_id, attempt + 1)
        else:
            # A run that was killed may have left some rows.
            lake.remove(table, batch_id, attempt + 1)
        lake.remove(table, batch_id, attempt)
        return [packed.table(lake, name, kind) for name, kind in parsed], list(errors.values())
    finally:
        work.remove()


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

    Values move to the columns that they fit, and values without a column are rescued; whole bodies (``body="text"`` or
    ``"variant"``) are parsed again. No value is lost, the batches are not needed, and one that is repeated still finds
    its rows. Delta Lake and Iceberg take the new table in one commit. Of a table of Parquet the batches are replaced
    one after the other, and until the end it takes no batch. A run may be killed at any point and run again. Run it
    alone: beside a writer of the same table one of the two fails, or has to be repeated.

    The parameters are those of :func:`write_message_tables`. Returns the table with its messages, those of them that
    have rescued values, and the fields that it has since. A text in ``_rescued`` that is no JSON object stays as it is:
    ``warnings`` has the number of such rows. Raises :class:`ConfigurationError` for a type without a table
    or a schema, :class:`TransientError` if another job wrote to the table meanwhile.
    """
    from pyspark.sql.types import StructType

    tables = TableWriter(spark, location, format, schemas, work_folder=work_folder)
    lake, schema = tables.lake, tables.files.get(message_type)
    if schema is None:
        raise ConfigurationError(f"There is no schema of {quoted(message_type)}: write one, or name another folder.")
    table, old = lake.table(message_type), set[str]()

    def rewritten(rows: DataFrame) -> DataFrame:
        old.update(field_names(rows.columns, schema).values())
        return _rewritten(rows, schema)

    lake.rewrite(table, rewritten)
    new = tuple(each["name"] for each in schema["fields"] if each["name"] not in old)
    rows = lake.read(table, StructType().add(RESCUED, "string"))
    ((messages, rescued),) = rows.selectExpr("count(*)", f"count({RESCUED})").collect()
    texts = rows.where(f"{RESCUED} IS NOT NULL").select(RESCUED).mapInArrow(_broken, "number long")
    number = rescued and texts.agg({"number": "sum"}).collect()[0][0]
    warning = (
        f"In {number} of {messages} rows {RESCUED} is no JSON object, and stays as it is: mend it or set it to null."
    )
    return MessageTypeTable(message_type, table, False, messages, rescued, new, warnings=(warning,) * bool(number))


def _broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the number of texts of ``_rescued`` that are no JSON objects."""
    from airflow_sqlqueue.bodies.stored_rows import read_rescued

    for texts in batches:
        number = sum(read_rescued(each) is None for each in texts.column(0).to_pylist())
        yield pa.RecordBatch.from_pydict({"number": [number]})


def _rewritten(rows: DataFrame, schema: Struct) -> DataFrame:
    """Return the rows of a table, or of a part of it, by the schema."""
    from pyspark.sql.types import StructType

    has_variant = _VARIANT in rows.columns
    if has_variant:
        rows = rows.withColumn(_VARIANT, sf.to_json(_VARIANT))
    kept = [each for each in rows.columns if is_own_column(each) and each != RESCUED]
    result = result_schema(StructType([rows.schema[each] for each in kept]), schema, unparsed=False)
    columns = struct({each.name: each.dataType.jsonValue() for each in rows.schema if not is_own_column(each.name)})
    found = mapped(rows, Rewriting(schema, columns, kept), result)
    # The envelope stands before the fields, what the table has beside it after them.
    names = sorted(found.columns, key=lambda each: each in kept and each not in COLUMNS)
    found = found.select(*map(checks.quoted, names))
    return with_variant(found) if has_variant else found


@dataclass(frozen=True)
class Rewriting:
    """Function for ``mapInArrow`` that gives rows of a table with these columns of fields by a schema."""

    schema: Struct
    columns: Struct
    kept: Sequence[str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from airflow_sqlqueue.bodies.arrow_parser import BodyParser
        from airflow_sqlqueue.bodies.stored_rows import StoredRows

        names = field_names([each["name"] for each in self.columns["fields"]], self.schema)
        refitting, parser = StoredRows(self.schema, as_fields(self.columns, self.schema)), BodyParser(self.schema)
        for rows in blocks(batches):
            types = rows["content_type"].to_pylist()
            is_json = list(map(_is_json, types))
            found = refitting.rows({name: rows[column] for column, name in names.items()}, rows[RESCUED], is_json)
            for column in {_TEXT, _VARIANT}.intersection(self.kept):
                found = _parsed(parser, rows[column], types, found)
            if _VARIANT in self.kept:
                texts = rows[_VARIANT].to_pylist()
                of_xml = [refitting.element(text, is_json=each) for text, each in zip(texts, is_json, strict=True)]
                found = pc.if_else(pa.array([each is not None for each in of_xml]), pa.array(of_xml, found.type), found)
            fields, rescued = found.flatten()
            columns = [*(rows[each] for each in self.kept), *fields.flatten(), rescued]
            yield pa.RecordBatch.from_arrays(columns, [str(number) for number in range(len(columns))])


def _is_json(content_type: str | None) -> bool | None:
    """Return whether a parsed body was JSON, as those of decoders are; None if its content type says nothing."""
    try:
        kind = named_kind(content_type)
    except BodyError:
        return True
    return kind and kind == "json"


def _parsed(
    parser: object, bodies: pa.Array, content_types: Sequence[str | None], found: pa.StructArray
) -> pa.StructArray:
    """Return the rows with what their bodies have, where these are there and are parsed."""
    # A body that was kept is JSON or XML, whatever its content type was, or an event with its data, and is decoded: a
    # text in UTF-8.
    is_xml = pc.starts_with(pc.utf8_ltrim_whitespace(bodies), "<")
    types = pc.if_else(is_xml, "text/xml; charset=utf-8", "application/json; charset=utf-8")
    types = pc.if_else(
        pa.array(map(cloud_events.is_structured, content_types), pa.bool_()), cloud_events.STRUCTURED, types
    )
    parsed = parser.parse(bodies.cast(pa.binary()), types)  # type: ignore[attr-defined]
    is_there = pc.and_(pc.is_valid(bodies), pc.is_null(parsed.field("unparsed")))
    both = pa.StructArray.from_arrays([parsed.field("fields"), parsed.field("rescued")], fields=list(found.type))
    return pc.if_else(pc.fill_null(is_there, False), both, found)
