# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Indexes: CREATE, ALTER, DROP."""

from __future__ import annotations

import secrets

from airflow_sqlqueue.localdb.contract import SqlError
from airflow_sqlqueue.localdb.tsql.catalog.tables import TableInfo
from airflow_sqlqueue.localdb.tsql.definitions.metadata import shown, sql_value
from airflow_sqlqueue.localdb.tsql.definitions.objects import Objects, Place
from airflow_sqlqueue.localdb.tsql.definitions.texts import index_sql
from airflow_sqlqueue.localdb.tsql.names import fold, literal, pg_name, quoted
from airflow_sqlqueue.localdb.tsql.parser import nodes
from airflow_sqlqueue.localdb.tsql.parser.nodes import IndexDefinition, Name


class Indexes(Objects):
    """Creates, disables, rebuilds and drops indexes."""

    def _indexdefinition(self, node: IndexDefinition) -> None:
        if node.table[-1].startswith("#"):
            table = self.session.temporary.find(node.table)
            self.run(index_sql(self, table, node, pg_name(f"ix{secrets.token_hex(6)}"))[0])
            return
        table = self.indexed(node.table, 12)
        place = self.place((table.database, table.schema, table.name))
        if node.options.get("DROP_EXISTING") == "ON":
            self.drop_index(table, node.name, False)
        self.add_index(place, str(table.object_id), table, node)

    def add_index(
        self, place: Place, object_id: str, table: TableInfo, index: IndexDefinition, constraint: str = ""
    ) -> None:
        folded = fold(index.name)
        known = self.pg.query("SELECT folded, type FROM mssql.indexes WHERE object_id = $1::int", object_id)
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
        for key in index.columns:
            self.known(table, key.name)
        sql, _ = index_sql(self, table, index, pg)
        self.run(sql)
        number = (
            "1"
            if index.clustered
            else "(SELECT greatest(max(index_id), 1) + 1 FROM (SELECT index_id FROM"
            f" mssql.indexes WHERE object_id = {object_id} UNION ALL SELECT 1) s)"
        )
        where = shown(index.where_text) if index.where is not None else None
        self.run(
            "INSERT INTO mssql.indexes (object_id, index_id, name, folded, type,"
            " is_unique, is_primary_key, is_unique_constraint, filter, pg_name,"
            f" pg_definition) SELECT {object_id}, {number}, {literal(index.name)},"
            f" {literal(folded)}, {1 if index.clustered else 2},"
            f" {sql_value(index.unique)}, {sql_value(constraint == 'primary')},"
            f" {sql_value(constraint == 'unique')}, {sql_value(where)},"
            f" {literal(pg)}, {literal(sql)}"
        )
        self._index_columns(object_id, table, index)

    def _index_columns(self, object_id: str, table: TableInfo, index: IndexDefinition) -> None:
        rows = []
        position = 0
        for key in index.columns:
            position += 1
            rows.append((position, self.known(table, key.name).column_id, position, int(key.descending), 0))
        for name in index.include:
            position += 1
            rows.append((position, self.known(table, name).column_id, 0, 0, 1))
        for row in rows:
            self.run(
                "INSERT INTO mssql.index_columns (object_id, index_id,"
                " index_column_id, column_id, key_ordinal, descending, included)"
                f" SELECT object_id, index_id, {row[0]}, {row[1]}, {row[2]}, {row[3]}, {row[4]} FROM mssql.indexes"
                f" WHERE object_id = {object_id} AND folded = {literal(fold(index.name))}"
            )

    def drop_index(self, table: TableInfo, name: str, constraint: bool) -> bool:
        rows = self.pg.query(
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
        schema = table.pg[: table.pg.rindex('."')]
        self.run(f"DROP INDEX IF EXISTS {schema}.{quoted(str(rows[0][0]))}")
        return True

    def _alterindex(self, node: nodes.AlterIndex) -> None:
        table = self.indexed(node.table, 9)
        rows = self.pg.query(
            "SELECT name, pg_name, pg_definition, disabled, type FROM"
            " mssql.indexes WHERE object_id = $1::int AND ($2 = '' OR folded = $2)",
            table.object_id,
            fold(node.name or ""),
        )
        if node.name is not None and not rows:
            raise SqlError(2727, f"Cannot find index '{node.name}'.", severity=11)
        schema = table.pg[: table.pg.rindex('."')]
        for _, pg, definition, disabled, kind in rows:
            if node.action == "disable" and disabled == "0":
                if kind == "1":
                    raise SqlError(40517, "Disabling a clustered index is not supported by the local server.")
                self.run(f"DROP INDEX {schema}.{quoted(str(pg))}")
            elif node.action == "rebuild" and disabled == "1":
                self.run(str(definition))
        if node.action in ("disable", "rebuild"):
            self.run(
                f"UPDATE mssql.indexes SET disabled = {1 if node.action == 'disable' else 0}"
                f" WHERE object_id = {table.object_id}"
                f" AND ({literal(fold(node.name or ''))} = '' OR folded = {literal(fold(node.name or ''))})"
            )

    def drop_named_index(self, node: nodes.Drop, name: Name) -> None:
        table = self.catalog.find(node.table, self.session.database)
        if table is None or table.type != "U" or not self.drop_index(table, name[-1], False):
            if node.if_exists:
                return
            raise SqlError(
                3701,
                f"Cannot drop the index '{'.'.join((*node.table, name[-1]))}',"
                " because it does not exist or you do not have"
                " permission.",
                severity=11,
                state=7,
            )
