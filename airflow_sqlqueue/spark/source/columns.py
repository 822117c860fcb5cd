"""Selected columns of a read, and their rows as Arrow in exactly the types that Spark expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errors import ConfigurationError, StagingError
from airflow_sqlqueue.exports import LazyModule
from airflow_sqlqueue.messages.row import BODY_FILE, drained_row_schema, spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType
else:
    pa = LazyModule("pyarrow")


@dataclass(frozen=True)
class SelectedColumns:
    """The columns of a schema: our ``names``, the user's ``aliases``, and the schema's flags ``nullable``."""

    names: tuple[str, ...]
    aliases: tuple[str, ...]
    nullable: tuple[bool, ...]

    @classmethod
    def of(cls, schema: StructType) -> SelectedColumns:
        """Return the columns of Spark's schema, in its order; like Spark it ignores the case of names.

        Raises :class:`ConfigurationError` for an unknown column and for a column of another type.
        """
        types = {field["name"].lower(): (field["name"], field["type"]) for field in spark_schema()["fields"]}
        names = []
        for field in schema.fields:
            if field.name.lower() not in types:
                known = ", ".join(name for name, _ in types.values())
                raise ConfigurationError(f"A row of a queue has no column {field.name!r}: choose from {known}.")
            name, kind = types[field.name.lower()]
            if field.dataType.jsonValue() != kind:
                simple = "bigint" if kind == "long" else kind
                raise ConfigurationError(f"The column {name} is of type {simple}: give it that in the schema.")
            names.append(name)
        if not names:
            raise ConfigurationError("The schema has no column: name at least one.")
        return cls(tuple(names), tuple(schema.fieldNames()), tuple(field.nullable for field in schema.fields))

    @property
    def of_the_table(self) -> tuple[str, ...]:
        """The columns that a queue's table and the table of staged messages have: all but the file of a body."""
        return tuple(name for name in self.names if name != BODY_FILE)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema that Spark expects, with the same names, types and flags."""
        types = drained_row_schema()
        return pa.schema(
            pa.field(alias, types.field(name).type, nullable=nullable)
            for name, alias, nullable in zip(self.names, self.aliases, self.nullable, strict=True)
        )

    def to_arrow(self, rows: Sequence[Any], names: Sequence[str] | None = None) -> pa.RecordBatch:
        """Convert rows of the columns ``names``, which include RowVersion; by default :attr:`of_the_table` plus it.

        Raises :class:`StagingError` for a row that Spark cannot hold. The error names the RowVersion and no value.
        """
        names = (*self.of_the_table, "RowVersion") if names is None else names
        try:
            return self._convert(rows, names)
        except (pa.ArrowException, UnicodeError, ValueError):
            from airflow_sqlqueue.drain.stages.part_file import unwritable

            # The cause would quote the value.
            convert = partial(self._convert, names=names)
            found = next((row, reason) for row in rows if (reason := unwritable(row, convert)))
        row, reason = found
        row_version = dict(zip(names, row, strict=True))["RowVersion"]
        raise StagingError(f"The message {row_version} (RowVersion) cannot be read by Spark: {reason}.")

    def rename(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a record batch of a part file, which has our names, to the schema that Spark expects."""
        return pa.record_batch([batch.column(name) for name in self.names], schema=self.schema)

    def _convert(self, rows: Sequence[Any], names: Sequence[str]) -> pa.RecordBatch:
        schema = self.schema
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        if "Id" in columns:
            columns["Id"] = tuple(None if value is None else str(value).lower() for value in columns["Id"])
        columns[BODY_FILE] = (None,) * len(rows)
        arrays = [pa.array(columns[name], field.type) for name, field in zip(self.names, schema, strict=True)]
        for name, array, field in zip(self.names, arrays, schema, strict=True):
            if array.null_count and not field.nullable:
                raise ValueError(f"{name} is NULL")
        return pa.record_batch(arrays, schema=schema)
