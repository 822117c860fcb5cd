# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Databases and schemas: their metadata, and a PostgreSQL schema for each schema."""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.contract import SqlError
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.names import fold, literal, pg_name, quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.security import errors
from fakemssql.tsql.security.context import PRINCIPAL

_SETTINGS = {
    "READ_COMMITTED_SNAPSHOT OFF": ("read_committed_snapshot", 0),
    "READ_COMMITTED_SNAPSHOT ON": ("read_committed_snapshot", 1),
    "ALLOW_SNAPSHOT_ISOLATION OFF": ("snapshot_isolation", 0),
    "ALLOW_SNAPSHOT_ISOLATION ON": ("snapshot_isolation", 1),
    "DELAYED_DURABILITY DISABLED": ("delayed_durability", 0),
    "DELAYED_DURABILITY ALLOWED": ("delayed_durability", 1),
    "DELAYED_DURABILITY FORCED": ("delayed_durability", 2),
}
"""Options of a database, each with its column in the metadata and its value there."""

_FIXED = (1, 2)
"""Ids of master and tempdb, whose options cannot be changed, except ALLOW_SNAPSHOT_ISOLATION."""

_SNAPSHOT = (1, 4)
"""Ids of master and msdb, which are made with ALLOW_SNAPSHOT_ISOLATION ON."""


def drop_schema(d: Definer, name: str, exists: bool) -> None:
    found = d.catalog.schema(d.session.database, name)
    entry = d.catalog.database(d.session.database)
    assert entry is not None
    if found is None:
        if exists:
            return
        raise errors.missing("schema", name, "drop")
    if found[0] in (1, 3, 4):
        raise SqlError(15150, f"Cannot drop the schema '{name}'.")
    inside = d.pg.query(
        "SELECT name FROM mssql.objects WHERE database_id = $1::int AND schema_id = $2::int LIMIT 1",
        entry[0],
        found[0],
    )
    if inside:
        raise SqlError(3729, f"Cannot drop schema '{name}' because it is being referenced by object '{inside[0][0]}'.")
    d.run(f"DELETE FROM mssql.schemas WHERE database_id = {entry[0]} AND schema_id = {found[0]}")
    d.run(f"DROP SCHEMA {quoted(found[2])}")


def drop_database(d: Definer, name: str, exists: bool) -> None:
    entry = d.catalog.database(name)
    if entry is None:
        if exists:
            return
        raise errors.not_dropped("database", name)
    if fold(name) == fold(d.session.database):
        raise SqlError(3702, f'Cannot drop database "{name}" because it is currently in use.', state=3)
    if entry[0] < 5:
        raise SqlError(3708, f"Cannot drop the database '{name}' because it is a system database.")
    for (pg,) in d.pg.query("SELECT pg_name FROM mssql.schemas WHERE database_id = $1::int", entry[0]):
        d.run(f"DROP SCHEMA {quoted(str(pg))} CASCADE")
    d.run(f"DELETE FROM mssql.objects WHERE database_id = {entry[0]}")
    d.run(f"DELETE FROM mssql.databases WHERE database_id = {entry[0]}")


def define_schema(d: Definer, node: nodes.CreateSchema) -> None:
    entry = d.catalog.database(d.session.database)
    assert entry is not None
    if d.catalog.schema(d.session.database, node.name) is not None:
        raise errors.object_exists(node.name)
    owner = d.session.security.identity(d.session.database).user_id
    if node.owner is not None:
        owner = _schema_owner(d, entry[0], node.owner)
    create_schema(d.run, entry[0], node.name, owner=owner)


def _schema_owner(d: Definer, database_id: int, name: str) -> int:
    """Return the id of the owner of a new schema; another owner than the user needs CONTROL on that principal."""
    rows = d.pg.query(
        "SELECT principal_id FROM mssql.principals WHERE database_id = $1::int AND folded = $2",
        database_id,
        fold(name),
    )
    security = d.session.security
    number = int(rows[0][0] or 0) if rows else 0
    own = number == security.identity(d.session.database).user_id
    if not rows or not (own or security.allowed(d.session.database, PRINCIPAL, number, "CONTROL")):
        raise errors.missing("user", name)
    return number


def define_database(d: Definer, node: nodes.CreateDatabase) -> None:
    if d.catalog.database(node.name) is not None:
        raise errors.database_exists(node.name)
    create_database(d.run, d.value, node.name)
    owner = d.session.security.account.login_id
    d.run(f"UPDATE mssql.databases SET owner_id = {owner} WHERE folded = {literal(fold(node.name))}")


def alter_database(d: Definer, node: nodes.AlterDatabase) -> None:
    name = node.name or d.session.database
    entry = d.catalog.database(name)
    if entry is None:
        raise errors.unalterable_database(name)
    text = " ".join(node.options)
    # DELAYED_DURABILITY has an equals sign before its value, unlike READ_COMMITTED_SNAPSHOT.
    setting = _SETTINGS.get(" ".join([word for word in node.options if word != "="][:2]))
    if setting is not None:
        column, value = setting
        if entry[0] in _FIXED and column != "snapshot_isolation":
            raise SqlError(5058, f"Option '{node.options[0]}' cannot be set in database '{entry[1]}'.")
        d.run(f"UPDATE mssql.databases SET {column} = {value} WHERE database_id = {entry[0]}")
        return
    if text.startswith(("RECOVERY ", "MULTI_USER", "COMPATIBILITY_LEVEL")):
        return
    raise SqlError(40517, f"ALTER DATABASE ... SET {text} is not supported by fakemssql.")


def create_schema(
    run: Callable[[str], object], database_id: int, name: str, schema_id: int | None = None, owner: int = 1
) -> None:
    """Make a schema of a database, with the PostgreSQL schema for its objects."""
    pg = pg_name(f"{database_id}.{name}")
    number = (
        schema_id
        if schema_id is not None
        else f"(SELECT greatest(max(schema_id), 4) + 1 FROM mssql.schemas WHERE database_id = {database_id})"
    )
    run(
        "INSERT INTO mssql.schemas (database_id, schema_id, name, folded,"
        f" pg_name, principal_id) SELECT {database_id}, {number}, {literal(name)},"
        f" {literal(fold(name))}, {literal(pg)}, {owner}"
    )
    run(f"CREATE SCHEMA {quoted(pg)}")


def create_database(
    run: Callable[[str], object], value: Callable[[str], str], name: str, database_id: int | None = None
) -> None:
    """Make a database with its fixed schemas and the options of the database model."""
    number = str(database_id) if database_id is not None else value("SELECT nextval('mssql.database_ids')")
    run(
        "INSERT INTO mssql.databases"
        " (database_id, name, folded, read_committed_snapshot, snapshot_isolation, delayed_durability)"
        f" SELECT {number}, {literal(name)}, {literal(fold(name))}, coalesce(max(read_committed_snapshot), 0),"
        f" greatest(max(snapshot_isolation), {int(database_id in _SNAPSHOT)}), coalesce(max(delayed_durability), 0)"
        " FROM mssql.databases WHERE folded = 'model'"
    )
    for schema_id, schema in ((1, "dbo"), (2, "guest"), (3, "INFORMATION_SCHEMA"), (4, "sys")):
        create_schema(run, int(number), schema, schema_id, schema_id)
