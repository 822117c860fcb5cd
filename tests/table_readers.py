"""Readers of tables that are not Spark: what each of them reads, as one table of Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq


def read_by_all(folder: Path, *, is_delta: bool = False) -> dict[str, pa.Table]:
    """A table of Parquet or Delta Lake as each reader reads it, by the reader's name."""
    import duckdb
    import polars as pl

    if is_delta:
        from deltalake import DeltaTable

        table = DeltaTable(str(folder))
        files = table.file_uris()
        found = {"delta-rs": table.to_pyarrow_table(), "polars": pl.read_delta(str(folder)).to_arrow()}
    else:
        files = sorted(map(str, folder.glob("batch_id=*/parse_attempt=*/*.parquet")))
        found = {"polars": pl.concat([pl.read_parquet(file) for file in files], how="diagonal").to_arrow()}
    tables = [pq.read_table(file, partitioning=None) for file in files]
    found["pyarrow"] = pa.concat_tables(tables, promote_options="default")
    with duckdb.connect() as connection:
        names = ", ".join(f"'{file}'" for file in files)
        rows: Any = connection.sql(f"SELECT * FROM read_parquet([{names}], union_by_name = true)")
        found["duckdb"] = rows.to_arrow_table()
    return found


def instants(table: pa.Table, name: str) -> list[tuple[int | None, bool]]:
    """The microseconds since 1970 of a column's values, and whether they are of UTC."""
    kind = table.schema.field(name).type
    assert kind.unit == "us", kind
    return [(each, kind.tz is not None) for each in table[name].cast(pa.int64()).to_pylist()]


def check_types(folder: Path, names: dict[str, bool]) -> None:
    """Check that times are 64-bit integers in all files that have them; ``names`` says which are of UTC."""
    found = set()
    for path in folder.rglob("*.parquet"):
        schema = pq.ParquetFile(path).schema
        for number in range(len(schema)):
            column = schema.column(number)
            assert column.physical_type != "INT96", (path, column.name)
            if column.name in names:
                assert column.physical_type == "INT64"
                # Parquet's own words: isAdjustedToUTC=true, timeUnit=microseconds
                said = str(column.logical_type).replace(" ", "")
                assert f"isAdjustedToUTC={str(names[column.name]).lower()}" in said
                assert "microseconds" in said
                found.add(column.name)
    assert found == set(names)
