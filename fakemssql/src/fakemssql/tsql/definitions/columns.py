# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Columns: their entries in the catalog, PostgreSQL text of columns and checks, and the dependents of a column.

Source of the dependents: "ALTER TABLE (Transact-SQL)", ALTER COLUMN and DROP COLUMN.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import DEFAULT_COLLATION, ColumnInfo, TableInfo, is_binary_collation
from fakemssql.tsql.compiler.base_tables import table_scope
from fakemssql.tsql.compiler.compiler import compilation
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.scopes import Names
from fakemssql.tsql.compiler.trees import walk
from fakemssql.tsql.datatypes.sqltypes import RANGES, is_text, storage
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.names import bracketed, fold, pg_name, quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.nodes import ColumnDefinition
from fakemssql.tsql.security import errors
from fakemssql.types import MAX, SqlType

MARK = "\x02"
"""Alias of a table in compiled expressions; it is removed, because PostgreSQL allows no alias there."""
_DEPENDENTS = """
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


def column_infos(
    definer: Definer, table: TableInfo, definitions: list[ColumnDefinition], *, after: int = 0
) -> list[ColumnInfo]:
    """Catalog entries of new columns, numbered from ``after`` on. Computed columns may use all others."""
    known = [column for column in table.columns if column.computed is None]
    pairs = list(enumerate(definitions, after + 1))
    plain = {
        number: column_info(definer, definition, number, [])
        for number, definition in pairs
        if definition.computed is None
    }
    for definition in definitions:
        if definition.identity is not None and definition.default is not None:
            raise default_of_identity(table.name, definition.name)
    computed = {fold(column.name) for column in table.columns if column.computed is not None}
    computed |= {fold(definition.name) for definition in definitions if definition.computed is not None}
    for _, definition in pairs:
        for node in walk(definition.computed[0] if definition.computed else None):
            if isinstance(node, nodes.Column) and fold(node.name[-1]) in computed:
                raise SqlError(
                    1759,
                    f"Computed column '{node.name[-1]}' in table '{table.name}' is not allowed to be used in another"
                    " computed-column definition.",
                    state=0,
                )
    known += plain.values()
    return [plain.get(number) or column_info(definer, definition, number, known) for number, definition in pairs]


def column_info(definer: Definer, column: ColumnDefinition, number: int, columns: list[ColumnInfo]) -> ColumnInfo:
    """Catalog entry of a column definition. The type of a computed column is that of its expression."""
    name, pg = column.name, pg_name(column.name)
    if column.computed is not None:
        known = TableInfo("", "", "", "x", columns)
        compiler = compilation(definer.environment())
        value = compiler.scalar(column.computed[0], Names([table_scope(compiler, known, "x", MARK)]))
        if value.type is None:
            raise SqlError(2727, f"Cannot define the computed column '{name}'.")
        nullable = value.nullable and column.nullable is not False
        return ColumnInfo(name, pg, value.type, nullable, False, column.computed[1], column_id=number)
    assert column.type is not None
    if (
        column.type.length is not None
        and column.type.name in ("char", "varchar", "binary", "varbinary")
        and column.type.length > 8000
    ):
        raise SqlError(
            131,
            f"The size ({column.type.length}) given to the column '{name}'"
            " exceeds the maximum allowed for any data type (8000).",
            severity=15,
        )
    if column.identity is not None and column.type.name not in (*RANGES, "decimal", "numeric"):
        raise SqlError(
            2749,
            f"Identity column '{name}' must be of data type int, bigint,"
            " smallint, tinyint, or decimal or numeric with a scale"
            " of 0, unencrypted, and constrained to be nonnullable.",
            state=2,
        )
    if column.identity is not None and column.type.name not in RANGES:
        raise SqlError(40517, f"An identity column of type {column.type.name} is not supported by fakemssql.")
    nullable = column.nullable if column.nullable is not None else column.identity is None
    if column.identity is not None and column.nullable:
        raise SqlError(8147, f"Could not create IDENTITY attribute on nullable column '{name}', table ''.")
    return ColumnInfo(
        name,
        pg,
        column.type,
        nullable,
        column.identity is not None,
        None,
        is_binary_collation(column.collation),
        number,
        column.default is not None,
        *(column.identity or (1, 1)),
        collation_of(column.type, column) or "",
    )


def column_sql(definer: Definer, definition: ColumnDefinition, info: ColumnInfo) -> str:
    """Return the column in PostgreSQL's CREATE TABLE (not for computed columns, which queries expand)."""
    text = f"{quoted(info.pg)} {storage(info.type)}"
    if info.identity:
        low, high = RANGES[info.type.name]
        text += (
            f" GENERATED BY DEFAULT AS IDENTITY (START WITH {info.seed} INCREMENT BY {info.increment}"
            f" MINVALUE {low} MAXVALUE {high})"
        )
    if definition.default is not None:
        text += f" DEFAULT {default_sql(definer, definition.default[1], info)}"
    if not info.nullable:
        text += " NOT NULL"
    return text


def new_columns(
    d: Definer, table: TableInfo, node: nodes.CreateTable
) -> tuple[list[tuple[ColumnInfo, ColumnDefinition]], str]:
    """Return the columns of a new table, with the PostgreSQL text of the stored ones; errors 2705, 2744 and 8111.

    The columns of its primary key become NOT NULL.
    """
    check_distinct(table.name, node.columns)
    primary = {fold(key.name) for c in node.constraints if c.kind == "primary" for key in c.columns}
    for definition in node.columns:
        if fold(definition.name) in primary:
            if definition.nullable:
                raise nullable_key(table.name)
            definition.nullable = False
    table.columns = column_infos(d, table, node.columns)
    check_identities(table.name, table.columns)
    pairs = list(zip(table.columns, node.columns, strict=True))
    stored = [column_sql(d, definition, info) for info, definition in pairs if definition.computed is None]
    if not stored:
        raise SqlError(40517, "A table without a stored column is not supported by fakemssql.")
    return pairs, ", ".join(stored)


def check_identities(table: str, columns: Iterable[ColumnInfo]) -> None:
    """Raise error 2744 for two identity columns."""
    if sum(column.identity for column in columns) > 1:
        raise SqlError(
            2744,
            f"Multiple identity columns specified for table '{table}'. Only one identity column per table is allowed.",
            state=2,
        )


def default_of_identity(table: str, column: str) -> SqlError:
    return SqlError(
        1754,
        f"Defaults cannot be created on columns with an IDENTITY attribute. Table '{table}', column '{column}'.",
        state=0,
        then=errors.not_created(),
    )


def nullable_key(table: str) -> SqlError:
    text = f"Cannot define PRIMARY KEY constraint on nullable column in table '{table}'."
    return SqlError(8111, text, then=errors.not_created())


def check_distinct(table: str, definitions: list[ColumnDefinition], known: Iterable[str] = ()) -> None:
    """Error 2705 for two columns with one name; ``known`` are folded names that the table has already."""
    seen = set(known)
    state = 4 if seen else 3
    for definition in definitions:
        if fold(definition.name) in seen:
            raise SqlError(
                2705,
                f"Column names in each table must be unique. Column name '{definition.name}' in table '{table}' is"
                " specified more than once.",
                state=state,
            )
        seen.add(fold(definition.name))


def add_column(d: Definer, table: TableInfo, definition: ColumnDefinition, info: ColumnInfo) -> None:
    """Add a column in PostgreSQL unless it is computed; error 4901."""
    if definition.computed is not None:
        return
    bare = not info.nullable and definition.default is None and not info.identity
    if bare and d.value(f"SELECT EXISTS (SELECT 1 FROM {table.pg})") == "t":
        raise SqlError(
            4901,
            "ALTER TABLE only allows columns to be added that"
            " can contain nulls, or have a DEFAULT definition"
            f" specified. Column '{info.name}' cannot be added to non-empty table '{table.name}'.",
        )
    text = column_sql(d, definition, info)
    d.run(f"ALTER TABLE {table.pg} ADD COLUMN {text}")
    if definition.default is not None and info.nullable:
        d.run(f"UPDATE {table.pg} SET {quoted(info.pg)} = NULL")


def default_sql(definer: Definer, expression: nodes.Expr, info: ColumnInfo) -> str:
    """Default in PostgreSQL's CREATE TABLE."""
    compiler = compilation(definer.environment())
    value = compiler.scalar(expression, Names())
    if compiler.parameters:
        raise SqlError(40517, "A default that depends on the session is not supported by fakemssql.")
    return f"({convert(value, info.type, 'assign').sql})"


def collation_of(kind: SqlType, definition: ColumnDefinition) -> str | None:
    """Collation that the catalog shows for a column; error 448."""
    if not is_text(kind):
        return None
    name = definition.collation
    if not name or name.lower() == "database_default":
        return DEFAULT_COLLATION
    upper = name.upper()
    if not any(part in upper for part in ("_CI", "_CS", "_BIN")):
        raise SqlError(448, f"Invalid collation '{name}'.")
    return name


def check_sql(d: Definer, table: TableInfo, condition: nodes.Expr) -> str:
    """Return the condition of a CHECK over a row of ``table``."""
    compiler = compilation(d.environment())
    text = compiler.predicate(condition, Names([table_scope(compiler, table, table.name, MARK)]))
    if compiler.parameters:
        raise SqlError(40517, "A check that depends on the session is not supported by fakemssql.")
    return text.replace(MARK + ".", "")


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
    rows = definer.pg.query(_DEPENDENTS, table.object_id, column.column_id, bracketed(column.name).lower())
    return [Dependent(str(kind), str(name)) for kind, name in rows]


def in_the_way_of(column: ColumnInfo, kind: SqlType, nullable: bool, found: list[Dependent]) -> list[Dependent]:
    """Return the dependents that forbid a change of ``column`` to ``kind``.

    A text or binary column with an index, a check or a UNIQUE constraint may grow; a default only forbids another type.
    """
    same = kind.name == column.type.name
    old, new = (_MAX_LENGTH if each.length == MAX else each.length or 0 for each in (column.type, kind))
    grows = same and kind.name in _GROWING and new >= old and nullable == column.nullable
    harmless = {"default"} if same else set()
    if grows:
        harmless |= {"index", "unique", "check"}
    return [each for each in found if each.kind not in harmless]
