# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Indexes: CREATE, ALTER, DROP, sp_rename, and UPDATE STATISTICS."""

from __future__ import annotations

import json

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import IndexInfo, TableInfo
from fakemssql.tsql.compiler.base_tables import table_scope
from fakemssql.tsql.compiler.compiler import compilation
from fakemssql.tsql.compiler.scopes import Names, Scope
from fakemssql.tsql.datatypes.sqltypes import is_text, storage
from fakemssql.tsql.definitions.catalog_text import catalog_text
from fakemssql.tsql.definitions.columns import MARK
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.definitions.metadata import sql_value
from fakemssql.tsql.definitions.security.authorization import may_rename
from fakemssql.tsql.names import fold, literal, pg_name, quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.batches import Batch
from fakemssql.tsql.parser.lexer import tokenize
from fakemssql.tsql.parser.nodes import IndexDefinition, Name
from fakemssql.tsql.security import errors

_KEPT = (
    "PAD_INDEX",
    "ALLOW_ROW_LOCKS",
    "ALLOW_PAGE_LOCKS",
    "OPTIMIZE_FOR_SEQUENTIAL_KEY",
    "STATISTICS_NORECOMPUTE",
    "DATA_COMPRESSION",
)
"""Options of an index that the catalog shows; the others only affect how it is built."""


def create_index(d: Definer, node: IndexDefinition) -> None:
    if node.table[-1].startswith("#"):
        table = d.temporary_table(node.table)
        add_local_index(d, table, node)
        return
    table = d.indexed(node.table, 12)
    replaced = node.options.get("DROP_EXISTING") == "ON"
    number = _replaced(d, table, node) if replaced else None
    add_index(d, str(table.object_id), table, node, number=number)


def local_name(kind: str, table: TableInfo, name: str) -> str:
    """PostgreSQL name of an index (``ix``) or a check (``ck``) of a temporary table."""
    return pg_name(f"{kind}{-table.object_id}.{name}")


def add_local_index(d: Definer, table: TableInfo, index: IndexDefinition, constraint: str = "") -> None:
    """Make an index of a temporary table; its comment has its kind and name for error texts."""
    pg = local_name("ix", table, index.name)
    d.run(_index_sql(d, table, index, pg))
    kind = {"primary": "PRIMARY KEY", "unique": "UNIQUE KEY"}.get(constraint, "")
    d.run(f"COMMENT ON INDEX pg_temp.{quoted(pg)} IS {literal(f'{kind} {index.name}')}")


def _replaced(d: Definer, table: TableInfo, node: IndexDefinition) -> int | None:
    """Drop the index that CREATE INDEX ... DROP_EXISTING = ON replaces; returns its number if the new one keeps it."""
    old = next((index for index in table.indexes if fold(index.name) == fold(node.name)), None)
    if old is None:
        raise SqlError(7999, f"Could not find any index named '{node.name}' for table '{table.name}'.", state=9)
    if old.type == 1 and not node.clustered:
        raise SqlError(
            1925,
            "Cannot convert a clustered index to a nonclustered index using the DROP_EXISTING option.",
            state=2,
        )
    drop_index(d, table, node.name, False)
    return old.index_id if node.clustered == (old.type == 1) else None


def add_index(
    d: Definer,
    object_id: str,
    table: TableInfo,
    index: IndexDefinition,
    constraint: str = "",
    number: int | None = None,
) -> None:
    """Make an index, with the ``number`` of the one that it replaces, if any."""
    folded = fold(index.name)
    known = d.pg.query("SELECT folded, type FROM mssql.indexes WHERE object_id = $1::int", object_id)
    if any(row[0] == folded for row in known):
        raise SqlError(
            1913,
            f"The operation failed because an index or statistics with name '{index.name}' already exists on table"
            f" '{table.schema}.{table.name}'.",
        )
    if index.clustered and any(row[1] == "1" for row in known):
        raise SqlError(
            1902,
            "Cannot create more than one clustered index on table"
            f" '{table.schema}.{table.name}'. Drop the existing clustered"
            " index before creating another.",
            state=3,
        )
    pg = pg_name(f"ix{object_id}.{index.name}")
    d.run(_index_sql(d, table, index, pg))
    free = (
        "(SELECT greatest(max(index_id), 1) + 1 FROM (SELECT index_id FROM"
        f" mssql.indexes WHERE object_id = {object_id} UNION ALL SELECT 1) s)"
    )
    where = catalog_text(index.where, index.where_text, filtered=True) if index.where is not None else None
    d.run(
        "INSERT INTO mssql.indexes (object_id, index_id, name, folded, type,"
        " is_unique, is_primary_key, is_unique_constraint, filter, pg_name, fill_factor, options)"
        f" SELECT {object_id}, {1 if index.clustered else number or free}, {literal(index.name)},"
        f" {literal(folded)}, {1 if index.clustered else 2},"
        f" {sql_value(index.unique)}, {sql_value(constraint == 'primary')},"
        f" {sql_value(constraint == 'unique')}, {sql_value(where)}, {literal(pg)},"
        f" {int(index.options.get('FILLFACTOR', 0))}, {_kept(index.options)}"
    )
    _index_columns(d, object_id, table, index)


def _index_columns(d: Definer, object_id: str, table: TableInfo, index: IndexDefinition) -> None:
    rows = [
        (d.known(table, key.name).column_id, position, int(key.descending), 0)
        for position, key in enumerate(index.columns, 1)
    ]
    rows += [(d.known(table, name).column_id, 0, 0, 1) for name in index.include]
    for position, (column, ordinal, descending, included) in enumerate(rows, 1):
        d.run(
            "INSERT INTO mssql.index_columns (object_id, index_id,"
            " index_column_id, column_id, key_ordinal, descending, included)"
            f" SELECT object_id, index_id, {position}, {column}, {ordinal}, {descending}, {included} FROM mssql.indexes"
            f" WHERE object_id = {object_id} AND folded = {literal(fold(index.name))}"
        )


def drop_index(d: Definer, table: TableInfo, name: str, constraint: bool) -> bool:
    """Drop an index by name, that of a constraint only with ``constraint``; False if there is no such index."""
    rows = d.pg.query(
        "DELETE FROM mssql.indexes WHERE object_id = $1::int AND folded ="
        " $2 RETURNING pg_name, is_primary_key + is_unique_constraint, name",
        table.object_id,
        fold(name),
    )
    if not rows:
        return False
    if rows[0][1] != "0" and not constraint:
        raise SqlError(
            3723,
            "An explicit DROP INDEX is not allowed on index"
            f" '{table.schema}.{table.name}.{rows[0][2]}'. It is being used for"
            " PRIMARY KEY or UNIQUE KEY constraint enforcement.",
            state=4,
        )
    d.run(f"DROP INDEX IF EXISTS {_schema(table)}.{quoted(str(rows[0][0]))}")
    return True


def alter_index(d: Definer, node: nodes.AlterIndex) -> None:
    table = d.indexed(node.table, 9)
    chosen = [index for index in table.indexes if node.name is None or fold(index.name) == fold(node.name)]
    if node.name is not None and not chosen:
        raise SqlError(2727, f"Cannot find index '{node.name}'.", severity=11)
    if node.action == "disable":
        clustered = any(index.type == 1 for index in chosen)
        # Without its clustered index a table cannot be read: its other indexes are disabled as well.
        for index in table.indexes if clustered else chosen:
            if not index.disabled:
                d.run(f"DROP INDEX {_schema(table)}.{quoted(index.pg)}")
                d.run(_mark(table, index, True))
    elif node.action == "rebuild":
        for index in chosen:
            _rebuild(d, table, index, everything=node.name is None)
        if node.name is None or any(index.type == 1 for index in chosen):
            rewrite(d, table)
    elif node.action == "set":
        for index in chosen:
            if index.disabled and node.name is not None:
                raise _on_disabled(table, index)
    else:
        raise SqlError(40517, f"ALTER INDEX {node.action.upper()} is not supported by fakemssql.")
    if node.options:
        fill = f", fill_factor = {int(node.options['FILLFACTOR'])}" if "FILLFACTOR" in node.options else ""
        d.run(
            f"UPDATE mssql.indexes SET options = options || {_kept(node.options)}{fill} WHERE object_id ="
            f" {table.object_id} AND index_id IN ({', '.join(str(index.index_id) for index in chosen) or 'NULL'})"
        )


def _key_sql(d: Definer, table: TableInfo, key: nodes.KeyColumn, scope: Scope) -> str:
    """Key column of an index: text is folded as the collation compares it, and NULL sorts first, as on SQL Server."""
    info = d.known(table, key.name)
    if info.type.length == -1 or info.type.name in ("text", "ntext", "image", "xml"):
        raise SqlError(
            1919,
            f"Column '{info.name}' in table '{table.name}' is of a type"
            " that is invalid for use as a key column in an index.",
        )
    sql = scope.find(info.folded)[0].sql.replace(MARK + ".", "")
    if is_text(info.type):
        sql = f"(rtrim({sql}, ' '))" if info.binary else f"(mssql.f({sql}))"
    elif info.computed is not None:
        sql = f"({sql})"
    return f"{sql} {'DESC NULLS LAST' if key.descending else 'ASC NULLS FIRST'}"


def _index_sql(d: Definer, table: TableInfo, index: IndexDefinition, pg: str) -> str:
    """Statement CREATE INDEX for PostgreSQL."""
    compiler = compilation(d.environment())
    scope = table_scope(compiler, table, "", MARK)
    keys = ", ".join(_key_sql(d, table, key, scope) for key in index.columns)
    where = ""
    if index.where is not None:
        where = " WHERE " + compiler.predicate(index.where, Names([scope])).replace(MARK + ".", "")
        if compiler.parameters:
            raise SqlError(
                10735, f"Incorrect WHERE clause for filtered index '{index.name}' on table '{table.name}'.", severity=15
            )
    key_names = {d.known(table, key.name).pg for key in index.columns}
    # Wide columns do not fit into a PostgreSQL index row. INCLUDE only allows index-only reads, which is speed.
    included = [
        quoted(column.pg)
        for column in (d.known(table, name) for name in index.include)
        if column.computed is None and storage(column.type) not in ("text", "bytea") and column.pg not in key_names
    ]
    include = f" INCLUDE ({', '.join(included)})" if included else ""
    unique, distinct = ("UNIQUE ", " NULLS NOT DISTINCT") if index.unique else ("", "")
    return f"CREATE {unique}INDEX {quoted(pg)} ON {table.pg} USING btree ({keys}){include}{distinct}{where}"


def rewrite(d: Definer, table: TableInfo) -> None:
    """Rebuild a table and its indexes without the space of deleted rows.

    In a transaction PostgreSQL rebuilds only in the order of an index; an index with equal keys keeps the rows' order.
    """
    name = quoted(f"rebuild~{table.object_id}")
    d.run(f"CREATE INDEX {name} ON {table.pg} ((1))")
    d.run(f"CLUSTER {table.pg} USING {name}")
    d.run(f"DROP INDEX {_schema(table)}.{name}")


def _rebuild(d: Definer, table: TableInfo, index: IndexInfo, *, everything: bool) -> None:
    if not index.disabled:
        if index.type != 1:
            d.run(f"REINDEX INDEX {_schema(table)}.{quoted(index.pg)}")
        return
    if not everything and index.type != 1 and any(each.type == 1 and each.disabled for each in table.indexes):
        raise _on_disabled(table, index)
    d.run(_index_sql(d, table, _stored(d, table, index), index.pg))
    d.run(_mark(table, index, False))


def _on_disabled(table: TableInfo, index: IndexInfo) -> SqlError:
    return SqlError(
        1973,
        f"Cannot perform the specified operation on disabled index '{index.name}' on table"
        f" '{table.schema}.{table.name}'.",
    )


def _stored(d: Definer, table: TableInfo, index: IndexInfo) -> IndexDefinition:
    """Return the definition of an index, from the catalog."""
    place = (table.object_id, index.index_id)
    facts = d.pg.query(
        "SELECT is_unique, filter FROM mssql.indexes WHERE object_id = $1::int AND index_id = $2::int", *place
    )
    rows = d.pg.query(
        "SELECT c.name, k.descending, k.included FROM mssql.index_columns k JOIN mssql.columns c USING (object_id,"
        " column_id) WHERE k.object_id = $1::int AND k.index_id = $2::int ORDER BY k.index_column_id",
        *place,
    )
    unique, where = facts[0]
    keys = [nodes.KeyColumn(str(name), descending == "1") for name, descending, included in rows if included == "0"]
    definition = IndexDefinition(index.name, (), keys, unique == "1", index.type == 1)
    definition.include = [str(name) for name, _, included in rows if included == "1"]
    if where is not None:
        definition.where = Batch(where, tokenize(where)).predicate()
    return definition


def _schema(table: TableInfo) -> str:
    return table.pg[: table.pg.rindex('."')]


def update_statistics(d: Definer, node: nodes.UpdateStatistics) -> None:
    table = d.catalog.find(node.table, d.session.database)
    if table is None or table.type != "U":
        raise SqlError(2706, f"Table '{node.table[-1]}' does not exist.", severity=11, state=6)
    for name in node.names:
        if fold(name) not in {fold(index.name) for index in table.indexes}:
            raise SqlError(2767, f"Could not locate statistics '{name}' in the system catalogs.", severity=16, state=1)
    if node.row_count is not None:
        # Later inserts and deletes change the count from here on, as on SQL Server.
        d.run(
            f"UPDATE mssql.objects SET extra = extra || jsonb_build_object('rows_more', {node.row_count}"
            f" - (SELECT count(*) FROM {table.pg})) WHERE object_id = {table.object_id}"
        )
    d.run(f"ANALYZE {table.pg}")


def drop_named_index(d: Definer, node: nodes.Drop, name: Name) -> None:
    """``DROP INDEX name ON table``."""
    table = d.catalog.find(node.table, d.session.database)
    if table is None or table.type != "U" or not drop_index(d, table, name[-1], False):
        if node.if_exists:
            return
        raise errors.not_dropped("index", ".".join((*node.table, name[-1])), state=7)


def rename_index(d: Definer, name: Name, new: str, kind: str) -> None:
    """Rename an index; errors 15248, and 40517 for other objects."""
    if kind != "INDEX":
        raise SqlError(40517, f"sp_rename of a {kind} is not supported by fakemssql.")
    may_rename(d, name)
    table = d.catalog.find(name[:-1], d.session.database) if len(name) > 1 else None
    found = table.indexes if table is not None and table.type == "U" else ()
    index = next((each for each in found if fold(each.name) == fold(name[-1])), None)
    if table is None or index is None:
        raise SqlError(15248, "Either the parameter @objname is ambiguous or the claimed @objtype (INDEX) is wrong.")
    pg = pg_name(f"ix{table.object_id}.{new}")
    if pg != index.pg:
        d.run(f"ALTER INDEX IF EXISTS {_schema(table)}.{quoted(index.pg)} RENAME TO {quoted(pg)}")
    d.run(
        f"UPDATE mssql.indexes SET name = {literal(new)}, folded = {literal(fold(new))}, pg_name = {literal(pg)}"
        f" WHERE object_id = {table.object_id} AND index_id = {index.index_id}"
    )
    d.run(
        f"UPDATE mssql.objects SET name = {literal(new)}, folded = {literal(fold(new))}"
        f" WHERE parent_object_id = {table.object_id} AND folded = {literal(fold(name[-1]))} AND type IN ('PK', 'UQ')"
    )
    d.changed()


def _kept(options: dict[str, str]) -> str:
    return literal(json.dumps({key: value for key, value in options.items() if key in _KEPT})) + "::jsonb"


def _mark(table: TableInfo, index: IndexInfo, disabled: bool) -> str:
    return (
        f"UPDATE mssql.indexes SET disabled = {int(disabled)}"
        f" WHERE object_id = {table.object_id} AND index_id = {index.index_id}"
    )
