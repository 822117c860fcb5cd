# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Columns: what the catalog holds of them, and their PostgreSQL text."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import ColumnInfo, TableInfo, is_binary_collation
from fakemssql.tsql.compiler.base_tables import table_scope
from fakemssql.tsql.compiler.compiler import compilation
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.scopes import Names
from fakemssql.tsql.compiler.trees import walk
from fakemssql.tsql.datatypes.sqltypes import is_text, storage
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.definitions.texts import MARK
from fakemssql.tsql.names import fold, pg_name, quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.nodes import ColumnDefinition
from fakemssql.types import SqlType

_RANGES = {
    "bigint": (-(2**63), 2**63 - 1),
    "int": (-(2**31), 2**31 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "tinyint": (0, 255),
}


def column_infos(
    definer: Definer, table: TableInfo, definitions: list[ColumnDefinition], *, after: int = 0
) -> list[ColumnInfo]:
    """What the catalog holds of new columns, numbered from ``after`` on. Computed ones may use all the others."""
    known = [column for column in table.columns if column.computed is None]
    pairs = list(enumerate(definitions, after + 1))
    plain = {
        number: column_info(definer, definition, number, [])
        for number, definition in pairs
        if definition.computed is None
    }
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
    """What the catalog holds of a column definition. A computed column's type is that of its expression."""
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
    if column.identity is not None and column.type.name not in (
        "bigint",
        "int",
        "smallint",
        "tinyint",
        "decimal",
        "numeric",
    ):
        raise SqlError(
            2749,
            f"Identity column '{name}' must be of data type int, bigint,"
            " smallint, tinyint, or decimal or numeric with a scale"
            " of 0, unencrypted, and constrained to be nonnullable.",
            state=2,
        )
    if column.identity is not None and column.type.name not in _RANGES:
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
    )


def column_sql(definer: Definer, definition: ColumnDefinition, info: ColumnInfo) -> str:
    """The column in PostgreSQL's CREATE TABLE (not for computed columns, which are expanded where they are read)."""
    text = f"{quoted(info.pg)} {storage(info.type)}"
    if info.identity:
        low, high = _RANGES[info.type.name]
        text += (
            f" GENERATED BY DEFAULT AS IDENTITY (START WITH {info.seed} INCREMENT BY {info.increment}"
            f" MINVALUE {low} MAXVALUE {high})"
        )
    if definition.default is not None:
        text += f" DEFAULT {default_sql(definer, definition.default[1], info)}"
    if not info.nullable:
        text += " NOT NULL"
    return text


def check_distinct(table: str, definitions: list[ColumnDefinition]) -> None:
    """Error 2705 for two columns of a new table with one name."""
    seen: set[str] = set()
    for definition in definitions:
        if fold(definition.name) in seen:
            raise SqlError(
                2705,
                "Column names in each table must be unique. Column name"
                f" '{definition.name}' in table '{table}' is specified more than once.",
                state=3,
            )
        seen.add(fold(definition.name))


def check_added(table: TableInfo, definitions: list[ColumnDefinition]) -> None:
    """Error 2705 for a new column with the name of another one."""
    for definition in definitions:
        if table.column(definition.name) is not None:
            raise SqlError(
                2705,
                "Column names in each table must be unique. Column name"
                f" '{definition.name}' in table '{table.name}' is specified more than once.",
                state=4,
            )


def add_column(d: Definer, table: TableInfo, definition: ColumnDefinition, info: ColumnInfo) -> None:
    """Add a column in PostgreSQL, if it is stored; error 4901."""
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
    """A default in PostgreSQL's CREATE TABLE."""
    compiler = compilation(definer.environment())
    value = compiler.scalar(expression, Names())
    if compiler.parameters:
        raise SqlError(40517, "A default that depends on the session is not supported by fakemssql.")
    return f"({convert(value, info.type, 'assign').sql})"


def collation_of(kind: SqlType, definition: ColumnDefinition) -> str | None:
    """The collation that the catalog shows for a column; error 448."""
    if not is_text(kind):
        return None
    name = definition.collation
    if not name or name.lower() == "database_default":
        return "SQL_Latin1_General_CP1_CI_AS"
    upper = name.upper()
    if not any(part in upper for part in ("_CI", "_CS", "_BIN")):
        raise SqlError(448, f"Invalid collation '{name}'.")
    return name
