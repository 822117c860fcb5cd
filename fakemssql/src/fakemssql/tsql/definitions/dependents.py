"""Dependents of a column (indexes, constraints, computed columns), and the changes that they forbid.

Source: "ALTER TABLE (Transact-SQL)", ALTER COLUMN and DROP COLUMN.
"""

from __future__ import annotations

from dataclasses import dataclass

from fakemssql.tsql.catalog.tables import ColumnInfo, TableInfo
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.names import bracketed
from fakemssql.types import MAX, SqlType

_SQL = """
SELECT CASE WHEN i.is_primary_key = 1 THEN 'key' WHEN i.is_unique_constraint = 1 THEN 'unique' ELSE 'index' END, i.name
FROM mssql.indexes i
WHERE i.object_id = $1::int AND (EXISTS (SELECT 1 FROM mssql.index_columns k WHERE k.object_id = i.object_id
  AND k.index_id = i.index_id AND k.column_id = $2::int) OR strpos(lower(i.filter), $3) > 0)
UNION ALL
SELECT 'default', o.name FROM mssql.objects o JOIN mssql.columns c ON c.default_object_id = o.object_id
WHERE c.object_id = $1::int AND c.column_id = $2::int
UNION ALL
SELECT 'check', o.name FROM mssql.objects o
WHERE o.parent_object_id = $1::int AND o.type = 'C' AND strpos(lower(o.definition), $3) > 0
UNION ALL
SELECT 'foreign', o.name
FROM mssql_sys.foreign_key_columns f JOIN mssql.objects o ON o.object_id = f.constraint_object_id
WHERE f.parent_object_id = $1::int AND f.parent_column_id = $2::int
  OR f.referenced_object_id = $1::int AND f.referenced_column_id = $2::int
UNION ALL
SELECT 'column', c.name FROM mssql.columns c WHERE c.object_id = $1::int AND strpos(lower(c.computed), $3) > 0
"""

_WORDS = {"index": "index", "column": "column"}
_MAX_LENGTH = 2**31 - 1
_GROWING = frozenset(["varchar", "nvarchar", "varbinary"])


@dataclass(frozen=True)
class Dependent:
    """An index, constraint or computed column that uses a column."""

    kind: str  # index, key, unique, default, check, foreign, column
    name: str

    @property
    def word(self) -> str:
        """Word for the dependent in error 5074."""
        return _WORDS.get(self.kind, "object")


def dependents(definer: Definer, table: TableInfo, column: ColumnInfo) -> list[Dependent]:
    """Indexes, constraints and computed columns that use ``column``."""
    rows = definer.pg.query(_SQL, table.object_id, column.column_id, bracketed(column.name).lower())
    return [Dependent(str(kind), str(name)) for kind, name in rows]


def in_the_way_of(column: ColumnInfo, kind: SqlType, nullable: bool, found: list[Dependent]) -> list[Dependent]:
    """Dependents that forbid a change of ``column`` to ``kind``.

    A text or binary column with an index, a check or a UNIQUE constraint may grow; a default only forbids another type.
    """
    same = kind.name == column.type.name
    old, new = (_MAX_LENGTH if each.length == MAX else each.length or 0 for each in (column.type, kind))
    grows = same and kind.name in _GROWING and new >= old and nullable == column.nullable
    harmless = {"default"} if same else set()
    if grows:
        harmless |= {"index", "unique", "check"}
    return [each for each in found if each.kind not in harmless]
