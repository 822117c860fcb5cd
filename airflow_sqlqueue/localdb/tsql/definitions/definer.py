# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Running data definition statements."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sqlqueue.localdb.contract import SqlError
from airflow_sqlqueue.localdb.tsql.catalog.catalog import ColumnInfo, TableInfo
from airflow_sqlqueue.localdb.tsql.compiler.expressions import Environment
from airflow_sqlqueue.localdb.tsql.compiler.modifications import Compiler
from airflow_sqlqueue.localdb.tsql.compiler.typed import Names
from airflow_sqlqueue.localdb.tsql.datatypes.sqltypes import is_text
from airflow_sqlqueue.localdb.tsql.definitions import columns as ddl
from airflow_sqlqueue.localdb.tsql.definitions.columns import object_row, sql_value
from airflow_sqlqueue.localdb.tsql.names import fold, literal, pg_name, quoted
from airflow_sqlqueue.localdb.tsql.parser import nodes
from airflow_sqlqueue.localdb.tsql.parser.nodes import Constraint, IndexDefinition, Name

if TYPE_CHECKING:
    from airflow_sqlqueue.localdb.tsql.runtime.session import Session


@dataclass
class Place:
    """Where an object of a name lives."""

    database_id: int
    database: str
    schema_id: int
    schema: str
    schema_pg: str
    name: str


class Definer:
    """Runs DDL for one session. Every method is called inside a PostgreSQL transaction."""

    def __init__(self, session: Session) -> None:
        self.session, self.pg, self.catalog = session, session.pg, session.catalog

    def environment(self) -> Environment:
        return Environment(self.catalog, self.session.database)

    def run(self, sql: str) -> None:
        self.pg.execute(sql)

    def value(self, sql: str) -> str:
        rows = self.pg.query(sql)
        return rows[0][0] or "" if rows else ""

    def place(self, name: Name) -> Place:
        """Resolve database and schema; errors 911 and 2760."""
        database, schema, table = self.catalog.split(name, self.session.database)
        entry = self.catalog.database(database)
        if entry is None:
            raise SqlError(911, f"Database '{database}' does not exist. Make sure that the name is entered correctly.")
        found = self.catalog.schema(database, schema)
        if found is None:
            raise SqlError(
                2760,
                f'The specified schema name "{schema}" either does not exist or you do not have permission to use it.',
            )
        return Place(entry[0], entry[1], found[0], found[1], found[2], table.rstrip(" "))

    def execute(self, node: nodes.Statement) -> None:
        """Run one DDL statement."""
        method = getattr(self, "_" + type(node).__name__.lower())
        method(node)
        self.catalog.forget()
        self.run("NOTIFY mssql_catalog")

    def target(self, name: Name, what: str = "table") -> TableInfo:
        found = self.catalog.find(name, self.session.database)
        if found is None or found.type != "U":
            raise SqlError(
                4902,
                f'Cannot find the object "{".".join(name)}" because it does not exist or you do not have permissions.',
            )
        return found

    # --- tables ----------------------------------------------------------------------------------------------------

    def _createtable(self, node: nodes.CreateTable) -> None:
        if node.name[-1].startswith("#"):
            self.session.temporary.create(node)
            return
        place = self.place(node.name)
        if place.schema.lower() in ("sys", "information_schema"):
            raise SqlError(
                2760,
                f'The specified schema name "{place.schema}" either does'
                " not exist or you do not have permission to use it.",
            )
        self._check_new(place)
        pg = pg_name(place.name)
        object_id = self.value(object_row((place.name,), "U", "0", pg, place.database_id, place.schema_id))
        table = TableInfo(
            place.name,
            place.schema,
            place.database,
            f"{quoted(place.schema_pg)}.{quoted(pg)}",
            [],
            object_id=int(object_id),
        )
        self._build(table, node, place, object_id)

    def _check_new(self, place: Place) -> None:
        found = self.value(
            "SELECT count(*) FROM mssql.objects WHERE database_id ="
            f" {place.database_id} AND schema_id = {place.schema_id}"
            f" AND folded = {literal(fold(place.name))}"
        )
        if found != "0":
            raise SqlError(2714, f"There is already an object named '{place.name}' in the database.", state=6)

    def _build(self, table: TableInfo, node: nodes.CreateTable, place: Place, object_id: str) -> None:
        primary = {fold(key.name) for c in node.constraints if c.kind == "primary" for key in c.columns}
        seen: set[str] = set()
        for number, definition in enumerate(node.columns, 1):
            if fold(definition.name) in seen:
                raise SqlError(
                    2705,
                    "Column names in each table must be unique. Column name"
                    f" '{definition.name}' in table '{place.name}' is specified more than once.",
                    state=3,
                )
            seen.add(fold(definition.name))
            if fold(definition.name) in primary:
                if definition.nullable:
                    raise SqlError(
                        8111, f"Cannot define PRIMARY KEY constraint on nullable column in table '{place.name}'."
                    )
                definition.nullable = False
            info = ddl.column_info(self, definition, number, [c for c in table.columns if c.computed is None])
            table.columns.append(info)
        if sum(column.identity for column in table.columns) > 1:
            raise SqlError(
                2744,
                f"Multiple identity columns specified for table '{place.name}'."
                " Only one identity column per table is allowed.",
                state=2,
            )
        pairs = list(zip(table.columns, node.columns, strict=True))
        stored = [ddl.column_sql(self, definition, info) for info, definition in pairs if definition.computed is None]
        if not stored:
            raise SqlError(40517, "A table without a stored column is not supported by the local server.")
        self.run(f"CREATE TABLE {table.pg} ({', '.join(stored)})")
        for sql in ddl.metadata_columns(object_id, pairs):
            self.run(sql)
        for info, definition in pairs:
            if definition.default is not None:
                self._default(place, object_id, table, info, definition.default[0], definition.default[2])
        for constraint in node.constraints:
            self._constraint(place, object_id, table, constraint)
        for index in node.indexes:
            self._index(place, object_id, table, index)

    def _default(self, place: Place, object_id: str, table: TableInfo, info: ColumnInfo, name: str, text: str) -> None:
        full = name or f"DF__{table.name[:9]}__{info.name[:5]}__{secrets.token_hex(4).upper()}"
        row = object_row(
            (full,),
            "D",
            object_id,
            None,
            place.database_id,
            place.schema_id,
            definition=ddl.shown(text),
            system_named=not name,
        )
        identifier = self.value(row)
        self.run(
            f"UPDATE mssql.columns SET default_object_id = {identifier}"
            f" WHERE object_id = {object_id} AND column_id = {info.column_id}"
        )

    def _constraint(self, place: Place, object_id: str, table: TableInfo, c: Constraint) -> None:
        if c.kind in ("primary", "unique"):
            prefix = "PK" if c.kind == "primary" else "UQ"
            name = c.name or f"{prefix}__{table.name[:9]}__{secrets.token_hex(8).upper()}"
            clustered = c.clustered if c.clustered is not None else c.kind == "primary"
            index = IndexDefinition(name, (), c.columns, True, clustered)
            self._check_named(place, name)
            self._index(place, object_id, table, index, c.kind)
            self.value(
                object_row(
                    (name,),
                    "PK" if c.kind == "primary" else "UQ",
                    object_id,
                    None,
                    place.database_id,
                    place.schema_id,
                    system_named=not c.name,
                )
            )
            return
        if c.kind == "check":
            name = c.name or f"CK__{table.name[:9]}__{secrets.token_hex(4).upper()}"
            self._check_named(place, name)
            compiler = Compiler(self.environment())
            assert c.expression is not None
            text = compiler.predicate(c.expression, Names([compiler.table_scope(table, table.name, ddl.MARK)])).replace(
                ddl.MARK + ".", ""
            )
            pg = pg_name(f"ck{object_id}.{name}")
            self.run(f"ALTER TABLE {table.pg} ADD CONSTRAINT {quoted(pg)} CHECK ({text})")
            self.value(
                object_row(
                    (name,),
                    "C",
                    object_id,
                    pg,
                    place.database_id,
                    place.schema_id,
                    definition=ddl.shown(c.text),
                    system_named=not c.name,
                )
            )
            return
        if c.kind == "default":
            assert c.expression is not None
            info = table.column(c.columns[0].name)
            if info is None:
                raise SqlError(
                    1752,
                    f"Column '{c.columns[0].name}' in table '{table.name}'"
                    " is invalid for creating a default constraint.",
                    state=0,
                )
            if info.default:
                raise SqlError(1781, "Column already has a DEFAULT bound to it.")
            self.run(
                f"ALTER TABLE {table.pg} ALTER COLUMN {quoted(info.pg)}"
                f" SET DEFAULT {ddl.default_sql(self, c.expression, info)}"
            )
            self._default(place, object_id, table, info, c.name, c.text)
            return
        self._foreign(place, object_id, table, c)

    def _check_named(self, place: Place, name: str) -> None:
        self._check_new(Place(place.database_id, place.database, place.schema_id, place.schema, place.schema_pg, name))

    def _foreign(self, place: Place, object_id: str, table: TableInfo, c: Constraint) -> None:
        other = self.catalog.find(c.reference, place.database)
        if fold(c.reference[-1]) == fold(table.name) and other is None:
            other = table
        if other is None or other.type != "U":
            raise SqlError(1767, f"Foreign key '{c.name}' references invalid table '{'.'.join(c.reference)}'.", state=0)
        name = c.name or f"FK__{table.name[:9]}__{secrets.token_hex(4).upper()}"
        self._check_named(place, name)
        own = [self._known(table, key.name) for key in c.columns]
        names = c.reference_columns
        if not names:
            rows = self.pg.query(
                "SELECT c.name FROM mssql.indexes i JOIN mssql.index_columns"
                " k USING (object_id, index_id) JOIN mssql.columns c"
                " USING (object_id, column_id) WHERE i.object_id ="
                " $1::int AND i.is_primary_key = 1 ORDER BY k.key_ordinal",
                other.object_id,
            )
            names = [str(row[0]) for row in rows]
        theirs = [self._known(other, name) for name in names]
        if any(is_text(column.type) for column in [*own, *theirs]):
            raise SqlError(40517, "A foreign key over text columns is not supported by the local server.")
        pg = pg_name(f"fk{object_id}.{name}")
        target = ", ".join(quoted(c.pg) for c in theirs)
        unique = pg_name(f"fk target {other.object_id} " + ",".join(c.pg for c in theirs))
        self.run(
            "DO $do$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conname"
            f" = {literal(unique)} AND conrelid = {literal(other.pg)}::regclass)"
            f" THEN ALTER TABLE {other.pg} ADD CONSTRAINT {quoted(unique)} UNIQUE ({target}); END IF; END $do$"
        )
        actions = (f" ON DELETE {c.on_delete}" if c.on_delete else "") + (
            f" ON UPDATE {c.on_update}" if c.on_update else ""
        )
        self.run(
            f"ALTER TABLE {table.pg} ADD CONSTRAINT {quoted(pg)} FOREIGN KEY ({', '.join(quoted(k.pg) for k in own)})"
            f" REFERENCES {other.pg} ({target}){actions}"
        )
        self.value(
            object_row(
                (name,),
                "F",
                object_id,
                pg,
                place.database_id,
                place.schema_id,
                system_named=not c.name,
                target=other.object_id,
            )
        )

    def _known(self, table: TableInfo, name: str) -> ColumnInfo:
        column = table.column(name)
        if column is None:
            raise SqlError(1911, f"Column name '{name}' does not exist in the target table or view.")
        return column

    # --- indexes ---------------------------------------------------------------------------------------------------

    def _indexdefinition(self, node: IndexDefinition) -> None:
        if node.table[-1].startswith("#"):
            table = self.session.temporary.find(node.table)
            self.run(ddl.index_sql(self, table, node, pg_name(f"ix{secrets.token_hex(6)}"))[0])
            return
        table = self.catalog.find(node.table, self.session.database)  # type: ignore[assignment]
        if table is None or table.type != "U":
            raise SqlError(
                1088,
                f'Cannot find the object "{".".join(node.table)}" because'
                " it does not exist or you do not have permissions.",
                state=12,
            )
        place = self.place((table.database, table.schema, table.name))
        if node.options.get("DROP_EXISTING") == "ON":
            self._drop_index(table, node.name, False)
        self._index(place, str(table.object_id), table, node)

    def _index(
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
            self._known(table, key.name)
        sql, _ = ddl.index_sql(self, table, index, pg)
        self.run(sql)
        number = (
            "1"
            if index.clustered
            else "(SELECT greatest(max(index_id), 1) + 1 FROM (SELECT index_id FROM"
            f" mssql.indexes WHERE object_id = {object_id} UNION ALL SELECT 1) s)"
        )
        where = ddl.shown(index.where_text) if index.where is not None else None
        self.run(
            "INSERT INTO mssql.indexes (object_id, index_id, name, folded, type,"
            " is_unique, is_primary_key, is_unique_constraint, filter, pg_name,"
            f" pg_definition) SELECT {object_id}, {number}, {literal(index.name)},"
            f" {literal(folded)}, {1 if index.clustered else 2},"
            f" {sql_value(index.unique)}, {sql_value(constraint == 'primary')},"
            f" {sql_value(constraint == 'unique')}, {sql_value(where)},"
            f" {literal(pg)}, {literal(sql)}"
        )
        rows = []
        position = 0
        for key in index.columns:
            position += 1
            rows.append((position, self._known(table, key.name).column_id, position, int(key.descending), 0))
        for name in index.include:
            position += 1
            rows.append((position, self._known(table, name).column_id, 0, 0, 1))
        for row in rows:
            self.run(
                "INSERT INTO mssql.index_columns (object_id, index_id,"
                " index_column_id, column_id, key_ordinal, descending, included)"
                f" SELECT object_id, index_id, {row[0]}, {row[1]}, {row[2]}, {row[3]}, {row[4]} FROM mssql.indexes"
                f" WHERE object_id = {object_id} AND folded = {literal(folded)}"
            )

    def _drop_index(self, table: TableInfo, name: str, constraint: bool) -> bool:
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
        table = self.catalog.find(node.table, self.session.database)
        if table is None or table.type != "U":
            raise SqlError(
                1088,
                f'Cannot find the object "{".".join(node.table)}" because'
                " it does not exist or you do not have permissions.",
                state=9,
            )
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

    # --- ALTER TABLE -----------------------------------------------------------------------------------------------

    def _altertable(self, node: nodes.AlterTable) -> None:
        table = self.target(node.name)
        place = self.place((table.database, table.schema, table.name))
        object_id = str(table.object_id)
        self.run(f"UPDATE mssql.objects SET modified = mssql.utcnow_dt() WHERE object_id = {object_id}")
        if node.action == "options":
            return
        if node.action in ("enable_trigger", "disable_trigger"):
            self._set_triggers(table, node.names[0][1], node.action == "enable_trigger")
        elif node.action == "add":
            self._add(node, table, place, object_id)
        elif node.action == "alter":
            self._alter_column(node.columns[0], table, object_id)
        else:
            for kind, name, exists in node.names:
                if kind == "COLUMN":
                    self._drop_column(table, name, exists)
                else:
                    self._drop_constraint(table, name, exists)

    def _add(self, node: nodes.AlterTable, table: TableInfo, place: Place, object_id: str) -> None:
        number = max((column.column_id for column in table.columns), default=0)
        for definition in node.columns:
            number += 1
            if table.column(definition.name) is not None:
                raise SqlError(
                    2705,
                    "Column names in each table must be unique. Column name"
                    f" '{definition.name}' in table '{table.name}' is specified more than once.",
                    state=4,
                )
            info = ddl.column_info(self, definition, number, [c for c in table.columns if c.computed is None])
            if definition.computed is None:
                bare = not info.nullable and definition.default is None and not info.identity
                if bare and self.value(f"SELECT EXISTS (SELECT 1 FROM {table.pg})") == "t":
                    raise SqlError(
                        4901,
                        "ALTER TABLE only allows columns to be added that"
                        " can contain nulls, or have a DEFAULT definition"
                        f" specified. Column '{info.name}' cannot be added to non-empty table '{table.name}'.",
                    )
                text = ddl.column_sql(self, definition, info)
                self.run(f"ALTER TABLE {table.pg} ADD COLUMN {text}")
                if definition.default is not None and info.nullable:
                    self.run(f"UPDATE {table.pg} SET {quoted(info.pg)} = NULL")
            for sql in ddl.metadata_columns(object_id, [(info, definition)]):
                self.run(sql)
            table.columns.append(info)
            if definition.default is not None:
                self._default(place, object_id, table, info, definition.default[0], definition.default[2])
        for constraint in node.constraints:
            if constraint.kind == "primary":
                for key in constraint.columns:
                    if self._known(table, key.name).nullable:
                        raise SqlError(
                            8111, f"Cannot define PRIMARY KEY constraint on nullable column in table '{table.name}'."
                        )
            self._constraint(place, object_id, table, constraint)
        for index in node.indexes:
            self._index(place, object_id, table, index)

    def _alter_column(self, definition: nodes.ColumnDefinition, table: TableInfo, object_id: str) -> None:
        from airflow_sqlqueue.localdb.tsql.compiler.convert import convert
        from airflow_sqlqueue.localdb.tsql.compiler.typed import Typed
        from airflow_sqlqueue.localdb.tsql.datatypes.sqltypes import storage

        old = table.column(definition.name)
        if old is None:
            raise SqlError(
                4924,
                "ALTER TABLE ALTER COLUMN failed because column"
                f" '{definition.name}' does not exist in table '{table.name}'.",
            )
        assert definition.type is not None
        kind = definition.type
        nullable = definition.nullable is not False
        column = quoted(old.pg)
        value = convert(
            Typed(column, old.type), kind, "assign", place=f"table '{table.full_name}', column '{old.name}'"
        ).sql
        steps = [f"ALTER COLUMN {column} DROP DEFAULT"] if old.default and storage(kind) != storage(old.type) else []
        steps.append(f"ALTER COLUMN {column} TYPE {storage(kind)} USING {value}")
        steps.append(f"ALTER COLUMN {column} {'DROP' if nullable else 'SET'} NOT NULL")
        self.run(f"ALTER TABLE {table.pg} {', '.join(steps)}")
        self.run(
            f"UPDATE mssql.columns SET type_name = {literal(kind.name)},"
            f" length = {sql_value(kind.length)}, num_precision ="
            f" {sql_value(kind.precision)}, num_scale = {sql_value(kind.scale)}, nullable = {sql_value(nullable)},"
            f" collation_name = {sql_value(ddl._collation(kind, definition))}"
            f" WHERE object_id = {object_id} AND column_id = {old.column_id}"
        )

    def _drop_column(self, table: TableInfo, name: str, exists: bool) -> None:
        column = table.column(name)
        if column is None:
            if exists:
                return
            raise SqlError(
                4924, f"ALTER TABLE DROP COLUMN failed because column '{name}' does not exist in table '{table.name}'."
            )
        users = self.pg.query(
            "SELECT COALESCE((SELECT i.name FROM mssql.index_columns k JOIN mssql.indexes i USING (object_id, index_id)"
            " WHERE k.object_id = $1::int AND k.column_id = $2::int LIMIT"
            " 1), (SELECT o.name FROM mssql.objects o JOIN mssql.columns c"
            " ON c.default_object_id = o.object_id WHERE c.object_id = $1::int AND c.column_id = $2::int))",
            table.object_id,
            column.column_id,
        )
        if users and users[0][0] is not None:
            self.session.info(SqlError(5074, f"The object '{users[0][0]}' is dependent on column '{column.name}'."))
            raise SqlError(
                4922,
                f"ALTER TABLE DROP COLUMN {column.name} failed because one or more objects access this column.",
                state=9,
            )
        if column.computed is None:
            self.run(f"ALTER TABLE {table.pg} DROP COLUMN {quoted(column.pg)}")
        self.run(f"DELETE FROM mssql.columns WHERE object_id = {table.object_id} AND column_id = {column.column_id}")

    def _drop_constraint(self, table: TableInfo, name: str, exists: bool) -> None:
        rows = self.pg.query(
            "DELETE FROM mssql.objects WHERE parent_object_id = $1::int"
            " AND folded = $2 AND type IN ('PK', 'UQ', 'C', 'F', 'D')"
            " RETURNING type, pg_name, object_id",
            table.object_id,
            fold(name),
        )
        if not rows:
            if exists:
                return
            raise SqlError(3728, f"'{name}' is not a constraint.")
        kind, pg, identifier = rows[0]
        if kind in ("PK", "UQ"):
            self._drop_index(table, name, True)
        elif kind == "D":
            changed = self.pg.query(
                "UPDATE mssql.columns SET default_object_id = 0 WHERE default_object_id = $1::int RETURNING pg_name",
                identifier,
            )
            self.run(f"ALTER TABLE {table.pg} ALTER COLUMN {quoted(str(changed[0][0]))} DROP DEFAULT")
        else:
            self.run(f"ALTER TABLE {table.pg} DROP CONSTRAINT {quoted(str(pg))}")

    # --- DROP ------------------------------------------------------------------------------------------------------

    def _drop(self, node: nodes.Drop) -> None:
        for name in node.names:
            if node.kind == "INDEX":
                self._drop_named_index(node, name)
            elif node.kind == "SCHEMA":
                self._drop_schema(name[-1], node.if_exists)
            elif node.kind == "DATABASE":
                self._drop_database(name[-1], node.if_exists)
            else:
                self._drop_object(node.kind, name, node.if_exists)

    def _drop_named_index(self, node: nodes.Drop, name: Name) -> None:
        table = self.catalog.find(node.table, self.session.database)
        if table is None or table.type != "U" or not self._drop_index(table, name[-1], False):
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

    def _drop_object(self, kind: str, name: Name, exists: bool) -> None:
        if kind == "TABLE" and name[-1].startswith("#"):
            self.session.temporary.drop(name, exists)
            return
        codes = {
            "TABLE": "U",
            "VIEW": "V",
            "PROCEDURE": "P",
            "SYNONYM": "SN",
            "TRIGGER": "TR",
            "SEQUENCE": "SO",
            "FUNCTION": "FN",
        }
        database, schema, table = self.catalog.split(name, self.session.database)
        rows = self.pg.query(
            "SELECT o.object_id, o.pg_name, s.pg_name, o.type FROM"
            " mssql.objects o JOIN mssql.schemas s USING (database_id, schema_id)"
            " JOIN mssql.databases d USING (database_id) WHERE d.folded = $1 AND s.folded = $2 AND o.folded = $3",
            fold(database),
            fold(schema),
            fold(table),
        )
        if not rows or rows[0][3] != codes[kind]:
            if exists and not rows:
                return
            if rows and rows[0][3] != codes[kind]:
                raise SqlError(
                    3705,
                    f"Cannot use DROP {kind} with '{'.'.join(name)}'"
                    f" because '{'.'.join(name)}' is another kind of object.",
                )
            raise SqlError(
                3701,
                f"Cannot drop the {kind.lower()} '{'.'.join(name)}',"
                " because it does not exist or you do not have permission.",
                severity=11,
                state=5,
            )
        identifier, pg, schema_pg, _ = rows[0]
        if kind == "TABLE":
            referencing = self.value(
                "SELECT count(*) FROM mssql.objects WHERE type = 'F' AND"
                f" extra->>'target' = '{identifier}' AND parent_object_id <> {identifier}"
            )
            if referencing != "0":
                raise SqlError(
                    3726,
                    f"Could not drop object '{'.'.join(name)}' because it is referenced by a FOREIGN KEY constraint.",
                )
            self.session.keep_identities()
            self.run(f"DROP TABLE {quoted(str(schema_pg))}.{quoted(str(pg))}")
        elif kind == "SEQUENCE":
            self.run(f"DROP SEQUENCE {quoted(str(schema_pg))}.{quoted(str(pg))}")
        self.run(f"DELETE FROM mssql.objects WHERE object_id = {identifier} OR parent_object_id = {identifier}")
        if kind == "TRIGGER":
            self._refresh_triggers()

    def _drop_schema(self, name: str, exists: bool) -> None:
        found = self.catalog.schema(self.session.database, name)
        entry = self.catalog.database(self.session.database)
        assert entry is not None
        if found is None:
            if exists:
                return
            raise SqlError(
                15151, f"Cannot drop the schema '{name}', because it does not exist or you do not have permission."
            )
        if found[0] in (1, 3, 4):
            raise SqlError(15150, f"Cannot drop the schema '{name}'.")
        inside = self.pg.query(
            "SELECT name FROM mssql.objects WHERE database_id = $1::int AND schema_id = $2::int LIMIT 1",
            entry[0],
            found[0],
        )
        if inside:
            raise SqlError(
                3729, f"Cannot drop schema '{name}' because it is being referenced by object '{inside[0][0]}'."
            )
        self.run(f"DELETE FROM mssql.schemas WHERE database_id = {entry[0]} AND schema_id = {found[0]}")
        self.run(f"DROP SCHEMA {quoted(found[2])}")

    def _drop_database(self, name: str, exists: bool) -> None:
        entry = self.catalog.database(name)
        if entry is None:
            if exists:
                return
            raise SqlError(
                3701,
                f"Cannot drop the database '{name}', because it does not exist or you do not have permission.",
                severity=11,
            )
        if fold(name) == fold(self.session.database):
            raise SqlError(3702, f'Cannot drop database "{name}" because it is currently in use.', state=3)
        if entry[0] < 5:
            raise SqlError(3708, f"Cannot drop the database '{name}' because it is a system database.")
        for (pg,) in self.pg.query("SELECT pg_name FROM mssql.schemas WHERE database_id = $1::int", entry[0]):
            self.run(f"DROP SCHEMA {quoted(str(pg))} CASCADE")
        self.run(f"DELETE FROM mssql.objects WHERE database_id = {entry[0]}")
        self.run(f"DELETE FROM mssql.databases WHERE database_id = {entry[0]}")

    # --- the rest --------------------------------------------------------------------------------------------------

    def _createschema(self, node: nodes.CreateSchema) -> None:
        entry = self.catalog.database(self.session.database)
        assert entry is not None
        if self.catalog.schema(self.session.database, node.name) is not None:
            raise SqlError(2714, f"There is already an object named '{node.name}' in the database.", state=6)
        create_schema(self.run, entry[0], node.name)

    def _createdatabase(self, node: nodes.CreateDatabase) -> None:
        if self.catalog.database(node.name) is not None:
            raise SqlError(1801, f"Database '{node.name}' already exists. Choose a different database name.", state=3)
        create_database(self.run, self.value, node.name)

    def _alterdatabase(self, node: nodes.AlterDatabase) -> None:
        name = node.name or self.session.database
        if self.catalog.database(name) is None:
            raise SqlError(
                5011,
                f"User does not have permission to alter database '{name}', the database"
                " does not exist, or the database is not in a state that allows access checks.",
                severity=14,
                state=5,
            )
        text = " ".join(node.options)
        if text.startswith(
            (
                "READ_COMMITTED_SNAPSHOT ON",
                "ALLOW_SNAPSHOT_ISOLATION ON",
                "RECOVERY ",
                "MULTI_USER",
                "COMPATIBILITY_LEVEL",
            )
        ):
            return
        raise SqlError(40517, f"ALTER DATABASE ... SET {text} is not supported by the local server.")

    def _createsynonym(self, node: nodes.CreateSynonym) -> None:
        place = self.place(node.name)
        self._check_new(place)
        self.value(
            object_row(
                (place.name,),
                "SN",
                "0",
                None,
                place.database_id,
                place.schema_id,
                definition=node.target_text,
                target=list(node.target),
            )
        )

    def _createview(self, node: nodes.CreateView) -> None:
        place = self.place(node.name)
        found = self.catalog.find(node.name, self.session.database)
        if found is not None and found.type == "V" and node.mode != "create":
            self.run(f"DELETE FROM mssql.objects WHERE object_id = {found.object_id}")
        elif node.mode == "alter":
            raise SqlError(208, f"Invalid object name '{'.'.join(node.name)}'.", state=6)
        else:
            self._check_new(place)
        compiler = Compiler(self.environment())
        compiled = compiler.compile_query(node.query, None)
        names = node.columns or [column.name for column in compiled.columns]
        if compiler.parameters:
            raise SqlError(40517, "A view that depends on the session is not supported by the local server.")
        infos = []
        for number, (name, value) in enumerate(zip(names, compiled.columns, strict=True), 1):
            if not name:
                raise SqlError(
                    4511, f"Create View or Function failed because no column name was specified for column {number}."
                )
            assert value.type is not None
            infos.append(
                (
                    ColumnInfo(name, f"c{number}", value.type, value.nullable, column_id=number),
                    nodes.ColumnDefinition(name, value.type),
                )
            )
        text = node.text if node.mode != "alter" else node.text.replace("ALTER", "CREATE", 1)
        object_id = self.value(
            object_row((place.name,), "V", "0", None, place.database_id, place.schema_id, definition=text)
        )
        for sql in ddl.metadata_columns(object_id, infos):
            self.run(sql)

    def _createmodule(self, node: nodes.CreateModule) -> None:
        place = self.place(node.name)
        code = "TR" if node.kind == "TRIGGER" else "P"
        rows = self.pg.query(
            "SELECT object_id, type FROM mssql.objects WHERE database_id"
            " = $1::int AND schema_id = $2::int AND folded = $3",
            place.database_id,
            place.schema_id,
            fold(place.name),
        )
        if rows and rows[0][1] == code and node.mode != "create":
            self.run(f"DELETE FROM mssql.objects WHERE object_id = {rows[0][0]}")
        elif node.mode == "alter":
            raise SqlError(208, f"Invalid object name '{'.'.join(node.name)}'.", state=6)
        else:
            self._check_new(place)
        parent, extra = "0", {}
        if node.kind == "TRIGGER":
            table = self.catalog.find(node.table, self.session.database)
            if table is None or table.type != "U":
                raise SqlError(
                    8197,
                    f"The object '{'.'.join(node.table)}' does not exist or is invalid for this operation.",
                    state=4,
                )
            parent = str(table.object_id)
            idle = all(isinstance(s, nodes.SetOption | nodes.Return | nodes.Declare) for s in node.body or [])
            extra = {"events": [] if idle else node.events}
        text = node.text.replace("ALTER", "CREATE", 1) if node.mode == "alter" else node.text
        self.value(
            object_row((place.name,), code, parent, None, place.database_id, place.schema_id, definition=text, **extra)
        )
        self._refresh_triggers()

    def _refresh_triggers(self) -> None:
        """Keep in a table's row which events have enabled triggers whose bodies cannot run."""
        self.run(
            "UPDATE mssql.objects o SET extra = o.extra ||"
            " jsonb_build_object('trigger_events', COALESCE((SELECT jsonb_agg(DISTINCT e)"
            " FROM mssql.objects t, jsonb_array_elements(t.extra->'events')"
            " e WHERE t.parent_object_id = o.object_id AND t.type = 'TR'"
            " AND t.disabled = 0), '[]')) WHERE o.type = 'U' AND (o.extra"
            " ? 'trigger_events' OR EXISTS (SELECT 1 FROM mssql.objects t"
            " WHERE t.parent_object_id = o.object_id AND t.type = 'TR'))"
        )

    def _triggerstate(self, node: nodes.TriggerState) -> None:
        self._set_triggers(self.target(node.table), node.name, node.enabled)

    def _set_triggers(self, table: TableInfo, name: str, enabled: bool) -> None:
        rows = self.pg.query(
            "UPDATE mssql.objects SET disabled = $3::smallint WHERE parent_object_id"
            " = $1::int AND type = 'TR' AND ($2 = '' OR folded = $2)"
            " RETURNING 1",
            table.object_id,
            fold(name),
            0 if enabled else 1,
        )
        if not rows and name:
            raise SqlError(
                4920, f"ALTER TABLE failed because trigger '{name}' on table '{table.name}' does not exist.", state=0
            )
        self._refresh_triggers()

    def rename(self, name: Name, new: str, kind: str) -> None:
        """sp_rename of a table, column or index. PostgreSQL's own names follow."""
        if kind in ("COLUMN", "INDEX"):
            table = self.catalog.find(name[:-1], self.session.database) if len(name) > 1 else None
            if table is None or table.type != "U":
                raise SqlError(
                    15248, f"Either the parameter @objname is ambiguous or the claimed @objtype ({kind}) is wrong."
                )
            if kind == "COLUMN":
                column = table.column(name[-1])
                if column is None:
                    raise SqlError(
                        15248, f"Either the parameter @objname is ambiguous or the claimed @objtype ({kind}) is wrong."
                    )
                if column.computed is None and column.pg != pg_name(new):
                    self.run(f"ALTER TABLE {table.pg} RENAME COLUMN {quoted(column.pg)} TO {quoted(pg_name(new))}")
                self.run(
                    f"UPDATE mssql.columns SET name = {literal(new)}, folded ="
                    f" {literal(fold(new))}, pg_name = {literal(pg_name(new))}"
                    f" WHERE object_id = {table.object_id} AND column_id = {column.column_id}"
                )
            else:
                rows = self.pg.query(
                    "UPDATE mssql.indexes SET name = $3, folded = $4"
                    " WHERE object_id = $1::int AND folded = $2 RETURNING 1",
                    table.object_id,
                    fold(name[-1]),
                    new,
                    fold(new),
                )
                if not rows:
                    raise SqlError(
                        15248, f"Either the parameter @objname is ambiguous or the claimed @objtype ({kind}) is wrong."
                    )
        elif kind == "OBJECT":
            table = self.catalog.find(name, self.session.database)
            if table is None or table.type != "U":
                raise SqlError(
                    15225,
                    f"No item by the name of '{'.'.join(name)}' could be found in the current database"
                    f" '{self.session.database}', given that @itemtype was input as '(null)'.",
                )
            place = self.place((table.database, table.schema, new))
            self._check_new(place)
            self.run(f"ALTER TABLE {table.pg} RENAME TO {quoted(pg_name(new))}")
            self.run(
                f"UPDATE mssql.objects SET name = {literal(new)}, folded ="
                f" {literal(fold(new))}, pg_name = {literal(pg_name(new))},"
                f" modified = mssql.utcnow_dt() WHERE object_id = {table.object_id}"
            )
            # The text kept to rebuild a disabled index names the table by its PostgreSQL name.
            schema = table.pg[: table.pg.rindex('."')]
            self.run(
                f"UPDATE mssql.indexes SET pg_definition = replace(pg_definition, {literal(' ON ' + table.pg + ' ')},"
                f" {literal(' ON ' + schema + '.' + quoted(pg_name(new)) + ' ')}) WHERE object_id = {table.object_id}"
            )
        else:
            raise SqlError(40517, f"sp_rename of a {kind} is not supported by the local server.")
        self.catalog.forget()
        self.run("NOTIFY mssql_catalog")

    def _createsequence(self, node: nodes.CreateSequence) -> None:
        place = self.place(node.name)
        self._check_new(place)
        pg = pg_name(place.name)
        low = {"bigint": -9223372036854775808, "int": -2147483648, "smallint": -32768, "tinyint": 0}.get(
            node.type.name, 0
        )
        start = node.start if node.start is not None else low
        from airflow_sqlqueue.localdb.tsql.datatypes.sqltypes import storage

        self.run(
            f"CREATE SEQUENCE {quoted(place.schema_pg)}.{quoted(pg)} AS"
            f" {storage(node.type)} INCREMENT {node.increment} MINVALUE {low} START {start}"
        )
        self.value(object_row((place.name,), "SO", "0", pg, place.database_id, place.schema_id, type=node.type.name))


def create_schema(run, database_id: int, name: str, schema_id: int | None = None) -> None:  # type: ignore[no-untyped-def]
    """A schema of a database and the PostgreSQL schema that holds its objects."""
    pg = pg_name(f"{database_id}.{name}")
    number = (
        schema_id
        if schema_id is not None
        else f"(SELECT greatest(max(schema_id), 4) + 1 FROM mssql.schemas WHERE database_id = {database_id})"
    )
    run(
        "INSERT INTO mssql.schemas (database_id, schema_id, name, folded,"
        f" pg_name) SELECT {database_id}, {number}, {literal(name)},"
        f" {literal(fold(name))}, {literal(pg)}"
    )
    run(f"CREATE SCHEMA {quoted(pg)}")


def create_database(run, value, name: str, database_id: int | None = None) -> None:  # type: ignore[no-untyped-def]
    """A database with its fixed schemas."""
    number = str(database_id) if database_id is not None else value("SELECT nextval('mssql.database_ids')")
    run(
        "INSERT INTO mssql.databases (database_id, name, folded)"
        f" VALUES ({number}, {literal(name)}, {literal(fold(name))})"
    )
    for schema_id, schema in ((1, "dbo"), (2, "guest"), (3, "INFORMATION_SCHEMA"), (4, "sys")):
        create_schema(run, int(number), schema, schema_id)
