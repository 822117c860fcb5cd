"""The PostgreSQL text of keys, indexes and checks."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.base_tables import table_scope
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.compiler import compilation
from fakemssql.tsql.compiler.environment import Environment
from fakemssql.tsql.compiler.scopes import Names
from fakemssql.tsql.datatypes.sqltypes import is_text, storage
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.names import quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.nodes import IndexDefinition

MARK = "\x02"


"""The alias of a table in expressions that PostgreSQL wants without one; it is taken out again."""


def key_sql(table: TableInfo, columns: list[nodes.KeyColumn], compiler: Compilation) -> str:
    """The key of an index: text is indexed as the collation compares it; NULL sorts first, as in SQL Server."""
    parts = []
    scope = table_scope(compiler, table, "", MARK)
    for key in columns:
        info = table.column(key.name)
        if info is None:
            raise SqlError(1911, f"Column name '{key.name}' does not exist in the target table or view.")
        if info.type.length == -1 or info.type.name in ("text", "ntext", "image", "xml"):
            raise SqlError(
                1919,
                f"Column '{info.name}' in table '{table.name}' is of a type"
                " that is invalid for use as a key column in an index.",
            )
        value = scope.find(info.folded)[0]
        sql = value.sql.replace(MARK + ".", "")
        if is_text(info.type):
            sql = f"rtrim({sql}, ' ')" if info.binary else f"mssql.f({sql})"
            sql = f"({sql})"
        elif info.computed is not None:
            sql = f"({sql})"
        parts.append(f"{sql} {'DESC NULLS LAST' if key.descending else 'ASC NULLS FIRST'}")
    return ", ".join(parts)


def index_sql(definer: Definer, table: TableInfo, index: IndexDefinition, pg: str) -> tuple[str, str]:
    """CREATE INDEX in PostgreSQL, and the filter as PostgreSQL text."""
    compiler = compilation(definer.environment())
    keys = key_sql(table, index.columns, compiler)
    where = ""
    if index.where is not None:
        scope = table_scope(compiler, table, "", MARK)
        text = compiler.predicate(index.where, Names([scope]))
        where = " WHERE " + text.replace(MARK + ".", "")
        if compiler.parameters:
            raise SqlError(
                10735, f"Incorrect WHERE clause for filtered index '{index.name}' on table '{table.name}'.", severity=15
            )
    include = ""
    plain = []
    for name in index.include:
        info = table.column(name)
        if info is None:
            raise SqlError(1911, f"Column name '{name}' does not exist in the target table or view.")
        # Wide columns do not fit a PostgreSQL index row; what INCLUDE is for, index-only reads, is a matter of speed.
        if info.computed is None and storage(info.type) not in ("text", "bytea"):
            plain.append(quoted(info.pg))
    keys_plain = {quoted(c.pg) for c in (table.column(k.name) for k in index.columns) if c is not None}
    plain = [name for name in plain if name not in keys_plain]
    if plain:
        include = f" INCLUDE ({', '.join(plain)})"
    unique = "UNIQUE " if index.unique else ""
    distinct = " NULLS NOT DISTINCT" if index.unique else ""
    sql = f"CREATE {unique}INDEX {quoted(pg)} ON {table.pg} USING btree ({keys}){include}{distinct}{where}"
    return sql, where


def check_sql(environment: Environment, table: TableInfo, condition: nodes.Expr) -> str:
    """The condition of a CHECK over a row of ``table``."""
    compiler = compilation(environment)
    text = compiler.predicate(condition, Names([table_scope(compiler, table, table.name, MARK)]))
    if compiler.parameters:
        raise SqlError(40517, "A check that depends on the session is not supported by fakemssql.")
    return text.replace(MARK + ".", "")
