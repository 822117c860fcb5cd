# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Definer: objects by name for all definitions, with the errors for missing and existing ones."""

from __future__ import annotations

from dataclasses import dataclass

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import ColumnInfo, TableInfo
from fakemssql.tsql.compiler.environment import Environment
from fakemssql.tsql.names import fold, literal
from fakemssql.tsql.parser.nodes import Name
from fakemssql.tsql.security import errors
from fakemssql.tsql.state import SessionState


@dataclass
class ObjectPlace:
    """Database and schema of an object, and its name."""

    database_id: int
    database: str
    schema_id: int
    schema: str
    schema_pg: str
    name: str


class Definer:
    """Data definition for one session. The caller has a PostgreSQL transaction open."""

    def __init__(self, session: SessionState) -> None:
        self.session, self.pg, self.catalog = session, session.pg, session.catalog

    def changed(self) -> None:
        """Have all sessions read the catalog again."""
        self.catalog.forget()
        self.catalog.is_changed = True
        self.run("NOTIFY mssql_catalog")

    @property
    def database_id(self) -> int:
        """Id of the current database."""
        entry = self.catalog.database(self.session.database)
        assert entry is not None
        return entry[0]

    def environment(self) -> Environment:
        return Environment(self.catalog, self.session.database)

    def run(self, sql: str) -> None:
        self.pg.execute(sql)

    def value(self, sql: str) -> str:
        rows = self.pg.query(sql)
        return rows[0][0] or "" if rows else ""

    def place(self, name: Name) -> ObjectPlace:
        """Resolve database and schema of a name; errors 911 and 2760."""
        database, schema, table = self.catalog.split(name, self.session.database)
        entry = self.catalog.database(database)
        if entry is None:
            raise errors.no_database(database)
        found = self.catalog.schema(database, schema)
        if found is None:
            raise errors.no_schema(schema)
        return ObjectPlace(entry[0], entry[1], found[0], found[1], found[2], table.rstrip(" "))

    def located(self, name: Name) -> list[list[str | None]]:
        """Id, PostgreSQL's name and schema, type, schema's id and parent of the object or synonym of a name.

        A name without a schema is looked up in the default schema, then in dbo. No row if there is no such object.
        """
        database, schema, table = self.catalog.split(name, self.session.database)
        for each in dict.fromkeys((schema, schema if len(name) > 1 and name[-2] else "dbo")):
            rows = self.pg.query(
                "SELECT o.object_id, o.pg_name, s.pg_name, o.type, o.schema_id, o.parent_object_id FROM"
                " mssql.objects o JOIN mssql.schemas s USING (database_id, schema_id)"
                " JOIN mssql.databases d USING (database_id) WHERE d.folded = $1 AND s.folded = $2 AND o.folded = $3",
                fold(database),
                fold(each),
                fold(table),
            )
            if rows:
                return rows
        return []

    def temporary_table(self, name: Name) -> TableInfo:
        """Temporary table of the connection; error 208."""
        table = self.catalog.temporary.get(fold(name[-1]))
        if table is None:
            raise SqlError(208, f"Invalid object name '{name[-1]}'.", state=0)
        return table

    def target(self, name: Name) -> TableInfo:
        """Table of ALTER TABLE; errors 4902 and 4909."""
        found = self.catalog.named(name, self.session.database)
        if found is not None and found.type != "U":
            raise SqlError(4909, f"Cannot alter '{'.'.join(name)}' because it is not a table.")
        if found is None:
            raise errors.no_object(".".join(name), 1, 4902)
        return found

    def check_new(self, place: ObjectPlace, name: str = "") -> None:
        """Error 2714 if the schema of ``place`` has an object of its name, or of another ``name``."""
        found = self.value(
            f"SELECT count(*) FROM mssql.objects WHERE database_id = {place.database_id} AND schema_id ="
            f" {place.schema_id} AND folded = {literal(fold(name or place.name))}"
        )
        if found != "0":
            raise errors.object_exists(name or place.name)

    def indexed(self, name: Name, state: int) -> TableInfo:
        """Table of an index statement; errors 1088 and 1914."""
        table = self.catalog.named(name, self.session.database)
        if table is not None and table.type not in ("U", "V"):
            raise SqlError(
                1914,
                f"Index cannot be created on object '{'.'.join(name)}' because the object is not a user table or view.",
            )
        if table is not None and table.type == "V":
            raise SqlError(40517, "An index on a view is not supported by fakemssql.")
        if table is None:
            raise errors.no_object(".".join(name), state)
        return table

    def known(self, table: TableInfo, name: str) -> ColumnInfo:
        column = table.column(name)
        if column is None:
            raise SqlError(1911, f"Column name '{name}' does not exist in the target table or view.")
        return column
