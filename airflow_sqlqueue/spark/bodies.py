"""Bodies as columns: the fields of one message type, by its schema.

Source: docs/guides/bodies.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.bodies.decoding import MAX_BYTES
from airflow_sqlqueue.bodies.names import ENVELOPE, RESCUED, UNPARSED, column_names
from airflow_sqlqueue.bodies.schemas import Struct, read_schema, spark_schema
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.exports import LazyModule
from airflow_sqlqueue.extras import from_extra
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType
else:
    pa, pc, sf = LazyModule("pyarrow"), LazyModule("pyarrow.compute"), LazyModule("pyspark.sql.functions")

IF_UNPARSED = ("Body", "BodyFile", "headers_raw")
"""Columns of ``read_batch`` from which a message can be parsed later."""


def parse_bodies(
    df: DataFrame,
    schema: StructType | Mapping[str, Any],
    *,
    message_type: str | None = None,
    fields: Sequence[str] | None = None,
    envelope: Sequence[str] | None = None,
    decoders: Mapping[str, Callable[[Column], Column]] | None = None,
    max_bytes: int = MAX_BYTES,
) -> DataFrame:
    """Return the messages of a type with the fields of their bodies as columns.

    The columns are those of the envelope, a column for each field of the schema, ``_rescued`` and ``_unparsed``. Every
    row of ``df`` of that type is there once, whatever its body is:

    - ``_rescued``: JSON of the values that did not fit, by path, for example ``{"Lines[0].Quantity":"x","Extra":5}``:
      fields that the schema has not, and values of another type. Their columns are null. Null if all values fit.
    - ``_unparsed``: the reason why a body has no fields, such as ``json``, ``encoding``, ``size`` or ``depth``;
      ``file`` for a body in a file of its own, which :func:`~airflow_sqlqueue.spark.read_bodies` fetches. Null for a
      parsed body.

    Spark's Python workers parse the bodies, and need this package and pyarrow. Source: docs/guides/bodies.md, "How
    bodies are parsed".

    :param df: rows of ``read_batch``, or others with ``Body``; ``content_type``, ``BodyFile`` and, for
        ``message_type``, ``message_type`` are used if they exist.
    :param schema: the schema of the type: a StructType, its JSON, or a JSON Schema as a dict.
    :param message_type: the type whose messages are parsed, the others are left out; None: all rows.
    :param fields: the fields to read, in place of all. Their parsing alone is paid for, and there is no ``_rescued``.
    :param envelope: the columns of ``df`` to keep; those of :data:`ENVELOPE` that it has unless given.
    :param decoders: functions by content type that make a column of JSON texts of the column of bodies, for formats of
        your own (Avro, Protobuf, compressed bodies). A body for which it is null has the reason ``empty``.
    :param max_bytes: the size above which a body is not parsed.

    Raises :class:`ConfigurationError` for a schema, columns or fields that cannot be used.
    """
    # A folder gives None for a type without a schema.
    is_spark = hasattr(schema, "jsonValue")
    known = read_schema(dict(schema) if isinstance(schema, Mapping) else schema.jsonValue() if is_spark else schema)
    if fields is not None:
        known = _selected(known, fields)
    kept = [name for name in ENVELOPE if name in df.columns] if envelope is None else list(envelope)
    needed = ["Body", *kept] if message_type is None else ["message_type", "Body", *kept]
    if missing := [name for name in needed if name not in df.columns]:
        raise ConfigurationError(f"The rows have no column {missing[0]}: give what read_batch returns.")
    rows = df if message_type is None else df.where(sf.col("message_type") == message_type)
    in_file = sf.col("BodyFile").isNotNull() if "BodyFile" in rows.columns else sf.lit(False)
    own = [each.alias(f"_{number}") for number, each in enumerate((*decoded(rows, decoders or {}), in_file))]
    result = result_schema(rows.select(*kept).schema, known, rescued=fields is None)
    return mapped(rows.select(*kept, *own), partial(_parsed, known, len(kept), fields is None, max_bytes), result)


def mapped(rows: DataFrame, function: Callable[..., Any], schema: StructType) -> DataFrame:
    """Return what a function for ``mapInArrow`` makes of rows.

    Spark Connect writes the collation that its types of texts name into tables, also the default one, and other readers
    of Delta Lake and the notes in files of Parquet do not know ``string collate UTF8_BINARY``.
    """
    if not type(rows).__module__.startswith("pyspark.sql.connect"):
        return rows.mapInArrow(function, schema)
    # The selection has the types of the server, the rows before it those that are given.
    return rows.mapInArrow(function, _without_collation(schema)).select("*")


def _without_collation(kind: Any) -> Any:
    from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

    if isinstance(kind, StructType):
        fields = [(each, _without_collation(each.dataType)) for each in kind.fields]
        return StructType([StructField(each.name, inner, each.nullable, each.metadata) for each, inner in fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_without_collation(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(_without_collation(kind.keyType), _without_collation(kind.valueType), kind.valueContainsNull)
    # The plan then has no name, which means the default.
    return StringType("") if kind == StringType() else kind


def decoded(rows: DataFrame, decoders: Mapping[str, Callable[[Column], Column]]) -> tuple[Column, Column]:
    """Return the columns of the bodies to parse and of their content types: JSON where a decoder made it."""
    body = sf.col("Body")
    content_type = sf.col("content_type") if "content_type" in rows.columns else sf.lit(None).cast("string")
    for name, decoder in decoders.items():
        is_one = sf.lower(sf.trim(sf.split_part(content_type, sf.lit(";"), sf.lit(1)))) == name.lower()
        body = sf.when(is_one, sf.encode(decoder(sf.col("Body")), "UTF-8")).otherwise(body)
        content_type = sf.when(is_one, sf.lit("application/json")).otherwise(content_type)
    return body, content_type


def result_schema(envelope: StructType, schema: Struct, *, rescued: bool = True, unparsed: bool = True) -> StructType:
    """Return the columns of :func:`parse_bodies`: the envelope's, the fields', and the two that say what is missing."""
    with from_extra("spark", "Spark"):
        from pyspark.sql.types import StringType, StructField, StructType

    names = column_names(schema, [each.name for each in envelope])
    fields = StructType.fromJson(spark_schema(schema)).fields
    columns = [StructField(names[each.name], each.dataType, True, each.metadata) for each in fields]
    own = [RESCUED] * rescued + [UNPARSED] * unparsed
    return StructType([*envelope.fields, *columns, *(StructField(name, StringType()) for name in own)])


def _parsed(
    schema: Struct, kept: int, rescued: bool, max_bytes: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    from airflow_sqlqueue.bodies.arrow_parser import BodyParser

    parser = BodyParser(schema, rescues=rescued, max_bytes=max_bytes)
    for batch in batches:
        for start, count in parser.portions(batch.column(kept).cast(pa.binary())):
            part = batch.slice(start, count)
            bodies, content_types, in_file = part.columns[kept:]
            parsed = parser.parse(bodies.cast(pa.binary()), content_types.cast(pa.string()))
            reasons = pc.if_else(in_file, "file", parsed.field("unparsed"))
            own = [parsed.field("rescued"), reasons] if rescued else [reasons]
            columns = [*part.columns[:kept], *pc.struct_field(parsed, "fields").flatten(), *own]
            yield pa.RecordBatch.from_arrays(columns, [str(number) for number in range(len(columns))])


def _selected(schema: Struct, names: Sequence[str]) -> Struct:
    fields = {each["name"]: each for each in schema["fields"]}
    if missing := [name for name in names if name not in fields]:
        raise ConfigurationError(f"The schema has no field {quoted(missing[0])}: it has {', '.join(fields)}.")
    return {"type": "struct", "fields": [fields[name] for name in dict.fromkeys(names)]}
