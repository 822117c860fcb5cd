"""Parsed messages of a batch in a work folder, and the rows of each table from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from airflow_sqlqueue.bodies.extension import differences as changes
from airflow_sqlqueue.bodies.names import BODY_COLUMNS, UNPARSED, column_names
from airflow_sqlqueue.bodies.schemas import Struct, Type, fields_of
from airflow_sqlqueue.spark.bodies import IF_UNPARSED, result_schema
from airflow_sqlqueue.spark.message_tables.chunks import COLUMNS, UNPARSED_KIND, Unpacking
from airflow_sqlqueue.spark.message_tables.reports import MessageTypeTable, Report
from airflow_sqlqueue.spark.message_tables.table_formats import TableFormat
from airflow_sqlqueue.spark.message_tables.work_folder import Key, WorkFolder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType


BodyForm: TypeAlias = Literal["text", "variant"]


@dataclass(frozen=True)
class Packed:
    """Messages in a work folder, ready for their tables."""

    work: WorkFolder
    shares: dict[Key, Row]
    reports: dict[str | None, Report]
    given: StructType
    schemas: Mapping[str, Struct]
    known: Mapping[str, Struct]
    """The schemas as they were before."""

    body: BodyForm | None = None
    layouts: dict[str, Struct] = field(default_factory=dict)
    """The fields of tables that have more than their schemas."""

    @property
    def messages(self) -> int:
        return sum(share.messages for share in self.shares.values())

    def ordered(self) -> list[Key]:
        """Return the types and kinds in the order of their names."""
        return sorted(self.shares, key=lambda key: (key[0] is None, key[0] or "", key[1]))

    def table(self, lake: TableFormat, name: str | None, kind: str) -> MessageTypeTable:
        """Return the result for a table."""
        share, is_unparsed = self.shares[name, kind], kind == UNPARSED_KIND
        table, report = lake.table(name, is_unparsed=is_unparsed), self.reports.get(name, Report())
        if is_unparsed:
            return MessageTypeTable(name, table, True, share.messages, reasons=dict(report.reasons))
        schema, known = self.schemas[str(name)], self.known.get(str(name))
        new = () if known is None else tuple(each.path for each in changes(known, schema) if each.schema is None)
        return MessageTypeTable(name, table, False, share.messages, share.rescued, new, report.rescued_fields)

    def rows(self, name: str | None, kind: str) -> DataFrame:
        """Return the rows of a table."""
        unpacking, schema = self._layout(name, kind)
        rows = self.work.rows(name, kind, self.shares[name, kind], unpacking, schema)
        return with_variant(rows) if BODY_COLUMNS["variant"] in schema.names else rows

    def unpacked(self, name: str | None, kind: str, chunks: list[bytes]) -> tuple[Iterator[pa.RecordBatch], StructType]:
        """Return the rows of a table from its chunks, in this process."""
        import pyarrow as pa

        unpacking, schema = self._layout(name, kind)
        return unpacking(iter([pa.RecordBatch.from_arrays([pa.array(chunks, pa.binary())], ["content"])])), schema

    def _layout(self, name: str | None, kind: str) -> tuple[Unpacking, StructType]:
        fields: dict[str, Type] = {}
        if kind == UNPARSED_KIND:
            schema = unparsed_schema(self.given)
        else:
            own = self.layouts.get(str(name), self.schemas[str(name)])
            names = column_names(own, COLUMNS)
            fields = {names[field]: kind for field, kind in fields_of(own).items()}
            schema = result_schema(_selected(self.given, COLUMNS), own, unparsed=False)
            if self.body is not None:
                schema = schema.add(BODY_COLUMNS[self.body], "string")
        return Unpacking(schema.names, fields), schema


def with_variant(rows: DataFrame) -> DataFrame:
    """Return the rows with their JSON as a variant."""
    from pyspark.sql import functions as sf

    return rows.withColumn(BODY_COLUMNS["variant"], sf.try_parse_json(BODY_COLUMNS["variant"]))


def unparsed_schema(given: StructType) -> StructType:
    """Return the columns of a table of unparsed messages, from those that are packed."""
    return _selected(given, (*COLUMNS, *IF_UNPARSED)).add(UNPARSED, "string")


def _selected(schema: StructType, names: tuple[str, ...]) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([schema[name] for name in names])
